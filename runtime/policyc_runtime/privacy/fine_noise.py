"""Discrete Gaussian noise on a grid much finer than itself loses what continuous noise loses, and next to nothing more.

For any whole-number change of values with independent discrete Gaussian noise, of standard deviations s_i >= s in grid
units; `discrete_noise` has the exact curve where all changes are equal and the grid may be coarse.

Proof. Let P, Q be the laws of the noisy values of two neighbors, P', Q' those with a continuous Gaussian rounded to the
grid instead, d values in all. For one value the ratio of the rounded law to the discrete one at c is
E exp(-(2 c u + u^2) / (2 s^2)), u uniform in [-1/2, 1/2], but for a factor 1 + 2 exp(-2 pi^2 s^2). By Jensen's
inequality it is at least exp(-1 / (24 s^2)), and as sinh(x) / x <= exp(x^2 / 6), at most exp(c^2 / (24 s^4)). So
P <= exp(a) P' with a = d / (24 s^2), and Q' <= exp(b) Q with b = r^2 / (24 s^2) but for noise whose length exceeds r
standard deviations: with r = 1.2 sqrt(d) + 60 less than exp(-900). So delta(epsilon) <= exp(a) delta'(epsilon - a - b),
and delta' is the Gaussian curve of mu, as rounding is post-processing. With x = epsilon / mu - mu / 2 the curve has
d delta' / d mu = phi(x) and -d delta' / d epsilon <= phi(x) sqrt(pi / 2): a shift of epsilon by a + b costs at most
1.26 (a + b) of mu. And delta' <= Phi(-x) <= 3 exp(mu^2 / 8) phi(x): the factor costs no more than that times 1.01 a.
"""

from __future__ import annotations

import math

from policyc_runtime.privacy.profile import PrivacyProfile

FINE = 1e4
"""The least standard deviation, in grid units, for which the proof is used."""


def fine_gaussian_profile(mu: float, least_stddev: float, values: int) -> PrivacyProfile:
    """The privacy curve of discrete Gaussian noise on a fine grid: Gaussian, with a slightly larger mu.

    Args:
        mu: L2 norm of the change, each value's in units of its stddev, rounded up, > 0.
        least_stddev: of the noise, in grid units; below 10^4 the grid is too coarse, and nothing is promised.
        values: how many values one user can change at most, >= 1.
    """
    if not least_stddev >= FINE:
        return PrivacyProfile(mu=math.inf)
    unit = 1 / (24 * least_stddev**2)
    a, b = values * unit, (1.2 * math.sqrt(values) + 60) ** 2 * unit
    factor = 4 * a * math.exp(min((mu + 1) ** 2 / 8, 700.0))
    return PrivacyProfile(mu=math.nextafter(max(mu, math.sqrt(2 * (a + b))) + 1.26 * (a + b) + factor, math.inf))
