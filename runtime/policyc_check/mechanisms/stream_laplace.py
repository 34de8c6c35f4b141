"""Laplace noise of one scale on every value of the stream, accounted for all of one user's steps together."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from policyc_check.mechanisms.linear import Identity, LinearMechanism, Strategy
from policyc_check.records import PositiveDecimal
from policyc_check.users.noise import DiscreteLaplace, Law

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting


MOST_LOSSES = 4 * 10**6  # values of the loss of a whole stream, which are convolved


class StreamLaplace(LinearMechanism):
    """Adds discrete Laplace noise, Pr(x) proportional to exp(-|x| / scale), to every value of every step.

    The noise of all steps together hides one user's part in the whole stream. What k steps lose adds up to at most
    k times the loss of one, which is what counts at delta 0; with delta above it, their exact distribution counts.

    Source: CKS20
    """

    name: Literal["laplace"] = "laplace"
    scale: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """Why it does not apply: totals over steps, or losses with more values than can be composed."""
        steps = setting.horizon or 16 * setting.participation.steps
        if setting.shift * steps > MOST_LOSSES:
            return "one user can change values by more units than the losses of its noise can be composed for"
        return super().reason_against(setting)

    def strategy(self, setting: Setting) -> Strategy:  # noqa: ARG002
        """The values themselves."""
        return Identity()

    @property
    def law(self) -> Law:
        """Of the noise of every value."""
        return DiscreteLaplace(Fraction(self.scale))
