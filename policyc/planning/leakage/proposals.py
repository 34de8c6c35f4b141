"""Numbers that are proposed to the check: a few roundings too large, so that its inequalities show them."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.gaps import FINE
from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.losses import Losses
from policyc.planning.leakage.one_side import Told, inherited
from policyc_check.rounding import UNIT, roundings

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Shown = tuple[Floats, Whole]  # what steps inherit, and by which lags that is shown

_SMALLEST = 1e-290


def recursed(
    budgets: Floats, side: Losses, lags: tuple[int, ...], digits: int = FINE, ahead: list[Told] | None = None
) -> Shown:
    """What every step inherits from those before it, as the recursion says, in its order; see `inherited`."""

    def passed_on(t: int, lag: int, leaked: float) -> float:
        return proposed(side.loss(t, lag), leaked)

    return inherited(budgets, side, lags, passed_on, up, with_room, ahead=ahead, digits=digits)


def with_room(bound: float, lag: float) -> float:
    """What is left of a sum of several steps' budgets loses a rounding or two."""
    return bound if lag == 1 else math.nextafter(math.nextafter(bound, math.inf), math.inf)


def proposed(loss: LossFunction, leakage: float) -> float:
    """L(leakage), lifted above what roundings may hide: relative errors e in q and d change it by at most 2 e."""
    if leakage < _SMALLEST:
        return leakage  # L(a) <= a needs no audit, and nothing smaller can be rounded with care
    value = loss(leakage) * _outward(len(loss.matrix))
    if loss.relative_error:
        value += 2.02 * (loss.relative_error + 8 * UNIT) * -math.expm1(-leakage)
    return min(leakage, value)


def proposed_each(loss: LossFunction, leakages: Floats) -> Floats:
    """`proposed` of many leakages, (n,)."""
    values = loss(leakages) * _outward(len(loss.matrix))
    if loss.relative_error:
        values += 2.02 * (loss.relative_error + 8 * UNIT) * -np.expm1(-leakages)
    return np.where(leakages < _SMALLEST, leakages, np.minimum(leakages, values))


@cache
def _outward(width: int) -> float:
    """The factor that lifts a proposed value just above what rounding against us takes from it in the audit."""
    return 1 + (2 * roundings(width) + 64) * UNIT


def up(a: float, b: float) -> float:
    """The sum of two numbers of nats, or the next float above it."""
    total = a + b
    return math.nextafter(total, math.inf) if total - a != b or total - b != a else total
