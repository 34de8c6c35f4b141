"""Exact numbers as floats, rounded to the side that is asked for."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction


def rounded_down(value: Decimal | Fraction) -> float:
    """The largest float at or below an exact number."""
    near = float(value)
    return near if Fraction(near) <= Fraction(value) else math.nextafter(near, -math.inf)


def rounded_up(value: Decimal | Fraction) -> float:
    """The smallest float at or above an exact number."""
    near = float(value)
    return near if Fraction(near) >= Fraction(value) else math.nextafter(near, math.inf)
