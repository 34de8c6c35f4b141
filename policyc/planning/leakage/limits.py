"""What leakage comes to while budgets repeat, long before it is there: where every step passes on nearly all.

One period maps what its steps leak to what those of the next one leak. The map rises, as more passes on more: steps
that leak at most `start`, and leak no more than that a period later, never will. Near its limit the map takes away the
same part of what is missing each time, so that a few periods tell where it ends (Aitken). Where rows are known exactly
there is one limit: of e^leakage a loss is the largest of some fractions a z / (c + d z), a step takes the least of some
sums with these, and each of them lies above z up to a point of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEAR = 1e-8  # of what is leaked, by which it may be stated too large at the end of a stretch
_FOUND = 1e-11  # of what is leaked, to which a limit is found
_TELLS = 1e-10  # of what is leaked, from which on a difference tells what part of it is left
_ROOMS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8)  # of what is leaked, by which a limit is raised until it holds
_LOSES = 1e-14  # of what is leaked, by which a period has to lower it: roundings take less
_ROUNDS = 16
_FAR = 1e3  # nats; of a limit beyond it nobody asks


def limit(later: Callable[[Floats], Floats], leaked: Floats) -> tuple[Floats, float] | None:
    """Leakage that steps never exceed once they leak no more, just above its limit; and what a period leaves of a gap.

    Args:
        later: what the steps of a period leak, nats, (p,), from what those of the period before leaked.
        leaked: by the steps of the last period, nats, (p,).

    Returns:
        `start`, (p,), with `later(start)` below it, and the part, in [0, 1), of a difference that was seen to be left a
        period later at most. None where no limit is near.
    """
    part = slowest = 0.0
    for _ in range(_ROUNDS):
        leaked = later(leaked)  # from here on the steps of a period fit each other
        first = later(leaked)
        second = later(first)
        moved, on = first - leaked, second - first
        most, at = float(second.max()), int(np.argmax(np.abs(on)))
        if abs(on[at]) > _TELLS * most:
            part = float(on[at] / moved[at]) if moved[at] else 1.0
            if not 0 <= part < 1:
                return None
            slowest = max(slowest, part)
        ahead = part / (1 - part) * on
        leaked = np.maximum(second + ahead, 0.0)
        if not leaked.max() <= _FAR:
            return None
        if np.abs(ahead).max() <= _FOUND * most:
            break
    else:
        return None
    for room in _ROOMS:
        start = leaked + room * leaked.max()
        if (later(start) <= start * (1 - _LOSES)).all():
            return start, slowest
    return None


def periods_until(leaked: Floats, stated: Floats, part: float) -> float:
    """After how many periods the leakage of steps, nats, (p,), is within `NEAR` of what is stated of them."""
    gap = float(((stated - leaked) / np.maximum(stated, math.ulp(0.0))).max())
    return math.log(gap / NEAR) / -math.log(part) if gap > NEAR and part > 0 else 0.0
