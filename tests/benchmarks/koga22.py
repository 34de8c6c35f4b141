"""KOGA22's algorithm as its authors publish it, without and with its filter, and what it needs by the exact mixture.

Formulas lost in the paper's text are those of the authors' code, tacchan7412/Privacy-Amplification-by-Subsampling-in-
Time-Domain on GitHub, read and written anew: the synthetic signal, the split of delta, and the filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from policyc.offers.calibration import sample_stddev

Array = NDArray[np.float64]
Noisy = Callable[[int], tuple[Array, Array]]
"""From a seed to what is published and the variances of its noise, both (T,), in units; NaN where not known."""

RATES = (0.1, 0.2, 0.3)
LEAST_SHARE = 1e-9  # of delta, that must be left beside what the tail takes


def koga22_methods(true: NDArray[np.int64], epsilon: float, delta: float, bound: int) -> Iterator[tuple[str, Noisy]]:
    """Steps chosen at random, shown with noise, straight lines between: names and what they publish.

    Args:
        true: (T,) values.
        epsilon: of the promise, nats.
        delta: of the promise.
        bound: steps that one user takes part in at most.
    """
    averages = average_weights(true.size)
    filtered = np.fft.irfft(np.fft.rfft(true) * np.fft.rfft(averages), true.size)
    for rate in RATES:
        yield (
            f"Koga, rate {rate}, linear, authors' calibration",
            _sampled(true, rate, authors_stddev(epsilon, delta, bound, rate)),
        )
        yield (
            f"Koga, rate {rate}, linear, filter, authors' calibration",
            _sampled(filtered, rate, filtered_stddev(epsilon, delta, bound, rate, averages)),
        )
        yield (
            f"Koga, rate {rate}, linear, exact mixture",
            _sampled(true, rate, exact_stddev(epsilon, delta, bound, rate)),
        )


def _sampled(values: Array | NDArray[np.int64], rate: float, stddev: float) -> Noisy:
    def noisy(seed: int) -> tuple[Array, Array]:
        generator = np.random.default_rng(seed)
        shown = np.flatnonzero(generator.random(values.size) < rate)
        drawn = values[shown] + generator.normal(0, stddev, shown.size)
        return np.interp(np.arange(values.size), shown, drawn), np.full(values.size, np.nan)

    return noisy


def exact_stddev(epsilon: float, delta: float, bound: int, rate: float) -> float:
    """The least noise for steps chosen at random and shown, by the exact mixture."""
    from policyc_check.users.subsampling import poisson_sample

    return sample_stddev(poisson_sample(bound, rate), epsilon, delta, 1.0)


def authors_stddev(epsilon: float, delta: float, bound: int, rate: float) -> float:
    """The same as KOGA22 has it: delta split between the binomial tail and the classical Gaussian formula, at best."""
    from scipy.stats import binom

    shown = np.arange(1, bound + 1)
    left = delta - binom.sf(shown, bound, rate)
    shown, left = shown[left > LEAST_SHARE * delta], left[left > LEAST_SHARE * delta]
    return float(np.min(np.sqrt(2 * np.log(1.25 / left) * shown)) / epsilon)


def average_weights(steps: int) -> Array:
    """The filter: a moving average in a ring, Gaussian, 10 steps wide, (steps,)."""
    away = np.minimum(np.arange(steps), steps - np.arange(steps))
    weights = np.exp(-0.5 * (away / 10) ** 2)
    return np.asarray(weights / weights.sum())


def filtered_stddev(epsilon: float, delta: float, bound: int, rate: float, averages: Array) -> float:
    """Noise with the filter, as KOGA22 has it: half of delta for the tail of what sampling leaves of a user's norm.

    The share of the norm that is left is the least for which their matrix Chernoff bound keeps that half.
    """
    square = float((averages**2).sum())
    shares = np.linspace(math.sqrt(rate), 1, 10_000)[1:-1]
    more = shares**2 / rate - 1
    tail = math.log(2 * square * averages.size) + (more - (1 + more) * np.log1p(more)) * rate / square
    kept = tail + np.log(np.exp(epsilon / shares) - math.exp(epsilon)) <= math.log(delta / 2)
    share = float(shares[kept].min(initial=1.0))
    return math.sqrt(2 * math.log(2.5 / delta) * bound) * share / epsilon
