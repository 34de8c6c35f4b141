"""Series of a declared law beyond AR(1): autoregressive ones, and those of any list of autocovariances.

A list that ends is the autocovariance of a moving average, which Wilson's recursion finds; both are then one state
whose first component is the value, as in Harvey's form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_NUMBERS = 200  # of a list: a pass over values costs its square at every step
SAME = (
    1e-9  # of the variance: what a density below 0 may be rounded by, and how near 1 a partial autocorrelation may be
)
LIFT = 1e-10  # of the variance: white noise that keeps the roots of a moving average off the unit circle
ROUNDS = 80  # of Wilson's recursion, which takes some twenty where a density touches 0


@dataclass(frozen=True)
class Arma:
    """x_t = sum_i coefficients[i-1] x_(t-i) + e_t + sum_j weights[j] e_(t-j), around its mean.

    Args:
        coefficients: of the values before, (r,), of a stationary process.
        weights: of the innovations, (r,), the first of them 1.
        stddev: of the innovations e, > 0.

    Source: HAR89
    """

    coefficients: tuple[float, ...]
    weights: tuple[float, ...]
    stddev: float

    @property
    def size(self) -> int:
        """Of the state: the value itself, and what earlier innovations add to the next ones."""
        return len(self.weights)

    def fresh(self) -> Array:
        """The covariance of what is new in the state of a step, (r, r)."""
        return np.outer(self.weights, self.weights) * self.stddev**2

    def spread(self) -> Array:
        """The covariance of the state, (r, r), the same at every step."""
        return _spread(self).copy()

    def covariances(self, steps: int) -> Array:
        """Of values 0, 1, ..., steps - 1 apart, (steps,)."""
        state, found = _spread(self)[0].copy(), np.zeros(steps)
        for lag in range(steps if any(self.coefficients) else min(steps, self.size)):
            found[lag] = state[0]
            carry(state, 0, np.array(self.coefficients))
        return found

    def drawn(self, steps: int, generator: np.random.Generator) -> Array:
        """One course, (steps,), whose start is as likely as any other part of it."""
        weights, coefficients = np.array(self.weights), np.array(self.coefficients)
        if not coefficients.any():
            fresh = self.stddev * generator.standard_normal(steps + self.size - 1)
            return np.convolve(fresh, weights, "valid")
        sizes, axes = np.linalg.eigh(_spread(self))
        state = axes @ (np.sqrt(np.maximum(sizes, 0.0)) * generator.standard_normal(self.size))
        found = np.empty(steps)
        for t, innovation in enumerate((self.stddev * generator.standard_normal(steps)).tolist()):
            found[t] = state[0]
            carry(state, 0, coefficients)
            state += weights * innovation
        return found


def carry(rows: Array, first: int, coefficients: Array) -> None:
    """Moves the state that begins at row `first` of a vector or matrix one step on, in place, without what is new."""
    if len(coefficients) == 1:
        rows[first] *= coefficients[0]
        return
    block = rows[first : first + len(coefficients)]
    head = block[0].copy()
    block[:-1] = block[1:]
    block[-1] = 0.0
    block += np.multiply.outer(coefficients, head)


def carry_back(rows: Array, first: int, coefficients: Array) -> None:
    """The transpose of `carry`."""
    if len(coefficients) == 1:
        rows[first] *= coefficients[0]
        return
    block = rows[first : first + len(coefficients)]
    head = coefficients @ block
    block[1:] = block[:-1]
    block[0] = head


@lru_cache(maxsize=8)
def autoregressive(coefficients: tuple[float, ...], stddev: float) -> Arma:
    """The process of these coefficients whose values have this standard deviation."""
    order = len(coefficients)
    unit = Arma(coefficients, (1.0, *[0.0] * (order - 1)), 1.0)
    return Arma(coefficients, unit.weights, stddev / math.sqrt(_spread(unit)[0, 0]))


@lru_cache(maxsize=8)
def moving_average(covariances: tuple[float, ...]) -> Arma:
    """The process with these autocovariances at lags 0, 1, ..., and none beyond.

    Source: WIL69
    """
    found = np.trim_zeros(np.array(covariances), "b")
    found[0] += LIFT * found[0] + max(0.0, -least_density(covariances)[0])
    count = len(found)
    factor = np.zeros(count)
    factor[0] = math.sqrt(found[0] + 2 * np.abs(found[1:]).sum())
    lags, places = np.ogrid[:count, :count]
    for _ in range(ROUNDS):
        padded = np.concatenate([np.zeros(count), factor, np.zeros(count)])
        slopes = padded[count + places + lags] + padded[count + places - lags]
        missed = padded[count + places + lags] @ factor - found
        step = np.linalg.solve(slopes, missed)
        factor = factor - step
        if np.abs(step).max() <= 1e-14 * abs(factor[0]):
            break
    weights = factor / factor[0]
    return Arma((0.0,) * count, tuple(weights.tolist()), abs(float(factor[0])))


def largest_root(coefficients: Sequence[float]) -> float:
    """By which factor a disturbance of an autoregressive process grows a step in the long run; stationary below 1."""
    companion = np.eye(len(coefficients), k=-1)
    companion[0] = coefficients
    return float(np.abs(np.linalg.eigvals(companion)).max())


def stationary(coefficients: Sequence[float]) -> bool:
    """Whether an autoregressive process is: all its partial autocorrelations are below 1 in size.

    Source: BD91
    """
    left = np.array(coefficients, dtype=np.float64)
    while left.size:
        partial = float(left[-1])
        if abs(partial) >= 1 - SAME:
            return False
        left = (left[:-1] + partial * left[-2::-1]) / (1 - partial**2) if left.size > 1 else left[:0]
    return True


def least_density(covariances: Sequence[float]) -> tuple[float, float]:
    """The least value of c_0 + 2 sum_k c_k cos(k w), and the w in [0, pi] where it is.

    A list is the autocovariance of a series exactly where it is nowhere below 0 (Herglotz).
    """
    listed = np.array(covariances, dtype=np.float64)
    lags = np.arange(1, listed.size)
    points = max(4096, 64 * listed.size)

    def density(places: Array) -> Array:
        return np.asarray(listed[0] + 2 * np.cos(places[:, None] * lags) @ listed[1:])

    coarse = np.linspace(0, math.pi, points)
    near = float(coarse[np.argmin(2 * np.fft.rfft(listed, 2 * (points - 1)).real)])
    fine = np.clip(near + np.linspace(-1, 1, 2001) * math.pi / points, 0, math.pi)
    values = density(fine)
    return float(values.min()), float(fine[np.argmin(values)])


def predictions(covariances: Array, noise: float = 0.0) -> list[Array]:
    """How the 0, 1, 2, ... values before predict one best, (m,) the last one first, m = 0, ..., lags - 1.

    Args:
        covariances: at lags 0, 1, ...
        noise: the variance of what is on top of the values before, independent from one to the next.
    """
    from scipy.linalg import solve_toeplitz

    column = covariances.copy()
    column[0] += noise
    found = [np.empty(0)]
    found += [solve_toeplitz(column[:m], covariances[1 : m + 1]) for m in range(1, covariances.size)]
    return found


@lru_cache(maxsize=8)
def _spread(process: Arma) -> Array:
    weights = np.array(process.weights)
    if not any(process.coefficients):
        padded = np.append(weights, np.zeros(weights.size))
        shifted = np.array([padded[start : start + weights.size] for start in range(weights.size)])
        return np.asarray(shifted @ shifted.T * process.stddev**2)
    from scipy.linalg import solve_discrete_lyapunov

    step = np.eye(process.size, k=1)
    step[:, 0] += process.coefficients
    return np.asarray(solve_discrete_lyapunov(step, process.fresh()))
