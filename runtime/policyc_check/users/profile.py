"""What independent releases lose together: one curve delta(epsilon) for everything that a promise covers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from policyc_check.users.composition import LossLaw, composed_delta
from policyc_check.users.gaussian import gaussian_delta

FINENESS = 2**10  # lattice points to a standard deviation, times sqrt(n) for n laws: their variance grows by < 3e-7
COARSE = 2**6  # of figures that are not promised: the variance grows by < 7e-5
FAR = 14  # standard deviations beyond which a loss in a mixed sum counts as infinite: a delta of 1e-43


@dataclass(frozen=True)
class GaussianMixture:
    """Gaussian releases whose mu depends on something public and random, such as the steps that were sampled.

    Args:
        weights: probabilities, shape (n,), at most rounded up.
        mus: L2 sensitivity / stddev in each case, shape (n,), >= 0.
    """

    weights: tuple[float, ...]
    mus: tuple[float, ...]

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta: what is public mixes the curves."""
        return min(
            1.0, math.fsum(w * gaussian_delta(epsilon, mu) for w, mu in zip(self.weights, self.mus, strict=True))
        )

    @property
    def variance(self) -> float:
        """Of the loss, at least that within each case, in squared nats."""
        return math.fsum(w * mu * mu for w, mu in zip(self.weights, self.mus, strict=True))

    @property
    def laws(self) -> list[tuple[LossLaw, int]]:
        """None: the loss is continuous."""
        return []

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """A law on the multiples of `step` whose delta is nowhere smaller.

        Every cell keeps its mass under both data sets, as when atoms are split. Cases of probability below 1e-32, and
        what is 14 deviations away, lose everything.
        """
        cases = [(weight, mu) for weight, mu in zip(self.weights, self.mus, strict=True) if weight > 1e-32]
        lost = math.fsum(weight for weight in self.weights if weight <= 1e-32)
        widest = max(mu for _, mu in cases)
        first = math.floor(-widest * (widest / 2 + FAR) / step) - 1
        edges = step * np.arange(first, math.ceil(widest * (widest / 2 + FAR) / step) + 2)
        mine, other = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
        for weight, mu in cases:
            if mu == 0:  # nothing is lost
                mine[-first] += weight
                other[-first] += weight
                continue
            mine += weight * _cells(edges / mu - mu / 2)
            other += weight * _cells(edges / mu + mu / 2)
            mine[0] += weight * float(_below(edges[:1] / mu - mu / 2)[0])
            lost += weight * float(_below(mu / 2 - edges[-1:] / mu)[0])
        ratios = np.exp(np.minimum(edges[:-1], 700.0))  # lower ones move more of the mass up
        up = np.clip((mine - other * ratios) / -math.expm1(-step), 0.0, mine)
        up[0] = mine[0]
        masses = np.append(mine - up, 0.0) + np.append(0.0, up)
        with np.errstate(divide="ignore"):
            return [(LossLaw(step, 0.0, first, np.log(masses), lost * (1 + 1e-9)), 1)]


def _below(z: NDArray[np.floating]) -> NDArray[np.float64]:
    """The standard normal law below each of some numbers."""
    return np.array([math.erfc(-x * math.sqrt(0.5)) / 2 for x in z.tolist()])


def _cells(z: NDArray[np.floating]) -> NDArray[np.float64]:
    """Mass of the standard normal law between neighbors in z, taken from the nearer tail."""
    below, above = _below(z), _below(-z)
    return np.asarray(np.where(z[:-1] >= 0, above[:-1] - above[1:], below[1:] - below[:-1]))


class Loss(Protocol):
    """The privacy loss of one release."""

    @property
    def variance(self) -> float:
        """About that of the loss, in squared nats."""

    @property
    def laws(self) -> list[tuple[LossLaw, int]]:
        """Exact laws on a lattice that add up to it, each with how often; empty where it has no lattice of its own."""

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0)."""

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """Laws on the multiples of `step`, each with how often, whose delta is nowhere smaller."""


@dataclass(frozen=True, eq=False)
class LatticeLoss:
    """A loss that is a sum of laws on one lattice."""

    laws: list[tuple[LossLaw, int]]

    @property
    def variance(self) -> float:
        """Of the loss, in squared nats."""
        return math.fsum(times * law.variance for law, times in self.laws)

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0)."""
        return composed_delta(epsilon, self.laws)

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """Laws on the multiples of `step` whose delta is nowhere smaller."""
        return [(law.onto(step), times) for law, times in self.laws]


@dataclass(frozen=True)
class PrivacyProfile:
    """The exact trade between epsilon and delta of independent releases, rounded against us.

    Args:
        mu: of all Gaussian releases together, the root of the sum of squares.
        losses: of the other releases.
        fineness: lattice points to a standard deviation of one law, where laws are brought onto one lattice.
    """

    mu: float = 0.0
    losses: tuple[Loss, ...] = field(default=())
    fineness: int = FINENESS

    @property
    def coarse(self) -> PrivacyProfile:
        """The same, computed sooner: every delta is an upper bound still, of an epsilon at most about 1e-4 larger."""
        return replace(self, fineness=COARSE)

    def compose(self, other: PrivacyProfile) -> PrivacyProfile:
        """Both, made independently."""
        fineness = max(self.fineness, other.fineness)
        mu = math.hypot(self.mu, other.mu)
        if self.mu and other.mu:
            mu = math.nextafter(mu, math.inf)
        return PrivacyProfile(mu, self.losses + other.losses, fineness)

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0)."""
        if not epsilon >= 0:
            raise ValueError("epsilon is at least 0")
        if not self.losses:
            return gaussian_delta(epsilon, self.mu)
        if self.mu == 0 and len(self.losses) == 1:
            return self.losses[0].delta(epsilon)
        return composed_delta(epsilon, self._laws)

    @cached_property
    def _laws(self) -> list[tuple[LossLaw, int]]:
        """Every loss on one lattice: their own where it is the same, else one much finer than their sum is wide."""
        losses = self.losses
        if self.mu > 0:
            losses = (*losses, GaussianMixture((1.0,), (self.mu,)))
        laws = [part for loss in losses for part in loss.laws]
        if all(loss.laws for loss in losses) and len({law.step for law, _ in laws}) == 1:
            return laws
        count = sum(times for _, times in laws) + sum(not loss.laws for loss in losses)
        step = math.sqrt(math.fsum(loss.variance for loss in losses) / count) / self.fineness
        return [part for loss in losses for part in loss.onto(step)]


def pure_profile(epsilon: float, delta: float = 0.0) -> PrivacyProfile:
    """What any (epsilon, delta)-private release loses at most: randomised response, which dominates all of them.

    Args:
        epsilon: nats, > 0.
        delta: in [0, 1).
    """
    if not (0 < epsilon < math.inf and 0 <= delta < 1):
        raise ValueError("epsilon is positive and finite, delta in [0, 1)")
    yes, no = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    return PrivacyProfile(losses=(LatticeLoss([(LossLaw(2 * epsilon, -epsilon, 0, np.array([no, yes]), delta), 1)]),))
