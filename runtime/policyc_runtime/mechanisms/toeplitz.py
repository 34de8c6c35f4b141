"""Correlated noise for running totals and windows: a lower-triangular Toeplitz matrix C is measured, and undone.

What is measured is C x + z with independent noise z; what is published is W C^-1 (C x + z), so its noise W C^-1 z is
correlated over steps in a way that cancels in the totals W. C = (1 - decay L)^(-exponent), L the shift by one step, is
chosen for the least mean square error under the participation bound, from the setting alone. Where participations are
so far apart that a band of coefficients does not reach from one to the next, these are chosen one by one instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from policyc_check.mechanisms import toeplitz as checked
from policyc_check.mechanisms.toeplitz import PIECE, _coefficients, earliest_user
from policyc_check.users.participation import Participation
from policyc_runtime.mechanisms.linear import GridMechanism
from policyc_runtime.mechanisms.mechanism import Options, StepRecord

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting

Array = NDArray[np.float64]
BLOCK = 512  # steps whose part in later values is computed together
LONGEST_BAND = 64  # coefficients that are chosen one by one
DIGITS = Decimal("1e-9")  # of decay and exponent


class Toeplitz(checked.Toeplitz, GridMechanism):
    """`Toeplitz` of the check, drawn."""

    independent: ClassVar[bool] = False

    @classmethod
    def variants(cls, setting: Setting) -> Sequence[Options]:
        """Nothing to compare on the steps themselves, where it is `gaussian`."""
        return () if setting.workload == "identity" else ({},)

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The least noise with the C of least mean square error; there are no options."""
        near = _near(setting.participation)
        decay, exponent = _best(setting.participation, setting.workload, setting.window)
        whole: dict[str, object] = {"decay": decay, "exponent": exponent, "band": None}
        if setting.workload == "identity" or not 1 < near.spacing <= LONGEST_BAND:
            return cls._least(setting, epsilon, delta, **whole)
        column = _coefficients(decay, exponent, cls.grid, near.horizon or 1).astype(np.float64)
        band = _best_band(near, setting.workload, setting.window, column)
        banded = np.zeros(column.size)
        banded[: len(band)] = band
        errors = [_error(c, near, setting.workload, setting.window)[0] for c in (column, banded)]
        if errors[1] < errors[0]:
            whole = {"decay": Decimal(0), "exponent": Decimal(0), "band": band}
        return cls._least(setting, epsilon, delta, **whole)

    def _answer(self, setting: Setting) -> Array:
        """The first column of W C^-1, (horizon,), in units to a unit of the grid."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return _answers(self._column(setting).tobytes(), setting.workload, setting.window)

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
    return _totals(_inverse(np.frombuffer(column, dtype=np.int64).astype(np.float64)), workload, window)


def _inverse(column: Array) -> Array:
    """That of a power series, as long: Newton's method, twice as far each time."""
    inverse = np.array([1 / column[0]])
    while inverse.size < column.size:
        size = 2 * inverse.size
        short = -_product(column[:size], inverse, size)
        short[0] += 2
        inverse = _product(inverse, short, size)
    return inverse[: column.size]


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


def _near(participation: Participation) -> Participation:
    """Of a long stream a part that says enough of it to choose coefficients by."""
    return replace(participation, horizon=min(participation.horizon or PIECE, PIECE))


def _error(column: Array, participation: Participation, workload: str, window: int | None) -> tuple[float, Array]:
    """Log of mean square error times squared sensitivity, and its gradient by the entries of the column."""
    steps = column.size
    weights = 1 - np.arange(steps) / steps
    inverse = _inverse(column)
    answer = _totals(inverse, workload, window)
    twice = _totals(_product(inverse, inverse, steps), workload, window)
    moved = earliest_user(column, participation)
    taken = np.zeros(steps)
    taken[np.arange(participation.steps) * participation.spacing] = 1
    noise, square = float(weights @ answer**2), float(moved @ moved)
    # entry j moves answer_t by -twice_(t - j), and what a user moves by taken_(t - j)
    falls = _product((2 * weights * answer)[::-1], twice, steps)[::-1]
    rises = _product((2 * moved)[::-1], taken, steps)[::-1]
    return math.log(noise * square), rises / square - falls / noise


@lru_cache(maxsize=64)
def _best_band_of(participation: Participation, workload: str, window: int | None, begin: tuple[float, ...]) -> Array:
    from scipy.optimize import minimize

    steps, width = participation.horizon or 1, len(begin)

    def error(falls: Array) -> tuple[float, Array]:
        column = np.zeros(steps)
        column[:width] = np.cumsum(falls[::-1])[::-1]
        value, slope = _error(column, participation, workload, window)
        return value, np.cumsum(slope[:width])

    first = np.array(begin) - np.append(begin[1:], 0.0)
    found = minimize(
        error, first, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * width, options={"maxiter": 300, "ftol": 1e-10}
    )
    column = np.cumsum(found.x[::-1])[::-1]
    return np.asarray(column / column[0])


def _best_band(participation: Participation, workload: str, window: int | None, column: Array) -> tuple[int, ...]:
    """As many coefficients as steps between participations, of least mean square error, in units of the grid."""
    begin = tuple((column / column[0])[: participation.spacing].tolist())
    found = _best_band_of(participation, workload, window, begin)
    return tuple(np.rint(found * Toeplitz.grid).astype(np.int64).tolist())
