"""Releases that are as far apart as each other: what leaks at them follows from them alone.

Leakage passes from release to release through the law of the whole gap, so that a stream of its releases, one a step,
leaks the same at them. Between two of them less leaks as a rule; where it may be more, all steps are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.gaps import CLEARLY, FINE, MANY, looked_at
from policyc.planning.leakage.losses import Losses
from policyc_check.steps.chains import Law, Side

Floats = NDArray[np.float64]
Both = tuple[Losses, Losses]
Pattern = tuple[Sequence[float], int]  # budgets of some steps in a row, nats, and how often these come

_NUMBERS = 500_000  # that are looked at: of steps between releases, about
_DIGITS = 2, FINE  # of gaps, for which laws are looked at


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
    if every == 1 or every not in lags or any(lag % every for lag in longer) or any(side.settled for side in losses):
        return None
    if len(losses[0].loss(1, 1).matrix) >= MANY:  # of which a law more takes longer than many steps
        return None
    for side in losses:
        if every not in side.spaced:
            side.spaced[every] = Losses(_Spaced(side.side, every), every * side.row_tolerance)
    return (losses[0].spaced[every], losses[1].spaced[every]), tuple(lag // every for lag in longer)


def less_between(budgets: Floats, sides: tuple[Floats, Floats], losses: Both, every: int) -> bool:
    """Whether clearly less leaks between releases than at one of them.

    Args:
        budgets: of the releases, nats, (R,).
        sides: what they inherit from before and after, nats, (R,) each.
        losses: of steps, of both directions.
        every: steps from a release to the next one.
    """
    before, after = sides
    most = float((before + budgets + after).max())
    past, future = (budgets + before)[:-1], (budgets + after)[1:]
    order = np.lexsort((-future, -past))  # of two gaps one matters less if less leaks at both its ends
    past, future = past[order], future[order]
    some = np.flatnonzero(future > np.maximum.accumulate(np.concatenate([[-1.0], future[:-1]])))
    few = max(1, _NUMBERS // every)
    begins = some[:: max(1, -(-len(some) // few))]  # of several in a row, what leaks at least as much as each
    past, future = past[begins], np.maximum.reduceat(future, begins) if len(some) else future[some]
    for digits in _DIGITS:
        since, until = (_fading(side, at, every, digits) for side, at in zip(losses, (past, future), strict=True))
        if (since + until[::-1]).max(initial=0.0) <= most * (1 - CLEARLY):
            return True
    return False


def _fading(side: Losses, leaked: Floats, every: int, digits: int) -> Floats:
    """What 1, ..., `every` - 1 steps after releases that leaked so much is left, at most, nats, (every - 1, R)."""
    found = np.empty((every - 1, len(leaked)))
    for gap in range(1, every):
        whole = looked_at(gap, every - gap, digits)
        found[gap - 1] = side.loss(gap, gap)(leaked) if whole else side.loss(1, 1)(found[gap - 2])
    return found
