"""What the steps of a plan spend, recomputed from the plan alone: sums in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.plan import Stated
from policyc_check.plan.release import AdaptiveRelease, BudgetedRelease, Scheduled
from policyc_check.plan.targets import hides_a_step
from policyc_check.rounding import Floats, rounded_up
from policyc_check.runs import Whole, enough

LARGEST_HORIZON = 1_000_000
LONGEST_PERIOD = 4096  # steps of a pattern that repeats for ever
_FINE = 2**80  # floats are added as whole multiples of 1 / _FINE, rounded up


def total_budgets(plan: Stated, steps: int | Whole) -> Floats:
    """Budgets of all releases together, nats, rounded up, of the first `steps` steps, or of steps given by number."""
    spent, which = _spent(plan.scheduled, np.arange(steps) if isinstance(steps, int) else steps)
    return np.array([rounded_up(total + _by_noise(plan)) for total in spent], dtype=np.float64)[which]


def repeating_budgets(plan: Stated) -> Floats | None:
    """The budgets of one period of an endless plan, nats, rounded up; None when they do not repeat from the start."""
    if any(len(release.schedule.segments) > 1 for release in plan.scheduled):
        return None
    period = math.lcm(*(len(release.schedule.segments[0].epsilons) for release in plan.scheduled))
    return None if period > LONGEST_PERIOD else total_budgets(plan, period)


def window_budget(plan: Stated, width: int) -> Fraction:
    """The most that any `width` steps in a row spend, all releases together, nats, exact."""
    width = min(width, plan.stream.horizon or width)
    adaptive = sum((r.mechanism.spent(width) for r in plan.scheduled if isinstance(r, AdaptiveRelease)), Fraction(0))
    releases = [release for release in plan.scheduled if isinstance(release, BudgetedRelease)]
    if not releases:
        return adaptive + width * _by_noise(plan)
    if width == plan.stream.horizon:
        segments = [segment for release in releases for segment in release.schedule.segments]
        return sum((Fraction(e) * (s.repeats or 0) for s in segments for e in s.epsilons), adaptive)
    spent, which = _spent(releases, enough([release.schedule.runs for release in releases], width))
    unit = math.lcm(*(value.denominator for value in spent))
    whole = [int(value * unit) for value in spent]
    return adaptive + Fraction(max(_sliding([whole[row] for row in which.tolist()], width)), unit)


def window_sums(budgets: Floats, width: int) -> Floats:
    """The sum of every `width` budgets in a row, rounded up, (max(1, T - width + 1),); of fewer budgets, of all.

    PlanRejectedError E0801 of a budget that is no finite number of at least 0, or of no width.
    """
    if width < 1 or not (np.isfinite(budgets) & (budgets >= 0)).all():
        raise PlanRejectedError("E0801", "a budget or a window is no number that can be added up")
    if width == 1:
        return budgets
    sums = _sliding([math.ceil(epsilon * float(_FINE)) for epsilon in budgets.tolist()], width)
    rounded = {value: rounded_up(Fraction(value, _FINE)) for value in set(sums)}
    return np.array([rounded[value] for value in sums])


def all_up(a: Floats, b: Floats) -> Floats:
    """Sums of two arrays, rounded up where they are not exact."""
    total = a + b
    return np.where((total - a != b) | (total - b != a), np.nextafter(total, np.inf), total)


def _by_noise(plan: Stated) -> Fraction:
    """What each step tells at most where none has a budget: what is promised of steps in a row is promised of one."""
    alone = () if plan.scheduled else plan.targets
    return min((Fraction(one.epsilon) for one in alone if hides_a_step(one)), default=Fraction(0))


def _spent(releases: Sequence[Scheduled], steps: Whole) -> tuple[list[Fraction], Whole]:
    """The different sums of budgets, exact; and which of them each step has."""
    spent, which = [Fraction(0)], np.zeros(len(steps), dtype=np.int64)
    for schedule in (release.schedule for release in releases):
        budgets = [Fraction(epsilon) for segment in schedule.segments for epsilon in segment.epsilons]
        pairs = which * len(budgets) + schedule.runs.places(steps)
        found = np.unique(pairs)
        which = np.searchsorted(found, pairs)
        spent = [spent[row] + budgets[place] for row, place in zip(*divmod(found, len(budgets)), strict=True)]
    return spent, which


def _sliding(values: Sequence[int], width: int) -> list[int]:
    """The sum of every `width` values in a row; of fewer, of all."""
    sums = [sum(values[:width])]
    for leaving, entering in zip(values, values[width:], strict=False):
        sums.append(sums[-1] + entering - leaving)
    return sums
