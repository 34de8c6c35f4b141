"""The laws of noise on whole numbers, and the exact curve of what each tells about a change of them.

All are symmetric and log-concave. So a change by c in one number is told best by thresholds, and better the larger c
is: among all ways to change at most n numbers by at most c each, n changes by c lose most, and `alike` is their curve.

Source: CKS20 and DKMMN06 (the distributions; the bounds on sums are ours).
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from policyc_check.rounding import rounded_up
from policyc_check.users.composition import GAP, Atoms, LossLaw
from policyc_check.users.profile import Laws, PrivacyProfile, SumLoss, pure_profile
from policyc_check.users.setting import Moves

MOST_CHANGES = 10**6
MOST_LOSSES = 4 * 10**6  # of Laplace noise, that are convolved: more are taken for the largest
WIDEST = 2**21  # points of a sum that are added one by one
NEARLY_NORMAL = 10**5  # variance from which the closed bound is hardly more: by 3 parts in 100,000 of the variance
SMOOTH = 9  # variance from which the law of a sum of discrete Gaussians is known in closed form
REACH = 20  # standard deviations of noise that are looked at; what is beyond, below exp(-200), loses everything


def added(losses: Iterable[Fraction | None]) -> Fraction | None:
    """What is lost together, of losses that add up; None where one of them is not known, or there is none."""
    known = list(losses)
    return None if None in known or not known else sum((loss for loss in known if loss is not None), Fraction(0))


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

    def largest_loss(self, moves: Moves) -> Fraction | None:  # noqa: ARG002
        """The most nats that can be lost by numbers that move so far, in L1; None where there is no limit."""
        return None

    def rho(self, moves: Moves) -> Fraction | None:  # noqa: ARG002
        """The zero-concentrated loss of numbers that move so far, in L2; None where none is known."""
        return None


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """Pr(x) proportional to exp(-x^2 / (2 variance)), in squared units."""

    variance: Fraction

    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """Exact; that of any change, a part in 10,000 above it at most, where noise is too wide to be summed."""
        v = float(self.variance)
        _require(v, changes, shift)
        if 9.5**2 * changes * v > WIDEST**2:
            return self.any_way(Moves(changes * shift**2))
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

    def rho(self, moves: Moves) -> Fraction:
        """Exact for any change by whole numbers, at any variance (CKS20, Theorem 14)."""
        return moves.l2_square / (2 * self.variance)


@dataclass(frozen=True)
class DiscreteGaussianLoss:
    """The loss of discrete Gaussian noise on n numbers that differ by c each: (n c^2 / 2 + c Z) / v.

    Z is a sum of n discrete Gaussians. From v = 9 on, Pr(Z = z) <= (1 + 1e-12) exp(-z^2 / (2 n v)) / sqrt(2 pi n v).
    Proof: given Z = z the terms lie on a coset of a lattice, whose Gaussian mass is largest for the lattice itself:
    Pr(Z = z) <= exp(-z^2 / (2 n v)) Pr(Z = 0). Pr(Z = 0) is the mean of the n-th power of the characteristic function,
    which by Poisson summation is at most exp(-v t^2 / 2) + 2.1 exp(-v pi^2 / 2) on [-pi, pi]; expand: the second term,
    < 1.2e-19, adds a relative 2n of itself, below 1e-12 for n up to a million.
    """

    v: float  # variance parameter of the noise, in squared units, > 0
    changes: int  # n
    shift: int = 1  # c

    @property
    def mu(self) -> float | None:
        """By the bound for any change, where noise is wide."""
        if self.v < NEARLY_NORMAL:
            return None
        noise = DiscreteGaussian(Fraction(math.nextafter(self.v, 0.0)))  # v may have been rounded up
        return noise.any_way(Moves(self.changes * self.shift**2)).mu

    @cached_property
    def laws(self) -> Laws:
        """The law of Z where it is known, else that of one change, as often as there are changes."""
        together, times, most = (self.changes, 1, REACH) if self.v >= SMOOTH else (1, self.changes, 2 * REACH)
        width = math.sqrt(together * self.v)
        reach = math.ceil(most * width) + 1
        exponents = -((np.arange(-reach, reach + 1) / width) ** 2) / 2
        total = width * math.sqrt(2 * math.pi) if self.v >= SMOOTH else math.fsum(np.exp(exponents).tolist())
        chances, lost = exponents - math.log(total) + 2e-12, 2 * math.exp(-((reach / width) ** 2) / 2)
        law = LossLaw(self.shift / self.v, together * self.shift**2 / (2 * self.v), -reach, chances, lost=lost)
        return ((law, times),)

    def delta(self, epsilon: float) -> float:
        """Within a relative 1e-9 above the true one, however small."""
        if self.v < SMOOTH:
            return math.nan
        width = math.sqrt(self.changes * self.v)  # standard deviation of Z
        start = (epsilon * self.v - self.changes * self.shift**2 / 2) / self.shift  # where the loss is epsilon
        z = np.arange(math.floor(max(start, -9.5 * width)) + 1, max(start, 0.0) + 9.5 * width + 1)
        terms = np.exp(-((z / width) ** 2) / 2) * -np.expm1((start - z) * (self.shift / self.v))
        value = float(terms.sum()) / (width * math.sqrt(2 * math.pi)) + (1e-19 if start <= 0 else 0.0)
        return min(1.0, max(value * (1 + 1e-11), sys.float_info.min))


@dataclass(frozen=True)
class DiscreteLaplace(Law):
    """Pr(x) proportional to exp(-|x| / scale)."""

    scale: Fraction

    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """The number drawn, cut to 0..c, tells all, and j of it loses (2 j - c) / scale: exact but for many losses."""
        s = float(self.scale)
        _require(s, changes, shift)
        if changes * shift > MOST_LOSSES:
            return self.any_way(Moves.of_values(changes, shift))
        log_weights = (np.arange(shift + 1) - shift) / s + math.log(-math.expm1(-1 / s))
        log_weights[0], log_weights[-1] = -shift / s, 0.0
        log_weights = log_weights * (1 - 2**-50) - math.log1p(math.exp(-1 / s)) + 1e-15  # none is above 0
        return PrivacyProfile(losses=(SumLoss(((LossLaw(2 / s, -shift / s, 0, log_weights), changes),)),))

    def any_way(self, moves: Moves) -> PrivacyProfile:
        """At most the L1 sensitivity over the scale is lost."""
        if moves.l1 is None:
            raise ValueError("it is not known how far one user moves these numbers in L1")
        return pure_profile(rounded_up(moves.l1 / self.scale))

    def largest_loss(self, moves: Moves) -> Fraction | None:
        """Exact where all moves are by whole numbers: that much is lost at both ends."""
        return None if moves.l1 is None else moves.l1 / self.scale

    def rho(self, moves: Moves) -> Fraction:
        """A number that moves by d loses d / scale at most, hence half of its square (BS16), and numbers add up."""
        return moves.l2_square / (2 * self.scale**2)


@dataclass(frozen=True)
class Coins(Law):
    """Heads of 2 `half` fair coins less `half`, of variance half / 2.

    Where the other data set cannot give a result the loss is infinite; losses lie on no lattice.

    Lemma A.2 of ZKL22 holds and is loose: 1.5 to 3 times the loss. Its Theorem A.5 uses the sensitivity w c of weighted
    whole numbers, which is unsound for w < 1: a count that is rounded after weighting moves by ceil(w c).
    """

    half: int

    def alike(self, changes: int, shift: int = 1) -> PrivacyProfile:
        """Within a relative 1e-5 above the exact curve."""
        _require(self.half, changes, shift)
        return PrivacyProfile(losses=(SumLoss(((_coin_atoms(self.half, shift), changes),)),))


@lru_cache(maxsize=8)
def _coin_atoms(half: int, shift: int) -> Atoms:
    """Losses log Pr(x) / Pr(x + shift) of one change and their probabilities, all rounded up."""
    reach = min(half, math.ceil(REACH * math.sqrt(half / 2)))
    if shift > reach:
        return Atoms(np.zeros(1), np.full(1, 1e-300), 1.0 - 2.0**-53)
    y = np.arange(1, reach + 1, dtype=np.float64)
    right = np.cumsum(-np.log1p((1 - 2 * y) / (half + y)))  # log Pr(0) / Pr(y)
    logs = np.concatenate([right[::-1], [0.0], right])
    lost = 2 * GAP * (np.abs(np.arange(-reach, reach + 1)) + 8) * (1 + logs)  # at most, of each by rounding
    weights, total = np.exp(-logs), math.fsum(np.exp(-logs).tolist())
    probabilities = weights / total * (1 + lost + 1.1 * float(weights @ lost) / total)
    losses = logs[shift:] - logs[:-shift] + lost[shift:] + lost[:-shift]
    beyond = math.fsum(probabilities[losses.size :].tolist())  # what the other data set cannot give, or is too far out
    beyond += 2 * math.exp(-(REACH**2) / 2) if reach < half else 0.0
    return Atoms(losses, probabilities[: losses.size], min(1.0 - 2.0**-53, beyond))


def _require(noise: float, changes: int, shift: int) -> None:
    if not (0 < noise < math.inf and 1 <= changes <= MOST_CHANGES and shift >= 1):
        raise ValueError("noise is positive, changes are 1 to a million, a shift is at least 1")
