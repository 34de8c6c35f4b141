"""Correlated noise for running totals and windows: a lower-triangular Toeplitz matrix C is measured, and undone.

What is measured is C x + z with independent noise z; what is published is W C^-1 (C x + z), so its noise W C^-1 z is
correlated over steps in a way that cancels in the totals W. C = (1 - decay L)^(-exponent), L the shift by one step, or
a band of coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from policyc_check.mechanisms import toeplitz as checked
from policyc_runtime.mechanisms.linear import GridMechanism
from policyc_runtime.mechanisms.mechanism import StepRecord

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting

Array = NDArray[np.float64]
BLOCK = 512  # steps whose part in later values is computed together


class Toeplitz(checked.Toeplitz, GridMechanism):
    """`Toeplitz` of the check, drawn.

    The coefficients are whole numbers of the grid, computed in whole numbers, and the sensitivity is exactly theirs:
    that of a user who takes part as early and as densely as participation allows. Running totals and windows have the
    rounded C undone exactly. On the steps themselves no such C helps: they have independent noise.

    Source: DMRST22, FHU23, KL24, BW18, CKS20
    """

    independent: ClassVar[bool] = False

    @model_validator(mode="after")
    def _band_falls(self) -> Self:
        if self.band is None:
            return self
        if not self.band or self.band[0] == 0 or list(self.band) != sorted(self.band, reverse=True):
            raise ValueError("the coefficients of a band do not rise, and the first is above 0")
        if self.decay or self.exponent:
            raise ValueError("with a band, decay and exponent are 0")
        return self

    def _answer(self, setting: Setting) -> Array:
        """The first column of W C^-1, (horizon,), in units to a unit of the grid."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return _answers(self.strategy(setting).column.tobytes(), setting.workload, setting.window)

    def variances(self, setting: Setting, steps: int) -> Array:
        """The variance of the noise of every step, (steps,): exact, as what is undone is the rounded C."""
        return (float(self.stddev) * self.grid) ** 2 * np.cumsum(self._answer(setting)[:steps] ** 2)

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> Array:
        """Totals, with C undone."""
        measured = np.array(records, dtype=np.float64).reshape(len(records), setting.cells)
        answer = self._answer(setting)
        return np.stack([_applied(answer, cell) for cell in measured.T], axis=1)


@lru_cache(maxsize=64)
def _answers(column: bytes, workload: str, window: int | None) -> Array:
    """The first column of W C^-1, (steps,), from that of C."""
    return totals(inverse(np.frombuffer(column, dtype=np.int64).astype(np.float64)), workload, window)


def inverse(column: Array) -> Array:
    """That of a power series, as long: Newton's method, twice as far each time."""
    inverse = np.array([1 / column[0]])
    while inverse.size < column.size:
        size = 2 * inverse.size
        short = -product(column[:size], inverse, size)
        short[0] += 2
        inverse = product(inverse, short, size)
    return inverse[: column.size]


def product(first: Array, second: Array, size: int) -> Array:
    """The first `size` terms of a product of power series."""
    wide = 2 * size
    return np.asarray(np.fft.irfft(np.fft.rfft(first, wide) * np.fft.rfft(second, wide), wide)[:size])


def totals(column: Array, workload: str, window: int | None) -> Array:
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
    pieces = np.array([kernel[m * BLOCK : (m + 2) * BLOCK] for m in range(blocks)]).reshape(blocks, 2 * BLOCK)
    spectra, kernels = np.fft.rfft(padded, 2 * BLOCK, axis=1), np.fft.rfft(pieces, axis=1)
    result = np.zeros((blocks, BLOCK))
    for block in range(blocks):
        if block:
            earlier = (spectra[:block] * kernels[block:0:-1]).sum(axis=0)
            result[block] = np.fft.irfft(earlier, 2 * BLOCK)[BLOCK:]
        for step, value in enumerate(padded[block]):
            result[block, step:] += value * kernel[BLOCK : 2 * BLOCK - step]
    return result.ravel()[: x.size]
