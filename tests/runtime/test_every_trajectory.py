"""Promises about steps and windows, from all that one user may do and all that may be seen of it.

Tiny policies are compiled. What every state of the user adds noise to, and which law the noise has, is what the plan's
mechanism does when its samplers are replaced. Every value that can be published then has a probability for every
course of the user, from the law alone; courses are weighted by the declared chain. What the event that tells most says
of what is promised is held against the plan's claims; with 10 % less noise the same plan must exceed them.

Laplace noise on whole numbers has few different likelihoods: beyond what the user may move, they stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc import compile_policy
from policyc_check.plan.correlation import ChainRecord
from policyc_runtime.mechanisms import laplace
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.randomness import SimulationRandomness

ROUNDED = 1e-12  # the roundings of sums of a few floats
LESS = Decimal("0.9")

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

A = 'cell place in {"A"} otherwise "away"'
AB = 'cell place in {"A", "B"} otherwise "away"'
ONLY_AB = 'cell place in {"A", "B"}'
ONLY_ABC = 'cell place in {"A", "B", "C"}'
LEVELS = 'cell place in file("places.csv") levels(region)'
PLACES = "place,region\nA,left\nB,left\nC,right\n"
BY_REGION = "release regions = count(trips) by region\n"
BY_CELL = "release seen = count(trips) by place\n"
ALL = "release all = count(trips)\n"
EVERYBODY = "postprocess seen { sum(seen) == population }\n"
NONE = 'correlation none(evidence = "x")\n'
SPARSE = "deliver offline\nbudget sparse(every = 2 steps)\n"
ALONE = 'correlation none(evidence = "x") for women\n'
PLAIN = "mechanism laplace()\n"
EVENT = "target event_level(epsilon = 1.0)\n" + NONE
WINDOW = "target w_event(epsilon = 1.5, window = 2 steps)\n" + NONE
ADDED = "target w_event(epsilon = 1.0, window = 2 steps, delta = 1e-5, neighbors = add_remove)\n"
ALPHA = "target alpha_dpt(alpha = 0.8)\n"
TOTAL = "target alpha_dpt(alpha = 1.0)\n"
STAY = "[[0.8, 0.2], [0.3, 0.7]]"
TURN = "[[0, 1], [0.4, 0.6]]"
THREE = "[[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0, 0.3, 0.7]]"
FOUR = "[[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.2, 0.6, 0.1], [0.1, 0.1, 0.2, 0.6]]"


def chain(forward: str, initial: str = "stationary", group: str = "", given: str = "forward") -> str:
    """A statement of how users move."""
    first = f"initial = {initial}, " if initial else ""
    return f'correlation markov({given} = {forward}, {first}evidence = "x"){group and " for "}{group}\n'


@dataclass(frozen=True)
class Tiny:
    """A policy of few steps; `population` None: not public."""

    cell: str
    rest: str
    steps: int = 3
    population: int | None = 100

    def plan(self, folder: Path) -> Plan:
        """Compiled."""
        known = "" if self.population is None else f"population {self.population}"
        stream = f"stream trips {{ user who time at {self.cell} step 1d horizon {self.steps} steps {known} }}"
        (folder / "places.csv").write_text(PLACES)
        path = folder / "tiny.policy"
        path.write_text(f'policy tiny "Tiny"\n{stream}\n{self.rest}', encoding="utf-8")
        return compile_policy(path).plan


SINGLE_STEPS = {
    "presence": Tiny("", f"release n = count(trips)\n{EVENT}"),
    "balanced": Tiny(ONLY_AB, BY_CELL + EVENT),
    "balanced, three cells": Tiny(ONLY_ABC, BY_CELL + EVENT),
    "balanced, away": Tiny(AB, BY_CELL + EVENT),
    "plain, away": Tiny(AB, BY_CELL + EVENT + PLAIN),
    "plain, absent": Tiny(ONLY_AB, BY_CELL + EVENT, population=None),
    "two releases": Tiny(AB, BY_CELL + ALL + EVENT),
    "two plain releases": Tiny(AB, BY_CELL + ALL + EVENT + PLAIN),
    "levels": Tiny(LEVELS, BY_CELL + BY_REGION + EVENT + WINDOW.removesuffix(NONE)),
    "levels, away, and all": Tiny(
        LEVELS + ' otherwise "away"', BY_REGION + ALL + EVENT + WINDOW.removesuffix(NONE) + PLAIN, steps=2
    ),
    "windows": Tiny(AB, BY_CELL + WINDOW + PLAIN, steps=5),
    "windows, balanced": Tiny(ONLY_AB, BY_CELL + WINDOW, steps=4),
    "windows, two releases": Tiny(AB, BY_CELL + ALL + WINDOW),
    "a window beyond the horizon": Tiny(AB, BY_CELL + WINDOW.replace("2 steps", "9 steps")),
    "a window, added": Tiny(AB, BY_CELL + ALPHA + NONE + ADDED),
    "a window, added, plain": Tiny(AB, BY_CELL + ALL + ALPHA + NONE + ADDED + PLAIN),
    "a window, added, presence": Tiny("", f"release n = count(trips)\n{ALPHA}{NONE}{ADDED}"),
    "an event and a window": Tiny(AB, BY_CELL + EVENT + WINDOW.removesuffix(NONE)),
}
CORRELATED = {
    "two states": Tiny(A, BY_CELL + TOTAL + chain(STAY)),
    "plain": Tiny(A, BY_CELL + TOTAL + chain(STAY) + PLAIN),
    "everybody is somewhere": Tiny(ONLY_AB, BY_CELL + TOTAL + chain(STAY) + EVERYBODY),
    "a transition that never happens": Tiny(A, BY_CELL + TOTAL + chain(TURN)),
    "a first law": Tiny(A, BY_CELL + TOTAL + chain(STAY, "[0.9, 0.1]")),
    "both directions": Tiny(A, BY_CELL + TOTAL + chain(STAY, "", given=f"forward = {STAY}, backward")),
    "backward": Tiny(A, BY_CELL + TOTAL + chain(STAY, given="backward")),
    "uniform": Tiny(A, BY_CELL + TOTAL + chain(STAY) + "budget uniform()"),
    "bounded": Tiny(A, BY_CELL + TOTAL + chain(STAY) + "budget bounded()"),
    "quantified": Tiny(A, BY_CELL + TOTAL + chain(STAY) + "budget quantified()"),
    "optimal": Tiny(A, BY_CELL + TOTAL + chain(STAY) + "budget optimal()"),
    "sparse": Tiny(A, BY_CELL + TOTAL + chain(STAY) + SPARSE + EVERYBODY, 4, 4_000),
    "two releases": Tiny(A, BY_CELL + ALL + TOTAL + chain(STAY)),
    "a window": Tiny(A, BY_CELL + TOTAL.replace("1.0", "1.0, window = 2 steps") + chain(STAY)),
    "a window and an event": Tiny(A, BY_CELL + TOTAL + WINDOW.removesuffix(NONE) + chain(STAY)),
    "a window, added": Tiny(A, BY_CELL + TOTAL + ADDED + chain(STAY)),
    "three states, a window, added": Tiny(AB, BY_CELL + TOTAL + ADDED + chain(THREE)),
    "three states": Tiny(AB, BY_CELL + TOTAL + chain(THREE)),
    "three states, plain": Tiny(AB, BY_CELL + TOTAL + chain(THREE) + PLAIN),
    "three states, a first law": Tiny(AB, BY_CELL + TOTAL + chain(THREE, "[0.2, 0.2, 0.6]")),
    "levels": Tiny(LEVELS, BY_CELL + BY_REGION + TOTAL + chain(THREE) + EVERYBODY),
    "levels, plain": Tiny(LEVELS, BY_CELL + BY_REGION + TOTAL + chain(THREE) + PLAIN + EVERYBODY, steps=2),
    "levels, a first law": Tiny(LEVELS, BY_CELL + BY_REGION + TOTAL + chain(THREE, "[0.2, 0.2, 0.6]") + EVERYBODY),
    "levels, away": Tiny(LEVELS + ' otherwise "away"', BY_CELL + BY_REGION + TOTAL + chain(FOUR), steps=2),
    "levels, groups": Tiny(
        LEVELS,
        BY_CELL
        + BY_REGION
        + TOTAL
        + EVERYBODY
        + chain(THREE, group="men")
        + chain(THREE, "[0.2, 0.2, 0.6]", group="women"),
    ),
    "levels, a window and an event": Tiny(
        LEVELS, BY_CELL + BY_REGION + TOTAL + WINDOW.removesuffix(NONE) + chain(THREE) + EVERYBODY
    ),
    "a level alone": Tiny(LEVELS, BY_REGION + TOTAL + chain(THREE) + EVERYBODY.replace("seen", "regions")),
    "groups": Tiny(A, BY_CELL + TOTAL + chain(STAY, group="men") + chain(TURN, "[0.5, 0.5]", group="women")),
    "two steps": Tiny(A, BY_CELL + TOTAL + chain(STAY), steps=2),
    "a group without correlation": Tiny(A, BY_CELL + TOTAL + chain(STAY, group="men") + ALONE),
    "a group without correlation, and a window": Tiny(
        A, BY_CELL + TOTAL.replace("1.0", "1.0, window = 2 steps") + ALONE + chain(TURN, group="men")
    ),
    "groups without correlation": Tiny(A, BY_CELL + TOTAL + ALONE + ALONE.replace("women", "men")),
    "groups without correlation, and a window": Tiny(
        AB, BY_CELL + TOTAL.replace("1.0", "1.0, window = 2 steps") + ALONE + ALONE.replace("women", "men")
    ),
}


def contributions(plan: Plan, release: ReleasePlan) -> Whole:
    """What a user in each state adds to the values of a step, (states, values)."""
    cell = plan.stream.cell
    if cell is None:
        return np.array([[0], [1]])
    somewhere = len(cell.cells)
    states = np.eye(somewhere, dtype=np.int64)
    if cell.otherwise is not None or plan.stream.population is None:  # away is a state, and a value where it is named
        states = np.eye(somewhere + 1, dtype=np.int64)
    if release.query.by is None:
        return states[:, :somewhere].sum(axis=1, keepdims=True)
    if release.query.by != cell.column:
        of = [*cell.levels[0].of, len(cell.levels[0].cells)][: len(states)]
        return np.array([np.arange(len(release.cells)) == value for value in of], dtype=np.int64)
    return states[:, : len(release.cells)]


@contextmanager
def noise_recorded(drawn: list[tuple[str, float]]) -> Iterator[None]:
    """Within it, samplers give zeros, and every row of values notes its law and scale."""
    kept = laplace.discrete_laplace, laplace.balanced_laplace

    def independent(scale: Fraction, count: int, _: Any) -> Whole:
        drawn.append(("independent", float(scale)))
        return np.zeros(count, dtype=np.int64)

    def balanced(scale: Fraction, cells: int, count: int, _: Any) -> Whole:
        drawn.append(("balanced", float(scale)))
        return np.zeros((count, cells), dtype=np.int64)

    laplace.discrete_laplace, laplace.balanced_laplace = independent, balanced
    try:
        yield
    finally:
        laplace.discrete_laplace, laplace.balanced_laplace = kept


def published(release: ReleasePlan, own: Whole, scale: Decimal) -> Floats:
    """Log likelihoods of all that a release may publish at a step, for a user in each state, (events, states)."""
    drawn: list[tuple[str, float]] = []
    with noise_recorded(drawn):
        moved = release.mechanism.add_noise(own, [scale] * len(own), SimulationRandomness(0))
    ((law, size),) = drawn
    reach = moved.shape[1] + 1
    values = np.array(list(product(range(-reach, reach + 1), repeat=moved.shape[1])))
    if law == "balanced":  # the noise adds up to zero, so that values add up to what is known
        assert len(set(moved.sum(axis=1))) == 1, "else the total would tell who the user is"
        values = values[values.sum(axis=1) == moved[0].sum()]
    return different(-np.abs(values[:, None] - moved[None]).sum(axis=2) / size)


def different(logs: Floats) -> Floats:
    """Events (events, states), but for those whose likelihoods are the same up to a constant."""
    logs = logs - logs.max(axis=1, keepdims=True)
    return np.asarray(logs[np.unique(np.round(logs, 9), axis=0, return_index=True)[1]])


def steps_seen(plan: Plan, factor: Decimal) -> list[Floats]:
    """The same of all releases together, for every step."""
    steps = plan.stream.horizon
    assert steps is not None
    seen = []
    for step in range(steps):
        logs = np.zeros((1, len(contributions(plan, plan.releases[0]))))
        for release in plan.releases:
            scale = release.schedule.scales(steps)[step]
            if scale > 0:
                more = published(release, contributions(plan, release), scale * factor)
                logs = different((logs[:, None] + more[None]).reshape(-1, logs.shape[1]))
        seen.append(logs)
    return seen


def told_apart(seen: list[Floats], away: int | None = None) -> list[float]:
    """By how much any two states differ most at every step, all else being known; or any from where a user is away."""
    if away is not None:
        return [float(np.abs(logs - logs[:, [away]]).max()) for logs in seen]
    return [float((logs.max(axis=1) - logs.min(axis=1)).max()) for logs in seen]


def likelihoods(record: ChainRecord, steps: int) -> dict[tuple[int, ...], float]:
    """How likely every course of states is."""
    forward, backward = (None if m is None else np.array(m, dtype=float) for m in (record.forward, record.backward))
    matrix = forward if forward is not None else backward
    assert matrix is not None
    if record.initial is None or record.initial == "stationary":
        first = np.linalg.matrix_power(matrix, 2000)[0]
    else:
        first = np.array(record.initial, dtype=float)
    courses = {}
    for course in product(range(len(matrix)), repeat=steps):
        told = course if forward is not None else course[::-1]
        courses[course] = float(first[told[0]] * np.prod([matrix[now, then] for now, then in pairwise(told)]))
    return courses


def anywhere(group: str, states: int) -> ChainRecord:
    """Users of a group who are somewhere at each step, whatever they did at others; any law will do."""
    law = tuple(Decimal(2 * state + 1) / Decimal(states**2) for state in range(states))
    return ChainRecord(group=group, forward=(law,) * states, backward=None, initial=law, evidence="x", lags=(1,))


def leaked(seen: list[Floats], record: ChainRecord, start: int, width: int) -> float:
    """How much all that is published tells of where a user was in steps `start` to `start + width - 1`."""
    steps = len(seen)
    courses = likelihoods(record, steps)
    total = np.zeros((1, len(courses)))
    for step, logs in enumerate(seen):
        more = logs[:, [course[step] for course in courses]]
        total = (total[:, None] + more[None]).reshape(-1, len(courses))
    places = sorted({course[start : start + width] for course, likely in courses.items() if likely > 0})
    weights = np.array(
        [[likely * (course[start : start + width] == place) for place in places] for course, likely in courses.items()]
    )
    known = np.log(np.exp(total) @ (weights / weights.sum(axis=0)))
    return float((known.max(axis=1) - known.min(axis=1)).max())


def told(plan: Plan, factor: int | Decimal) -> Iterator[tuple[str, float, Decimal]]:
    """What can be told by the best event with so many times the noise, beside what the plan claims, for each claim."""
    seen = steps_seen(plan, Decimal(factor))
    apart, records = told_apart(seen), [*plan.correlation.chains]
    records += [anywhere(group.group, seen[0].shape[1]) for group in plan.correlation.independent]
    assert plan.claims.largest_budget is not None
    yield "a step", max(apart), plan.claims.largest_budget
    for claim in plan.claims.windows:
        width = min(claim.window, len(seen))
        starts = range(len(seen) - width + 1)
        if claim.kind == "budget":
            (target,) = (one for one in plan.targets if one.kind == "w_event" and one.window == claim.window)
            own = apart
            if target.relation is not None:
                own = told_apart(seen, 0 if plan.stream.cell is None else -1)
            most = max(sum(own[start : start + width]) for start in starts)
        else:
            most = max(leaked(seen, record, start, width) for start in starts for record in records)
        yield f"{claim.kind} of {claim.window} steps", most, claim.nats
    if plan.claims.total_leakage is not None:
        steps = range(len(seen))
        most = max((leaked(seen, record, step, 1) for step in steps for record in records), default=max(apart))
        yield "total leakage", most, plan.claims.total_leakage


def check_both(plan: Plan) -> None:
    """No claim is exceeded; with less noise each of them is."""
    for name, most, claimed in told(plan, 1):
        assert most <= float(claimed) + ROUNDED, name
    for name, most, claimed in told(plan, LESS):
        assert most > float(claimed) + ROUNDED, name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", SINGLE_STEPS)
def test_no_event_tells_more_of_steps_than_is_claimed(kind: str, tmp_path: Path) -> None:
    """Any two states at a step or throughout a window, all else being known, are told apart by no more than claimed."""
    check_both(SINGLE_STEPS[kind].plan(tmp_path))


def test_who_is_added_moves_one_count_where_noise_hides_two(tmp_path: Path) -> None:
    """Beside users who are replaced: one more or less is told half of what is claimed, where nobody counts as away."""
    plan = Tiny(ONLY_AB, BY_CELL + ALPHA + NONE + ADDED, population=None).plan(tmp_path)
    claims = {name: (most, float(claimed)) for name, most, claimed in told(plan, 1)}
    assert all(most <= claimed + ROUNDED for most, claimed in claims.values())
    most, claimed = claims["budget of 2 steps"]
    assert most == pytest.approx(claimed / 2, rel=1e-9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", CORRELATED)
def test_no_event_tells_more_of_a_user_who_moves_as_stated_than_is_claimed(kind: str, tmp_path: Path) -> None:
    """All that is published tells of one step, or window, no more than claimed to whoever knows the chain."""
    check_both(CORRELATED[kind].plan(tmp_path))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind", ["two states", "everybody is somewhere", "a first law", "sparse", "groups", "groups without correlation"]
)
def test_between_two_states_nothing_is_claimed_in_vain(kind: str, tmp_path: Path) -> None:
    """There is an event that tells all that is claimed: the enumeration misses nothing, and no noise is wasted."""
    for name, most, claimed in told(CORRELATED[kind].plan(tmp_path), 1):
        assert most == pytest.approx(float(claimed), rel=1e-9), name
