"""A policy whose levels agree, and trees of levels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from policyc import compile_policy
from policyc_runtime.agreement import Tree

PLACES = """place,region,country,kind
a,R1,X,old
b,R1,X,new
c,R1,X,old
d,R2,X,new
e,R3,Y,old
f,R3,Y,new
"""
POLICY = """policy visits "Visits of places, regions and countries, which agree"

stream visits {
  user     account
  time     at
  cell     place in file("places.csv") levels(region, country, kind)
  step     1h
  horizon  40 steps
  start    "2026-01-01"
}

release places    = count(visits) by place
release regions   = count(visits) by region
release countries = count(visits) by country
release all       = count(visits)
release kinds     = count(visits) by kind

target user_level(TARGET, neighbors = add_remove)

participation at_most(2 steps, assumed = "so it is")

objective OBJECTIVE
mechanism MECHANISM
deliver   realtime

postprocess places { sum(places) == regions }
postprocess regions { countries == sum(regions) }
postprocess countries { sum(countries) == all }
"""
RHO, PURE, AT_DELTA = "rho = 0.05", "epsilon = 1, delta = 0", "epsilon = 1, delta = 1e-6"
NAMES = ("places", "regions", "countries", "all")


def written(folder, target=RHO, mechanism="gaussian()", objective="mean_squared_error", text=POLICY, places=PLACES):
    (folder / "places.csv").write_text(places)
    for word, value in {"TARGET": target, "MECHANISM": mechanism, "OBJECTIVE": objective}.items():
        text = text.replace(word, value)
    (folder / "visits.policy").write_text(text)
    return folder / "visits.policy"


def compiled(folder, *arguments, **options):
    return compile_policy(written(folder, *arguments, **options))


def drawn_tree(generator, levels):
    """A tree of so many levels, in which every value has something that belongs to it, in any order."""
    sizes = np.sort(generator.integers(1, 9, levels))[::-1]
    above = []
    for size, parents in pairwise(sizes.tolist()):
        own = np.concatenate([np.arange(parents), generator.integers(0, parents, size - parents)])
        above.append(generator.permutation(own))
    return Tree(tuple(f"r{level}" for level in range(levels)), tuple(above))
