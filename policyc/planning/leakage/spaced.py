"""Releases that are as far apart as each other: what leaks at them follows from them alone.

Leakage passes from release to release through the law of the whole gap, so that a stream of its releases, one a step,
leaks the same at them. Between two of them less leaks as a rule; where it may be more, all steps are looked at. Of
several steps in a row the first inherits what has faded since a release, and the last what will fade until one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.gaps import CLEARLY, FINE, MANY, looked_at
from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.losses import Losses
from policyc_check.steps.budgets import window_sums
from policyc_check.steps.chains import Law, Side

Floats = NDArray[np.float64]
Both = tuple[Losses, Losses]
PassEach = Callable[[LossFunction, Floats], Floats]
Pattern = tuple[Sequence[float], int]  # budgets of some steps in a row, nats, and how often these come

_NUMBERS = 500_000  # that are looked at: of steps between releases, about
_FEW = 2  # digits of gaps, for which laws are looked at where that is enough
_SUMS = 64  # different ones, of which each is looked at by itself
_FEWER = 0.9  # of what is left, which is looked through again as long as no more stay


class _Spaced(Side):
    """The laws from release to release, so many steps apart, of a law that does not depend on the step."""

    settled = 0.0

    def __init__(self, side: Side, every: int) -> None:
        self._side, self._every = side, every

    def law(self, step: int, lag: int) -> Law:
        """Of the release `lag` releases back."""
        return self._side.law(step, lag * self._every)


def releases_of(runs: Sequence[Pattern]) -> tuple[list[Pattern], int] | None:
    """The budgets of releases alone, and how many steps one is after another; None where these are not as many."""
    released = [run for at, run in enumerate(runs) if at or any(run[0])]
    every = len(released[0][0]) if released else 0
    for at, (pattern, repeats) in enumerate(released):
        last = at == len(released) - 1 and repeats == 1
        if not pattern[0] or any(pattern[1:]) or not (last or len(pattern) == every):
            return None
    return ([((pattern[0],), repeats) for pattern, repeats in released], every) if released else None


def spaced(losses: Both, lags: Sequence[int], every: int) -> tuple[Both, tuple[int, ...]] | None:
    """The laws and the lags from release to release; None where what leaks at releases does not follow from them.

    Args:
        losses: of both directions.
        lags: of steps, sorted, with 1.
        every: steps from a release to the next one.
    """
    longer = [lag for lag in lags if lag >= every]
    if every == 1 or lags[1:2] != (every,) or any(lag % every for lag in longer) or any(s.settled for s in losses):
        return None
    if len(losses[0].loss(1, 1).matrix) >= MANY:  # of which a law more takes longer than many steps
        return None
    for side in losses:
        if every not in side.spaced:
            side.spaced[every] = Losses(_Spaced(side.side, every), every * side.row_tolerance)
    return (losses[0].spaced[every], losses[1].spaced[every]), tuple(lag // every for lag in longer)


def less_between(budgets: Floats, sides: tuple[Floats, Floats], losses: Both, every: int) -> bool:
    """Whether clearly less leaks between releases than at one, as few laws show. Arguments as of `largest_between`."""
    before, after = sides
    enough = float((before + budgets + after).max()) * (1 - CLEARLY)
    return largest_between(budgets, sides, losses, every, 1, _FEW, begin=1) <= enough


def largest_between(
    budgets: Floats,
    sides: tuple[Floats, Floats],
    losses: Both,
    every: int,
    width: int,
    digits: int = FINE,
    pass_on: PassEach = LossFunction.__call__,
    begin: int = 0,
) -> float:
    """The largest leakage about `width` steps in a row, nats, of a stream that has at least so many.

    Args:
        budgets: of the releases, nats, (R,).
        sides: what they inherit from before and after, nats, (R,) each.
        losses: of steps, of both directions.
        every: steps from a release to the next one.
        width: steps.
        digits: of gaps between releases, for which the law is looked at.
        pass_on: a bound on what passes on of leakages, (n,).
        begin: steps after a release at which the first of these steps may be, at least.
    """
    ends = (width - 1) // every + 2  # steps beyond the stream's tell nothing, and of steps in a row those within do
    spent, before, after = (np.pad(each, ends) for each in (budgets, *sides))
    past, future = spent + before, spent + after
    later = np.arange(begin, every) + (width - 1)  # of the last step: steps after the release at or before the first
    most = 0.0
    for releases in np.unique(-(-later // every)).tolist():  # from that one to the one at or after the last step
        since = begin + np.flatnonzero(-(-later // every) == releases)
        count = len(spent) - releases
        between = -spent if releases == 0 else np.zeros(count)
        if releases > 1:
            between = window_sums(spent[1:-1], releases - 1)
        kept = _undominated(np.stack([past[:count], between, future[releases:]]), max(1, _NUMBERS // every))
        faded = _fading(losses[0], kept[0], since[-1], every, digits, pass_on)[since]
        until = releases * every - (since + width - 1)
        faded += kept[1] + _fading(losses[1], kept[2], until[0], every, digits, pass_on)[until]
        most = max(most, float(faded.max(initial=0.0)))
    return most


def _undominated(found: Floats, few: int) -> Floats:
    """Of columns, (3, n), those that no other is at least as large as; of many, so few as are as large as all of them.

    Of those with one sum between, which are all where budgets repeat, exactly; of others as long as it leaves fewer.
    """
    found = found[:, np.lexsort((-found[2], -found[0], -found[1]))]
    others = np.flatnonzero(np.diff(found[1])) + 1
    if len(others) < _SUMS:
        parts = np.split(found, others, axis=1)
        found = np.hstack([part[:, part[2] > _before(np.maximum.accumulate(part[2]))] for part in parts])
    kept, left, size = list[Floats](), found, math.inf
    while 0 < left.shape[1] < _FEWER * size:
        size, largest = left.shape[1], left[:, left.sum(axis=0).argmax(), None]
        kept.append(largest)
        left = left[:, (left > largest).any(axis=0)]
    left = np.hstack([*kept, left])
    if left.shape[1] <= few:
        return left
    left = left[:, np.lexsort((-left[0], -left[1]))]
    return np.maximum.reduceat(left, np.arange(0, left.shape[1], -(-left.shape[1] // few)), axis=1)


def _before(row: Floats) -> Floats:
    """What stands before each, and before the first what is less than all."""
    return np.concatenate([[-np.inf], row[:-1]])


def _fading(side: Losses, leaked: Floats, steps: int, every: int, digits: int, pass_on: PassEach) -> Floats:
    """What 0, 1, ..., `steps` steps after releases that leaked so much is left, at most, nats, (steps + 1, R)."""
    found = np.empty((steps + 1, len(leaked)))
    found[0] = leaked
    for gap in range(1, steps + 1):
        whole = looked_at(gap, every - gap, digits)
        found[gap] = pass_on(side.loss(gap, gap), leaked) if whole else pass_on(side.loss(1, 1), found[gap - 1])
    return found
