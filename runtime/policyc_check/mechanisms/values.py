"""Noise on every value of the stream itself, accounted for all of one user's steps together by its exact curve."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.mechanisms.linear import LinearMechanism
from policyc_check.records import MOST_COINS, PositiveDecimal
from policyc_check.users.noise import Coins, DiscreteGaussian, DiscreteLaplace, Law


class Gaussian(LinearMechanism):
    """Adds discrete Gaussian noise, Pr(x) proportional to exp(-x^2 / (2 stddev^2)), to every value of every step."""

    name: Literal["gaussian"] = "gaussian"
    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @property
    def law(self) -> Law:
        """Of the noise of every value."""
        return DiscreteGaussian(Fraction(self.stddev) ** 2)


class StreamLaplace(LinearMechanism):
    """Adds discrete Laplace noise, Pr(x) proportional to exp(-|x| / scale), to every value of every step."""

    name: Literal["laplace"] = "laplace"
    scale: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @property
    def law(self) -> Law:
        """Of the noise of every value."""
        return DiscreteLaplace(Fraction(self.scale))


class Binomial(LinearMechanism):
    """Adds (heads of `coins` fair coins) - coins / 2 to every value of every step; its variance is coins / 4."""

    name: Literal["binomial"] = "binomial"
    coins: Annotated[int, Field(ge=2, le=MOST_COINS, multiple_of=2)]
    sampler: Literal["exact"] = "exact"

    @property
    def law(self) -> Law:
        """Of the noise of every value."""
        return Coins(self.coins // 2)
