"""The laws of noise on whole numbers, and the exact curve of what each tells about a change of them.

All are symmetric and log-concave. So a change by c in one number is told best by thresholds, and better the larger c
is: among all ways to change at most n numbers by at most c each, n changes by c lose most, and `alike` is their curve.

Source: CKS20 and DKMMN06 (the distributions; the bounds on sums are ours).
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from policyc_check.rounding import rounded_up
from policyc_check.users.composition import GAP, Atoms, Floats, LossLaw, composed_delta
from policyc_check.users.profile import AlikeLosses, Laws, Loss, PrivacyProfile, pure_profile
from policyc_check.users.setting import Moves

MOST_CHANGES = 10**6
WIDEST = 2**21  # points of a sum that are added one by one
SMOOTH = 9  # variance from which the law of a sum of discrete Gaussians is known in closed form
REACH = 20  # standard deviations of noise that are looked at; what is beyond, below exp(-200), loses everything


class Law(ABC):
    """Of independent noise on every number that is measured."""

    def profile(self, moves: Moves) -> PrivacyProfile:
        """The curve of all numbers together, an upper bound, for numbers that move so far at most."""
        return self.any_way(moves) if moves.alike is None else self.alike(*moves.alike)

    @abstractmethod
    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """The curve where `changes` numbers, 1 to a million, differ by `shift` >= 1 each."""

    def any_way(self, moves: Moves) -> PrivacyProfile:  # noqa: ARG002
        """A curve above that of numbers that move in any direction."""
        raise ValueError("this noise is accounted for on numbers that all move alike")


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """Pr(x) proportional to exp(-x^2 / (2 variance)), in squared units.

    Source: BW18, CKS20
    """

    variance: Fraction

    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """Exact; that of any change, a part in 10,000 above it at most, where noise is too wide to be summed."""
        v = float(self.variance)
        _require(v, changes, shift)
        if 9.5**2 * changes * v > WIDEST**2:
            return self.any_way(Moves(changes * shift**2, changes * shift))
        return PrivacyProfile(losses=(DiscreteGaussianLoss(v, changes, shift),))

    def any_way(self, moves: Moves) -> PrivacyProfile:
        """The curve of continuous noise of variance v - 3.

        Proof: with u = exp(loss) under the other data set, delta is the mean of (u - exp(epsilon))^+, which is convex
        in u; so it grows when u is multiplied by independent exp(s W / v - w |s|^2 / (2 v^2)), of mean 1, with W normal
        of variance w. Noise plus W has at most 1 + h times the density of normal noise of variance v + w,
        h = 2 sum_j exp(-2 (pi j)^2 v w / (v + w)), by Poisson summation; and for it the curve is exact, with
        mu = |s| sqrt(v + w) / v. Take w = 3 v / (v - 3): mu^2 = |s|^2 / (v - 3), h < 4e-26. (1 + h)^n is below what
        every delta is raised by for rounding, up to n = 10^12 numbers.
        """
        if not self.variance > 6:
            raise ValueError("noise on whole numbers has a variance above 6 here")
        square = rounded_up(moves.l2_square / (Fraction(self.variance) - 3))
        return PrivacyProfile(mu=math.nextafter(math.sqrt(square), math.inf))


@dataclass(frozen=True)
class DiscreteGaussianLoss(Loss):
    """The loss of discrete Gaussian noise on n numbers that differ by c each: (n c^2 / 2 + c Z) / v.

    Z is a sum of n discrete Gaussians. From v = 9 on, Pr(Z = z) <= (1 + 1e-12) exp(-z^2 / (2 n v)) / sqrt(2 pi n v).
    Proof: given Z = z the terms lie on a coset of a lattice, whose Gaussian mass is largest for the lattice itself:
    Pr(Z = z) <= exp(-z^2 / (2 n v)) Pr(Z = 0). Pr(Z = 0) is the mean of the n-th power of the characteristic function,
    which by Poisson summation is at most exp(-v t^2 / 2) + 2.1 exp(-v pi^2 / 2) on [-pi, pi]; expand: the second term,
    < 1.2e-19, adds a relative 2n of itself, below 1e-12 for n up to a million.

    Args:
        v: variance parameter of the noise, in squared units, > 0.
        changes: n.
        shift: c.
    """

    v: float
    changes: int
    shift: int = 1

    @property
    def variance(self) -> float:
        """Of the loss, in squared nats; for small noise an upper bound."""
        return self.changes * self.shift**2 / self.v

    @cached_property
    def laws(self) -> Laws:
        """The law of Z where it is known, else that of one change, as often as there are changes."""
        together, times, most = (self.changes, 1, REACH) if self.v >= SMOOTH else (1, self.changes, 2 * REACH)
        width = math.sqrt(together * self.v)
        reach = math.ceil(most * width) + 1
        exponents = -((np.arange(-reach, reach + 1) / width) ** 2) / 2
        total = width * math.sqrt(2 * math.pi) if self.v >= SMOOTH else math.fsum(np.exp(exponents).tolist())
        law = LossLaw(
            self.shift / self.v,
            together * self.shift**2 / (2 * self.v),
            -reach,
            exponents - math.log(total) + 2e-12,
            lost=2 * math.exp(-((reach / width) ** 2) / 2),
        )
        return ((law, times),)

    def onto(self, step: float) -> Laws:
        """Each atom is split."""
        return tuple((law.onto(step), times) for law, times in self.laws)

    def delta(self, epsilon: float) -> float:
        """Within a relative 1e-9 above the true one, however small."""
        if self.v < SMOOTH:
            return composed_delta(epsilon, self.laws)
        width = math.sqrt(self.changes * self.v)  # standard deviation of Z
        start = (epsilon * self.v - self.changes * self.shift**2 / 2) / self.shift  # where the loss is epsilon
        reach = min(45 * width**2 / start, 9.5 * width) if start > 0 else 9.5 * width - max(start, -9.5 * width)
        z = math.floor(max(start, -9.5 * width)) + 1 + np.arange(math.ceil(reach) + 1)
        terms = np.exp(-((z / width) ** 2) / 2) * -np.expm1((start - z) * (self.shift / self.v))
        value = float(terms.sum()) / (width * math.sqrt(2 * math.pi)) + (1e-19 if start <= 0 else 0.0)
        return min(1.0, max(value * (1 + 1e-11), sys.float_info.min))


@dataclass(frozen=True)
class DiscreteLaplace(Law):
    """Pr(x) proportional to exp(-|x| / scale).

    Source: CKS20
    """

    scale: Fraction

    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """Exact: the number drawn, cut to 0..c, tells all, and j of it loses (2 j - c) / scale."""
        s = float(self.scale)
        _require(s, changes, shift)
        log_weights = (np.arange(shift + 1) - shift) / s + math.log(-math.expm1(-1 / s))
        log_weights[0], log_weights[-1] = -shift / s, 0.0
        log_weights = log_weights * (1 - 2**-50) - math.log1p(math.exp(-1 / s)) + 1e-15  # none is above 0
        return PrivacyProfile(losses=(AlikeLosses(LossLaw(2 / s, -shift / s, 0, log_weights), changes),))

    def any_way(self, moves: Moves) -> PrivacyProfile:
        """At most the L1 sensitivity over the scale is lost."""
        return pure_profile(rounded_up(moves.l1 / self.scale))


@dataclass(frozen=True)
class Coins(Law):
    """Heads of 2 `half` fair coins less `half`, of variance half / 2.

    The loss of one change by c at x is the sum of log((m - y + 1) / (m + y)), m = `half`, over the c whole numbers y
    from x - c + 1 to x, negated; where the other data set cannot give x it is infinite. The losses lie on no lattice.

    Lemma A.2 of ZKL22 holds and is loose: 1.5 to 3 times the loss. Its Theorem A.5 uses the sensitivity w c of weighted
    whole numbers, which is unsound for w < 1: a count that is rounded after weighting moves by ceil(w c).

    Source: DKMMN06
    """

    half: int

    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """Within a relative 1e-5 above the exact curve."""
        _require(self.half, changes, shift)
        return PrivacyProfile(losses=(AlikeLosses(_coin_atoms(self.half, shift), changes),))


@lru_cache(maxsize=8)
def _coin_atoms(half: int, shift: int) -> Atoms:
    """Losses log Pr(x) / Pr(x + shift) of one change and their probabilities, all rounded up."""
    reach = min(half, math.ceil(REACH * math.sqrt(half / 2)))
    if shift > reach:
        return Atoms(np.zeros(1), np.full(1, 1e-300), 1.0 - 2.0**-53)
    y = np.arange(1, reach + 1, dtype=np.float64)
    falls = -np.log1p((1 - 2 * y) / (half + y))  # log Pr(y - 1) / Pr(y)
    logs = np.cumsum(falls)  # log Pr(0) / Pr(y)
    right = np.exp(-logs)
    total = 1 + 2 * math.fsum(right.tolist())
    right = right / total * (1 + 2 * y * GAP * (1 + logs) + 16 * GAP)
    probabilities = np.concatenate([right[::-1], [(1 + 16 * GAP) / total], right])
    losses = _sums(np.concatenate([-falls[::-1], falls]), shift)
    known = probabilities[: losses.size]  # what is beyond cannot come from the other data set, or is too far out
    lost = math.fsum(probabilities[losses.size :].tolist()) + (2 * math.exp(-(REACH**2) / 2) if reach < half else 0.0)
    return Atoms(losses + 64 * GAP * (1 + np.abs(losses)), known, min(1.0 - 2.0**-53, lost))


def _sums(terms: Floats, width: int) -> Floats:
    """Sums of every `width` terms in a row, by doubling: each is rounded only as often as `width` has binary digits."""
    found, block, size, start = np.zeros(terms.size - width + 1), terms, 1, 0
    while True:
        if width & size:
            found += block[start : start + found.size]
            start += size
        if 2 * size > width:
            return found
        block, size = block[:-size] + block[size:], 2 * size


def _require(noise: float, changes: int, shift: int) -> None:
    if not (0 < noise < math.inf and 1 <= changes <= MOST_CHANGES and shift >= 1):
        raise ValueError("noise is positive, changes are 1 to a million, a shift is at least 1")
