"""All events of a user beside promises about steps: every user of small streams, with the noise that plans state.

Tiny policies are compiled. All courses of a user are tried, each against all others or against none, as their events
are counted; what they differ in is told by the laws of the noise themselves, step by step, not by budgets.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.targets import AnyUserSteps, NeighboringRelation, UserSteps, UserStepsRho
from policyc_check.steps.users import check_user_steps, costs_of, kept, profile_of
from policyc_check.verify import verified_claims
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.refusal import verify
from policyc_runtime.sources.events import read_events

STEPS, OTHERS = 4, 3  # of the stream; users who stay where they are
AWAY, ZOO = "away", "Zoo"  # in none of the cells without an event, and with one
HALVES = ("first", "second")  # of a step
CHAINS = {
    1: "markov(forward = [[0.7, 0.3], [0.4, 0.6]], initial = stationary",
    2: "markov(forward = [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]], initial = stationary",
}
LEVELS = "release n = count(trips) by place\nrelease regions = count(trips) by region\n"
BY_CELL, BOTH = "release n = count(trips) by place\n", "release n = count(trips) by place\nrelease all = count(trips)\n"
ALPHA, EVENT = "alpha_dpt(alpha = 2.0)", "event_level(epsilon = 1.5)"

PLANS: dict[str, tuple[int, str, str, str, str]] = {  # cells, releases, the other promise, this one, the rest
    "pure": (1, BY_CELL, ALPHA, "epsilon = 1.0, delta = 0, neighbors = add_remove", "2"),
    "pure, replaced": (2, BY_CELL, ALPHA, "epsilon = 1.0, delta = 0, neighbors = replace", "1"),
    "pure, of three steps": (2, BY_CELL, ALPHA, "epsilon = 2.0, delta = 0, neighbors = replace", "3"),
    "pure, any steps": (2, BY_CELL, ALPHA, "epsilon = 1.5, delta = 0, neighbors = add_remove", ""),
    "two releases": (2, BOTH, ALPHA, "epsilon = 1.2, delta = 0, neighbors = add_remove", "2"),
    "levels": (2, LEVELS, ALPHA, "epsilon = 1.2, delta = 0, neighbors = add_remove", "2"),
    "levels, replaced": (2, LEVELS, EVENT, "epsilon = 1.2, delta = 0, neighbors = replace", "2"),
    "a delta": (1, BY_CELL, ALPHA, "epsilon = 1.2, delta = 9e-3, neighbors = add_remove", ""),
    "a delta, replaced": (1, BY_CELL, ALPHA, "epsilon = 1.2, delta = 9e-3, neighbors = replace", "2"),
    "a delta, independent noise": (2, BY_CELL, ALPHA, "epsilon = 1.2, delta = 9e-3, neighbors = replace", "2 laplace"),
    "few releases": (1, BY_CELL, ALPHA, "epsilon = 1.0, delta = 0, neighbors = replace", "2 sparse"),
    "every other step": (1, BY_CELL, ALPHA, "epsilon = 1.0, delta = 0, neighbors = add_remove", "1 sparse"),
    "a rho": (1, BY_CELL, ALPHA, "rho = 0.002, neighbors = add_remove", "2"),
    "a rho, replaced": (1, BY_CELL, ALPHA, "rho = 0.005, neighbors = replace", "1"),
    "a rho, two releases": (1, BOTH, ALPHA, "rho = 0.02, neighbors = add_remove", ""),
    "a rho, two cells": (2, BY_CELL, EVENT, "rho = 0.02, neighbors = replace", "2 laplace"),
    "a rho, few releases": (1, BY_CELL, ALPHA, "rho = 0.002, neighbors = replace", "1 sparse"),
    "beside events": (2, BY_CELL, EVENT, "epsilon = 1.4, delta = 0, neighbors = add_remove", "2"),
    "a period": (2, BY_CELL, ALPHA, "epsilon = 1.0, delta = 0, neighbors = add_remove, per = 2d", "2"),
    "a period, replaced": (2, BOTH, ALPHA, "epsilon = 1.0, delta = 0, neighbors = replace, per = 2d", "1"),
    "a period, any steps": (1, BY_CELL, EVENT, "epsilon = 1.5, delta = 0, neighbors = replace, per = 3d", ""),
    "a period, a delta": (1, BY_CELL, ALPHA, "epsilon = 0.7, delta = 9e-3, neighbors = add_remove, per = 3d", "2"),
    "a period, a rho": (1, BY_CELL, ALPHA, "rho = 0.005, neighbors = replace, per = 2d", "1"),
    "a period, few releases": (
        1,
        BY_CELL,
        ALPHA,
        "epsilon = 0.5, delta = 0, neighbors = replace, per = 2d",
        "2 sparse",
    ),
    "a period of a step": (2, BY_CELL, ALPHA, "epsilon = 0.5, delta = 0, neighbors = replace, per = 1d", "1"),
    "a part of a step": (2, BY_CELL, ALPHA, "epsilon = 0.4, delta = 0, neighbors = add_remove, per = 12h", ""),
    "a part of a step, replaced": (2, BOTH, EVENT, "epsilon = 0.6, delta = 0, neighbors = replace, per = 12h", ""),
    "a part of a step, a level": (2, LEVELS, ALPHA, "epsilon = 0.6, delta = 0, neighbors = add_remove, per = 12h", "1"),
    "a part of a step, a delta": (
        1,
        BY_CELL,
        ALPHA,
        "epsilon = 0.3, delta = 9e-3, neighbors = add_remove, per = 12h",
        "",
    ),
    "a part of a step, a rho": (1, BY_CELL, ALPHA, "rho = 0.005, neighbors = add_remove, per = 12h", "1"),
    "beside windows": (
        2,
        BOTH,
        "w_event(epsilon = 1.0, window = 2 steps)",
        "epsilon = 1.1, delta = 0, neighbors = replace",
        "2",
    ),
}
LOOSE = ("a delta, independent noise", "few releases", "a rho, two releases", "a rho, two cells")
TIGHT = tuple(name for name in PLANS if name not in LOOSE)
ORDERS = (1.0, 1.01, 1.5, 2.0, 4.0, 16.0, 64.0)  # of Renyi divergences


def compiled(kind: str, folder: Path) -> Plan:
    """One of the plans."""
    cells, releases, other, promise, rest = PLANS[kind]
    bound, _, more = rest.partition(" ")
    listed = "{" + ", ".join(f'"{name}"' for name in "AB"[:cells]) + "}"
    if "by region" in releases:
        (folder / "places.csv").write_text("place,region\nA,left\nB,left\n")
        listed = 'file("places.csv") levels(region)'
    budget = {"sparse": "budget sparse(every = 2 steps)\n", "laplace": "mechanism laplace()\n"}.get(more, "")
    total = "postprocess n { sum(n) == population }\n" if more == "sparse" else ""
    per = "".join(re.findall(", per = .*", promise))
    chain = f'correlation {CHAINS[cells]}, evidence = "e")\n' if "alpha" in other else ""
    path = folder / "tiny.policy"
    path.write_text(
        f"""policy tiny "Tiny"
stream trips {{ user who time at cell place in {listed} otherwise "away" step 1d horizon {STEPS} steps
  population {OTHERS + 1} start "2026-01-01" }}
{releases}target {other}
target user_level({promise})
{f'participation at_most({bound} steps{per}, assumed = "so it is")' if bound else ""}
{chain}{budget}{total}""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def promise_of(plan: Plan) -> AnyUserSteps:
    """The promise that is held here."""
    (target,) = (target for target in plan.targets if isinstance(target, AnyUserSteps))
    return target


def courses(plan: Plan) -> Iterator[tuple[list[tuple[str, ...]], tuple[str, ...]]]:
    """Where a user may be at every step, together those of one period, and where it is without the events there.

    In other periods all neighbors are as they are. Of a period that is half of a step so are events in the other half.
    """
    assert plan.stream.cell is not None
    promise, places = promise_of(plan), (*plan.stream.cell.cells, AWAY)
    length = promise.window or STEPS
    for first in range(0, STEPS, length):
        inside = [places if first <= step < first + length else (AWAY,) for step in range(STEPS)]
        found = [course for course in product(*inside) if sum(place != AWAY for place in course) <= promise.bound]
        if promise.per is None:
            yield found, (AWAY,) * STEPS
            continue
        for half, other in product(HALVES, (*places, ZOO, None)):
            halves = [(mine, other)[:: 1 if half == "first" else -1] for mine in (*places, ZOO, None)]
            counted = [(*(AWAY,) * first, last_of(day), *(AWAY,) * (STEPS - first - 1)) for day in halves]
            yield counted, counted[-1]


def last_of(day: Sequence[str | None]) -> str:
    """Where a user counts who is in these places in a step, one after the other; None: it has no event."""
    last = next((place for place in reversed(day) if place is not None), AWAY)
    return AWAY if last == ZOO else last


def added(plan: Plan, release: ReleasePlan, place: str) -> tuple[int, ...]:
    """What a user in a place adds to the values of a step."""
    if release.query.by is None:
        return (int(place != AWAY),)
    if release.query.by == "region" and place != AWAY:
        return tuple(int(cell == "left") for cell in release.cells)
    return tuple(int(place == cell) for cell in release.cells)


@cache
def losses(move: tuple[int, ...], scale: Decimal, *, balanced: bool) -> tuple[tuple[float, float], ...]:
    """What noise of one step tells of a move, nats, and how probably, by its own law: all that is likely enough."""
    size, s = len(move), float(scale)
    reach = math.ceil(40 * s) + 2
    axis = np.arange(-reach, reach + 1)
    if not any(move):
        return ((0.0, 1.0),)
    if balanced:
        grids = np.meshgrid(*[axis] * (size - 1), indexing="ij")
        parts = [*grids, -sum(grids)]
        drawn = np.exp(-sum(np.abs(part) for part in parts) / s)
        gained = sum(np.abs(part + by) - np.abs(part) for part, by in zip(parts, move, strict=True))
        found: Counter[int] = Counter()
        for gain in np.unique(gained):
            found[int(gain)] += float(drawn[gained == gain].sum())
        total = sum(found.values())
        return tuple((gain / s, mass / total) for gain, mass in found.items())
    alone = np.exp(-np.abs(axis) / s)
    alone /= alone.sum()
    laws = []
    for by in move:
        gained = np.abs(axis + by) - np.abs(axis)
        laws.append([(gain / s, float(alone[gained == gain].sum())) for gain in np.unique(gained)])
    return tuple(reduce(together, laws, [(0.0, 1.0)]))


def together(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The law of a sum of two losses."""
    found: Counter[float] = Counter()
    for (a, p), (b, q) in product(one, other):
        found[round(a + b, 12)] += p * q
    return list(found.items())


def told(plan: Plan, less: Fraction = Fraction(1)) -> float:
    """The most that is told of one user: nats where nothing is left to chance, delta at the promised epsilon, or rho.

    `less` multiplies the noise.
    """
    promise = promise_of(plan)
    replaced = promise.relation is NeighboringRelation.REPLACE_ONE
    moves = {
        tuple(
            tuple(
                tuple(np.subtract(added(plan, release, x), added(plan, release, y)).tolist())
                for release in plan.releases
            )
            for x, y in zip(one, other, strict=True)
        )
        for everyone, without in courses(plan)
        for one in everyone
        for other in (everyone if replaced else [without])
    }
    scales = [release.schedule.scales(STEPS) for release in plan.scheduled]
    most = 0.0
    for steps in moves:
        known = [
            (move, scales[index][step] * less.numerator / less.denominator, balanced(release))
            for step, parts in enumerate(steps)
            for index, (release, move) in enumerate(zip(plan.releases, parts, strict=True))
            if scales[index][step] > 0
        ]
        if isinstance(promise, UserSteps) and promise.delta == 0:
            lost = sum((Fraction(sum(map(abs, move))) / Fraction(scale) for move, scale, _ in known), Fraction(0))
            most = max(most, float(lost))
            continue
        law = reduce(together, (list(losses(move, scale, balanced=b)) for move, scale, b in known), [(0.0, 1.0)])
        if isinstance(promise, UserStepsRho):
            most = max(most, *(divergence(law, order) / order for order in ORDERS))
            continue
        epsilon = float(promise.epsilon)
        most = max(most, math.fsum(p * -math.expm1(epsilon - loss) for loss, p in law if loss > epsilon))
    return most


def divergence(law: list[tuple[float, float]], order: float) -> float:
    """The Renyi divergence of losses, nats; of order 1 the mean."""
    if order == 1:
        return math.fsum(p * loss for loss, p in law)
    return math.log(math.fsum(p * math.exp((order - 1) * loss) for loss, p in law)) / (order - 1)


def balanced(release: ReleasePlan) -> bool:
    """Whether noise adds up to zero."""
    return getattr(release.mechanism, "balanced_cells", None) is not None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", PLANS)
def test_the_noise_hides_every_user(kind: str, tmp_path: Path) -> None:
    """Whatever one user does is told by no more than is promised; with a tenth less noise more is."""
    plan = compiled(kind, tmp_path)
    verify(plan)
    assert all(claim.holds for claim in verified_claims(plan))
    promise = promise_of(plan)
    limit = float(promise.rho if isinstance(promise, UserStepsRho) else promise.delta or promise.epsilon)
    found = told(plan)
    assert found <= limit * (1 + 1e-9)
    if kind in TIGHT:
        assert found >= 0.97 * limit
        assert told(plan, Fraction(9, 10)) > limit
        number = "rho" if isinstance(promise, UserStepsRho) else "epsilon"
        smaller = promise.model_copy(update={number: getattr(promise, number) * Decimal("0.96")})
        assert getattr(promise, "delta", 0) or not kept(costs_of(plan, smaller), smaller)[0]


@pytest.mark.parametrize(
    ("kind", "smaller"), [("pure", {"epsilon": Decimal("0.999999998")}), ("a rho", {"rho": Decimal("0.001999999998")})]
)
def test_one_that_tells_more_is_refused(kind: str, smaller: dict[str, Decimal], tmp_path: Path) -> None:
    """A smaller promise, a larger bound, one that nobody vouches for, other neighbors, no place for who is away."""
    plan = compiled(kind, tmp_path)
    index = next(index for index, target in enumerate(plan.targets) if isinstance(target, AnyUserSteps))
    promise = plan.targets[index]
    for change in (
        smaller,
        {"bound": 3},
        {"window": 1},
        {"assumed": None},
        {"relation": NeighboringRelation.REPLACE_ONE},
        {"bound": STEPS + 1},
    ):
        targets = tuple(
            promise.model_copy(update=change) if at == index else target for at, target in enumerate(plan.targets)
        )
        altered = plan.model_copy(update={"targets": targets}).sealed()
        assert not all(claim.holds for claim in check_user_steps(altered)), change
        with pytest.raises(PlanRejectedError):
            verify(altered)
    cell = plan.stream.cell
    assert cell is not None
    everywhere = plan.stream.model_copy(
        update={"cell": cell.model_copy(update={"cells": cell.states, "otherwise": None})}
    )
    nowhere = plan.model_copy(update={"stream": everywhere}).sealed()
    assert not all(claim.holds for claim in check_user_steps(nowhere))


def test_budgets_bound_every_mixture(tmp_path: Path) -> None:
    """The curve from the budgets is above that of all users' losses, at every epsilon."""
    plan = compiled("a delta, independent noise", tmp_path)
    promise = promise_of(plan)
    curve = profile_of(costs_of(plan, promise))
    for epsilon in ("0.1", "0.5", "0.9", "1.5"):
        other = promise.model_copy(update={"epsilon": Decimal(epsilon)})
        targets = tuple(other if isinstance(target, UserSteps) else target for target in plan.targets)
        assert told(plan.model_copy(update={"targets": targets})) <= curve.delta(float(epsilon)) * (1 + 1e-9)


def test_users_are_counted_as_is_said(tmp_path: Path) -> None:
    """Who has no event in a step, or one in no cell, is `away`; and with a user more the public number is the same."""
    plan = compiled("two releases", tmp_path)
    for course in (("A", AWAY, "B", ZOO), ("B", "B", AWAY, AWAY), (AWAY,) * STEPS, (ZOO, AWAY, AWAY, "A")):
        rows = [(f"u{other}", step, "B") for other in range(OTHERS) for step in range(STEPS)]
        rows += [("one", step, place) for step, place in enumerate(course) if place != AWAY]
        file = tmp_path / "events.csv"
        lines = [f"{who},2026-01-0{step + 1}T12:00:00Z,{place}" for who, step, place in rows]
        file.write_text("\n".join(["who,at,place", *lines]) + "\n", encoding="utf-8")
        counts = read_events(file, plan, steps=STEPS).counts
        for release in plan.releases:
            others = np.array(added(plan, release, "B")) * OTHERS
            mine = [added(plan, release, AWAY if place == ZOO else place) for place in course]
            assert counts[release.name].tolist() == (np.array(mine) + others).tolist()


@pytest.mark.parametrize("day", list(product(("A", ZOO, None), ("B", ZOO, None))))
def test_a_user_counts_once_whatever_it_does_in_parts_of_a_step(day: tuple[str | None, ...], tmp_path: Path) -> None:
    """Where its last event of the step is: without the events of one part it may be another of the cells."""
    plan = compiled("a part of a step", tmp_path)
    lines = [f"one,2026-01-01T{6 + 12 * half:02}:00:00Z,{place}" for half, place in enumerate(day) if place is not None]
    file = tmp_path / "events.csv"
    file.write_text("\n".join(["who,at,place", "u,2026-01-01T01:00:00Z,B", *lines]) + "\n", encoding="utf-8")
    (release,) = plan.releases
    mine = np.array(added(plan, release, last_of(day)))
    others = np.array(added(plan, release, "B")) + 2 * np.array([int(cell == AWAY) for cell in release.cells])
    assert read_events(file, plan, steps=1).counts["n"][0].tolist() == (mine + others).tolist()


@pytest.mark.parametrize(
    "change", [{"per": 86_400_000}, {"per": 2 * 86_400_000}, {"per": 7 * 3_600_000}, {"window": None}, {"window": 2}]
)
def test_a_period_that_is_no_part_of_a_step_is_refused(change: dict[str, int | None], tmp_path: Path) -> None:
    """One as long as a step or longer, one that lies in two, one said to lie in other steps than one."""
    plan = compiled("a part of a step", tmp_path)
    targets = tuple(
        target.model_copy(update=change) if isinstance(target, AnyUserSteps) else target for target in plan.targets
    )
    assert not all(claim.holds for claim in verified_claims(plan.model_copy(update={"targets": targets}).sealed()))
