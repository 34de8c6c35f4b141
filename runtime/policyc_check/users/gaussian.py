"""The exact privacy curve of the Gaussian mechanism, and the noise it takes.

With mu = L2 sensitivity / stddev, delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu). At
x = epsilon/mu - mu/2 the two densities agree, exp(epsilon) phi(x + mu) = phi(x), so with Mills' ratio M = (1 - Phi)/phi
delta = phi(x) (M(x) - M(x + mu)) = phi(x) integral of -M' over [x, x + mu], which neither overflows nor cancels.
Independent Gaussian releases compose exactly: their mu^2 add.

Every delta here is an upper bound: the value in floating point, accurate to about 4e-13, raised by a relative 2e-12, or
more where epsilon and mu are so large that their difference x loses digits.

Source: BW18
"""

from __future__ import annotations

import math
import sys
from functools import cache

SLACK = 2e-12
"""Relative rounding of every delta, upward. The largest error comes from exp(-x^2/2): x is known to 2 units in its last
place and |x| < 39 where delta is a normal number, so 39^2 2^-52 < 4e-13; the other factors add a few 1e-15."""


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of a Gaussian release at `epsilon`: exact but for upward rounding, a relative 4e-12 up to mu 50.

    Args:
        epsilon: nats, >= 0.
        mu: L2 sensitivity / stddev, >= 0; for several releases the root of the sum of their squares.

    Returns:
        delta in [0, 1]; never below 2.3e-308 unless mu is 0.

    Source: BW18
    """
    if not (epsilon >= 0 and mu >= 0):
        raise ValueError("epsilon and mu are at least 0")
    if mu == 0:
        return 0.0
    if mu == math.inf:
        return 1.0
    x = epsilon / mu - mu / 2
    if x > 40:
        return sys.float_info.min
    if mu <= 0.5:
        value = _density(x) * _mills_fall(x, mu)
    elif x >= 0:
        value = _density(x) * (_mills(x) - _mills(x + mu))
    else:
        value = 0.5 * math.erfc(x * math.sqrt(0.5)) - _density(x) * _mills(x + mu)
    lost = 1e-15 * (epsilon / mu + mu / 2) * (abs(x) + 2)  # log delta falls by at most |x| + 2 where x grows by 1
    return min(1.0, max(value * (1 + max(SLACK, lost)), sys.float_info.min))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x) for x >= 0."""
    if x < 3:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x * math.sqrt(0.5))
    return 1 / (x + _fraction(x))


def _mills_slope(x: float) -> float:
    """-M'(x) = 1 - x M(x), > 0, for x >= -1."""
    if x < 3:
        return 1 - x * math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x * math.sqrt(0.5))
    tail = _fraction(x)
    return tail / (x + tail)


def _fraction(x: float) -> float:
    """1 / (x + 2 / (x + 3 / ...)), Laplace's continued fraction: 50 terms give full precision from x = 3 on."""
    tail = 0.0
    for index in range(50, 0, -1):
        tail = index / (x + tail)
    return tail


def _mills_fall(x: float, width: float) -> float:
    """M(x) - M(x + width) for widths up to 1/2, where the difference itself would cancel: Gauss's quadrature."""
    return width * sum(weight * _mills_slope(x + width * node) for node, weight in _quadrature())


@cache
def _quadrature() -> list[tuple[float, float]]:
    """Nodes and weights on [0, 1]; 12 of them integrate M' over half a unit to full precision."""
    from numpy.polynomial.legendre import leggauss

    nodes, weights = leggauss(12)
    return [((1 + node) / 2, weight / 2) for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)]
