"""What the steps of a plan spend, recomputed from the plan alone: sums in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.plan import Stated
from policyc_check.plan.release import AdaptiveRelease, BudgetedRelease, Scheduled
from policyc_check.rounding import rounded_up

Floats = NDArray[np.float64]

LARGEST_HORIZON = 1_000_000
LONGEST_PERIOD = 4096  # steps of a pattern that repeats for ever
_FINE = 2**80  # floats are added as whole multiples of 1 / _FINE, rounded up


def total_budgets(plan: Stated, steps: int) -> Floats:
    """Budgets of all releases together, nats, (steps,), rounded up."""
    rows, spent = _rows(plan.scheduled, steps)
    rounded = {row: rounded_up(total) for row, total in spent.items()}
    return np.array([rounded[row] for row in rows], dtype=np.float64)


def repeating_budgets(plan: Stated) -> Floats | None:
    """The budgets of one period of an endless plan, nats, rounded up; None when they do not repeat from the start."""
    if any(len(release.schedule.segments) > 1 for release in plan.scheduled):
        return None
    period = math.lcm(*(len(release.schedule.segments[0].epsilons) for release in plan.scheduled))
    return None if period > LONGEST_PERIOD else total_budgets(plan, period)


def window_budget(plan: Stated, width: int) -> Fraction:
    """The most that any `width` steps in a row spend, all releases together, nats, exact.

    Of an endless plan every window is met: what comes before its patterns, one common period of them, and one window.
    """
    steps = plan.stream.horizon
    width = min(width, steps or width)
    adaptive = sum((r.mechanism.spent(width) for r in plan.scheduled if isinstance(r, AdaptiveRelease)), Fraction(0))
    releases = [release for release in plan.scheduled if isinstance(release, BudgetedRelease)]
    if not releases:
        return adaptive
    if steps is None:
        segments = [release.schedule.segments for release in releases]
        begun = max(sum(len(s.epsilons) * (s.repeats or 0) for s in row[:-1]) for row in segments)
        steps = begun + math.lcm(*(len(row[-1].epsilons) for row in segments)) + width - 1
        if steps > LARGEST_HORIZON:
            raise PlanRejectedError("E0801", f"{steps:,} steps, more than can be checked", where="releases")
    rows, spent = _rows(releases, steps)
    unit = math.lcm(*(value.denominator for value in spent.values()))
    whole = {row: int(value * unit) for row, value in spent.items()}
    return adaptive + Fraction(max(_sliding([whole[row] for row in rows], width)), unit)


def budget_sum(plan: Stated) -> Fraction | None:
    """The sum of all budgets, exact; None for an endless plan."""
    return None if plan.stream.horizon is None else window_budget(plan, plan.stream.horizon)


def window_sums(budgets: Floats, width: int) -> Floats:
    """The sum of every `width` budgets in a row, rounded up, (max(1, T - width + 1),); of fewer budgets, of all.

    Raises:
        PlanRejectedError: E0801, a budget that is no finite number of at least 0, or no width.
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


def _rows(
    releases: Sequence[Scheduled], steps: int
) -> tuple[list[tuple[Decimal, ...]], dict[tuple[Decimal, ...], Fraction]]:
    """The budgets of each step, one a release; and their exact sum, once for all steps that are alike."""
    rows = list(zip(*(release.schedule.epsilons(steps) for release in releases), strict=True))
    return rows, {row: sum(map(Fraction, row), Fraction(0)) for row in set(rows)}


def _sliding(values: Sequence[int], width: int) -> list[int]:
    """The sum of every `width` values in a row; of fewer, of all."""
    sums = [sum(values[:width])]
    for leaving, entering in zip(values, values[width:], strict=False):
        sums.append(sums[-1] + entering - leaving)
    return sums
