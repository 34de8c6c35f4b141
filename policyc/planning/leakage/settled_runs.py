"""Long runs of repeating budgets by a stretch of them: leakage settles after some steps, and stays while they repeat.

What a step inherits follows from the last few steps. Where those of one round are, to the last bit, those of the round
before, so are all later ones: a run that is shorter by whole rounds leaks the same at its steps, just less often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.losses import Losses, LossesLike, as_losses
from policyc.planning.leakage.one_side import CYCLE, patience
from policyc.planning.leakage.recursion import Lags, both_sides, checked, lag_set, largest_of
from policyc.planning.leakage.repeats import patterns
from policyc.planning.leakage.spaced import Both, Pattern, largest_between, less_between, spaced

Floats = NDArray[np.float64]
Sides = tuple[Floats, Floats]  # what each step inherits from before, and from after, nats, (T,) each

KEPT = 4_096  # steps of a long run at least, about
_THIRDS = 3.25  # of a run that is kept: in the first leakage settles, and in either direction
_TRIES = 3  # each of four times as many steps, or as many as leakage was seen to need


def along(
    runs: Sequence[Pattern], reach: int, losses: Sequence[Losses], find: Callable[[Floats], Sides]
) -> tuple[Floats, Sides]:
    """Budgets of steps that stand for all steps of these runs, and what they inherit.

    Args:
        runs: one after the other.
        reach: how many steps in a row are looked at together: of a window, or before a step.
        losses: by which leakage passes on, in both directions.
        find: what steps of given budgets, (T,), inherit; it goes by so many steps before and after at most.
    """
    settled = max(side.settled for side in losses)
    kept = KEPT
    for _ in range(_TRIES if settled < math.inf else 0):
        kept = max(kept, _needed(runs, reach, losses))
        shorter = [(pattern, _rounds(pattern, repeats, kept)) for pattern, repeats in runs]
        if shorter == list(runs):
            break
        if all(_seen(run, few, reach, settled) for run, few in zip(runs, shorter, strict=True)):
            budgets = _expanded(shorter)
            found = find(budgets)
            if _stay(runs, shorter, found):
                return budgets, found
        kept *= 4
    budgets = _expanded(runs)
    return budgets, find(budgets)


def largest_leakage(
    epsilons: ArrayLike,
    backward: LossesLike,
    forward: LossesLike,
    width: int,
    lags: Lags = 1,
    most: float = math.inf,
) -> float:
    """The largest entry of `window_leakage`, of which those are looked at that are not like others.

    Of what is more than `most` nats something that is more.
    """
    budgets, sides = checked(epsilons), (as_losses(backward), as_losses(forward))

    def find(some: Floats, losses: Both, lags: Lags) -> Sides:
        return both_sides(some, *losses, lags, width, most, ahead=True)

    settled = max(side.settled for side in sides)
    if len(budgets) <= 2 * KEPT or settled == math.inf:
        return largest_of(budgets, find(budgets, sides, lags), width)
    at = np.flatnonzero(budgets)
    gaps = set(np.diff(at).tolist())
    if len(gaps) == 1 and (between := spaced(sides, lag_set(lags), every := gaps.pop())) is not None:
        released, told = _followed(budgets[at], *between, width // every + 2, find)
        if width == 1 and (
            (largest := largest_of(released, told, 1)) > most or less_between(released, told, sides, every)
        ):
            return largest
        return largest_between(released, told, sides, every, width)
    return largest_of(*_followed(budgets, sides, lag_set(lags), width, find), width)


def _followed(
    budgets: Floats, losses: Both, lags: tuple[int, ...], width: int, find: Callable[[Floats, Both, Lags], Sides]
) -> tuple[Floats, Sides]:
    """Budgets that stand for these, and what they inherit."""
    runs, start, reach = [], 0, max(width, *lags)
    for size, repeats in patterns(budgets):
        runs.append((budgets[start : start + size].tolist(), repeats))
        start += size * repeats
        reach = max(reach, size if repeats > 1 else 1)
    return along(runs, reach, losses, lambda some: find(some, losses, lags))


def _needed(runs: Sequence[Pattern], reach: int, losses: Sequence[Losses]) -> int:
    """Steps of a run that are enough where leakage settles as it was seen to, or as soon as is looked for it."""
    periods = [len(pattern) for pattern, repeats in runs if repeats > 1]
    waits = [int(max(side.settled for side in losses)) + patience(period, reach) + 2 * period for period in periods]
    seen = [side.settles.get(period, 0) for side in losses for period in periods]
    return math.ceil(_THIRDS * max([0, *waits, *seen]))


def _rounds(pattern: Sequence[float], repeats: int, kept: int) -> int:
    """How many rounds of a run stand for all: of many, so few that whole cycles are left out."""
    cycles = (repeats - kept // len(pattern)) // CYCLE
    return repeats - CYCLE * cycles if cycles > 0 and repeats * len(pattern) > 2 * kept else repeats


def _expanded(runs: Sequence[Pattern]) -> Floats:
    return np.concatenate([np.tile(np.asarray(pattern, dtype=np.float64), repeats) for pattern, repeats in runs])


def _seen(run: Pattern, shorter: Pattern, reach: int, settled: float) -> bool:
    """Whether a run that was cut is long enough for it to be seen whether what is inherited settles."""
    (pattern, repeats), (_, kept) = run, shorter
    third = kept * len(pattern) // 3
    return kept == repeats or third >= max(2 * (CYCLE * len(pattern) + reach + len(pattern)), settled + reach)


def _stay(runs: Sequence[Pattern], shorter: Sequence[Pattern], found: Sides) -> bool:
    """Whether what is inherited from either side has settled by the last two thirds of every run that was cut."""
    begin = 0
    for (_, repeats), (pattern, kept) in zip(runs, shorter, strict=True):
        end = begin + kept * len(pattern)
        third, cycle = (end - begin) // 3, CYCLE * len(pattern)
        if kept < repeats:
            past, future = found[0][begin + third : end], found[1][begin : end - third]
            if not all(np.array_equal(side[cycle:], side[:-cycle]) for side in (past, future)):
                return False
        begin = end
    return True
