"""The laws of noise on whole numbers, and what each tells about a change of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from policyc_check.rounding import rounded_up
from policyc_check.users.binomial_noise import binomial_profile
from policyc_check.users.discrete_noise import (
    discrete_gaussian_bound,
    discrete_gaussian_profile,
    discrete_laplace_profile,
)
from policyc_check.users.profile import PrivacyProfile, pure_profile

if TYPE_CHECKING:
    from policyc_check.users.setting import Moves


class Law(ABC):
    """Of independent noise on every number that is measured."""

    @abstractmethod
    def profile(self, moves: Moves) -> PrivacyProfile:
        """The curve of all numbers together, an upper bound, for numbers that move so far at most."""


@dataclass(frozen=True)
class DiscreteGaussian(Law):
    """Pr(x) proportional to exp(-x^2 / (2 variance)), in squared units.

    Source: BW18, CKS20
    """

    variance: Fraction

    def profile(self, moves: Moves) -> PrivacyProfile:
        """The exact curve where every number moves alike, else that of one L2 sensitivity, whatever the direction."""
        if moves.alike is not None:
            return discrete_gaussian_profile(self.variance, *moves.alike)
        return discrete_gaussian_bound(self.variance, moves.l2_square)


@dataclass(frozen=True)
class DiscreteLaplace(Law):
    """Pr(x) proportional to exp(-|x| / scale).

    Source: CKS20
    """

    scale: Fraction

    def profile(self, moves: Moves) -> PrivacyProfile:
        """The exact curve where every number moves alike; else at most the L1 sensitivity over the scale is lost."""
        if moves.alike is not None:
            return discrete_laplace_profile(self.scale, *moves.alike)
        return pure_profile(rounded_up(moves.l1 / self.scale))


@dataclass(frozen=True)
class Coins(Law):
    """Heads of 2 `half` fair coins less `half`, of variance half / 2.

    Source: DKMMN06
    """

    half: int

    def profile(self, moves: Moves) -> PrivacyProfile:
        """The exact curve, of numbers that all move alike."""
        if moves.alike is None:
            raise ValueError("coins are accounted for on numbers that all move alike")
        return binomial_profile(self.half, *moves.alike)
