"""What all releases together tell about one step, or about a window of steps in a row: audited, rounded up.

About the steps t .. t + w - 1 of one user: what is inherited by step t from before, the budgets of the window, and what
is inherited by step t + w - 1 from after. Given the states of the window, what lies on both sides is independent.

Source: CAO17 (Theorem 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, inf, nextafter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.errors import PlanRejectedError
from policyc_runtime.privacy.audit import audited_finite_inheritance, audited_inheritance
from policyc_runtime.privacy.chains import Chain
from policyc_runtime.privacy.leakage import Lags, SideLike

Floats = NDArray[np.float64]

_FINE = 2.0**80  # budgets are added as whole multiples of 1 / _FINE, rounded up


def audited_total_leakage(
    epsilons: ArrayLike, chain: Chain | tuple[SideLike, SideLike], lags: Lags = 1, width: int = 1
) -> Floats:
    """An upper bound of the leakage of every window of `width` steps, in nats, each step of the recursion audited.

    Width 1 is the total leakage of every step, (T,); a window longer than the horizon is the sum of all budgets.

    Args:
        epsilons: shape (T,), budgets, 0 for no release.
        chain: the chain, or (backward, forward) in any form that `total_leakage` takes.
        lags: as in `total_leakage`.
        width: steps of a window, >= 1.

    Returns:
        shape (max(1, T - width + 1),).

    Raises:
        PlanRejectedError: E0801, naming the step at which a bound is not confirmed.
    """
    before, after = audited_finite_inheritance(epsilons, chain, lags)
    within = window_sums(np.asarray(epsilons, dtype=np.float64), width)
    if width >= len(before):
        return within
    return _all_up(_all_up(before[: len(within)], within), after[width - 1 :])


def audited_stationary_leakage(
    pattern: float | Sequence[float], chain: Chain | tuple[SideLike, SideLike], lags: Lags = 1, width: int = 1
) -> float:
    """An upper bound of the leakage of every window of an endless stream with repeating budgets; inf for none.

    Args:
        pattern: budgets in nats, one for every step or one of each step of a period; 0 for no release.
        chain: as in `audited_total_leakage`.
        lags: as in `total_leakage`; those that are no whole periods go unused.
        width: steps of a window, >= 1; 1 is the total leakage of a step.

    Raises:
        PlanRejectedError: E0801, when a bound is not confirmed.
    """
    budgets = [pattern] if isinstance(pattern, int | float) else [float(epsilon) for epsilon in pattern]
    before, after = audited_inheritance(budgets, chain, lags)
    period = len(budgets)
    within = window_sums(np.resize(budgets, period + width - 1), width)
    last = [(step + width - 1) % period for step in range(period)]
    return float(_all_up(_all_up(np.array(before), within), np.array(after)[last]).max())


def window_sums(budgets: Floats, width: int) -> Floats:
    """The sum of every `width` budgets in a row, rounded up, (max(1, T - width + 1),); of fewer budgets, of all.

    Raises:
        PlanRejectedError: E0801, a budget that is no finite number of at least 0, or no width.
    """
    if width < 1 or not (np.isfinite(budgets) & (budgets >= 0)).all():
        raise PlanRejectedError("E0801", "a budget or a window is no number that can be added up")
    if width == 1:
        return budgets
    exact = [ceil(epsilon * _FINE) for epsilon in budgets.tolist()]
    total = sum(exact[:width])
    sums = [total]
    for leaving, entering in zip(exact, exact[width:], strict=False):
        total += entering - leaving
        sums.append(total)
    rounded = {value: _float_up(Fraction(value, int(_FINE))) for value in set(sums)}
    return np.array([rounded[value] for value in sums])


def _float_up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else nextafter(near, inf)


def _all_up(a: Floats, b: Floats) -> Floats:
    """Sums of two arrays, rounded up where they are not exact."""
    total = a + b
    return np.where((total - a != b) | (total - b != a), np.nextafter(total, np.inf), total)
