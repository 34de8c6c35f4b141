"""Correlated noise for running totals and windows: a lower-triangular Toeplitz matrix C is measured, and undone.

What is measured is C x + z with independent noise z; what is published is W C^-1 (C x + z), so its noise W C^-1 z is
correlated over steps in a way that cancels in the totals W. C = (1 - decay L)^(-exponent), L the shift by one step, is
chosen for the least mean square error under the participation bound, from the setting alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from policyc_runtime.mechanisms.grid_noise import GridNoise
from policyc_runtime.mechanisms.mechanism import Options, StepRecord
from policyc_runtime.privacy.participation import Participation
from policyc_runtime.privacy.strategies import earliest_user, toeplitz_l2_square

if TYPE_CHECKING:
    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.randomness import Randomness

Array = NDArray[np.float64]
Part = Annotated[Decimal, Field(ge=0, le=1)]

BITS = 64  # of the coefficients beyond their grid, while they are computed
BLOCK = 512  # steps whose part in later values is computed together
PIECE = 4096  # steps that are measured together, each with as much history as the last of them
DIGITS = Decimal("1e-9")  # of decay and exponent


class Toeplitz(GridNoise):
    """Measures C x, C = (1 - decay L)^(-exponent) rounded to the grid, under discrete Gaussian noise on that grid.

    The coefficients are whole numbers of the grid, computed in whole numbers, and the sensitivity is exactly theirs:
    that of a user who takes part as early and as densely as participation allows. Running totals and windows have the
    rounded C undone exactly. On the steps themselves no such C helps: they have independent noise.

    Source: DMRST22, FHU23, KL24, BW18, CKS20
    """

    name: Literal["toeplitz"] = "toeplitz"
    decay: Part
    exponent: Part
    grid: ClassVar[int] = 2**12

    @classmethod
    def variants(cls, setting: Setting) -> Sequence[Options]:
        """Nothing to compare on the steps themselves, where it is `gaussian`."""
        return () if setting.workload == "identity" else ({},)

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The least noise with the C of least mean square error; there are no options."""
        decay, exponent = _best(setting.participation, setting.workload, setting.window)
        return cls._least(setting, epsilon, delta, decay=decay, exponent=exponent)

    def moved_square(self, setting: Setting) -> int:
        """How far one neighbor moves what is measured, L2 squared, in squared units of the grid, exact."""
        column = self._column(setting)
        return setting.moved_square(lambda participation: toeplitz_l2_square(column, participation))

    def _column(self, setting: Setting) -> NDArray[np.int64]:
        assert setting.horizon is not None, "it does not apply to endless streams"
        return _coefficients(self.decay, self.exponent, self.grid, setting.horizon)

    def _answer(self, setting: Setting) -> Array:
        """The first column of W C^-1, (horizon,), in units to a unit of the grid."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return _answers(self.decay, self.exponent, self.grid, setting.horizon, setting.workload, setting.window)

    def variances(self, setting: Setting, steps: int) -> Array:
        """The variance of the noise of every step, (steps,): exact, as what is undone is the rounded C."""
        return (float(self.stddev) * self.grid) ** 2 * np.cumsum(self._answer(setting)[:steps] ** 2)

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """C x, in whole units of the grid, and noise, at the steps that have no record yet."""
        column, found = self._column(setting), np.zeros((0, setting.cells), dtype=np.int64)
        for first in range(len(records), len(raw), PIECE):
            stop = min(first + PIECE, len(raw))
            history = np.vstack([np.zeros((stop - 1, setting.cells), dtype=np.int64), raw[:stop]])[first:]
            new = np.stack([np.convolve(cell, column[:stop], "valid") for cell in history.T], axis=1)
            found = np.vstack([found, new])
        return [tuple(row) for row in (found + self._noise(found, randomness)).tolist()]

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> Array:
        """Totals, with C undone."""
        measured = np.array(records, dtype=np.float64).reshape(len(records), setting.cells)
        answer = self._answer(setting)
        return np.stack([_applied(answer, cell) for cell in measured.T], axis=1)


@lru_cache(maxsize=64)
def _coefficients(decay: Decimal, exponent: Decimal, grid: int, steps: int) -> NDArray[np.int64]:
    """The first column of C in whole units of the grid, (steps,): the same on every machine."""
    a, g = Fraction(decay), Fraction(exponent)
    found, value = [grid], grid << BITS
    for j in range(1, steps):
        value = value * a.numerator * (g.numerator + (j - 1) * g.denominator) // (a.denominator * g.denominator * j)
        found.append((value + (1 << BITS - 1)) >> BITS)
    return np.array(found, dtype=np.int64)


@lru_cache(maxsize=64)
def _answers(decay: Decimal, exponent: Decimal, grid: int, steps: int, workload: str, window: int | None) -> Array:
    """The first column of W C^-1, (steps,): a power series is inverted by Newton's method, twice as far each time."""
    column = _coefficients(decay, exponent, grid, steps).astype(np.float64)
    inverse = np.array([1 / column[0]])
    while inverse.size < steps:
        size = 2 * inverse.size
        short = -_product(column[:size], inverse, size)
        short[0] += 2
        inverse = _product(inverse, short, size)
    return _totals(inverse[:steps], workload, window)


def _product(first: Array, second: Array, size: int) -> Array:
    """The first `size` terms of a product of power series."""
    wide = 2 * size
    return np.asarray(np.fft.irfft(np.fft.rfft(first, wide) * np.fft.rfft(second, wide), wide)[:size])


def _totals(column: Array, workload: str, window: int | None) -> Array:
    """W times a lower-triangular Toeplitz matrix, by their first columns."""
    if workload == "identity":
        return column
    totals = np.cumsum(column)
    if window is not None:
        totals[window:] -= totals[:-window].copy()
    return totals


def _applied(column: Array, x: Array) -> Array:
    """A lower-triangular Toeplitz matrix times x, (steps,), each value by the same operations however many follow.

    Steps of the same block are added one by one; earlier blocks of steps, all complete, by Fourier transform.
    """
    blocks = -(-x.size // BLOCK)
    padded = np.append(x, np.zeros(blocks * BLOCK - x.size)).reshape(blocks, BLOCK)
    kernel = np.concatenate([np.zeros(BLOCK), column[: blocks * BLOCK], np.zeros(blocks * BLOCK)])
    pieces = np.array([kernel[m * BLOCK : (m + 2) * BLOCK] for m in range(blocks)])
    spectra, kernels = np.fft.rfft(padded, 2 * BLOCK, axis=1), np.fft.rfft(pieces, axis=1)
    result = np.zeros((blocks, BLOCK))
    for block in range(blocks):
        if block:
            earlier = (spectra[:block] * kernels[block:0:-1]).sum(axis=0)
            result[block] = np.fft.irfft(earlier, 2 * BLOCK)[BLOCK:]
        for step, value in enumerate(padded[block]):
            result[block, step:] += value * kernel[BLOCK : 2 * BLOCK - step]
    return result.ravel()[: x.size]


@lru_cache(maxsize=64)
def _best(participation: Participation, workload: str, window: int | None) -> tuple[Decimal, Decimal]:
    """Decay and exponent of least mean square error; no data is asked."""
    from scipy.optimize import minimize

    steps = participation.horizon
    assert steps is not None, "it does not apply to endless streams"
    if workload == "identity":
        return Decimal(0), Decimal(0)
    longest = math.log(steps) + 5  # decay = 1 - exp(-this) is as good as 1
    weights = 1 - np.arange(steps) / steps

    def error(point: tuple[float, float]) -> float:
        decay, j = -math.expm1(-point[0]), np.arange(1, steps)
        column = np.cumprod(np.append(1.0, decay * (point[1] + j - 1) / j))
        inverse = np.cumprod(np.append(1.0, decay * (j - 1 - point[1]) / j))
        noise = float(weights @ _totals(inverse, workload, window) ** 2)
        return math.log(noise * float((earliest_user(column, participation) ** 2).sum()))

    found = minimize(
        error,
        (min(3.0, longest), 0.5),
        method="Nelder-Mead",
        bounds=((0.0, longest), (0.0, 1.0)),
        options={"xatol": 2e-3, "fatol": 1e-5, "initial_simplex": [(2.0, 0.5), (min(4.0, longest), 0.7), (4.0, 0.3)]},
    ).x
    return Decimal(-math.expm1(-found[0])).quantize(DIGITS), Decimal(found[1]).quantize(DIGITS)
