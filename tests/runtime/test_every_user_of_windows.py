"""Mechanisms that publish when values have moved, of which one user may move several in a step: held against every one.

Tiny policies are compiled. Noise is Laplace noise on whole numbers, so that of any decisions, which all are possible,
the most that two neighbors are told is what each step moves, in L1, over the scales of its distance and its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_every_user_of_all import STEPS, User, raw_values
from test_every_user_of_steps import places

from policyc import compile_policy
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.users.claims import Promise
from policyc_check.verify import verified_claims
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.plan import Plan
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
}
LOOSE = (
    "a signed sum",
    "a window of its own",
    "all of a user",
    "a rho of a user",
)  # no step of which moves so far, or so much


def compiled(kind: str, mechanism: str, folder: Path) -> Plan:
    """One of the plans."""
    releases, promises, in_a_step, options = PLANS[kind]
    cell = 'cell place in {"A", "B", "C"}' if "by place" in releases else ""
    per = "per = 12h, " if "12h" in promises[-1] else ""
    path = folder / "tiny.policy"
    path.write_text(
        f"""policy tiny "Tiny"
stream trips {{ user who time at {cell} step 1d horizon {STEPS} steps start "2026-01-01" }}
{releases}{"".join(f"target {promise}{chr(10)}" for promise in promises)}
participation at_most({3 if "user" in promises[-1] and not per else 1} steps, {per}{in_a_step}assumed = "so it is")
mechanism {mechanism}({options})
deliver realtime
""",
        encoding="utf-8",
    )
    return compile_policy(path).plan


def days(plan: Plan) -> list[tuple[tuple[int, int], ...]]:
    """What one user may do in a step: so many events, or one in each of so many cells, of either end of a clamp."""
    record, cell = plan.participation, plan.stream.cell
    assert record is not None
    cells = range(len(cell.cells) if cell else 1)
    several = [getattr(release.query, "cells_per_step", None) for release in plan.releases]
    if any(several):
        chosen = [some for size in range(max(filter(None, several)) + 1) for some in combinations(cells, size)]
        return [tuple(zip(some, ends, strict=True)) for some in chosen for ends in product(range(2), repeat=len(some))]
    events = list(product(cells, range(2)))
    return [some for size in range(record.per_step + 1) for some in combinations_with_replacement(events, size)]


def moves(plan: Plan, target: Promise) -> Iterator[list[NDArray[np.int64]]]:
    """How far all neighbors differ in each step, in L1, (pairs, steps) for each release that is measured."""
    every, parts = days(plan), plan.measured
    replaced = target.relation is NeighboringRelation.REPLACE_ONE or getattr(target, "per", None) is not None
    for group in places(target):
        for one in group:
            users: list[User] = list(product(*(every if step in one else [()] for step in range(STEPS))))
            raw = [np.array([raw_values(plan, part, user) for user in users]) for part in parts]
            together = np.concatenate([values.reshape(len(users), -1) for values in raw], axis=1)
            kept = np.unique(together, axis=0, return_index=True)[1]
            others = kept if replaced else [users.index(((),) * STEPS)]
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


def told(plan: Plan, target: Promise, less: float = 1.0) -> float:
    """The most nats that neighbors of a promise are told, with `less` times the noise."""
    rules = [part.mechanism for part in plan.measured]
    assert all(isinstance(rule, WindowMechanism) for rule in rules)
    known = [costs(rule) / less for rule in rules]
    return max(
        float(sum((moved @ cost.T).max(axis=1) for moved, cost in zip(found, known, strict=True)).max())
        for found in moves(plan, target)
    )


def promised(target: Promise) -> float:
    """The most nats that keep a promise whatever chance does: half of their square is a rho."""
    rho = getattr(target, "rho", None)
    if rho is not None:
        return float(2 * rho) ** 0.5
    nats, delta = np.exp(float(target.epsilon)), float(target.delta)
    return float(np.log((nats + delta) / (1 - delta)))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mechanism", ["budget_absorption", "budget_distribution"])
@pytest.mark.parametrize("kind", PLANS)
def test_no_decisions_tell_more_than_is_promised(kind: str, mechanism: str, tmp_path: Path) -> None:
    """Of any neighbors; with a tenth less noise, of some more (BD leaves an eighth of two steps unspent)."""
    plan = compiled(kind, mechanism, tmp_path)
    verify(plan)
    assert all(claim.holds for claim in verified_claims(plan))
    targets = [target for target in plan.targets if isinstance(target, Promise)]
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
