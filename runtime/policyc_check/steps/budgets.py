"""What the steps of a plan spend, recomputed from the plan alone: sums in exact fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.plan import Plan
from policyc_check.plan.release import ReleasePlan
from policyc_check.rounding import rounded_up

Floats = NDArray[np.float64]

LARGEST_HORIZON = 1_000_000
LONGEST_PERIOD = 4096  # steps of a pattern that repeats for ever
_FINE = 2.0**80  # budgets are added as whole multiples of 1 / _FINE, rounded up


def total_budgets(plan: Plan, steps: int) -> NDArray[np.float64]:
    """Budgets of all releases together, nats, (steps,), rounded up."""
    columns = [release.budgets.epsilons(steps) for release in plan.releases]
    rounded: dict[tuple[Decimal, ...], float] = {}
    values = np.empty(steps, dtype=np.float64)
    for step, row in enumerate(zip(*columns, strict=True)):
        if row not in rounded:
            rounded[row] = rounded_up(sum(map(Fraction, row), Fraction(0)))
        values[step] = rounded[row]
    return values


def repeating_budgets(plan: Plan) -> list[float] | None:
    """The budgets of one period of an endless plan, nats, rounded up; None when they do not repeat from the start."""
    if any(len(release.budgets.segments) > 1 for release in plan.releases):
        return None
    period = math.lcm(*(len(release.budgets.segments[0].epsilons) for release in plan.releases))
    return None if period > LONGEST_PERIOD else total_budgets(plan, period).tolist()


def largest_budget(plan: Plan) -> Fraction:
    """The largest budget of one step, all releases together, exact."""
    if len(plan.releases) == 1 and plan.releases[0].window_mechanism is None:
        segments = plan.releases[0].budgets.segments
        return max(Fraction(epsilon) for segment in segments for epsilon in set(segment.epsilons))
    return window_budget(plan, 1)


def window_budget(plan: Plan, width: int) -> Fraction:
    """The most that any `width` steps in a row spend, all releases together, nats, exact.

    Of an endless plan every window is met: what comes before its patterns, one common period of them, and one window.
    """
    width = min(width, plan.stream.horizon or width)
    adaptive = sum((r.window_mechanism.spent(width) for r in plan.releases if r.window_mechanism), Fraction(0))
    releases = [release for release in plan.releases if release.window_mechanism is None]
    return adaptive + (_fullest_window(plan, releases, width) if releases else 0)


def _fullest_window(plan: Plan, releases: list[ReleasePlan], width: int) -> Fraction:
    """The same for releases whose budgets are fixed beforehand."""
    steps = plan.stream.horizon
    if steps is None:
        segments = [release.budgets.segments for release in releases]
        begun = max(sum(len(s.epsilons) * (s.repeats or 0) for s in row[:-1]) for row in segments)
        steps = begun + math.lcm(*(len(row[-1].epsilons) for row in segments)) + width - 1
        if steps > LARGEST_HORIZON:
            raise PlanRejectedError("E0801", f"{steps:,} steps, more than can be checked", where="releases")
    rows = list(zip(*(release.budgets.epsilons(steps) for release in releases), strict=True))
    spent = {row: sum(map(Fraction, row), Fraction(0)) for row in set(rows)}
    unit = math.lcm(*(value.denominator for value in spent.values()))
    whole = {row: int(value * unit) for row, value in spent.items()}
    total = largest = sum(whole[row] for row in rows[:width])
    for leaving, entering in zip(rows, rows[width:], strict=False):
        total += whole[entering] - whole[leaving]
        largest = max(largest, total)
    return Fraction(largest, unit)


def budget_sum(plan: Plan) -> Fraction | None:
    """The sum of all budgets, exact; None for an endless plan."""
    total = Fraction(0)
    for release in plan.releases:
        if release.window_mechanism is not None and plan.stream.horizon is not None:
            total += release.window_mechanism.spent(plan.stream.horizon)
            continue
        for segment in release.budgets.segments:
            if segment.repeats is None:
                return None
            total += sum(map(Fraction, segment.epsilons), Fraction(0)) * segment.repeats
    return total


def window_sums(budgets: Floats, width: int) -> Floats:
    """The sum of every `width` budgets in a row, rounded up, (max(1, T - width + 1),); of fewer budgets, of all.

    Raises:
        PlanRejectedError: E0801, a budget that is no finite number of at least 0, or no width.
    """
    if width < 1 or not (np.isfinite(budgets) & (budgets >= 0)).all():
        raise PlanRejectedError("E0801", "a budget or a window is no number that can be added up")
    if width == 1:
        return budgets
    exact = [math.ceil(epsilon * _FINE) for epsilon in budgets.tolist()]
    total = sum(exact[:width])
    sums = [total]
    for leaving, entering in zip(exact, exact[width:], strict=False):
        total += entering - leaving
        sums.append(total)
    rounded = {value: _float_up(Fraction(value, int(_FINE))) for value in set(sums)}
    return np.array([rounded[value] for value in sums])


def _float_up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def all_up(a: Floats, b: Floats) -> Floats:
    """Sums of two arrays, rounded up where they are not exact."""
    total = a + b
    return np.where((total - a != b) | (total - b != a), np.nextafter(total, np.inf), total)


def all_down(a: Floats, b: Floats) -> Floats:
    """Differences of two arrays, rounded down where they are not exact."""
    total = a - b
    return np.where((total + b != a) | (a - total != b), np.nextafter(total, -np.inf), total)
