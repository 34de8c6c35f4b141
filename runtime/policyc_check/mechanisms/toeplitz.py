"""Correlated noise for running totals and windows: a lower-triangular Toeplitz matrix C is measured, and undone.

What is measured is C x + z with independent noise z; what is published is W C^-1 (C x + z), so its noise W C^-1 z is
correlated over steps in a way that cancels in the totals W. C = (1 - decay L)^(-exponent), L the shift by one step, or
a band of coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from policyc_check.mechanisms.linear import GridMechanism, NonNegative, Numbers
from policyc_check.records import LARGEST_COUNT
from policyc_check.runs import Whole
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting

Part = Annotated[Decimal, Field(ge=0, le=1)]
PIECE = 4096  # steps that are measured together
BITS = 64  # of the coefficients beyond their grid, while they are computed


@dataclass(frozen=True, eq=False)
class Convolution(NonNegative):
    """C x of the lower-triangular Toeplitz matrix C with this first column, (horizon,): >= 0, never rising."""

    column: Whole

    def measured(self, raw: Whole, first: int) -> Numbers:
        """One number a step; of many steps some at a time, each with as much history as the last of them."""
        found = np.zeros((0, raw.shape[1]), dtype=np.int64)
        for start in range(first, len(raw), PIECE):
            stop = min(start + PIECE, len(raw))
            history = np.vstack([np.zeros((stop - 1, raw.shape[1]), dtype=np.int64), raw[:stop]])[start:]
            new = np.stack([np.convolve(cell, self.column[:stop], "valid") for cell in history.T], axis=1)
            found = np.vstack([found, new])
        return found, np.ones(len(found), dtype=np.int64)

    def l2_square(self, participation: Participation) -> int:
        """Exact: that of a user who takes part as early and as densely as participation allows.

        All inner products of columns are non-negative, and grow the earlier and closer columns are. Source: KL24
        """
        whole = self.column.dtype.kind == "i" and self.column.ndim == 1
        if not (whole and (self.column >= 0).all() and (np.diff(self.column) <= 0).all()):
            raise ValueError("coefficients must be whole, non-negative and non-increasing")
        return sum(total * total for total in earliest_user(self.column, participation).tolist())


class Toeplitz(GridMechanism):
    """Measures C x, C = (1 - decay L)^(-exponent) rounded to the grid, under discrete Gaussian noise on that grid.

    With a `band`, it is the first column of C, in whole units of the grid, zero after its end; decay and exponent are
    0 then.
    """

    name: Literal["toeplitz"] = "toeplitz"
    decay: Part
    exponent: Part
    band: tuple[Annotated[int, Field(ge=0, le=LARGEST_COUNT)], ...] | None = None
    grid: ClassVar[int] = 2**12

    def strategy(self, setting: Setting) -> Convolution:
        """C x."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        if self.band is None:
            return Convolution(coefficients(self.decay, self.exponent, self.grid, setting.horizon))
        column = np.zeros(setting.horizon, dtype=np.int64)
        column[: len(self.band)] = self.band[: setting.horizon]
        return Convolution(column)


@lru_cache(maxsize=64)
def coefficients(decay: Decimal, exponent: Decimal, grid: int, steps: int) -> Whole:
    """The first column of C in whole units of the grid, (steps,): the same on every machine."""
    a, g = Fraction(decay), Fraction(exponent)
    found, value = [grid], grid << BITS
    for j in range(1, steps):
        value = value * a.numerator * (g.numerator + (j - 1) * g.denominator) // (a.denominator * g.denominator * j)
        found.append((value + (1 << BITS - 1)) >> BITS)
    return np.array(found, dtype=np.int64)


def earliest_user(coefficients: NDArray[Any], participation: Participation) -> NDArray[Any]:
    """C x, (steps,), for a user who takes part from the first step on, as densely as the spacing allows."""
    steps, spacing = participation.steps, participation.spacing
    length = participation.horizon or (steps - 1) * spacing + coefficients.size
    rows = -(-length // spacing)
    padded = np.zeros(rows * spacing, dtype=coefficients.dtype)
    padded[: min(length, coefficients.size)] = coefficients[:length]
    sums = padded.reshape(rows, spacing).cumsum(axis=0)  # over 0, spacing, 2 spacing, ... steps ago
    sums[steps:] -= sums[:-steps].copy()
    return np.asarray(sums.ravel()[:length])
