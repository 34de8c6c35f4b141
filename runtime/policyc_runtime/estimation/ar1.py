"""The AR(1) process that makes a noisy series likeliest, where the variance of its noise is known.

x_t = mean + autocorrelation (x_{t-1} - mean) + fresh normal noise, seen as y_t = x_t + noise of variance v_t. Nothing
is known of the mean beforehand (a diffuse prior); a step without a value has v_t = inf or y_t = NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FEWEST_VALUES = 4  # fewer say nothing of three parameters
LEAST_STDDEV = 1e-4  # of the signal, relative to the spread of the noisy values: less cannot be told from none
LARGEST_STDDEV = 1e3
LARGEST_AUTOCORRELATION = 0.9999


@dataclass(frozen=True)
class Ar1:
    """A stationary AR(1) process.

    Args:
        mean: of the values.
        stddev: of the values around their mean, >= 0.
        autocorrelation: of neighbors, in (-1, 1).
    """

    mean: float
    stddev: float
    autocorrelation: float


def ar1_log_likelihood(values: Array, variances: Array, stddev: float, autocorrelation: float) -> tuple[float, float]:
    """Log-likelihood of noisy values with the mean integrated out under a flat prior, and the likeliest mean.

    One pass of Kalman's recursion, on the values and on a constant beside them.

    Args:
        values: (T,), NaN without one.
        variances: (T,) of the noise, > 0; inf without a value.
        stddev: of the process, >= 0.
        autocorrelation: of the process.

    Returns:
        (log-likelihood, up to a constant; mean).

    Source: KAL60
    """
    stationary = stddev * stddev
    fresh = stationary * (1.0 - autocorrelation * autocorrelation)
    level = slope = 0.0  # expected value given earlier ones, and how it moves with the mean
    variance = stationary
    logs = squares = crosses = weight = 0.0
    for value, noise in zip(values.tolist(), variances.tolist(), strict=True):
        if not math.isnan(value) and noise != math.inf:
            total = variance + noise
            away, pull = value - level, 1.0 - slope
            logs += math.log(total)
            squares += away * away / total
            crosses += away * pull / total
            weight += pull * pull / total
            gain = variance / total
            level += gain * away
            slope += gain * pull
            variance *= noise / total
        level *= autocorrelation
        slope *= autocorrelation
        variance = variance * autocorrelation * autocorrelation + fresh
    if weight == 0.0:
        raise ValueError("no value was measured")
    mean = crosses / weight
    return -0.5 * (logs + squares - crosses * mean + math.log(weight)), mean


def fit_ar1(values: Array, variances: Array) -> Ar1:
    """The stationary AR(1) process of greatest likelihood, whose noise has known variances.

    Args:
        values: (T,), NaN without one; at least 4 measured.
        variances: (T,) of the noise, > 0; inf without a value.

    Raises:
        ValueError: fewer than 4 values.

    Source: KAL60
    """
    from scipy.optimize import minimize

    given = np.isfinite(values) & np.isfinite(variances)
    if given.sum() < FEWEST_VALUES:
        raise ValueError("fewer than 4 values say nothing of an AR(1) process")
    noise = float(np.mean(variances[given]))
    spread = math.sqrt(float(np.var(values[given])) + noise)
    low, high = math.log(LEAST_STDDEV * spread), math.log(LARGEST_STDDEV * spread)
    bound = math.atanh(LARGEST_AUTOCORRELATION)

    def parameters(point: Array) -> tuple[float, float]:
        stddev = math.exp(min(max(float(point[0]), low), high))
        return stddev, math.tanh(min(max(float(point[1]), -bound), bound))

    def cost(point: Array) -> float:
        beyond = float(max(low - point[0], point[0] - high, abs(point[1]) - bound, 0.0))  # keeps the simplex inside
        return beyond - ar1_log_likelihood(values, variances, *parameters(point))[0]

    excess = float(np.var(values[given])) - noise
    start = math.log(math.sqrt(max(excess, 0.05 * spread**2)))
    starts = [np.array([start, math.atanh(rho)]) for rho in (0.3, 0.9)]
    begin = min(starts, key=cost)
    options = {"xatol": 1e-3, "fatol": 1e-4, "maxfev": 200}
    found = minimize(cost, begin, method="Nelder-Mead", options=options)
    stddev, autocorrelation = parameters(found.x)
    mean = ar1_log_likelihood(values, variances, stddev, autocorrelation)[1]
    return Ar1(mean, stddev, autocorrelation)
