"""Gaussian noise on every value of the stream: exact discrete noise, calibrated by the exact curve (BW18)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from policyc_check.mechanisms.linear import Identity, LinearMechanism, Strategy
from policyc_check.records import PositiveDecimal
from policyc_check.users.noise import DiscreteGaussian, Law

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting


class Gaussian(LinearMechanism):
    """Adds discrete Gaussian noise, Pr(x) proportional to exp(-x^2 / (2 stddev^2)), to every value of every step.

    The noise of all steps together hides one user's part in the whole stream: its L2 sensitivity is that of the series.

    Source: BW18, CKS20
    """

    name: Literal["gaussian"] = "gaussian"
    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    def strategy(self, setting: Setting) -> Strategy:  # noqa: ARG002
        """The values themselves."""
        return Identity()

    @property
    def law(self) -> Law:
        """Of the noise of every value."""
        return DiscreteGaussian(Fraction(self.stddev) ** 2)
