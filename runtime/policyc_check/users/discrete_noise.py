"""Exact privacy curves of the noise that is drawn: discrete Gaussian and discrete Laplace, on whole numbers.

A change by c in one count, under noise on the integers that is symmetric and log-concave, is told best by thresholds,
and better the larger c is. So among all ways to change at most n counts by at most c each, n changes by c lose most,
and the curves here are those of n independent changes by c.

Discrete Gaussian, variance parameter v: loss (n c^2 / 2 + c Z) / v with Z a sum of n discrete Gaussians. From
sqrt(v) = 3 on, Pr(Z = z) <= (1 + 1e-12) exp(-z^2 / (2 n v)) / sqrt(2 pi n v). Proof: given Z = z the terms lie on a
coset of a lattice, whose Gaussian mass is largest for the lattice itself: Pr(Z = z) <= exp(-z^2 / (2 n v)) Pr(Z = 0).
Pr(Z = 0) is the mean of the n-th power of the characteristic function, which by Poisson summation is at most
exp(-v t^2 / 2) + 2.1 exp(-v pi^2 / 2) on [-pi, pi]; expand: the second term, < 1.2e-19, adds a relative 2n of itself,
below 1e-12 for n up to a million.

Source: CKS20 (the distributions; the bound on sums is ours).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from policyc_check.rounding import rounded_up
from policyc_check.users.composition import LossLaw, composed_delta
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.profile import FAR, LatticeLoss, PrivacyProfile

MOST_CHANGES = 10**6
MOST_POINTS = 2**21  # of the lattice, summed one by one; beyond that the sum is an integral to 7 digits
SMOOTH = 9.0  # variance from which the law of a sum is known in closed form


@dataclass(frozen=True)
class DiscreteGaussianLoss:
    """The privacy loss of discrete Gaussian noise on counts.

    Args:
        v: variance parameter of the noise, in squared counts, > 0.
        changes: counts that differ, 1 to 10^6.
        shift: by how much each differs, >= 1.

    Source: CKS20
    """

    v: float
    changes: int
    shift: int = 1

    @property
    def variance(self) -> float:
        """Of the loss, in squared nats; for small noise an upper bound."""
        return self.changes * self.shift**2 / self.v

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0).

        Within a relative 1e-9 of it; 1e-5 where the noise on all changes together has a stddev above 200,000.
        """
        if self.v < SMOOTH:
            return composed_delta(epsilon, self.laws)
        width = math.sqrt(self.changes * self.v)  # standard deviation of Z
        start = (epsilon * self.v - self.changes * self.shift**2 / 2) / self.shift  # where the loss is epsilon
        reach = min(45 * width**2 / start, 9.5 * width) if start > 0 else 9.5 * width - max(start, -9.5 * width)
        if reach > MOST_POINTS:
            value = gaussian_delta(epsilon, math.sqrt(self.changes / self.v) * self.shift)
            value += _largest_term(start, width, self.changes * self.shift)
        else:
            first = math.floor(max(start, -9.5 * width)) + 1
            z = np.arange(first, first + math.ceil(reach) + 1)
            terms = np.exp(-((z / width) ** 2) / 2) * -np.expm1((start - z) * (self.shift / self.v))
            value = float(terms.sum()) / (width * math.sqrt(2 * math.pi)) + (1e-19 if start <= 0 else 0.0)
        return min(1.0, max(value * (1 + 1e-11), sys.float_info.min))

    @cached_property
    def laws(self) -> list[tuple[LossLaw, int]]:
        """The law of Z where it is known, else that of one change, as often as there are changes."""
        sums = self.v >= SMOOTH
        width = math.sqrt(self.changes * self.v if sums else self.v)
        changed = self.changes if sums else 1
        reach = math.ceil(min(40 * width, max(20 * width, 1e6))) + 1
        z = np.arange(-reach, reach + 1)
        exponents = -((z / width) ** 2) / 2
        total = width * math.sqrt(2 * math.pi) if sums else math.fsum(np.exp(exponents).tolist())
        law = LossLaw(
            self.shift / self.v,
            changed * self.shift**2 / (2 * self.v),
            -reach,
            exponents - math.log(total) + 2e-12,
            lost=2 * math.exp(-((reach / width) ** 2) / 2),
        )
        return [(law, 1 if sums else self.changes)]

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """Laws on the multiples of `step` whose delta is nowhere smaller; 14 deviations away the loss is infinite."""
        return [(law.within(FAR).onto(step), times) for law, times in self.laws]


def _largest_term(start: float, width: float, drift: float) -> float:
    """Bound on f(z) = density(z) (1 - exp(-(z - start) drift / width^2)), z > start.

    f is log-concave, so its sum over the integers is at most its integral plus its largest value.
    """
    top = 1 / (width * math.sqrt(2 * math.pi))
    if start <= 0:
        return top
    return top * math.exp(-((start / width) ** 2) / 2) * min(1.0, drift / (math.e * start))


def discrete_gaussian_profile(variance: Fraction | float, changes: int, shift: int = 1) -> PrivacyProfile:
    """The privacy curve of discrete Gaussian noise on counts.

    Args:
        variance: the parameter of the noise, in squared counts, > 0.
        changes: counts that differ between neighbors at most, 1 to 10^6.
        shift: by how much each of them differs at most, >= 1.

    Source: CKS20
    """
    _check(float(variance), changes, shift)
    return PrivacyProfile(losses=(DiscreteGaussianLoss(float(variance), changes, shift),))


def discrete_gaussian_bound(variance: Fraction, l2_square: int) -> PrivacyProfile:
    """An upper bound on the privacy curve of discrete Gaussian noise on whole numbers that change in any way.

    It is the curve of continuous noise of variance v - 3. Proof: with u = exp(loss) under the other data set, delta is
    the mean of (u - exp(epsilon))^+, which is convex in u; so it grows when u is multiplied by independent
    exp(s W / v - w |s|^2 / (2 v^2)), of mean 1, with W normal of variance w. Noise plus W has at most 1 + h times the
    density of normal noise of variance v + w, h = 2 sum_j exp(-2 (pi j)^2 v w / (v + w)), by Poisson summation; and for
    it the curve is exact, with mu = |s| sqrt(v + w) / v. Take w = 3 v / (v - 3): mu^2 = |s|^2 / (v - 3), h < 4e-26.
    (1 + h)^n is below what every delta is raised by for rounding, up to n = 10^12 numbers.

    Args:
        variance: the parameter v of the noise, in squared units, > 6.
        l2_square: of the change, in squared units, >= 0; of up to 10^12 whole numbers.

    Source: CKS20, BW18 (the bound is ours)
    """
    if not variance > 6:
        raise ValueError("noise on whole numbers has a variance above 6 here")
    return PrivacyProfile(mu=math.nextafter(math.sqrt(rounded_up(l2_square / (Fraction(variance) - 3))), math.inf))


def discrete_laplace_profile(scale: Fraction | float, changes: int, shift: int = 1) -> PrivacyProfile:
    """The privacy curve of discrete Laplace noise on counts.

    Args:
        scale: of the noise, in counts, > 0.
        changes: counts that differ between neighbors at most, 1 to 10^6.
        shift: by how much each of them differs at most, >= 1.

    Source: CKS20
    """
    _check(float(scale), changes, shift)
    s = float(scale)
    j = np.arange(shift + 1)  # the value drawn, cut to 0..c, tells all: its loss is (2 j - c) / s
    log_weights = (j - shift) / s + math.log(-math.expm1(-1 / s))
    log_weights[0], log_weights[-1] = -shift / s, 0.0
    log_weights = log_weights * (1 - 2**-50) - math.log1p(math.exp(-1 / s)) + 1e-15  # none is above 0
    law = LossLaw(2 / s, -shift / s, 0, log_weights)
    return PrivacyProfile(losses=(LatticeLoss([(law, changes)]),))


def _check(noise: float, changes: int, shift: int) -> None:
    if not (0 < noise < math.inf and 1 <= changes <= MOST_CHANGES and shift >= 1):
        raise ValueError("noise is positive, changes are 1 to a million, a shift is at least 1")
