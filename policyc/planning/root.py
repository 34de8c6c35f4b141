"""The root of a function between two arguments: without `scipy.optimize`, which takes a tenth of a second to load."""

from __future__ import annotations

import math
from collections.abc import Callable

MOST_STEPS = 200


def root(function: Callable[[float], float], low: float, high: float, near: float, relative: float) -> float:
    """An argument at which a continuous function is 0 or changes its sign, from as few values as are needed.

    Steps are the secant's, or those of inverse quadratic interpolation, where these come nearer fast enough; else the
    interval is halved.

    Args:
        function: of other signs at `low` and `high`, or 0 at one.
        low: one end.
        high: the other one.
        near: how far the answer may be from where the sign changes.
        relative: how far it may be, as a part of itself, in addition.

    Raises:
        ArithmeticError: the signs are the same, a value is no number, or more steps are needed than halving takes.

    By R. P. Brent: Algorithms for Minimization without Derivatives, 1973, chapter 4.
    """
    before, here = low, high
    value_before, value = function(before), function(here)
    if value_before == 0 or value == 0:
        return before if value_before == 0 else here
    if not value_before * value < 0:  # nor where one is no number
        raise ArithmeticError("the sign is the same at both ends")
    other, value_other, last, step = before, value_before, 0.0, 0.0
    for _ in range(MOST_STEPS):
        if (value_before < 0) != (value < 0):
            other, value_other, last, step = before, value_before, here - before, here - before
        if abs(value_other) < abs(value):
            before, here, other = here, other, here
            value_before, value, value_other = value, value_other, value
        close, half = (near + relative * abs(here)) / 2, (other - here) / 2
        if value == 0 or abs(half) < close:
            return here
        tried = half
        if abs(last) > close and abs(value) < abs(value_before):
            slope = (value_before - value) / (before - here)
            if before == other:
                tried = -value * (here - before) / (value - value_before)
            else:
                slope_other = (value_other - value) / (other - here)
                tried = -value * (value_other * slope_other - value_before * slope)
                tried /= slope_other * slope * (value_other - value_before)
            fast = 2 * abs(tried) < min(abs(last), 3 * abs(half) - close)
            last, step = (step, tried) if fast else (half, half)
        else:
            last = step = half
        before, value_before = here, value
        here += step if abs(step) > close else (close if half > 0 else -close)
        value = function(here)
        if math.isnan(value):
            break
    raise ArithmeticError("no root was found")
