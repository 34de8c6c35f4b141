"""Leakage of a schedule of budgets: what all releases together tell about one step.

Backward leakage obeys B_t <= (last k budgets) + L(B_{t-k}) for every lag k, where L belongs to the law of the state k
steps back given today's; the smallest bound is taken. k = 1 is the paper's recursion. Forward leakage is the same, run
from the end. A step without release (epsilon 0) passes on what the last released step leaked, through the law of the
whole gap: L is never composed over steps in which nothing was released.

Source: CAO17 for k = 1. Larger lags are ours.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.gaps import FINE, enough_digits
from policyc.planning.leakage.losses import LossesLike, as_losses
from policyc.planning.leakage.one_side import Told, inherited, told_together
from policyc_check.steps.budgets import window_sums

Floats = NDArray[np.float64]
Lags = int | Sequence[int]

PIECE = 2**16  # windows whose sums are added up at a time: whole numbers take memory


def lag_set(lags: Lags) -> tuple[int, ...]:
    """The lags meant by `lags`: 1..K for an int K, else the given ones, and always 1."""
    chosen: Iterable[int] = range(1, lags + 1) if isinstance(lags, int) else lags
    result = tuple(sorted({1, *chosen}))
    if result[0] < 1:
        raise ValueError("a lag is at least 1 step")
    return result


def checked(epsilons: ArrayLike) -> Floats:
    """Budgets as an array; ValueError for what are none."""
    array = np.asarray(epsilons, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError("budgets are a list, one number a step")
    if not (np.isfinite(array) & (array >= 0)).all():
        step = int(np.flatnonzero(~(np.isfinite(array) & (array >= 0)))[0])
        raise ValueError(f"the budget of step {step} is not a finite number of at least 0")
    return array


def _prior(
    epsilons: Floats,
    matrices: LossesLike,
    lags: Lags,
    digits: int = FINE,
    most: float = math.inf,
    ahead: list[Told] | None = None,
) -> Floats:
    side = as_losses(matrices)
    side.check_horizon(len(epsilons))

    def passed_on(t: int, lag: int, leaked: float) -> float:
        return side.loss(t, lag)(leaked) if leaked <= most else leaked

    way = partial(inherited, even=True, ahead=ahead, digits=digits, most=most)
    return way(epsilons, side, lag_set(lags), passed_on, operator.add)[0]


def _posterior(epsilons: Floats, matrices: LossesLike, lags: Lags) -> Floats:
    return _prior(epsilons[::-1], as_losses(matrices).reversed(), lags)[::-1]


def backward_leakage(epsilons: ArrayLike, backward: LossesLike, lags: Lags = 1) -> Floats:
    """Leakage of each step through the releases up to it (BPL), in nats, shape (T,).

    Args:
        epsilons: shape (T,), budget of each step; 0 is no release.
        backward: law of the state before given the state now: (n, n), or (T - 1, n, n) with entry t - 1 between steps
            t - 1 and t, or a side of a `Chain`, or None for no correlation.
        lags: K for lags 1..K, or particular lags; 1 is the paper's recursion.

    Source: CAO17.
    """
    budgets = checked(epsilons)
    return budgets + _prior(budgets, backward, lags)


def forward_leakage(epsilons: ArrayLike, forward: LossesLike, lags: Lags = 1) -> Floats:
    """Leakage of each step through its own and later releases (FPL), in nats, shape (T,).

    Args:
        epsilons: as in `backward_leakage`.
        forward: law of the state after given the state now, in the same forms.
        lags: as in `backward_leakage`.

    Source: CAO17.
    """
    budgets = checked(epsilons)
    return budgets + _posterior(budgets, forward, lags)


def total_leakage(epsilons: ArrayLike, backward: LossesLike, forward: LossesLike, lags: Lags = 1) -> Floats:
    """Leakage of each step through all releases (TPL = BPL + FPL - epsilon), in nats, shape (T,).

    Source: CAO17.
    """
    return window_leakage(epsilons, backward, forward, 1, lags)


def window_leakage(
    epsilons: ArrayLike, backward: LossesLike, forward: LossesLike, width: int, lags: Lags = 1
) -> Floats:
    """Leakage of each window of `width` steps through all releases, in nats, shape (T - width + 1,).

    Width 1 is the total leakage of a step, width T the sum of all budgets (user level).

    Source: CAO17, Theorem 2.
    """
    budgets = checked(epsilons)
    if not 1 <= width <= max(1, len(budgets)):
        raise ValueError(f"a window has between 1 and {len(budgets)} steps, not {width}")
    before = _prior(budgets, backward, lags)
    after = _posterior(budgets, forward, lags)
    if width == 1:
        return before + budgets + after
    return _in_windows(budgets, (before, after), width)


def both_sides(
    budgets: Floats,
    backward: LossesLike,
    forward: LossesLike,
    lags: Lags = 1,
    width: int = 0,
    most: float = math.inf,
    *,
    ahead: bool = False,
) -> tuple[Floats, Floats]:
    """What each step inherits from the steps before it, and from those after it, nats, (T,) each.

    `ahead`: the largest is asked, so that others may be told to inherit as much before they do; see `inherited`. With
    a `width` of 1, where that leaves the largest leakage about a step as it is, between releases a little more.
    Of leakage beyond `most` all is taken to be passed on: nobody asks by how much it is too large.
    """

    @cache  # what tells how many digits are enough is what is asked for
    def find(digits: int) -> tuple[Floats, Floats]:
        rows = (budgets, as_losses(backward)), (budgets[::-1], as_losses(forward).reversed())
        ways = [partial(_prior, row, side, lags, digits, most) for row, side in rows]
        before, after = told_together(len(budgets), ways) if ahead else (ways[0](), ways[1]())
        return before, after[::-1]

    if width != 1:
        return find(FINE)
    sides = as_losses(backward), as_losses(forward)
    if most == math.inf:  # what is stated follows from the budgets alone
        return find(enough_digits(budgets, sides, lag_set(lags), find))
    released = (budgets > 0).tobytes()
    least = sides[0].digits.get(released, 0)  # a search: what was too few for other budgets at these steps
    digits = enough_digits(budgets, sides, lag_set(lags), find, least, most)
    sides[0].digits[released] = digits
    return find(digits)


def largest_of(budgets: Floats, sides: tuple[Floats, Floats], width: int) -> float:
    """The largest leakage about `width` steps in a row that inherit so much."""
    before, after = sides
    if width == 1:
        return float((before + budgets + after).max())
    return float(_in_windows(budgets, sides, width).max())


def _in_windows(budgets: Floats, sides: tuple[Floats, Floats], width: int) -> Floats:
    """What leaks about every `width` steps in a row that inherit so much; piece by piece, as sums are exact."""
    before, after = sides
    first = range(0, len(budgets) - width + 1, PIECE)
    spent = np.concatenate([window_sums(budgets[begin : begin + PIECE + width - 1], width) for begin in first])
    return np.asarray(before[: len(spent)] + spent + after[width - 1 :])


def supremum(epsilon: float, matrices: LossesLike, lags: Lags = 1, most: float = math.inf) -> float:
    """Leakage that a constant budget never exceeds on one side, however many steps; inf where no such bound is known.

    Where the law depends on the step, the steps until it settles are followed one by one. Of what is more than `most`
    something that is more.

    Source: CAO17 for lag 1, in closed form.
    """
    side, chosen = as_losses(matrices), lag_set(lags)
    if side.settled == math.inf:
        return math.inf
    settled = int(side.settled)
    limit = min(side.loss(settled + k, k).supremum(k * epsilon, most) for k in chosen)
    if settled == 0 or limit == math.inf:
        return limit
    return max(limit, float(backward_leakage(np.full(settled + chosen[-1] + 1, epsilon), side, chosen).max()))


def largest_constant_budget(bound: float, matrices: LossesLike, lags: Lags = 1) -> float:
    """The largest constant budget that keeps the leakage of one side within `bound` for ever: max_k (b - L_k(b)) / k.

    Source: CAO17 for lag 1.
    """
    side, chosen = as_losses(matrices), lag_set(lags)
    if side.settled == math.inf:
        return 0.0
    settled = int(side.settled)
    steps = range(1, settled + 1) if settled else ()
    limit = max((bound - side.loss(settled + k, k)(bound)) / k for k in chosen)
    early = (max((bound - side.loss(t, k)(bound)) / k for k in chosen if k <= t) for t in steps)
    return min([limit, *early])
