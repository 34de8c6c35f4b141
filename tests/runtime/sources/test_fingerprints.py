"""What a ledger has stored of a step's data is found again by every later version."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from plans import make_plan

from policyc import compile_policy
from policyc_runtime.plan import Plan
from policyc_runtime.sources import read_events

POLICY = """
policy visits "Visitors"
stream seen {{
  user person
  time at
  cell place in {{"A", "B", "C"}}
  step 1h
  horizon 24 steps
  start "2026-01-01"
}}
release there = count(seen{once}) by place
{also}
target user_level(epsilon = 5.0, delta = 1e-6, neighbors = add_remove{per})
participation at_most({bound} steps{per}, {most}, spacing = {spacing} steps, enforced = {kept})
mechanism gaussian()
estimate none()
deliver offline
"""
SPENT = "release spent = sum(seen.money, clamp = -5 .. 20) by place"
CASES = {  # bound, per_step or cells_per_step, spacing, what is kept, period, another release
    "the latest event": (5, "per_step = 1", 1, "keep_first", None, ""),
    "far apart": (4, "per_step = 1", 3, "keep_first", None, ""),
    "by chance": (4, "per_step = 1", 2, "keep_sample", "12h", ""),
    "two events and sums": (3, "per_step = 2", 1, "keep_first", "6h", SPENT),
    "two cells": (4, "cells_per_step = 2", 1, "keep_first", None, ""),
}
ALL_USERS = "37f39bcc2f2eaf9f"
KNOWN = {  # users, participations and events that are dropped; SHA-256 of all fingerprints, as ledgers have them
    "the latest event": (24, 224, 380, "8a5e51fa7b66fd5a"),
    "far apart": (24, 248, 404, "b16489fc41525225"),
    "by chance": (24, 163, 319, "fc86e51bd8a47781"),
    "two events and sums": (24, 88, 150, "e35aaa34819b54da"),
    "two cells": (24, 248, 375, "2720e8be823640c5"),
}


def write(folder: Path, header: str = "person,at,place,money", cells: tuple[str, ...] = ("A", "B", "C")) -> Path:
    """500 events of 24 users whose names are of several alphabets, some at the same moments, at all cells."""
    draw = random.Random(15)
    names = [f"{kind}{number}" for kind in ("u", "Zoë ", "用户", "пользователь-") for number in range(6)]
    rows = [
        f"{draw.choice(names)},2026-01-01T{draw.randrange(24):02}:{draw.randrange(0, 60, 5):02}:00,"
        f"{draw.choice(cells)},{draw.randrange(-90, 300) / 10}"
        for _ in range(500)
    ]
    path = folder / "events.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def planned(folder: Path, name: str) -> Plan:
    bound, most, spacing, kept, per, also = CASES[name]
    text = POLICY.format(
        bound=bound,
        most=most,
        spacing=spacing,
        kept=kept,
        per="" if per is None else f", per = {per}",
        also=also,
        once=", cells_per_step = 2" if "cells" in most else "",
    )
    (folder / "visits.policy").write_text(text)
    return compile_policy(folder / "visits.policy").plan


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept_has_the_fingerprints_that_it_always_had(name, tmp_path):
    """Bounded: whatever is counted how, by hashes of names in several alphabets."""
    found = read_events(write(tmp_path), planned(tmp_path, name), steps=24)
    assert found.dropped is not None
    assert (*found.dropped.values(), sha256(found.digests)) == KNOWN[name]


def test_users_in_a_step_have_the_fingerprints_that_they_always_had(tmp_path):
    """Unbounded: who was where last."""
    path = write(tmp_path, "tailnum,departed_at,origin,money", ("EWR", "LGA", "BOS"))
    found = read_events(path, make_plan(population=24, start="2026-01-01"), steps=1)
    assert sha256(found.digests) == ALL_USERS


def sha256(digests: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:16]
