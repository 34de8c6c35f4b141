"""Totals divided among their parts: the nearest parts within bounds, and the nearest whole numbers, for many at once.

A total's parts are values + spreads * multiplier, cut off at their bounds. They grow with the multiplier, in straight
pieces between those multipliers at which a part reaches a bound or leaves it; so the piece in which they add up to the
total is found by sorting these. Every row is computed in an order of its own, whatever rows are beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Indices = NDArray[np.int64]

TIE = 6  # decimals of a unit: what differs by less is the same, so that ties are broken alike on every machine


def added_up(values: Array, own: Indices) -> Array:
    """(steps, parents) sums of (steps, cells) values over the cells that belong to each; none is without cells."""
    order, starts = _by_total(own)
    return np.asarray(np.add.reduceat(values[:, order], starts, axis=1))


def nearest_parts(totals: Array, values: Array, spreads: Array, own: Indices, lower: Array, upper: Array) -> Array:
    """The parts (steps, cells) that add up to totals, at the least sum of squared distances from values over spreads.

    Args:
        totals: (steps, totals), each between the sums of its parts' bounds.
        values: (steps, cells).
        spreads: (steps, cells), > 0.
        own: (cells,) to which total each part belongs; none is without parts.
        lower: (cells,) bounds, or -inf.
        upper: (cells,) bounds, or inf.
    """
    missing = (totals - added_up(values, own)) / added_up(spreads, own)
    found = values + spreads * missing[:, own]
    if not (np.isfinite(lower).any() or np.isfinite(upper).any()):
        return found
    multiplier, next_one = _piece(totals, values, spreads, own, lower, upper)
    for _ in range(2):  # the first is near, up to sums over other totals; the second as exact as its own sum
        found = np.clip(values + spreads * multiplier[:, own], lower, upper)
        speed = added_up(np.where((lower < found) & (found < upper), spreads, 0.0), own)
        away = np.divide(totals - added_up(found, own), speed, out=np.zeros_like(speed), where=speed > 0)
        multiplier = np.minimum(multiplier + away, next_one)
    return np.clip(values + spreads * multiplier[:, own], lower, upper)


def _piece(
    totals: Array, values: Array, spreads: Array, own: Indices, lower: Array, upper: Array
) -> tuple[Array, Array]:
    """The multiplier (steps, totals) at which parts add up to each total, and where their straight piece ends."""
    bounded = np.isfinite(lower)
    least = np.where(bounded, lower, 0.0)
    events = [(np.where(bounded, (least - values) / spreads, -np.inf), values - least, spreads)]  # free from there on
    if np.isfinite(upper).any():
        most = np.where(np.isfinite(upper), upper, 0.0)
        ends = np.where(np.isfinite(upper), (most - values) / spreads, np.inf)
        events.append((ends, most - values, -spreads))  # at its upper bound from there on
    at, height, slope = (np.hstack(parts) for parts in zip(*events, strict=True))
    whose = np.tile(own, len(events))
    order = np.lexsort((at, np.broadcast_to(whose, at.shape)), axis=-1)
    at, height, slope = (np.take_along_axis(array, order, axis=1) for array in (at, height, slope))
    whose = np.sort(whose)
    starts = np.flatnonzero(np.diff(whose, prepend=-1))
    height = _running(height, starts, whose) + added_up(least[None], own)[:, whose]
    slope = _running(slope, starts, whose)
    with np.errstate(invalid="ignore"):
        reached = np.where(np.isfinite(at), height + slope * np.where(np.isfinite(at), at, 0.0), at)
    count = np.add.reduceat((reached <= totals[:, whose]).astype(np.int64), starts, axis=1)
    last = starts + np.maximum(count, 1) - 1
    ends = np.append(starts[1:], len(whose)) - 1
    rows = np.arange(len(at))[:, None]
    here = at[rows, last]
    following = np.where(last < ends, at[rows, np.minimum(last + 1, ends)], np.inf)
    speed = np.maximum(slope[rows, last], 0.0)
    found = np.divide(totals - height[rows, last], speed, out=np.maximum(here, np.finfo(float).min), where=speed > 0)
    return np.clip(found, here, following), following


def _running(values: Array, starts: Indices, whose: Indices) -> Array:
    """Sums of (steps, n) values from each start on."""
    sums = np.cumsum(values, axis=1)
    before = np.hstack([np.zeros((len(sums), 1)), sums])[:, starts]
    return np.asarray(sums - before[:, whose])


def whole_parts(totals: Array, values: Array, own: Indices, lower: Array, upper: Array) -> Array:
    """The nearest whole numbers (steps, cells) that add up to whole totals; among equals earlier parts get more.

    Args:
        totals: (steps, totals).
        values: (steps, cells) that add up to them within rounding.
        own: (cells,) to which total each part belongs; none is without parts.
        lower: (cells,) whole numbers or -inf, which values keep.
        upper: (cells,) whole numbers or inf, which values keep.
    """
    order, starts = _by_total(own)
    exact = np.round(values[:, order], TIE)
    found = np.rint(exact)
    whose = own[order]
    left = totals - np.add.reduceat(found, starts, axis=1)
    sign = np.sign(left)[:, whose]
    place = np.arange(len(whose)) - np.repeat(starts, np.diff(starts, append=len(whose)))
    price = np.round(sign * (found - exact), TIE)
    turn = np.lexsort((sign * place, price, np.broadcast_to(whose, found.shape)), axis=-1)
    moved = np.where(place < np.abs(left)[:, whose], sign, 0.0)
    np.put_along_axis(found, turn, np.take_along_axis(found, turn, axis=1) + moved, axis=1)
    result = np.empty_like(found)
    result[:, order] = found
    return np.clip(result, lower, upper)


def _by_total(own: Indices) -> tuple[Indices, Indices]:
    """The order in which parts of one total are beside each other, and where each total's begin."""
    order = np.argsort(own, kind="stable")
    return order, np.flatnonzero(np.diff(own[order], prepend=-1))
