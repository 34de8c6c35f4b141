"""What independent releases lose together: one curve delta(epsilon) for everything that a promise covers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from policyc_check.rounding import Floats
from policyc_check.users.composition import Atoms, LossLaw, composed_delta
from policyc_check.users.gaussian import gaussian_delta

FINENESS = 2**10  # lattice points to a standard deviation, times sqrt(n) for n laws: their variance grows by < 3e-7
COARSE = 2**4  # of figures that are not promised: the variance grows by < 1e-3
FAR = 14  # standard deviations beyond which a loss in a mixed sum counts as infinite: a delta of 1e-43


Laws = tuple[tuple[LossLaw | Atoms, int], ...]


class Loss(Protocol):
    """The privacy loss of one release."""

    @property
    def laws(self) -> Laws:
        """Of independent losses that add up to it, or above it, each with how often."""

    @property
    def mu(self) -> float | None:
        """Of Gaussian noise that loses more, and hardly more; None where it would be more than hardly."""

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0), where it is known without the laws; else NaN."""


@dataclass(frozen=True, eq=False)
class SumLoss:
    """A loss of which nothing but the laws is known."""

    laws: Laws
    mu: None = None  # nothing of the kind is known

    def delta(self, epsilon: float) -> float:  # noqa: ARG002
        """It takes the laws."""
        return math.nan


@dataclass(frozen=True)
class PrivacyProfile:
    """The exact trade between epsilon and delta of independent releases, rounded against us."""

    mu: float = 0.0  # of all Gaussian releases together, the root of the sum of squares
    losses: tuple[Loss, ...] = ()  # of the other releases
    fineness: int = FINENESS  # lattice points to a standard deviation of a law

    @property
    def coarse(self) -> PrivacyProfile:
        """The same, computed sooner: every delta is an upper bound still, of an epsilon about 5e-4 larger at most."""
        return replace(self, fineness=COARSE)

    @cached_property
    def laws(self) -> Laws:
        """Of all losses."""
        return tuple(part for loss in self.losses for part in loss.laws)

    @property
    def variance(self) -> float:
        """About that of all losses together, in squared nats."""
        return self.mu**2 + math.fsum(times * law.variance for law, times in self.laws)

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
        known = self.losses[0].delta(epsilon) if self.mu == 0 and len(self.losses) == 1 else math.nan
        if not math.isnan(known):
            return known
        mixed = self._mixed
        return composed_delta(epsilon, mixed._on_one_lattice) if mixed.losses else gaussian_delta(epsilon, mixed.mu)

    @cached_property
    def _mixed(self) -> PrivacyProfile:
        """The same where losses that are hardly less than of Gaussian noise are told as its: one number in all."""
        found = PrivacyProfile(self.mu, tuple(loss for loss in self.losses if loss.mu is None), self.fineness)
        for loss in self.losses:
            if loss.mu is not None:
                found = found.compose(PrivacyProfile(loss.mu, fineness=self.fineness))
        return found

    @cached_property
    def _on_one_lattice(self) -> list[tuple[LossLaw, int]]:
        """All laws: on their own lattice where it is the same, else on one much finer than their sum is wide."""
        own = [(law, times) for law, times in self.laws if isinstance(law, LossLaw)]
        if self.mu == 0 and len(own) == len(self.laws) and len({law.step for law, _ in own}) == 1:
            return own
        count = sum(times for _, times in self.laws) + (self.mu > 0)
        return self.onto(math.sqrt(self.variance / count) / self.fineness)

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """Laws on the multiples of `step`, each with how often, whose delta is nowhere smaller."""
        normal = [(normal_law(self.mu, step), 1)] if self.mu > 0 else []
        return [(law.onto(step), times) for law, times in self.laws] + normal


def normal_law(mu: float, step: float) -> LossLaw:
    """A law on the multiples of `step` whose delta is nowhere smaller than that of Gaussian noise (`mu` > 0).

    Every cell keeps its mass under both data sets, as when atoms are split. What is far away loses everything.
    """
    widest = mu * (mu / 2 + FAR) / step
    first = math.floor(-widest) - 1
    edges: Floats = np.asarray(step * np.arange(first, math.ceil(widest) + 2), dtype=np.float64)
    mine, other = _cells(edges / mu - mu / 2), _cells(edges / mu + mu / 2)
    mine[0] += float(_tails(edges[:1] / mu - mu / 2)[0])  # far below 0 and far above: on their own sides
    lost = float(_tails(edges[-1:] / mu - mu / 2)[0])
    ratios = np.exp(np.minimum(edges[:-1], 700.0))  # lower ones move more of the mass up
    up = np.clip((mine - other * ratios) / -math.expm1(-step), 0.0, mine)
    up[0] = mine[0]
    masses = np.append(mine - up, 0.0) + np.append(0.0, up)
    with np.errstate(divide="ignore"):
        return LossLaw(step, 0.0, first, np.log(masses), lost * (1 + 1e-9))


def _tails(z: Floats) -> Floats:
    """The standard normal law beyond each of some numbers, on the side that they lie on."""
    return np.fromiter(map(math.erfc, (np.abs(z) * math.sqrt(0.5)).tolist()), np.float64, len(z)) / 2


def _cells(z: Floats) -> Floats:
    """Mass of the standard normal law between neighbors in z, which rise, taken from the nearer tail."""
    tails = _tails(z)
    inside = np.abs(np.diff(tails))
    across = (z[:-1] < 0) & (z[1:] >= 0)
    return np.asarray(np.where(across, 1 - tails[1:] - tails[:-1], inside))


def pure_profile(epsilon: float, delta: float = 0.0, times: int = 1) -> PrivacyProfile:
    """What so many (epsilon, delta)-private releases lose at most, epsilon > 0: as much as randomised response."""
    if not (0 < epsilon < math.inf and 0 <= delta < 1):
        raise ValueError("epsilon is positive and finite, delta in [0, 1)")
    yes, no = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    law = LossLaw(2 * epsilon, -epsilon, 0, np.array([no, yes]), delta)
    return PrivacyProfile(losses=(SumLoss(((law, times),)),))
