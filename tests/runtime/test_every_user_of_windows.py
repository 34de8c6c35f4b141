"""Mechanisms that publish when values have moved, of which one user may move several in a step: held against every one.

Tiny policies are compiled. Noise is Laplace noise on whole numbers, so that of any decisions, which all are possible,
the most that two neighbors are told is what each step moves, in L1, over the scales of its distance and its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_every_user_of_all import STEPS, User, raw_values
from test_every_user_of_steps import places as places_of

from policyc import compile_policy
from policyc.emit.certificate import render_markdown
from policyc.emit.context import certificate_content
from policyc_check.plan.targets import EventLevel, NeighboringRelation, Target, UserLevel
from policyc_check.verify import verified_claims
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, MeasuredRelease
from policyc_runtime.refusal import verify

BY_CELL, COUNT = "release n = count(trips) by place\n", "release all = count(trips)\n"
SUM, SIGNED = "release h = sum(trips.h, clamp = 0 .. 3)\n", "release h = sum(trips.h, clamp = -3 .. 2)\n"
PAIR, ADDED = "w_event(epsilon = 1, window = 2 steps)", "w_event(epsilon = 1, window = 2 steps, neighbors = add_remove)"
USER = "user_level(epsilon = {}, delta = {}, neighbors = add_remove)"
SEVERAL, TWO_CELLS = "per_step = 2, ", "cells_per_step = 2, "

PLANS: dict[str, tuple[str, tuple[str, ...], str, str]] = {  # releases, promises, what counts in a step, options
    "several events": (BY_CELL, (PAIR,), SEVERAL, ""),
    "several events of one count": (COUNT, (PAIR,), SEVERAL, ""),
    "several events, added": (BY_CELL, (ADDED,), SEVERAL, ""),
    "a sum": (SUM, (PAIR,), "", ""),
    "a sum by cell": (SUM.replace("\n", " by place\n"), (PAIR,), SEVERAL, ""),
    "a signed sum": (SIGNED, (PAIR,), SEVERAL, ""),
    "a signed sum, added": (SIGNED, (ADDED,), "", ""),
    "two releases": (BY_CELL + SUM, (PAIR,), "", ""),
    "two cells": (BY_CELL, (PAIR,), TWO_CELLS, ""),
    "totals": (COUNT + "release t = prefix(all)\n", (PAIR,), SEVERAL, ""),
    "a delta": (COUNT, (PAIR.replace("1,", "1, delta = 1e-3,"),), SEVERAL, ""),
    "a window of its own": (SUM, (PAIR,), "", "window = 3 steps"),
    "two windows": (SUM, (PAIR, "event_level(epsilon = 0.4)"), "", ""),
    "all of a user": (SUM, (PAIR, USER.format("1.1", 0)), SEVERAL, ""),
    "a rho of a user": (SUM, (PAIR, "user_level(rho = 0.3, neighbors = add_remove)"), SEVERAL, ""),
    "a part of a step": (COUNT, (PAIR, f"{USER.format('0.4', 0)[:-1]}, per = 12h)"), SEVERAL, ""),
    "a part of a step, by cell": (BY_CELL, (PAIR, f"{USER.format('0.5', 0)[:-1]}, per = 12h)"), SEVERAL, ""),
    "a part of a step, a sum": (SIGNED, (PAIR, f"{USER.format('0.3', '1e-3')[:-1]}, per = 12h)"), "", ""),
    "a part of a step, a rho": (SUM, (PAIR, "user_level(rho = 0.05, neighbors = replace, per = 12h)"), SEVERAL, ""),
    "who is absent": (BY_CELL, (PAIR,), "", ""),
    "who is absent, two releases": (BY_CELL + COUNT, (PAIR,), "", ""),
    "who is absent, two windows": (BY_CELL, (PAIR, "event_level(epsilon = 0.4)"), "", ""),
    "who is absent, all of a user": (BY_CELL, (PAIR, USER.format("1.1", 0).replace("add_remove", "replace")), "", ""),
    "who is absent, a part of a step": (BY_CELL, (PAIR, f"{USER.format('0.4', 0)[:-1]}, per = 12h)"), "", ""),
    "a part of a step, two releases": (BY_CELL + SUM, (PAIR, f"{USER.format('0.4', 0)[:-1]}, per = 12h)"), "", ""),
}
LOOSE = (
    "a signed sum",
    "a window of its own",
    "all of a user",
    "a rho of a user",
    "a part of a step, a sum",
    "who is absent, all of a user",
)  # no step of which moves so far, or so much


def compiled(kind: str, mechanism: str, folder: Path) -> Plan:
    """One of the plans."""
    releases, promises, in_a_step, options = PLANS[kind]
    cell = 'cell place in {"A", "B", "C"}' if "by place" in releases else ""
    cell += ' otherwise "away" population 9' if kind.startswith("who is absent") else ""
    per = "per = 12h, " if "12h" in promises[-1] else ""
    steps = 3 if "user" in promises[-1] and not per else 1
    bound = f'participation at_most({steps} steps, {per}{in_a_step}assumed = "so it is")'
    if kind.startswith("who is absent") and "user" not in promises[-1]:
        bound = ""
    path = folder / "tiny.policy"
    path.write_text(
        f"""policy tiny "Tiny"
stream trips {{ user who time at {cell} step 1d horizon {STEPS} steps start "2026-01-01" }}
{releases}{"".join(f"target {promise}{chr(10)}" for promise in promises)}
{bound}
mechanism {mechanism}({options})
deliver realtime
""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def following(plan: Plan) -> list[AdaptiveRelease | MeasuredRelease]:
    """The releases whose budgets follow from earlier results."""
    found = [part for part in plan.releases if isinstance(part, AdaptiveRelease | MeasuredRelease)]
    assert all(isinstance(part.mechanism, WindowMechanism) for part in found)
    return found


def days(plan: Plan) -> list[tuple[tuple[int, int], ...]]:
    """What one user may do in a step: so many events, or one in each of so many cells, of either end of a clamp."""
    record, cell = plan.participation, plan.stream.cell
    if cell is not None and cell.otherwise is not None:  # always in one of them, or away
        return [((place, 0),) for place in range(len(cell.cells), -1, -1)]
    assert record is not None
    cells = range(len(cell.cells) if cell else 1)
    several = [getattr(release.query, "cells_per_step", None) for release in plan.releases]
    if any(several):
        chosen = [some for size in range(max(filter(None, several)) + 1) for some in combinations(cells, size)]
        return [tuple(zip(some, ends, strict=True)) for some in chosen for ends in product(range(2), repeat=len(some))]
    events = list(product(cells, range(2)))
    return [some for size in range(record.per_step + 1) for some in combinations_with_replacement(events, size)]


def moves(plan: Plan, target: Target, places: Sequence[tuple[int, ...]] = ()) -> Iterator[list[NDArray[np.int64]]]:
    """How far all neighbors differ in each step, in L1, (pairs, steps) for each release that is measured.

    `places` are the steps in which they differ, where not those that the promise names.
    """
    every, parts = days(plan), following(plan)
    nothing = every[0]
    added = getattr(target, "relation", None) is NeighboringRelation.ADD_OR_REMOVE_ONE
    replaced = not added or getattr(target, "per", None) is not None
    for group in (
        [places]
        if places
        else [[(step,)] for step in range(STEPS)]
        if isinstance(target, EventLevel)
        else places_of(target)
    ):
        for one in group:
            users: list[User] = list(product(*(every if step in one else [nothing] for step in range(STEPS))))
            raw = [np.array([raw_values(plan, part, user) for user in users]) for part in parts]
            together = np.concatenate([values.reshape(len(users), -1) for values in raw], axis=1)
            kept = np.unique(together, axis=0, return_index=True)[1]
            others = kept if replaced else [users.index((nothing,) * STEPS)]
            yield [
                np.abs(values[kept][:, None] - values[others][None]).sum(axis=3).reshape(-1, STEPS) for values in raw
            ]


def costs(rule: WindowMechanism) -> NDArray[np.float64]:
    """What a unit that a step moves by costs under all decisions, nats, (decisions, steps)."""
    found = []
    for decisions in product((False, True), repeat=STEPS):
        paid: list[int] = []
        for publish in decisions:
            paid.append(rule.next_units(paid) if publish else 0)
        sensitivity = Fraction(rule.l1_sensitivity)
        found.append([float(1 / rule.distance_scale() + units * rule.unit() / sensitivity) for units in paid])
    return np.array(found)


def told(plan: Plan, target: Target, less: float = 1.0, places: Sequence[tuple[int, ...]] = ()) -> float:
    """The most nats that neighbors of a promise are told, with `less` times the noise; `places` as of `moves`."""
    known = [costs(part.mechanism) / less for part in following(plan)]
    return max(
        float(sum((moved @ cost.T).max(axis=1) for moved, cost in zip(found, known, strict=True)).max())
        for found in moves(plan, target, places)
    )


def promised(target: Target) -> float:
    """The most nats that keep a promise whatever chance does: half of their square is a rho."""
    rho = getattr(target, "rho", None)
    if rho is not None:
        return float(2 * rho) ** 0.5
    nats, delta = float(target.epsilon), float(getattr(target, "delta", 0) or 0)
    return nats if delta == 0 else float(np.logaddexp(nats, np.log(delta)) - np.log1p(-delta))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mechanism", ["budget_absorption", "budget_distribution"])
@pytest.mark.parametrize("kind", PLANS)
def test_no_decisions_tell_more_than_is_promised(kind: str, mechanism: str, tmp_path: Path) -> None:
    """Of any neighbors; with a tenth less noise, of some more (BD leaves an eighth of two steps unspent)."""
    plan = compiled(kind, mechanism, tmp_path)
    verify(plan)
    assert all(claim.holds for claim in verified_claims(plan))
    targets = plan.targets
    assert len(targets) == len(PLANS[kind][1])
    for target in targets:
        assert told(plan, target) <= promised(target) * (1 + 1e-9)
    less = 0.9 if mechanism == "budget_absorption" else 0.9 * 7 / 8
    assert kind in LOOSE or any(told(plan, target, less) > promised(target) for target in targets)


@pytest.mark.parametrize("kind", ["several events", "a sum by cell", "two cells"])
def test_noise_for_one_count_is_refused(kind: str, tmp_path: Path) -> None:
    """A rule whose budgets are for less than one user moves, for more nats, or for a shorter window."""
    plan = compiled(kind, "budget_absorption", tmp_path)
    (release,) = plan.measured
    rule = release.mechanism
    assert isinstance(rule, WindowMechanism)
    for change in (
        {"l1_sensitivity": rule.l1_sensitivity * Decimal("0.999")},
        {"epsilon": rule.epsilon * Decimal("1.001")},
        {"window": 1},
    ):
        altered = release.model_copy(update={"mechanism": rule.model_copy(update=change)})
        assert not all(
            claim.holds for claim in verified_claims(plan.model_copy(update={"releases": (altered,)}).sealed())
        )


@pytest.mark.parametrize("mechanism", ["budget_absorption", "budget_distribution"])
@pytest.mark.parametrize("kind", ["several events of one count", "a sum"])
def test_what_is_said_of_more_steps_is_said_of_steps_in_a_row(kind: str, mechanism: str, tmp_path: Path) -> None:
    """Each of steps that lie apart may have a whole publication: as many of them tell more than the page names."""
    plan = compiled(kind, mechanism, tmp_path)
    (target,), (claim,) = plan.targets, plan.claims.user_level
    assert isinstance(target, UserLevel)
    assert [point.participation for point in claim.beyond] == [STEPS]
    for point in claim.beyond:
        longer = target.model_copy(update={"window": point.participation})
        assert told(plan, longer) <= float(point.epsilon or 0) * (1 + 1e-9)
    apart = told(plan, target, places=[(0, STEPS - 1)])
    assert apart > told(plan, target) * 1.1
    assert (apart > promised(target)) == (mechanism == "budget_absorption")
    page = render_markdown(certificate_content(plan, {}))
    assert "| All of 2 steps in a row | 1 |" in page
    assert f"is promised: {float(claim.beyond[0].epsilon or 0):g} nats at {STEPS} steps in a row." in page
    assert "wherever they lie" not in page
