"""Predicts a value from the last published one, as an AR(1) process, declared or learned from what was published."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from policyc_check.records import PositiveDecimal, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class DeclaredAR1(Record):
    """z_t = mean + autocorrelation (z_(t-1) - mean) + innovation, of standard deviation `sd`, in units.

    Source: ZKL22
    """

    mean: Decimal
    sd: PositiveDecimal
    autocorrelation: Annotated[Decimal, Field(gt=-1, lt=1)]

    def predicted(self, before: Floats, noise: float) -> Floats:
        """The least-squares prediction of the next values, (cells,), from the last of (t, cells) published ones.

        `noise` is the variance of that on top of them.
        """
        mean = float(self.mean)
        return np.asarray(mean + self._gain(noise) * (before[-1] - mean))

    def _gain(self, noise: float) -> float:
        power = float(self.sd) ** 2
        return float(self.autocorrelation) * power / (power + noise)

    def errors(self, weights: Sequence[float], noise: float) -> Floats:
        """Mean square errors of x_t = (1 - w_t) prediction + w_t z_t + noise, exactly, shape (weights,).

        Where the weight is 0 nothing is measured, and there is no noise.
        """
        rho, power, gain = float(self.autocorrelation), float(self.sd) ** 2, self._gain(noise)
        error, joint = 0.0, 0.0  # mean square of x - z, and mean of it times z - mean
        found = np.empty(len(weights))
        for t, weight in enumerate(weights):
            missed = gain**2 * error + 2 * gain * (gain - rho) * joint + (gain - rho) ** 2 * power
            along = rho * (gain * joint + (gain - rho) * power)
            fresh = power * (1 - rho**2)
            error = (1 - weight) ** 2 * (missed + fresh) + (noise if weight > 0 else 0.0)
            joint = (1 - weight) * (along - fresh)
            found[t] = error
        return found


class LearnedAR1:
    """The same with mean, variance and autocorrelation of the values published so far, for each cell.

    Source: ZKL22 (Algorithm 1)
    """

    def __init__(self, cells: int, noise: float) -> None:
        self._noise = noise
        self._count = 0
        self._first = self._last = np.zeros(cells)
        self._sum, self._squares, self._products = np.zeros(cells), np.zeros(cells), np.zeros(cells)

    def add(self, published: Floats) -> None:
        """One more published value of every cell, (cells,)."""
        if self._count == 0:
            self._first = published
        moved = published - self._first  # smaller numbers, smaller roundings
        self._products = self._products + moved * self._last
        self._squares = self._squares + moved**2
        self._sum = self._sum + moved
        self._last = moved
        self._count += 1

    def predicted(self, last: Floats) -> Floats:
        """The prediction of the next value from the last published one, once there are two."""
        n, mean = self._count, self._sum / self._count
        spread = np.maximum(self._squares - n * mean**2, 0.0)
        # sum over neighbors of (x_i - mean) (x_(i+1) - mean); the first of all moved values is 0
        lagged = self._products - mean * (2 * self._sum - self._last) + (n - 1) * mean**2
        correlation = np.clip(lagged / np.maximum(spread, 1e-300) + 1 / n, -1.0, 1.0)
        power = np.maximum(spread / (n - 1) - self._noise, 0.0)
        return self._first + mean + correlation * power / (power + self._noise) * (last - self._first - mean)


def still_errors(weights: Sequence[float], noise: float) -> Floats:
    """Mean square errors of x_t for a stream that does not move, with a learned process, shape (weights,).

    The prediction is then close to the mean of what was published, whose variance is followed.
    Where the weight is 0 nothing is measured, and there is no noise.
    """
    found, spread = np.empty(len(weights)), 0.0
    for t, weight in enumerate(weights):
        drawn = noise if weight > 0 else 0.0
        found[t] = (1 - weight) ** 2 * spread + drawn
        spread = (1 - weight / (t + 1)) ** 2 * spread + drawn / (t + 1) ** 2
    return found
