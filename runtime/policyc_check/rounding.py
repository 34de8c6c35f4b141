"""Exact numbers as floats, rounded to the side that is asked for."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT = 2.0**-53  # the relative error of one rounding


def rounded_down(value: Decimal | Fraction) -> float:
    """The largest float at or below an exact number."""
    near = float(value)
    return near if Fraction(near) <= Fraction(value) else math.nextafter(near, -math.inf)


def rounded_up(value: Decimal | Fraction) -> float:
    """The smallest float at or above an exact number."""
    near = float(value)
    return near if Fraction(near) >= Fraction(value) else math.nextafter(near, math.inf)


def roundings(width: int) -> int:
    """The most roundings a term of numpy's pairwise sum goes through: 8 running sums in blocks of 128, then a tree."""
    return min(width, 11 + min(width, 128) // 8 + max(0, math.ceil(math.log2(width / 128))))
