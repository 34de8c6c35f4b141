"""What steps inherit, proposed a few roundings too large and accepted by the check: what schedules are held against.

The hull gives every number; `policyc_check.steps.inheritance` decides by inequalities between them, without search. The
numbers that were accepted go into the plan.

Source: CAO17 (Theorem 2 for windows)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.gaps import FINE, enough_digits
from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.losses import Losses, LossesLike, as_losses, losses_of
from policyc.planning.leakage.pairs import most_spent, settled
from policyc.planning.leakage.recursion import Lags, inherited, lag_set
from policyc.planning.leakage.repeats import patterns
from policyc.planning.leakage.stretches import followed
from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import Inheritance, InheritedRun
from policyc_check.rounding import UNIT, roundings
from policyc_check.runs import Runs, enough
from policyc_check.steps.budgets import window_sums
from policyc_check.steps.chains import Chain, Law, Side
from policyc_check.steps.inheritance import GroupLeakage, audited_leakage, require_shown

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Shown = tuple[Floats, Whole]  # what steps inherit, and by which lags that is shown
Both = Chain | tuple[LossesLike, LossesLike]

_SMALLEST = 1e-290
_ROUNDS = 200  # around a repeating pattern
_RAISES = 60  # of numbers whose inequality is not shown, each twice as far


def accepted_inheritance(
    budgets: ArrayLike, chain: Both, lags: Lags = 1, *, endless: bool, digits: int = FINE
) -> tuple[Shown, Shown]:
    """What every step inherits from before and from after, in the order of time, as the check accepts it.

    Args:
        budgets: nats, (T,), 0 for no release; of an endless stream, one period.
        chain: the chain, or (backward, forward) in any form that `total_leakage` takes.
        lags: as in `total_leakage`.
        endless: whether the budgets repeat for ever.
        digits: of gaps that are kept, of a stream that ends.

    Returns:
        of every step; of an endless stream, of a period; where its law moves at first, of so many periods that the last
        one stands for all later ones.

    Raises:
        PlanRejectedError: E0801, none is accepted, naming the step.
    """
    array, (backward, forward) = _checked(budgets), _both(chain)
    if endless and backward.settled == math.inf:
        raise PlanRejectedError("E0801", "an endless stream needs a chain whose law is seen to settle")
    find = _around if endless else partial(_along, digits=digits)
    nats, by = find(array[::-1], forward.reversed(), lag_set(lags), "after")
    if not endless or not backward.settled:
        return find(array, backward, lag_set(lags), "before"), (nats[::-1], by[::-1])
    before = _settling(array, backward, lag_set(lags))
    return before, (np.resize(nats[::-1], len(before[0])), np.resize(by[::-1], len(before[0])))


def _checked(budgets: ArrayLike) -> Floats:
    array = np.asarray(budgets, dtype=np.float64)
    if array.ndim != 1 or not (np.isfinite(array) & (array >= 0)).all():
        raise PlanRejectedError("E0801", "a budget is not a finite number of at least 0")
    return array


def _both(chain: Both) -> tuple[Losses, Losses]:
    return losses_of(chain) if isinstance(chain, Chain) else (as_losses(chain[0]), as_losses(chain[1]))


def audited_group(
    budgets: ArrayLike, chain: Both, lags: Lags = 1, *, endless: bool = False, digits: int = FINE
) -> GroupLeakage:
    """What releases of these budgets tell about the users of one chain; arguments and errors as above."""
    before, after = accepted_inheritance(budgets, chain, lags, endless=endless, digits=digits)
    return GroupLeakage(np.resize(np.asarray(budgets, dtype=np.float64), len(before[0])), before[0], after[0], endless)


def shown_by_pairs(
    chain: Chain,
    budgets: Floats,
    *,
    endless: bool,
    group: str | None = None,
    horizon: int | None = None,
) -> tuple[Inheritance, GroupLeakage] | None:
    """What pairs of states show of budgets, and how, as the check accepts it; None for nothing.

    Args:
        chain: how users move.
        budgets: of all steps, or of one period of an endless stream, nats, (T,).
        endless: whether they repeat for ever.
        group: of users.
        horizon: steps, of which these budgets stand for all; default as many as there are.
    """
    if chain.states == 1:  # no two values to tell apart
        return None
    inside, ends = most_spent(budgets, endless=endless)
    earlier = None if endless else (horizon or len(budgets)) - 1
    found = settled(chain, inside, ends, earlier)
    if found is None:
        return None
    along = None if earlier is None else followed(chain, (ends[0], inside, ends[1]), earlier)
    for pairs in (None if along is None else along.stated(), found.stated):
        with suppress(PlanRejectedError):
            if pairs is not None:
                entry = Inheritance(group=group, before=(), after=(), pairs=pairs)
                sides = chain.backward_side(), chain.forward_side()
                return entry, audited_leakage(entry, budgets, *sides, endless=endless, horizon=horizon or 0)
    return None


def audited_total_leakage(
    epsilons: ArrayLike, chain: Both, lags: Lags = 1, width: int = 1, most: float = math.inf
) -> Floats:
    """An upper bound of the leakage of every window of `width` steps, in nats, (max(1, T - width + 1),).

    Width 1 is the total leakage of every step; a window longer than the horizon is the sum of all budgets. Where it is
    more than `most` somewhere, nothing is shown: nobody accepts it.
    """
    if most < math.inf and (proposed := proposed_total_leakage(epsilons, chain, lags, width)).max() > most:
        return proposed
    return audited_group(epsilons, chain, lags).windows(width)


def proposed_total_leakage(epsilons: ArrayLike, chain: Both, lags: Lags = 1, width: int = 1) -> Floats:
    """The same number for number, before anything is shown of it."""
    return proposed_group(epsilons, chain, lags).windows(width)


def proposed_group(epsilons: ArrayLike, chain: Both, lags: Lags = 1, *, digits: int = FINE) -> GroupLeakage:
    """What is shown by `audited_group`, before it is."""
    budgets, (backward, forward) = _checked(epsilons), _both(chain)
    (before, _), (after, _) = (
        _recursion(row, side, lag_set(lags), digits)
        for row, side in ((budgets, backward), (budgets[::-1], forward.reversed()))
    )
    return GroupLeakage(budgets, before, after[::-1], endless=False)


def digits_for(budgets: Floats, chain: Chain, lags: Lags = 1) -> int:
    """How many digits of gaps are kept where only the largest leakage about a step of a stream that ends is asked."""

    def find(digits: int) -> tuple[Floats, Floats]:
        found = proposed_group(budgets, chain, lags, digits=digits)
        return found.before, found.after

    return enough_digits(budgets, losses_of(chain), lag_set(lags), find)


def audited_stationary_leakage(pattern: float | Sequence[float], chain: Both, lags: Lags = 1, width: int = 1) -> float:
    """An upper bound of the leakage of every window of an endless stream with repeating budgets; inf for none."""
    budgets = [pattern] if isinstance(pattern, int | float) else [float(epsilon) for epsilon in pattern]
    window_sums(np.array(budgets), 1)
    return audited_group(budgets, chain, lags, endless=True).largest(width)[0]


def stated_inheritance(group: str | None, before: Shown, after: Shown) -> Inheritance:
    """As the plan says it."""
    return Inheritance(group=group, before=_runs(*before), after=_runs(*after))


def _runs(nats: Floats, by: Whole) -> tuple[InheritedRun, ...]:
    """Patterns that repeat, one after the other."""
    runs, start = [], 0
    for size, repeats in patterns(nats + 1j * by):  # one number for each number and its lag
        columns = nats[start : start + size], by[start : start + size]
        runs.append(InheritedRun(nats=tuple(columns[0].tolist()), lags=tuple(columns[1].tolist()), repeats=repeats))
        start += size * repeats
    return tuple(runs)


def _along(budgets: Floats, side: Losses, lags: tuple[int, ...], where: str, digits: int) -> Shown:
    """Of a stream that ends, in the order of the recursion."""
    side.check_horizon(len(budgets))
    nats, by = _recursion(budgets, side, lags, digits)
    lag, columns = int(by.max(initial=1)), (nats, by.astype(np.float64), budgets)
    steps = enough([Runs(patterns(column)) for column in columns], lag + 1, side.settled + lag)
    require_shown(nats[steps], by[steps], budgets[steps], side.side, where, endless=False)
    return nats, by


def _recursion(budgets: Floats, side: Losses, lags: tuple[int, ...], digits: int = FINE) -> Shown:
    def passed_on(t: int, lag: int, leaked: float) -> float:
        return _proposed(side.loss(t, lag), leaked)

    return inherited(budgets, side, lags, passed_on, _up, _with_room, digits=digits)


def _with_room(bound: float, lag: float) -> float:
    """What is left of a sum of several steps' budgets loses a rounding or two."""
    return bound if lag == 1 else math.nextafter(math.nextafter(bound, math.inf), math.inf)


def _around(budgets: Floats, side: Losses, lags: tuple[int, ...], where: str) -> Shown:
    """Of a period, however often it went before; inf where no bound is known.

    Over k whole periods, which cost k times the pattern's sum whatever the path, a leakage B with k sum + L(B) <= B is
    never exceeded at a release: at first nothing is inherited, and every later release inherits at most L(B). From
    there each release bounds the next one through the chain over the gap, round and round, and whatever is reached
    holds too.
    """
    pattern, period = budgets.tolist(), len(budgets)
    releases = [step for step in range(period) if pattern[step] > 0]
    if not releases:
        return np.zeros(period), np.zeros(period, dtype=np.int64)
    total = 0.0
    for epsilon in pattern:
        total = _up(total, epsilon)
    periods = sorted({1, *(lag // period for lag in lags if lag % period == 0)})
    limits = {k: side.loss(0, k * period).supremum(k * total) for k in periods}
    best = min(periods, key=lambda k: limits[k])
    if limits[best] == math.inf:
        return np.full(period, math.inf), np.full(period, best * period)
    last_of = {step: max((r for r in releases if r < step), default=releases[-1]) for step in range(period)}
    by = np.array([(step - last_of[step] - 1) % period + 1 for step in range(period)], dtype=np.int64)
    leaked = dict.fromkeys(releases, limits[best])
    lowered: set[int] = set()
    for _ in range(_ROUNDS if len(releases) > 1 else 0):
        falling = False
        for step in releases:
            value = _up(pattern[step], _proposed(side.loss(step, int(by[step])), leaked[last_of[step]]))
            falling |= value < leaked[step] * (1 - 1e-13)
            if value < leaked[step]:
                leaked[step] = value
                lowered.add(step)
        if not falling:
            break
    nats = np.zeros(period)
    for step in range(period):
        if pattern[step] > 0 and step not in lowered:
            by[step] = best * period
        if pattern[step] > 0:
            nats[step] = math.nextafter(leaked[step] - pattern[step], math.inf)
        else:
            nats[step] = _proposed(side.loss(step, int(by[step])), leaked[last_of[step]])
    return _raised(nats, by, budgets, side, where)


class _Settled(Side):
    """A side from the step on from which its laws stay what they are."""

    settled = 0.0

    def __init__(self, side: Side) -> None:
        self._side, self._from = side, int(side.settled)

    def law(self, step: int, lag: int) -> Law:  # noqa: ARG002  the same at every step
        return self._side.law(self._from + lag, lag)


def _settling(budgets: Floats, side: Losses, lags: tuple[int, ...]) -> Shown:
    """Of a period that repeats for ever while the law settles: of the first rounds, and of one that stays."""
    period, settled = len(budgets), Losses(_Settled(side.side))
    limit, by = _around(budgets, settled, lags, "before")
    if not budgets.any() or not np.isfinite(limit).all():
        return limit, by
    reach = -(-max(int(by.max()), lags[-1]) // period)
    rounds = -(-int(side.settled) // period) + 2 * reach + 1
    first = _recursion(np.tile(budgets, rounds), side, lags)
    latest = first[0][-reach * period :].reshape(reach, period).max(axis=0)
    limit, by = _raised(np.maximum(limit, latest), by, budgets, settled, "before")
    nats, by = np.concatenate([first[0], limit]), np.concatenate([first[1], by])
    if np.isfinite(limit).all():
        require_shown(nats, by, budgets, side.side, "before", endless=True)
    return nats, by


def _raised(nats: Floats, by: Whole, budgets: Floats, side: Losses, where: str) -> Shown:
    """Numbers around a period, raised until every inequality is shown; inf where none are found."""
    period, wide = len(budgets), int(by.max())
    rounds = np.resize(budgets, period + wide)
    spent = {lag: window_sums(rounds, lag - 1) for lag in set(by.tolist()) if lag > 1}
    for doubling in range(_RAISES):
        needed = np.empty(period)
        for step, lag in enumerate(by.tolist()):
            origin = (step - lag) % period
            passed_on = _proposed(side.loss(step + lag, lag), _up(float(budgets[origin]), float(nats[origin])))
            between = float(spent[lag][(step - lag + 1) % period]) if lag > 1 else 0.0
            needed[step] = _with_room(_up(between, passed_on), lag)
        short = needed - nats
        if (short <= 0).all():
            require_shown(nats, by, budgets, side.side, where, endless=True)
            return nats, by
        nats = np.maximum(nats, np.where(short > 0, np.maximum(needed, nats + 2.0**doubling * short), nats))
    return np.full(period, math.inf), by


def _proposed(loss: LossFunction, leakage: float) -> float:
    """L(leakage), lifted above what roundings may hide: relative errors e in q and d change it by at most 2 e."""
    if leakage < _SMALLEST:
        return leakage  # L(a) <= a needs no audit, and nothing smaller can be rounded with care
    value = loss(leakage) * _outward(len(loss.matrix))
    if loss.relative_error:
        value += 2.02 * (loss.relative_error + 8 * UNIT) * -math.expm1(-leakage)
    return min(leakage, value)


@cache
def _outward(width: int) -> float:
    """The factor that lifts a proposed value just above what rounding against us takes from it in the audit."""
    return 1 + (2 * roundings(width) + 64) * UNIT


def _up(a: float, b: float) -> float:
    total = a + b
    return math.nextafter(total, math.inf) if total - a != b or total - b != a else total
