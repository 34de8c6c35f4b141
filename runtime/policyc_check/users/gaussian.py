"""The exact privacy curve of Gaussian noise.

With mu = L2 sensitivity / stddev the loss is mu Z + mu^2 / 2, Z normal. It is epsilon where Z = x = epsilon/mu - mu/2,
so delta = E (1 - exp(epsilon - loss))^+ is the integral of phi(x + t) (1 - exp(-mu t)) over t > 0, which has no term
below 0 and neither overflows nor cancels. Independent Gaussian releases compose exactly: their mu^2 add.

Every delta here is an upper bound: the value in floating point, accurate to about 4e-13, raised by a relative 2e-12, or
more where epsilon and mu are so large that their difference x loses digits. Source: BW18
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.polynomial.legendre import leggauss

SLACK = 2e-12
"""Relative rounding of every delta, upward. The largest error comes from exp(-x^2/2): x is known to 2 units in its last
place and |x| < 40 where delta is a normal number, so 40^2 2^-52 < 4e-13; the other factors add a few 1e-15."""
NODES, WEIGHTS = leggauss(32)  # on [-1, 1]


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The delta of a Gaussian release at `epsilon`: exact but for upward rounding, a relative 4e-12 up to mu 50.

    `mu` >= 0 is L2 sensitivity / stddev; for several releases the root of the sum of their squares. Below 2.3e-308 it
    is that, unless mu is 0.
    """
    if not (epsilon >= 0 and mu >= 0):
        raise ValueError("epsilon and mu are at least 0")
    if mu == 0:
        return 0.0
    x = epsilon / mu - mu / 2 if mu < math.inf else -math.inf
    if x > 40:
        return sys.float_info.min
    if x < -9:  # delta is 1 less 1e-18 at most
        return 1.0
    end = 80 / (x + math.sqrt(x * x + 80))  # where x t + t^2 / 2 is 40
    halved = max(0, math.ceil(math.log2(mu * end))) + 1
    edges = end * np.append(0.0, 2.0 ** np.arange(-halved, 1))  # Gauss's rule between, the finer the nearer to 0
    width = np.diff(edges)
    t = edges[:-1, None] + width[:, None] * (1 + NODES) / 2
    inner = (np.exp(-t * (x + t / 2)) * -np.expm1(-mu * t)) @ WEIGHTS
    value = math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * float(inner @ width) / 2
    lost = 1e-15 * (epsilon / mu + mu / 2) * (abs(x) + 2)  # log delta falls by at most |x| + 2 where x grows by 1
    return min(1.0, max(value * (1 + max(SLACK, lost)), sys.float_info.min))
