"""Limits on what steps may spend together, whatever the correlation: budgets are cut at a level until all are kept.

Fewer nats at some steps never raise leakage anywhere: the recursions grow with every budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np

from policyc.planning.schedules import Floats, Run, exact, expand

Cap = tuple[Decimal, int]  # nats that any so many steps in a row may spend


def capped(runs: Sequence[Run], caps: Sequence[Cap]) -> tuple[Run, ...]:
    """Budgets that keep every cap, in exact fractions: each as it was, or the level at which all are cut.

    The level is the largest one at which the fullest window spends what it may.
    """
    found = tuple(runs)
    for nats, window in caps:
        while (fullest := _fullest(found, window)) is not None and _spent(fullest) > Fraction(nats):
            level = _level(fullest, float(nats))
            while _spent(np.minimum(fullest, level)) > Fraction(nats):
                level = math.nextafter(level, 0.0)
            found = tuple(replace(run, epsilon=min(run.epsilon, level)) for run in found)
    return found


def _fullest(runs: Sequence[Run], window: int) -> Floats | None:
    """The budgets of the window of steps that spends most; of an endless pattern, any window of it."""
    endless = runs[-1].steps is None
    budgets = np.resize(runs[-1].pattern, runs[-1].period + window - 1) if endless else expand(runs)
    if not len(budgets):
        return None
    width = min(window, len(budgets))
    sums = np.convolve(budgets, np.ones(width), "valid") if width < 64 else _sliding(budgets, width)
    start = int(np.argmax(sums))
    return np.asarray(budgets[start : start + width])


def _sliding(budgets: Floats, width: int) -> Floats:
    total = np.concatenate([[0.0], np.cumsum(budgets)])
    return np.asarray(total[width:] - total[:-width])


def _spent(budgets: Floats) -> Fraction:
    values, counts = np.unique(budgets, return_counts=True)
    return sum((Fraction(exact(float(v))) * int(n) for v, n in zip(values, counts, strict=True)), Fraction(0))


def _level(budgets: Floats, nats: float) -> float:
    """The level at which these budgets, cut, spend just so much."""
    rising = np.sort(budgets[budgets > 0])
    below = 0.0
    for index, epsilon in enumerate(rising.tolist()):
        level = (nats - below) / (len(rising) - index)
        if level <= epsilon:
            return level
        below += epsilon
    return float(rising[-1])
