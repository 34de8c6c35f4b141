"""Several releases under one promise: a user moves all of them at once, and the composed curve must hide all of it.

Tiny policies are compiled, and every user there is moves every release through the plan's own mechanisms: what differs
between neighbors, and the laws of the noise, are those of `every_user.py`. Values are the ends of what a sum allows, as
what a user moves is largest there.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from every_user import Noise, least_delta, least_rho, measured, noises, supports
from numpy.typing import NDArray

from policyc import compile_policy
from policyc_check.plan.queries import SumQuery
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.users.claims import source_release, stream_largest_loss, stream_profile, stream_rho
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.noisy_values import measured as mechanism_and_setting
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan

EPSILONS = (0.05, 0.3, 0.7, 1.0, 1.5)
STEPS = 3
OTHERS = 7  # units of everybody else in a step and cell

Event = tuple[int, int]  # its cell; 0 for the lower end of every clamp, 1 for the higher one
User = tuple[tuple[Event, ...], ...]  # events of every step
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

CELLS = 'cell place in {"A", "B"}'
BY_CELL = "release n = count(trips) by place\n"
COUNT = "release all = count(trips)\n"
TOTAL = "release so_far = prefix(all)\n"
PLANS: dict[str, tuple[str, str, str]] = {  # releases; bound, events, relation; the rest
    "count and sum": (COUNT + "release h = sum(trips.h, clamp = 0 .. 3)\n" + TOTAL, "2 1 add_remove", ""),
    "count and sum, replaced": (COUNT + "release h = sum(trips.h, clamp = 2 .. 3)\n", "1 1 replace", ""),
    "a signed sum": (COUNT + "release h = sum(trips.h, clamp = -3 .. 2)\n", "2 1 add_remove", ""),
    "signed sums, replaced": (
        "release h = sum(trips.h, clamp = -3 .. 3)\nrelease g = sum(trips.g, clamp = -2 .. 2)\n",
        "2 1 replace",
        "mechanism gaussian()",
    ),
    "several events": (BY_CELL + COUNT, "2 2 add_remove", "mechanism gaussian()"),
    "all steps": (BY_CELL + COUNT, "3 1 add_remove", "mechanism laplace()"),
    "cells, replaced": (BY_CELL + "release w = window(n, 2 steps)\n", "2 1 replace", "mechanism gaussian()"),
    "totals": (COUNT + TOTAL + "release h = sum(trips.h, clamp = 0 .. 3)\n", "1 1 add_remove", "mechanism toeplitz()"),
    "trees": (COUNT + TOTAL, "2 2 add_remove", "mechanism binary_tree()"),
    "frequencies": (
        BY_CELL + COUNT,
        "2 2 add_remove",
        "deliver offline\nmechanism dft(noise = laplace)",
    ),
    "who is absent": (BY_CELL, "1 1 replace away", ""),
    "who is absent, in every step": (BY_CELL + COUNT, "3 1 replace away", "mechanism gaussian()"),
    "who is absent, of totals": (BY_CELL + "release w = prefix(n)\n", "2 1 replace away", "mechanism toeplitz()"),
    "who is absent, by coins": (BY_CELL, "2 1 replace away", "mechanism binomial()"),
    "who is absent, of periods": (BY_CELL + COUNT, "1 1 replace away per=2d", "mechanism gaussian()"),
    "who is absent, of periods, in every step": (BY_CELL, "2 1 replace away per=2d", ""),
    "who is absent, of periods' totals": (BY_CELL + "release w = window(n, 2 steps)\n", "1 1 replace away per=2d", ""),
}


def compiled(kind: str, folder: Path, promise: str = "epsilon = 1.0, delta = 1e-5") -> Plan:
    """One of the plans, with one of the promises."""
    releases, participation, rest = PLANS[kind]
    bound, events, relation, *more = participation.split()
    path = folder / "tiny.policy"
    cells = (CELLS if "by place" in releases else "") + ' otherwise "away"' * ("away" in more)
    per = "".join(f", {one}" for one in more if one != "away")
    path.write_text(
        f"""policy tiny "Tiny"
stream trips {{ user who time at {cells} step 1d horizon {STEPS} steps start "2026-01-01" population 100 }}
{releases}
target user_level({promise}, neighbors = {relation}{per})
participation at_most({bound} steps{per}, per_step = {events}, enforced = keep_first)
{rest}
""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def periods(plan: Plan) -> list[range]:
    """Steps in which neighbors may differ."""
    per = getattr(plan.targets[0], "per", None)
    days = STEPS if per is None else int(per) // plan.stream.step_milliseconds
    return [range(first, min(first + days, STEPS)) for first in range(0, STEPS, days)]


def users(plan: Plan, steps: range) -> Iterator[User]:
    """Everybody who takes part in at most as many of these steps and with as many events as is allowed; nobody as well.

    Where it is counted who is in none of the cells, everybody is so in all other steps.
    """
    record, cell = plan.participation, plan.stream.cell
    assert record is not None
    away: tuple[Event, ...] = ((len(cell.cells), 0),) if cell is not None and cell.otherwise is not None else ()
    events = list(product(range(len(plan.stream.cell.cells) if plan.stream.cell else 1), range(2)))
    in_step = [e for size in range(record.per_step + 1) for e in combinations_with_replacement(events, size)]
    found: set[User] = set()
    for support in supports(len(steps), record.bound, record.spacing):
        taken = {steps[place] for place in support}
        found |= set(product(*([e or away for e in in_step] if step in taken else [away] for step in range(STEPS))))
    yield from sorted(found)


def raw_values(plan: Plan, release: ReleasePlan, user: User) -> Whole:
    """What a user adds to what a release measures, (steps, values), in units."""
    query = source_release(plan, release).query
    values = np.zeros((STEPS, len(release.cells)), dtype=np.int64)
    for step, events in enumerate(user):
        for cell, end in events:
            if query.by is None and plan.stream.cell is not None and cell == len(plan.stream.cell.cells):
                continue  # in no cell
            added = (query.low, query.high)[end] / query.grid if isinstance(query, SumQuery) else 1
            assert added == int(added)
            values[step, cell if query.by is not None else 0] += int(added)
    return values


def moved(plan: Plan, everybody: list[User], less: float) -> tuple[Floats, list[Noise]]:
    """What every user makes of the numbers that get noise, (users, numbers), and their noise, `less` times as much."""
    columns, laws = [], []
    for release in plan.releases:
        found = mechanism_and_setting(plan, release)
        if found is None:  # made of another one
            continue
        mechanism, setting = found
        assert isinstance(mechanism, StreamMechanism)
        mechanism = mechanism.with_noise(less) if less != 1 else mechanism
        raw = np.hstack([raw_values(plan, release, user) for user in everybody]) + OTHERS
        numbers = measured(mechanism, setting, raw)
        columns.append(numbers.T.reshape(len(everybody), -1))
        laws += noises(mechanism, setting, STEPS) * setting.cells
    return np.hstack(columns).astype(float), laws


def worst(plan: Plan, less: float) -> Iterator[list[tuple[Noise, int]]]:
    """The neighbors who move all releases together most, in L1 and in L2, relative to the noise."""
    for steps in periods(plan):
        everybody = list(users(plan, steps))
        numbers, laws = moved(plan, everybody, less)
        replaced = plan.claims.user_level[0].relation is NeighboringRelation.REPLACE_ONE
        others = numbers if replaced else numbers[everybody.index(((),) * STEPS)][None]
        yield from furthest_apart(numbers, others, laws)


def furthest_apart(numbers: Floats, others: Floats, laws: list[Noise]) -> Iterator[list[tuple[Noise, int]]]:
    """Of all that one user and another make, what differs most in L1 and in L2, relative to the noise."""
    relative = np.array([law.size for law in laws])
    for power in (1, 2):
        furthest = [(np.abs((numbers - other) / relative) ** power).sum(axis=1) for other in others]
        one, mine = np.unravel_index(np.argmax(furthest), (len(others), len(numbers)))
        moves = np.abs(numbers[mine] - others[one]).astype(np.int64).tolist()
        yield sorted(((law, move) for law, move in zip(laws, moves, strict=True) if move), key=str)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", PLANS)
def test_no_user_moves_all_releases_more_than_their_curves_together_hide(kind: str, tmp_path: Path) -> None:
    """Of all neighbors, those who move most are hidden as the composed curve and the claim say; not with less noise."""
    plan = compiled(kind, tmp_path)
    (claim,) = plan.claims.user_level
    profile = stream_profile(plan, plan.targets[0])
    for moves in worst(plan, 1):
        for epsilon in EPSILONS:
            assert least_delta(moves, epsilon) <= profile.delta(epsilon), moves
        assert least_delta(moves, float(claim.epsilon)) <= claim.delta, moves
    less = [least_delta(moves, float(claim.epsilon)) for moves in worst(plan, 0.9)]
    assert max(less) > claim.delta


PURE = (
    "count and sum",
    "count and sum, replaced",
    "a signed sum",
    "all steps",
    "frequencies",
    "who is absent",
)
RHO = tuple(kind for kind in PLANS if "coins" not in kind)
LOOSE = (
    "totals",
    "frequencies",
    "who is absent, of totals",
)  # where what is said of one user is a bound that nobody reaches


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", PURE)
def test_no_user_loses_more_than_a_promise_without_delta(kind: str, tmp_path: Path) -> None:
    """Where nothing is left to chance: all releases together, in L1 over scales; a hundredth less noise loses more."""
    plan = compiled(kind, tmp_path, "epsilon = 1.0, delta = 0")
    stated = stream_largest_loss(plan, plan.targets[0])
    assert stated is not None
    assert stated <= 1
    lost = [max(sum(move / law.size for law, move in moves) for moves in worst(plan, less)) for less in (1, 0.99)]
    assert lost[0] <= float(stated) * (1 + 1e-12)
    assert all(law.law == "laplace" for law, _ in next(worst(plan, 1)))
    assert kind in LOOSE or lost[1] > 1


@pytest.mark.law
@pytest.mark.parametrize("kind", RHO)
def test_no_user_tells_more_than_a_promised_rho(kind: str, tmp_path: Path) -> None:
    """All releases together, by divergences of several orders from the laws of the noise alone; not with less noise."""
    plan = compiled(kind, tmp_path, "rho = 0.05")
    (claim,) = plan.claims.user_level
    stated = stream_rho(plan, plan.targets[0])
    assert stated is not None
    assert stated <= Fraction("0.05")
    told = [max(least_rho(moves) for moves in worst(plan, less)) for less in (1, 0.99)]
    assert told[0] <= float(stated) * (1 + 1e-12)
    assert kind in LOOSE or plan.measured[0].mechanism.name == "laplace" or told[1] > 0.05
    for point in claim.curve:  # type: ignore[union-attr]
        assert point.epsilon is not None
        for moves in worst(plan, 1):
            assert least_delta(moves, float(point.epsilon)) <= point.delta, moves
