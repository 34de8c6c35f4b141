"""What is kept of one unit never depends on another: the one rule on which every bound rests."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.users.claims import setting_of
from policyc_runtime.plan import Plan
from policyc_runtime.sources import read_events

MINUTES = 12 * 60  # of every stream here

POLICY = """
policy visits "Visitors"
stream seen {{
  user person
  time at
  cell place in file("places.csv") levels(zone, kind)
  step {step}
  horizon {horizon} steps
  start "2026-01-01"
}}
release there = count(seen) by place
release anywhere = count(seen)
release once = count(seen{once}) by place
release spent = sum(seen.money, clamp = -5 .. 20) by place
release zones = count(seen) by zone
release kinds = count(seen{once}) by kind
release spent_in_zones = sum(seen.money, clamp = -5 .. 20) by zone
target user_level(epsilon = 5.0, delta = 1e-6, neighbors = add_remove{per})
participation at_most({bound} steps{per}, {most}, spacing = {spacing} steps, enforced = {kept})
mechanism gaussian()
estimate none()
deliver {deliver}
"""

Event = tuple[int, str, str, float]  # minute, person, place, money


def planned(folder: Path, step: int, per: int | None, bound: int, most: int | str, spacing: int, kept: str) -> Plan:
    (folder / "places.csv").write_text("place,zone,kind\nA,Z1,old\nB,Z1,new\nC,Z2,old\n")
    (folder / "visits.policy").write_text(
        POLICY.format(
            step=f"{step}min",
            horizon=MINUTES // step,
            per="" if per is None else f", per = {per}min",
            bound=bound,
            most=f"per_step = {most}" if isinstance(most, int) else most,
            once="" if isinstance(most, int) else ", cells_per_step = 1",
            spacing=spacing,
            kept=kept,
            deliver="offline" if kept == "keep_sample" else "realtime",
        )
    )
    return compile_policy(folder / "visits.policy").plan


def drawn(generator: np.random.Generator, events: int, users: int) -> list[Event]:
    """Events of few users, many in a step."""
    return [
        (int(minute), f"u{user}", "ABC"[place], round(float(money), 1))
        for minute, user, place, money in zip(
            generator.integers(0, MINUTES, events),
            generator.integers(0, users, events),
            generator.integers(0, 3, events),
            generator.uniform(-9, 30, events),
            strict=True,
        )
    ]


def counted(folder: Path, plan: Plan, events: list[Event]) -> dict[str, np.ndarray]:
    path = folder / "events.csv"
    lines = [f"{who},2026-01-01T{at // 60:02}:{at % 60:02}:00,{place},{money}" for at, who, place, money in events]
    path.write_text("\n".join(["person,at,place,money", *lines]) + "\n")
    return read_events(path, plan, steps=plan.stream.horizon).counts


CASES = [  # step, period, bound, per_step or cells_per_step, spacing
    (60, 240, 2, 1, 1),
    (60, None, 3, 1, 1),
    (60, None, 3, 2, 2),
    (60, 240, 4, 1, 2),  # spacing leaves room for two of them
    (60, 240, 2, 2, 2),
    (60, 360, 3, 1, 2),
    (240, 60, 1, 1, 1),
    (60, 60, 1, 1, 1),
    (240, 60, 1, 2, 1),
    (60, 240, 2, "cells_per_step = 2", 1),
    (60, 720, 5, 1, 1),
    (240, 60, 1, "cells_per_step = 2", 1),
    (60, None, 3, "cells_per_step = 3", 2),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kept", ["keep_first", "keep_sample"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_removing_a_unit_takes_away_its_own_and_nothing_else(case, kept, tmp_path):
    """Whatever others do: counts differ by those of the unit alone, and by no more than its noise was made for.

    A cap over the whole stream beside a promise about days breaks this: without day 1, day 4 comes in.
    """
    step, per, bound, most, spacing = case
    plan = planned(tmp_path, step, per, bound, most, spacing, kept)
    events = drawn(np.random.default_rng(8), 70, 3)
    units: dict[object, list[Event]] = defaultdict(list)
    for event in events:
        units[event[1], 0 if per is None else event[0] // per].append(event)
    everything = counted(tmp_path, plan, events)
    for own in list(units.values())[:4]:
        others = counted(tmp_path, plan, [event for event in events if event not in own])
        alone = counted(tmp_path, plan, own)
        for release in plan.releases:
            moved = everything[release.name] - others[release.name]
            assert np.array_equal(moved, alone[release.name]), release.name
            setting = setting_of(plan, release, plan.targets[0])
            in_a_step = np.abs(moved).sum(axis=1)
            assert in_a_step.max() <= setting.contribution * setting.spread
            assert np.abs(moved).max() <= setting.contribution
            assert setting.spread == 1 or np.count_nonzero(moved, axis=1).max() <= setting.spread
            assert np.count_nonzero(in_a_step) <= setting.participation.steps
            assert (moved**2).sum() <= setting.changes * setting.shift**2


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("step", "per", "bound"), [(240, 60, 1), (60, 240, 2), (60, 60, 1)])
@pytest.mark.parametrize("periods", [5, 1, 2, 3, 12])
def test_several_periods_of_a_user_move_no_more_than_is_stated_of_them(step, per, bound, periods, tmp_path):
    """Any so many periods, each as full as it can be: never beyond the setting that their epsilon is computed for."""
    plan = planned(tmp_path, step, per, bound, 1, 1, "keep_first")
    periods = min(periods, MINUTES // per)
    generator = np.random.default_rng(periods)
    chosen = [range(periods), *(generator.choice(MINUTES // per, periods, replace=False) for _ in range(4))]
    for which in chosen:
        events = [(int(p) * per + minute, "u", "A", 30.0) for p in which for minute in range(0, per, min(step, per))]
        found = counted(tmp_path, plan, events)
        for release in plan.releases:
            setting = setting_of(plan, release, plan.targets[0], periods * bound)
            moved = found[release.name]
            assert (moved**2).sum() <= setting.changes * setting.shift**2
            assert np.abs(moved).sum() <= setting.changes * setting.shift
