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
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.gaps import FINE, coarse, enough_digits
from policyc.planning.leakage.losses import Losses, LossesLike, as_losses
from policyc.planning.leakage.repeats import patterns, stretches
from policyc_check.runs import Runs, enough

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Lags = int | Sequence[int]
Sum = Callable[[float, float], float]
Pass = Callable[[int, int, float], float]

_NEAR = 1e-14  # of leakage, by which it may differ and yet grow evenly
NOTHING = -1, 0.0  # before the first released step
CYCLE = 6  # periods; last digits may come back only every second or third one


def lag_set(lags: Lags) -> tuple[int, ...]:
    """The lags meant by `lags`: 1..K for an int K, else the given ones, and always 1."""
    chosen: Iterable[int] = range(1, lags + 1) if isinstance(lags, int) else lags
    result = tuple(sorted({1, *chosen}))
    if result[0] < 1:
        raise ValueError("a lag is at least 1 step")
    return result


def inherited(
    epsilons: Floats,
    side: Losses,
    lags: tuple[int, ...],
    pass_on: Pass,
    add: Sum,
    finish: Sum = lambda value, _: value,
    *,
    even: bool = False,
    digits: int = FINE,
    most: float = math.inf,
) -> tuple[Floats, Whole]:
    """Leakage at every step from the steps before it, B_t without the step's own budget; and the lag that bounds it.

    Lag 0: nothing was released before.

    Args:
        epsilons: (T,) budgets in the order of the recursion.
        side: gives the law for (step, lag).
        lags: sorted, beginning with 1.
        pass_on: (step, lag, leakage) -> bound on what passes from step - lag to step.
        add: sum of two leakages, rounded as the caller needs.
        finish: (bound, lag) -> the bound, with the room that the caller needs.
        even: whether steps between which leakage grows evenly may be passed over; a check would not follow.
        digits: of gaps that are kept between releases; from step to step leakage passes on through them as well.
        most: beyond which `pass_on` passes all on.
    """
    result, leaked = np.zeros(len(epsilons)), np.zeros(len(epsilons))  # without and with the step's own budget
    shown_by = np.zeros(len(epsilons), dtype=np.int64)
    budget = epsilons.item  # of a step; a list of all would cost more than the few steps that are looked at
    last = -1  # the last released step
    recent: deque[tuple[int, float]] = deque(maxlen=lags[-1])  # released steps that are looked at, and their budgets
    t = 0

    def bound_at(t: int, gap: int) -> tuple[float, int]:
        """The least bound, and its lag."""
        value, by, spent = math.inf, 0, 0.0
        step, nats = next(earlier := reversed(recent), NOTHING)
        for lag, way in _ways(lags, gap, FINE if budget(t) > 0 else digits):
            if lag > t:
                break
            while step > t - lag:
                spent = add(spent, nats)
                step, nats = next(earlier, NOTHING)
            if spent >= value:
                break
            bound = add(spent, pass_on(t, way, leaked.item(t - way)))
            if bound < value:
                value, by = finish(bound, way), way
        return value, by

    for end, period in stretches(epsilons):
        reach = max(period, lags[-1])  # how far back a step looks
        cycle = CYCLE * period
        same, grown, begin = 0, 0, t  # steps in a row that leaked as a cycle earlier; more by the budgets of a period
        spent = math.fsum(epsilons[end - period : end].tolist())
        while t < end:
            e = budget(t)
            value, by = bound_at(t, t - last) if last >= 0 else (0.0, 0)
            result[t], shown_by[t] = value, by
            leaked[t] = add(e, value)
            if e > 0:
                last = t
                recent.append((t, e))
            t += 1
            if not period:
                continue
            same = same + 1 if t - 1 - cycle >= begin and leaked[t - 1] == leaked[t - 1 - cycle] else 0
            grown = grown + 1 if even and t - 1 - period >= begin and _more(leaked, t - 1, period, spent) else 0
            if not 0 < t - last <= period:
                continue
            if same >= 2 * reach and t - 2 * reach - cycle >= side.settled:
                # All that a step looks at is what it was a cycle earlier, and stays so until the budgets change.
                length, more = cycle, 0.0
            elif (
                grown >= 2 * reach
                and t - 2 * reach >= side.settled
                and _whole(leaked, shown_by, t, period, side, lags, most)
            ):
                # All that was leaked is passed on, which is the most there is: each period adds its budgets.
                length, more = period, spent * (1 + _NEAR)
            else:
                continue
            _go_on((result, leaked, shown_by), t, end, length, more)
            t, last = end, next(step for step in range(end - 1, -1, -1) if budget(step) > 0)
            recent.clear()
            recent.extend((step, budget(step)) for step in range(max(0, end - lags[-1]), end) if budget(step) > 0)
    return result, shown_by


@lru_cache(maxsize=4096)
def _ways(lags: tuple[int, ...], gap: int, digits: int) -> list[tuple[int, int]]:
    """Lags that do not end inside a gap, and the lag by which each is bounded, sorted.

    Where the law over a gap is not looked at, by what the step before inherits, as nothing was released there.
    """
    every = [lag for lag in sorted({*lags, gap}) if lag >= gap]
    return [(lag, lag if lag in lags or coarse(lag, digits) == lag else 1) for lag in every]


def _more(leaked: Floats, t: int, period: int, spent: float) -> bool:
    """Whether step t leaked as much as the step one period earlier and what was spent since."""
    return abs(leaked.item(t) - leaked.item(t - period) - spent) <= _NEAR * leaked.item(t)


def _whole(
    leaked: Floats, shown_by: Whole, t: int, period: int, side: Losses, lags: tuple[int, ...], most: float
) -> bool:
    """Whether every lag that is looked at before step t passes on all that leaked, and will when that is more."""
    seen = {*lags, *shown_by[t - period : t].tolist()} - {0}
    least = {lag: float(leaked[t - 1 - lag : t].min()) for lag in seen}
    return all(nats > most or side.loss(t, lag).whole_from <= nats for lag, nats in least.items())


def _go_on(columns: tuple[Floats, Floats, Whole], t: int, end: int, length: int, more: float) -> None:
    """From step t to the end what was `length` steps earlier, with so much more in the columns of nats each time."""
    rounds = -(-(end - t) // length)
    for column, each in zip(columns, (more, more, 0), strict=True):
        again = column[t - length : t]
        grown = again + each * np.arange(1, rounds + 1)[:, None] if each else np.tile(again, rounds)
        column[t:end] = grown.ravel()[: end - t]


def checked(epsilons: ArrayLike) -> Floats:
    """Budgets as an array; ValueError for what are none."""
    array = np.asarray(epsilons, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError("budgets are a list, one number a step")
    if not (np.isfinite(array) & (array >= 0)).all():
        step = int(np.flatnonzero(~(np.isfinite(array) & (array >= 0)))[0])
        raise ValueError(f"the budget of step {step} is not a finite number of at least 0")
    return array


def _prior(epsilons: Floats, matrices: LossesLike, lags: Lags, digits: int = FINE, most: float = math.inf) -> Floats:
    side = as_losses(matrices)
    side.check_horizon(len(epsilons))

    def passed_on(t: int, lag: int, leaked: float) -> float:
        return side.loss(t, lag)(leaked) if leaked <= most else leaked

    return inherited(epsilons, side, lag_set(lags), passed_on, operator.add, even=True, digits=digits, most=most)[0]


def _posterior(
    epsilons: Floats, matrices: LossesLike, lags: Lags, digits: int = FINE, most: float = math.inf
) -> Floats:
    return _prior(epsilons[::-1], as_losses(matrices).reversed(), lags, digits, most)[::-1]


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
    within = np.array([math.fsum(budgets[t : t + width]) for t in range(len(budgets) - width + 1)])
    return np.asarray(before[: len(within)] + within + after[width - 1 :])


def both_sides(
    budgets: Floats, backward: LossesLike, forward: LossesLike, lags: Lags = 1, width: int = 0, most: float = math.inf
) -> tuple[Floats, Floats]:
    """What each step inherits from the steps before it, and from those after it, nats, (T,) each.

    With a `width` of 1, where that leaves the largest leakage about a step as it is, between releases a little more.
    Of leakage beyond `most` all is taken to be passed on: nobody asks by how much it is too large.
    """

    @cache  # what tells how many digits are enough is what is asked for
    def find(digits: int) -> tuple[Floats, Floats]:
        return _prior(budgets, backward, lags, digits, most), _posterior(budgets, forward, lags, digits, most)

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
    steps = enough([Runs(patterns(column)) for column in (budgets, before, after)], width)
    before, budgets, after = before[steps], budgets[steps], after[steps]
    within = [math.fsum(budgets[t : t + width].tolist()) for t in range(len(steps) - width + 1)]
    return float((before[: len(within)] + within + after[width - 1 :]).max())


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
