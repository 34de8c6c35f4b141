"""Promises about windows and about all of a user in one plan: one noise, held against every neighbor of each of them.

Tiny policies are compiled, and all neighbors there are move every release through the plan's own mechanisms, as in
`test_every_user_of_all.py`: of windows those that differ in steps in a row, of all of a user those of so many steps,
wherever they lie, or of one period. Who is counted where it is absent is counted so here.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from every_user import Noise, least_delta, least_rho, supports
from test_every_user_of_all import STEPS, Floats, User, furthest_apart, moved

from policyc import compile_policy
from policyc.emit.numbers import round_up
from policyc.emit.summary import render_summary
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.targets import AnyUserSteps, NeighboringRelation, UserLevel, UserStepsRho
from policyc_check.users.claims import Promise, stream_profile
from policyc_check.verify import verified_claims
from policyc_runtime.plan import Plan
from policyc_runtime.refusal import verify

BY_CELL, COUNT = "release n = count(trips) by place\n", "release all = count(trips)\n"
SUM, SIGNED = "release h = sum(trips.h, clamp = 0 .. 3)\n", "release h = sum(trips.h, clamp = -3 .. 2)\n"
TOTAL, WINDOW = "release t = prefix(all)\n", "release w = window(h, 2 steps)\n"
SO_FAR = "release so_far = prefix(h)\n"
EVENT, PAIR = "event_level(epsilon = {})", "w_event(epsilon = {}, window = 2 steps)"
ADDED, REPLACED = "user_level({}, neighbors = add_remove)", "user_level({}, neighbors = replace)"
PURE, DELTA, RHO = "epsilon = {}, delta = 0", "epsilon = {}, delta = 1e-4", "rho = {}"

PLANS: dict[str, tuple[str, tuple[str, ...], str]] = {  # releases; promises; steps of a user, events, the rest
    "totals, the user binds": (SUM + SO_FAR, (EVENT.format(1), ADDED.format(PURE.format(1.2))), "2 1"),
    "totals, events bind": (SUM + SO_FAR, (EVENT.format("0.5"), ADDED.format(PURE.format(2))), "2 1"),
    "windows, replaced": (SUM + WINDOW, (EVENT.format(1), REPLACED.format(PURE.format(1.5))), "1 1"),
    "a sum": (SUM, (EVENT.format(1), ADDED.format(PURE.format(1.5))), "3 1"),
    "a signed sum, replaced": (SIGNED, (EVENT.format(1), REPLACED.format(PURE.format(1.1))), "2 1"),
    "sum and count by cell": (BY_CELL + SUM, (PAIR.format(1), ADDED.format(PURE.format(1.4))), "2 1"),
    "cells, replaced": (BY_CELL + SUM, (EVENT.format(1), REPLACED.format(PURE.format(2))), "1 1"),
    "several events": (COUNT + SUM, (EVENT.format(1), ADDED.format(PURE.format(1.5))), "2 2"),
    "two windows and a user": (
        COUNT + SUM,
        (EVENT.format("0.6"), PAIR.format(1), ADDED.format(PURE.format(1.2))),
        "3 1",
    ),
    "two windows, the wide one binds": (COUNT + SUM, (EVENT.format(1), PAIR.format("0.9")), ""),
    "a delta": (COUNT + TOTAL, (EVENT.format("1, delta = 1e-4"), ADDED.format(DELTA.format(1))), "2 1"),
    "a delta beside events": (COUNT + SUM, (EVENT.format(2), ADDED.format(DELTA.format("0.8"))), "2 1"),
    "events with a delta": (COUNT, (EVENT.format("0.7, delta = 1e-4"), REPLACED.format(DELTA.format(2))), "1 1"),
    "a rho": (COUNT + SUM, (EVENT.format("2, delta = 1e-4"), ADDED.format(RHO.format("0.05"))), "2 1"),
    "a rho, replaced": (BY_CELL, (EVENT.format("2, delta = 1e-4"), REPLACED.format(RHO.format("0.05"))), "1 1"),
    "who is absent": (BY_CELL, (EVENT.format("2, delta = 1e-4"), ADDED.format(DELTA.format(1))), "2 1 away"),
    "who is absent, replaced": (
        BY_CELL,
        (EVENT.format("2, delta = 1e-4"), REPLACED.format(RHO.format(0.1))),
        "1 1 away",
    ),
    "measured totals": (
        COUNT + TOTAL,
        (EVENT.format("1, delta = 1e-4"), ADDED.format(DELTA.format(1))),
        "2 1 toeplitz",
    ),
    "a period": (COUNT + SUM, (EVENT.format(1), ADDED.format(PURE.format(1.2))), "2 1 2d"),
    "a period, replaced": (BY_CELL + SUM, (EVENT.format(1), REPLACED.format(PURE.format(1.5))), "1 1 2d"),
    "a period, two of a user in it, replaced": (SUM, (EVENT.format(1), REPLACED.format(PURE.format(1.2))), "2 1 2d"),
    "a period, signed, replaced": (SIGNED, (EVENT.format(1), REPLACED.format(PURE.format(1.1))), "1 1 2d"),
    "a period, totals": (SUM + SO_FAR, (EVENT.format(1), ADDED.format(PURE.format(1.2))), "2 1 2d"),
    "a period, events bind": (COUNT + SUM, (EVENT.format("0.5"), ADDED.format(PURE.format(2))), "2 1 2d"),
    "a period, several events": (COUNT + SUM, (EVENT.format(1), ADDED.format(PURE.format(1.5))), "2 2 2d"),
    "a period, a delta": (COUNT + TOTAL, (EVENT.format("1, delta = 1e-4"), ADDED.format(DELTA.format(1))), "2 1 2d"),
    "a period, a rho, replaced": (
        BY_CELL,
        (EVENT.format("2, delta = 1e-4"), REPLACED.format(RHO.format("0.05"))),
        "1 1 2d",
    ),
    "a period, who is absent": (
        BY_CELL,
        (EVENT.format("2, delta = 1e-4"), ADDED.format(DELTA.format(1))),
        "2 1 2d away",
    ),
    "a period, who is absent, replaced": (
        BY_CELL,
        (EVENT.format("2, delta = 1e-4"), REPLACED.format(RHO.format(0.1))),
        "1 1 2d away",
    ),
    "a period of pairs": (COUNT + SUM, (PAIR.format(1), ADDED.format(PURE.format("0.9"))), "2 1 2d"),
    "a part of a step": (
        BY_CELL,
        ("event_level(epsilon = 1, delta = 1e-4)", ADDED.format(PURE.format("0.6"))),
        "1 1 12h",
    ),
    "a part of a step, a sum": (BY_CELL + SUM, (PAIR.format(2), ADDED.format(PURE.format("0.8"))), "1 1 12h"),
    "a part of a step, signed": (SIGNED, (PAIR.format(2), ADDED.format(PURE.format("0.5"))), "1 1 12h"),
    "a part of a step, replaced": (BY_CELL + SUM, (PAIR.format(2), REPLACED.format(PURE.format("0.8"))), "1 1 12h"),
    "a part of a step, several events": (COUNT + SUM, (PAIR.format(2), ADDED.format(PURE.format("0.7"))), "1 2 12h"),
    "a part of a step, a delta": (BY_CELL, (EVENT.format("2, delta = 1e-4"), ADDED.format(DELTA.format(1))), "1 1 12h"),
    "a part of a step, a rho": (
        COUNT + TOTAL,
        (EVENT.format("2, delta = 1e-4"), ADDED.format(RHO.format("0.05"))),
        "1 1 12h",
    ),
    "a part of a step, who is absent": (
        BY_CELL,
        (EVENT.format("2, delta = 1e-4"), ADDED.format(RHO.format("0.05"))),
        "1 1 12h away",
    ),
    "trees": (COUNT + TOTAL, (PAIR.format("1, delta = 1e-4"), ADDED.format(DELTA.format(1))), "2 1 binary_tree"),
}
LENGTHS = ("2d", "12h")  # of periods, of which one is half of a step
LOOSE = (
    "trees",
    "measured totals",
    "a part of a step, signed",
)  # what is said of one user is a bound that nobody reaches


def compiled(kind: str, folder: Path) -> Plan:
    """One of the plans."""
    releases, promises, rest = PLANS[kind]
    bound, events, *more = (rest or f"{STEPS} 1").split()
    away = 'otherwise "away"' if "away" in more else ""
    cell = f'cell place in {{"A", "B"}} {away}' if "by place" in releases else ""
    per = "".join(f"per = {length}, " for length in more if length in LENGTHS)
    mechanism = "".join(f"mechanism {name}()\n" for name in more if name not in ("away", *LENGTHS))
    per_step = f"per_step = {events}, " if events != "1" else ""
    path = folder / "tiny.policy"
    path.write_text(
        f"""policy tiny "Tiny"
stream trips {{ user who time at {cell} step 1d horizon {STEPS} steps start "2026-01-01" population 9 }}
{releases}{"".join(f"target {promise}{chr(10)}" for promise in promises).replace("neighbors", f"{per}neighbors")}
participation at_most({bound} steps, {per}{per_step}assumed = "so it is")
{mechanism}""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def courses(plan: Plan, steps: tuple[int, ...]) -> list[User]:
    """All that one user may do in these steps, and in no other; where it is counted when absent, it is so there."""
    record, cell = plan.participation, plan.stream.cell
    assert record is not None
    places = range(len(cell.cells) if cell else 1)
    in_step = [
        events
        for size in range(record.per_step + 1)
        for events in combinations_with_replacement(list(product(places, range(2))), size)
    ]
    away: tuple[tuple[int, int], ...] = ()
    if cell is not None and cell.otherwise is not None:
        away = ((len(cell.cells), 0),)
        in_step = [events or away for events in in_step]
    return list(product(*(in_step if step in steps else [away] for step in range(STEPS))))


def places(target: Promise) -> Iterator[list[tuple[int, ...]]]:
    """The steps in which one user may differ, those together of whom one may stand in another's place."""
    assert target.window is not None or isinstance(target, AnyUserSteps)
    if not isinstance(target, AnyUserSteps):
        for first in range(STEPS - target.window + 1):
            yield [tuple(range(first, first + target.window))]
        return
    length = target.window or STEPS
    for first in range(0, STEPS, length):
        steps = min(length, STEPS - first)
        yield [tuple(first + step for step in support) for support in supports(steps, target.bound, 1)]


def in_halves(plan: Plan) -> Iterator[list[User]]:
    """Users who differ in what they do in one half of a step, in the last nothing: the first events of a step count."""
    record, cell = plan.participation, plan.stream.cell
    assert record is not None
    one = list(product(range(len(cell.cells) if cell else 1), range(2)))
    nothing = ((len(cell.cells), 0),) if cell is not None and cell.otherwise is not None else ()
    halves = [events for size in range(record.per_step, -1, -1) for events in product(one, repeat=size)]
    for other, order, step in product(halves, (1, -1), range(STEPS)):
        days = [sum((mine, other)[::order], ())[: record.per_step] or nothing for mine in halves]
        yield [(nothing,) * step + (day,) + (nothing,) * (STEPS - step - 1) for day in days]


def worst(plan: Plan, target: Promise, less: float) -> Iterator[list[tuple[Noise, int]]]:
    """The neighbors of a promise who move all releases together most, in L1 and in L2, relative to the noise."""
    replaced = target.relation is NeighboringRelation.REPLACE_ONE
    if isinstance(target, AnyUserSteps) and target.per is not None:
        for users in in_halves(plan):
            numbers, laws = moved(plan, users, less)
            yield from furthest_apart(numbers, numbers if replaced else numbers[-1:], laws)
        return
    for group in places(target):
        found = [moved(plan, courses(plan, steps), less) for steps in group]
        laws = found[0][1]
        if replaced:  # of any two users, wherever they are
            together: Floats = np.unique(np.vstack([numbers for numbers, _ in found]), axis=0)
            yield from furthest_apart(together, together, laws)
            continue
        for numbers, _ in found:
            yield from furthest_apart(numbers, numbers[:1], laws)


def told(plan: Plan, target: Promise, less: float = 1) -> tuple[float, float]:
    """What the worst neighbors of a promise are told, nats, delta or rho, and what is promised."""
    every = list(worst(plan, target, less))
    if isinstance(target, UserStepsRho):
        return max(map(least_rho, every)), float(target.rho)
    assert not hasattr(target, "rho")
    if target.delta == 0:
        return max(sum(move / noise.size for noise, move in moves) for moves in every), float(target.epsilon)
    return max(least_delta(moves, float(target.epsilon)) for moves in every), float(target.delta)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PLANS)
def test_one_noise_keeps_every_promise(kind: str, tmp_path: Path) -> None:
    """Of each the worst neighbors are told no more than is promised; with a tenth less noise, of one of them more."""
    plan = compiled(kind, tmp_path)
    verify(plan)
    assert len(plan.targets) == len(PLANS[kind][1])
    for target in plan.targets:
        found, limit = told(plan, target)
        assert found <= limit * (1 + 1e-9), target
    with_less = [told(plan, target, 0.5 if kind in LOOSE else 0.9) for target in plan.targets]
    assert any(found > limit for found, limit in with_less)


@pytest.mark.parametrize(
    "kind",
    [
        "totals, the user binds",
        "a rho",
        "who is absent",
        "two windows, the wide one binds",
        "a period",
        "a period, replaced",
        "a part of a step",
    ],
)
def test_a_plan_that_keeps_one_promise_less_is_refused(kind: str, tmp_path: Path) -> None:
    """A smaller number of any binding promise, more steps of a user, or less noise."""
    plan = compiled(kind, tmp_path)
    refused = 0
    for index, target in enumerate(plan.targets):
        for change in (
            {"rho": target.rho * Decimal("0.99")} if hasattr(target, "rho") else {"epsilon": target.epsilon / 2},
            {"bound": STEPS, "assumed": "so it is"} if isinstance(target, AnyUserSteps) else {"window": STEPS},
        ):
            targets = (*plan.targets[:index], target.model_copy(update=change), *plan.targets[index + 1 :])
            refused += not all(
                claim.holds for claim in verified_claims(plan.model_copy(update={"targets": targets}).sealed())
            )
    assert refused >= len(plan.targets)
    for part in plan.measured:
        mechanism = part.mechanism.with_noise(0.99)
        releases = tuple(
            one.model_copy(update={"mechanism": mechanism}) if one.name == part.name else one for one in plan.releases
        )
        with pytest.raises(PlanRejectedError):
            verify(plan.model_copy(update={"releases": releases}).sealed())


def test_who_is_absent_moves_two_values_when_removed_as_well(tmp_path: Path) -> None:
    """Ready counts say who is in no cell, whatever the promise compares: noise for one value alone is refused."""
    plan = compiled("who is absent, replaced", tmp_path)
    added = {"relation": NeighboringRelation.ADD_OR_REMOVE_ONE}
    (claim,) = plan.claims.user_level
    claims = plan.claims.model_copy(update={"user_level": (claim.model_copy(update=added | {"beyond": ()}),)})
    for less in (1, 0.5):
        releases = tuple(one.model_copy(update={"mechanism": one.mechanism.with_noise(less)}) for one in plan.measured)
        more = {"targets": (plan.targets[0].model_copy(update=added),), "claims": claims, "releases": releases}
        altered = plan.model_copy(update=more).sealed()
        assert all(claim.holds for claim in verified_claims(altered)) == (less == 1)
    found, limit = told(altered, altered.targets[0])
    assert found > limit


def test_what_is_recomputed_of_a_promise_that_does_not_bind_is_said(tmp_path: Path) -> None:
    """Where others ask for more noise: what is left to chance at its epsilon, and not what was promised of it."""
    plan = compiled("events with a delta", tmp_path)
    event = plan.targets[0]
    assert isinstance(event, UserLevel)
    left = stream_profile(plan, event).delta(float(event.epsilon))
    assert f"(recomputed: delta {round_up(left, 3)})" in render_summary(plan, tmp_path)


def test_a_period_does_not_stand_beside_a_window(tmp_path: Path) -> None:
    """What a run keeps of a user is bounded in each step, or in each period: not in both."""
    plan = compiled("totals, the user binds", tmp_path)
    (event, _) = plan.targets
    assert isinstance(event, UserLevel)
    for other in (
        event.model_copy(update={"window": None}),
        event.model_copy(update={"window": None, "per": 86_400_000}),
    ):
        altered = plan.model_copy(update={"targets": (event, other)}).sealed()
        assert not all(claim.holds for claim in verified_claims(altered))
