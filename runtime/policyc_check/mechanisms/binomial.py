"""Binomial noise on every value of the stream: fair coins, counted exactly, and accounted for by their exact curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from policyc_check.mechanisms.linear import Identity, LinearMechanism, Strategy
from policyc_check.records import MOST_COINS
from policyc_check.users.noise import Coins, Law

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting


class Binomial(LinearMechanism):
    """Adds (heads of `coins` fair coins) - coins / 2 to every value of every step; its variance is coins / 4.

    What differs from the source: the loss of all steps together is that of the exact noise, composed exactly, where
    Lemma A.2 and the composition after it are loose; and a whole number moves by whole numbers: weighted by w < 1 and
    rounded, a count that one user moves by c moves by ceil(w c), not by w c as in Theorem A.5, which is unsound.

    Source: ZKL22, DKMMN06
    """

    name: Literal["binomial"] = "binomial"
    coins: Annotated[int, Field(ge=2, le=MOST_COINS, multiple_of=2)]
    sampler: Literal["exact"] = "exact"

    def strategy(self, setting: Setting) -> Strategy:  # noqa: ARG002
        """The values themselves."""
        return Identity()

    @property
    def law(self) -> Law:
        """Of the noise of every value."""
        return Coins(self.coins // 2)
