"""Levels that agree of which values are left out: which these are, how far off others may be, and what tells them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from agreeing import NAMES, PURE, RHO, compiled, written
from agreeing import POLICY as LEVELS
from prompt import policyc

from policyc.diagnostics import PolicyError
from policyc.emit.context import certificate_content
from policyc_check.verify import verified_claims
from policyc_runtime.estimates import agreed
from policyc_runtime.estimation.parts import added_up
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.noise_tails import error_bounds
from policyc_runtime.noisy_values import noise_stddevs

WORDS = {"places": "sum(places) == regions", "regions": "== sum(regions)", "countries": "sum(countries) == all"}


def leaving_out(rule, names=NAMES, more=""):
    """The policy with a rule of every one of some releases; `{}` in it is the release."""
    text = LEVELS.replace(WORDS["places"], WORDS["places"] + more)
    for name in names:
        said = f"suppress({name}, {rule})"
        if name in WORDS:
            text = text.replace(WORDS[name], f"{WORDS[name]}, {said}")
        else:
            text += f"postprocess {name} {{ {said} }}\n"
    return text


@pytest.mark.parametrize("more", ["", ", places >= 0, integer(places)"], ids=["real", "whole"])
def test_what_is_left_out_is_what_agrees_and_is_small(more, tmp_path):
    """A run in two pieces: fields are empty where the ledger's values are below; those in it agree, and verify."""
    written(tmp_path, text=leaving_out("below = 9", ("places", "regions"), more))
    assert policyc("compile", "visits.policy", cwd=tmp_path).returncode == 0
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("3", "7"):
        run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    found: dict[str, list[list[float]]] = {}
    (ledger,) = (tmp_path / "visits.plan").glob("*.sqlite")
    with LedgerReader.open_read_only(ledger) as book:
        for entry in book.entries:
            found.setdefault(entry.release, []).append(json.loads(entry.published))
    values = {name: np.array(rows) for name, rows in found.items()}
    assert np.allclose(added_up(values["places"], np.array([0, 0, 0, 1, 2, 2])), values["regions"], atol=1e-9)
    for name, cells in {"places": 6, "regions": 3, "countries": 2, "all": 1}.items():
        lines = [line.split(",") for line in (tmp_path / f"o-{name}.csv").read_text().splitlines()]
        places = lines[0].index("released"), lines[0].index("noisy")
        rows = np.array([[line[place] == "" for place in places] for line in lines[1:]])
        gaps = rows[:, 0].reshape(7, cells)
        assert np.array_equal(rows[:, 0], rows[:, 1])
        assert np.array_equal(gaps, values[name] < 9 if name in ("places", "regions") else np.zeros_like(gaps))
    assert (values["places"] < 9).any()
    verified = policyc("verify", "visits.plan", "--release", "o.csv", "--quick", "--allow-unchecked", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr


CASES = [(RHO, "gaussian()"), (PURE, "laplace()")]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_error_is_beyond_its_bound_as_seldom_as_is_said(case, whole, tmp_path):
    """Of every value of every level, in 8,000 steps of noise of the plan's own laws; some are beyond nine tenths."""
    plan = compiled(
        tmp_path, *case, text=LEVELS.replace(WORDS["places"], WORDS["places"] + ", integer(places)" * whole)
    )
    plan, steps = plan.plan, 8_000
    generator = np.random.default_rng(1)
    tree = plan.trees[0]
    stddevs = [noise_stddevs(plan, plan.release_named(name), 1)[0] for name in NAMES]
    noisy = []
    for name, stddev in zip(NAMES, stddevs, strict=True):
        size = (steps, len(plan.release_named(name).cells))
        gaussian = case[1] == "gaussian()"
        noise = generator.normal(0, stddev, size) if gaussian else generator.laplace(0, stddev / 2**0.5, size)
        noisy.append(np.rint(noise))
    found = tree.nearest(noisy, [np.full(steps, stddev**2) for stddev in stddevs], tree.units)
    for chance in (0.5, 0.2, 0.05, 0.01):
        room = 4 * (chance / steps) ** 0.5
        for name, values in zip(NAMES, found, strict=True):
            bound = error_bounds(plan, plan.release_named(name), chance, 1)[0]
            assert (np.abs(values) > bound).mean(axis=0).max() <= chance + room, (name, chance)
            assert whole or (np.abs(values) > 0.5 * bound).mean(axis=0).max() > chance, (name, chance)


def test_uncertain_values_are_left_out_and_the_certificate_says_by_which_error(tmp_path):
    """A level whose worst value may be off too far is left out as a whole; another threshold shows all of it."""
    plan = compiled(tmp_path, text=leaving_out("error_above = 14.5, chance = 0.05", ("places", "all"))).plan
    bounds = {name: error_bounds(plan, plan.release_named(name), 0.05, 40).max() for name in NAMES}
    assert bounds["places"] < 14.5 < bounds["all"]
    said: Any = certificate_content(plan, {})
    methods = {
        one["release"]: one["suppression"]["chances"][0]["method"]
        for one in said["postprocessing"]
        if "suppression" in one
    }
    assert "all values are shown" in methods["places"]
    assert "no value is shown" in methods["all"]
    assert all("known worst once levels agree" in method for method in methods.values())
    shown = {error: one.share for error, one in simulate(plan, 3, 2, ()).shown.items()}
    assert (shown["places"], shown["all"]) == (1, 0)
    small: Any = certificate_content(compiled(tmp_path, text=leaving_out("below = 9", ("places",))).plan, {})
    assert (
        "made to agree with values of other releases"
        in small["postprocessing"][0]["suppression"]["chances"][0]["method"]
    )


def test_stated_errors_are_those_of_all_values(tmp_path):
    """What is left out changes neither what values err nor how the promise is divided."""
    whole, gaps = (compiled(tmp_path, text=text).plan for text in (LEVELS, leaving_out("below = 20")))
    assert {claim.holds for claim in verified_claims(gaps)} == {True}
    for one, other in zip(whole.releases, gaps.releases, strict=True):
        assert (one.predicted, one.mechanism) == (other.predicted, other.mechanism)
    assert [error.mean_squared_error for error in simulate(whole, 3, 2, ()).errors] == [
        error.mean_squared_error for error in simulate(gaps, 3, 2, ()).errors
    ]
    noisy = {part.name: np.full((2, len(part.cells)), 10.0) for part in gaps.releases}
    assert all(np.array_equal(agreed(whole, noisy)[name], agreed(gaps, noisy)[name]) for name in NAMES)


@pytest.mark.parametrize(("name", "others"), [("places", "regions"), ("regions", "countries"), ("all", "countries")])
def test_what_another_level_tells_is_warned_of(name, others, tmp_path):
    """W0706, once for every level of which something is left out."""
    found = [
        one for one in compiled(tmp_path, text=leaving_out("below = 9", (name,))).diagnostics if one.code == "W0706"
    ]
    assert len(found) == 1
    assert f"left out of `{name}`, those of `{others}` may tell it" in found[0].message


def test_errors_near_bounds_decide_nothing(tmp_path):
    """E0752 where levels have bounds, near which nobody knows how far off values are; it says what to write."""
    with pytest.raises(PolicyError) as caught:
        compiled(tmp_path, text=leaving_out("error_above = 9, chance = 0.1", ("places",), ", places >= 0"))
    (finding,) = [found for found in caught.value.diagnostics if found.code.startswith("E")]
    assert finding.code == "E0752"
    assert "below = ..." in (finding.help or "")
