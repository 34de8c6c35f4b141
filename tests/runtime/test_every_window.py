"""Promises about one step or a window: all that a user may do in steps in a row is replaced, and the noise hides it.

Tiny policies are compiled, and all neighbors there are move every release through the plan's own mechanisms, as in
`test_every_user_of_all.py`: two courses of one user that differ in a window alone, in all windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path

import pytest
from every_user import Noise, least_delta
from test_every_user_of_all import EPSILONS, STEPS, User, furthest_apart, moved

from policyc import compile_policy
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.users.claims import stream_largest_loss, stream_profile
from policyc_runtime.plan import Plan

CELLS = 'cell place in {"A", "B"}'
BY_CELL = "release n = count(trips) by place\n"
COUNT = "release all = count(trips)\n"
SUM = "release h = sum(trips.h, clamp = 0 .. 3)\n"
EVENT, WINDOW = "event_level(epsilon = 1.0{})", "w_event(epsilon = 1.0, window = 2 steps{})"
DELTA, ADDED = ", delta = 1e-5", ", neighbors = add_remove"
TWICE = 'participation at_most(1 steps, per_step = 2, assumed = "so it is")\n'
SEVERAL = 'participation at_most(1 steps, cells_per_step = 2, assumed = "so it is")\n'

PLANS: dict[str, tuple[str, str, str]] = {  # releases, promise, the rest
    "a sum": (SUM, EVENT.format(""), ""),
    "a sum by cell": ("release h = sum(trips.h, clamp = 0 .. 3) by place\n", EVENT.format(""), ""),
    "a sum by cell, added": ("release h = sum(trips.h, clamp = 0 .. 3) by place\n", EVENT.format(ADDED), ""),
    "a signed sum": ("release h = sum(trips.h, clamp = -3 .. 2) by place\n", WINDOW.format(""), ""),
    "several events": (COUNT + SUM, EVENT.format(""), TWICE),
    "several cells": (BY_CELL, EVENT.format(""), SEVERAL),
    "count and sum": (COUNT + SUM, WINDOW.format(DELTA), "mechanism gaussian()"),
    "cells": (BY_CELL, WINDOW.format(DELTA), "mechanism gaussian()"),
    "coins": (BY_CELL, EVENT.format(DELTA), "mechanism binomial()"),
    "added or removed": (BY_CELL + COUNT, WINDOW.format(DELTA + ADDED), "mechanism laplace()"),
    "measured totals": (COUNT + "release t = prefix(all)\n", EVENT.format(DELTA), "mechanism toeplitz()"),
    "trees": (COUNT + "release t = prefix(all)\n", WINDOW.format(DELTA), "mechanism binary_tree()"),
    "measured windows": (BY_CELL + "release t = window(n, 2 steps)\n", WINDOW.format(DELTA), "mechanism toeplitz()"),
    "totals of steps": (SUM + "release t = window(h, 2 steps)\n", WINDOW.format(""), ""),
    "frequencies": (BY_CELL, EVENT.format(""), "deliver offline\nmechanism dft(noise = laplace)"),
}
LOOSE = ("frequencies", "trees", "measured windows")  # whose worst user is not one of steps in a row, or cells


def compiled(kind: str, folder: Path) -> Plan:
    """One of the plans."""
    releases, promise, rest = PLANS[kind]
    path = folder / "tiny.policy"
    path.write_text(
        f"""policy tiny "Tiny"
stream trips {{ user who time at {CELLS if "by place" in releases else ""} step 1d horizon {STEPS} steps }}
{releases}target {promise}
{rest}
""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def courses(plan: Plan, window: range) -> list[User]:
    """All that one user may do in the steps of a window, and in no other; nothing first."""
    record, cell = plan.participation, plan.stream.cell
    assert record is not None
    events = list(product(range(len(cell.cells) if cell else 1), range(2)))
    most = max(record.per_step, *(getattr(part.query, "cells_per_step", None) or 1 for part in plan.releases))
    in_step = [e for size in range(most + 1) for e in combinations_with_replacement(events, size)]
    if record.per_step == 1:  # once in each cell
        in_step = [e for e in in_step if len({place for place, _ in e}) == len(e)]
    return list(product(*(in_step if step in window else [()] for step in range(STEPS))))


def worst(plan: Plan, less: float) -> Iterator[list[tuple[Noise, int]]]:
    """The neighbors of every window who move all releases together most, in L1 and in L2, relative to the noise."""
    (target,) = plan.targets
    replaced = plan.claims.user_level[0].relation is NeighboringRelation.REPLACE_ONE
    width = getattr(target, "window", None)
    assert width is not None
    for first in range(STEPS - width + 1):
        numbers, laws = moved(plan, courses(plan, range(first, first + width)), less)
        others = numbers if replaced else numbers[:1]
        yield from furthest_apart(numbers, others, laws)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", PLANS)
def test_no_window_of_a_user_moves_more_than_the_stated_noise_hides(kind: str, tmp_path: Path) -> None:
    """Of all neighbors those who move most are hidden as the claim says; with half of the noise they are not."""
    plan = compiled(kind, tmp_path)
    (claim,) = plan.claims.user_level
    if claim.delta == 0:
        stated = stream_largest_loss(plan, plan.targets[0])
        assert stated is not None
        losses = [sum(move / noise.size for noise, move in moves) for moves in worst(plan, 1)]
        assert max(losses) <= float(stated) * (1 + 1e-12)
        assert stated <= claim.epsilon
        tight = max(losses) > 0.999 * float(claim.epsilon)
        assert tight or kind in (*LOOSE, "a signed sum")
        assert max(sum(move / noise.size for noise, move in moves) for moves in worst(plan, 0.5)) > claim.epsilon
        return
    profile = stream_profile(plan, plan.targets[0])
    for moves in worst(plan, 1):
        for epsilon in EPSILONS:
            assert least_delta(moves, epsilon) <= profile.delta(epsilon), moves
        assert least_delta(moves, float(claim.epsilon)) <= claim.delta, moves
    less = 0.5 if kind in LOOSE else 0.9
    assert max(least_delta(moves, float(claim.epsilon)) for moves in worst(plan, less)) > claim.delta
