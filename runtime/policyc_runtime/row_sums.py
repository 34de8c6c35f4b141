"""Sums of rows of released values, exactly those of the numbers as they are written."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import PrefixQuery, WindowQuery

Values = NDArray[Any]
Masked = np.ma.MaskedArray[Any, Any]

DECIMALS = 6  # of ratios, means and changes, and the most that rounded values of a release have
UNIT = 10.0**DECIMALS
EXACT = 2.0**52  # whole numbers below it are floats without a gap


def width_of(query: PrefixQuery | WindowQuery) -> int | None:
    """Over how many rows a window adds up; None of a running total, which adds up all."""
    return query.steps if isinstance(query, WindowQuery) else None


def block_totals(values: Values, size: int) -> Masked:
    """Sums over whole blocks of `size` rows, exactly those of the numbers as they are written.

    Rounded values are decimals, and are added up as such; values with all their digits are added up without a loss.

    Args:
        values: (rows, cells).
        size: rows a block, >= 1; what is left at the end is in none.
    """
    count = len(values) // size
    shape = (count, size, values.shape[1])
    empty = np.ma.getmaskarray(values)[: count * size].reshape(shape)
    blocks = np.where(empty, 0, np.ma.getdata(values)[: count * size].reshape(shape))
    if blocks.dtype.kind == "i":
        totals = blocks.sum(axis=1)
    elif _few_decimals(blocks):
        totals = np.rint(blocks * UNIT).sum(axis=1) / UNIT
    else:
        totals = np.array([[math.fsum(cell) for cell in block.T] for block in blocks]).reshape(count, shape[2])
    return masked(totals, np.asarray(empty.any(axis=1)))


def running_totals(values: Values, width: int | None = None) -> Masked:
    """Sums of each row and all before it, or of the last `width` rows, fewer at the start; as exact as those of blocks.

    Args:
        values: (rows, cells); where one is left out, so is every sum that it is in.
        width: >= 1.
    """
    data, empty = np.ma.getdata(values), np.ma.getmaskarray(values)
    data = np.where(empty, 0, data)
    gaps = _sliding(np.cumsum(empty, axis=0), width) > 0
    if data.dtype.kind == "i":
        return masked(_sliding(np.cumsum(data, axis=0), width), gaps)
    if _few_decimals(data[None]):
        return masked(_sliding(np.cumsum(np.rint(data * UNIT), axis=0), width) / UNIT, gaps)
    exact = np.array([list(accumulate(map(Fraction, cell))) for cell in data.T.tolist()], object).reshape(data.T.shape)
    return masked(_sliding(exact.T, width).astype(np.float64), gaps)


def _sliding(sums: Values, width: int | None) -> Values:
    """Of running sums those of the last `width` rows."""
    if width is None or width >= len(sums):
        return sums
    return np.concatenate([sums[:width], sums[width:] - sums[:-width]])


def _few_decimals(blocks: Values) -> bool:
    """Whether all numbers, (blocks, rows, cells), are decimals whose sums over rows floats hold in whole units."""
    whole = (np.rint(blocks * UNIT) / UNIT == blocks).all()
    return bool(whole and (np.abs(blocks * UNIT).sum(axis=1) < EXACT).all())


def masked(values: Values, empty: NDArray[np.bool_]) -> Masked:
    """Values, 0 where there is none."""
    return np.ma.MaskedArray(np.where(empty, 0, values), empty)
