"""The largest budget, or factor of budgets, with which a promise is kept: a root of something that takes long to tell.

What leaks is the largest of several smooth rising functions. Above the root it is mostly the one that binds, so that
two tries that leaked too much tell where it is; below it another one may be larger, and tell nothing. A library's root
finder goes by both sides alike, and over the whole interval: it took up to three times as many tries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

ROOT = 1e-14  # relative width at which a root is found
NEAR = 1 + 1e-9
_UNSPENT = 1e-12  # of the promise, which is as good as nothing
_LITTLE = 1e-6  # of the promise: where more is left, a hair more of the argument is not too much
_FAR = 1e12  # times the promise; stands for infinity
_NOTHING = 1e-14  # of the largest argument: below is none
_MOST = 200  # tries
_BEYOND = (
    0.03  # at most, of a step, by which the next try goes beyond what it is to find: measured, 0.01 and 0.3 take more
)
_FLAT = 1e-3  # of what is between: a chord that leads no further tells nothing
_STUCK = 0.5  # of what was between two tries ago, logarithms: the next one halves it

Point = tuple[float, float]  # logarithms of an argument, and of what leaks with it in promises


def largest(
    left: Callable[[float], float], low: float, high: float, nats: float, *, unspent: float = _UNSPENT
) -> float:
    """The largest argument in [low, high] at which something is left, for a falling `left`; always on the safe side.

    Args:
        left: of a promise, nats; asked once for an argument.
        low: at which something is left, or 0.
        high: more is not asked for.
        nats: the promise.
        unspent: part of it that may be left.

    Returns:
        0 when there is none above 0.
    """
    spare = cache(left)
    if spare(high) >= 0:
        return high
    if low > 0 and spare(low) < 0:
        low = 0.0
    elif low > 0 and (
        spare(low) <= unspent * nats or (spare(low) <= _LITTLE * nats and low * NEAR < high and spare(low * NEAR) < 0)
    ):
        return low  # near enough

    def point(at: float) -> Point:
        beyond = unspent / 2 - spare(at) / nats  # of what is aimed at: amid what is near enough
        return math.log(at), math.log1p(min(max(beyond, 1 / _FAR - 1), _FAR))

    below, above, further, row = low, high, math.inf, 0
    width = earlier = math.inf  # of what was between, logarithms, at the last try and the one before
    for _ in range(_MOST):
        if above - below <= ROOT * above or above <= _NOTHING * high:
            break
        between = math.log(above / below) if below > 0 else math.inf
        if halved := between > _STUCK * earlier:
            log = math.log(above) - between / 2
        else:
            known = point(below) if below > 0 else None
            log = _next(known, point(above), point(further) if further < math.inf else None, row)
        width, earlier = between, width
        guess = min(max(math.exp(log), math.nextafter(below, above)), math.nextafter(above, below))
        if (found := spare(guess)) < 0:
            above, further, row = guess, above, row if halved else 0
            continue
        below, row = guess, row + 1
        if found <= unspent * nats:
            break
    return below


def _next(under: Point | None, over: Point, further: Point | None, row: int) -> float:
    """The logarithm of what is tried next: where two that are too much point, or both sides, or what is in proportion.

    And a little further, as far as two steps leave unknown, so that what is between shrinks from both sides. `row`:
    so many tries in a row were not too much. Then both sides tell more, unless what is below is another function's; and
    what was too much counts half as often as at the try before.

    Source: DOWELL71 (the Illinois method)
    """
    steep, back = 1.0, 1.0
    if further is not None and further[0] > over[0] and further[1] > over[1]:
        back = further[0] - over[0]
        steep = (further[1] - over[1]) / back
    step = over[1] / steep
    if under is None:  # slopes rise on the way down, but where all leaks about the same
        return over[0] - min(step, over[1] if further is None else max(over[1], back)) - _BEYOND
    width = over[0] - under[0]
    if further is None or step >= width or (row and over[1] - under[1] > width * steep / 2):
        counted = over[1] * 0.5 ** max(0, row - 1)
        step, back = width * counted / (counted - under[1]), width
        if row and width - step < _FLAT * width:
            return over[0] - width / 2
    if step > width / 2:
        return over[0] - step + min(_BEYOND, back) * (width - step)
    return over[0] - step - min(_BEYOND, back) * step
