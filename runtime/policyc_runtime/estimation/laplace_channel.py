"""What one Laplace-noised value says about a normal one, in closed form, and on average before any data.

A normal belief N(h, c) and a value r beyond h, with noise of density exp(-|x| / b) / 2b, have the marginal density
proportional to exp(a1) + exp(a2), with a1 = -r/b + ln Phi((r - c/b)/sqrt(c)) and a2 = a1(-r). The new mean is
h + c * score, score = tanh((a1 - a2) / 2) / b.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DECADES = (-5.0, 2.0)  # of belief variance over b^2; beyond, the limits 1 and 1/2 nearly hold
KNOTS = 71
POINTS = 2000


def laplace_width(scales: Array) -> Array:
    """The b of the Laplace density with the variance of the discrete noise, 2 r / (1 - r)^2, r = exp(-1 / scale).

    Args:
        scales: > 0, or 0 for a step without a release, whose width is inf.
    """
    with np.errstate(divide="ignore", over="ignore"):
        rate = 1.0 / np.asarray(scales, dtype=np.float64)
        width = np.exp(-0.5 * rate) / -np.expm1(-rate)
    return np.where(rate == np.inf, np.inf, np.maximum(width, 1e-6))


def score(distance: Array, variance: Array, width: Array) -> Array:
    """The derivative of the log marginal density by the belief's mean; in [-1/b, 1/b].

    Args:
        distance: noisy value minus the mean of the belief.
        variance: of the belief, >= 0.
        width: b > 0 of the noise; inf where there is none.
    """
    from scipy.special import log_ndtr

    root = np.sqrt(np.maximum(variance, 1e-12 * np.minimum(width, 1e150) ** 2))
    shift = root / width
    ahead, behind = distance / root - shift, -distance / root - shift
    odds = log_ndtr(ahead) - log_ndtr(behind) - 2.0 * distance / width
    return np.asarray(np.tanh(0.5 * odds) / width)


def wide_precision(balanced_cells: int | None) -> float:
    """What a value tells where nothing else is known: the precision b^2 / variance of the noise, at b = 1.

    1/2 of Laplace noise; more of noise that adds up to zero over `balanced_cells`, of what a known total leaves open.
    Of balanced noise j cells of m are positive with probability proportional to C(m, j) C(m - 2, j - 1); the positive
    ones share a Gamma(m - 1) total evenly, and so do the others.
    """
    if balanced_cells is None:
        return 0.5
    m = balanced_cells
    positive = range(1, m)
    weights = [math.comb(m, j) * math.comb(m - 2, j - 1) for j in positive]
    spread = sum(w * (Fraction(1, j + 1) + Fraction(1, m - j + 1)) for w, j in zip(weights, positive, strict=True))
    return float(2 * sum(weights) / (m * spread))


def site_precision(variance: Array, width: Array, wide: float = 0.5) -> Array:
    """The precision of the normal observation that leaves, on average over noise, as much variance as the Laplace one.

    Between wide / b^2, where the belief is wide, and 1 / b^2. Needs no data.

    Args:
        variance: of the belief, >= 0.
        width: b > 0 of the noise; inf gives 0.
        wide: `wide_precision` of the noise. Of balanced noise what lies between the limits is interpolated.
    """
    knots, precisions = _table()
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.log10(np.maximum(variance, 1e-300)) - 2.0 * np.log10(width)
        share = wide + (np.interp(place, knots, precisions) - 0.5) * (2.0 - 2.0 * wide)
        return np.where(np.isinf(width), 0.0, share / width**2)


@cache
def _table() -> tuple[Array, Array]:
    """Site precision at b = 1 by log10 of the belief's variance: J / (1 - cJ), with J the mean square of the score."""
    from scipy.special import log_ndtr

    knots = np.linspace(*DECADES, KNOTS)
    variance = 10.0 ** knots[:, None]
    root = np.sqrt(variance)
    distance = np.geomspace(1e-7, 1.0, POINTS) * (60.0 + 12.0 * root)
    density = [log_ndtr(sign * distance / root - root) - sign * distance for sign in (1.0, -1.0)]
    mass = np.exp(np.logaddexp(*density) + 0.5 * variance)
    squares = score(distance, variance, np.ones(1)) ** 2
    information = np.trapezoid(squares * mass, distance, axis=1) / np.trapezoid(mass, distance, axis=1)
    return knots, np.clip(information / (1.0 - variance[:, 0] * information), 0.5, 1.0)
