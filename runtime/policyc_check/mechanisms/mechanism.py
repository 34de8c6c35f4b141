"""What the check knows of a mechanism: its record in a plan, what it measures, and what that tells about one user.

Three kinds are told apart by `accounting`: "step" adds noise to one step at a time, which may spend what a `Schedule`
says; "window" (its own module) spends as it goes, bounded over windows; "stream" accounts for all that it measures.
"""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Literal

from policyc_check.records import Record
from policyc_check.users.noise import Law, added
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Moves, Setting


class Mechanism(Record):
    """A way to make noisy values; its fields are what the plan says of it."""

    name: str
    accounting: str

    def described(self) -> str:
        """The mechanism as tables name it."""
        return self.name


class StepMechanism(Mechanism):
    """Adds noise to one step's values, at a scale that follows from the step's budget."""

    accounting: Literal["step"] = "step"

    @abstractmethod
    def privacy_loss(self, scale: Decimal) -> Fraction:
        """The exact loss in nats of one step released with this scale (> 0)."""


class StreamMechanism(Mechanism):
    """Measures a whole stream and accounts for all of it; see the module."""

    accounting: Literal["stream"] = "stream"

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:  # noqa: ARG002
        """Why a promise that may fail with this probability would be none with these parameters, or None."""
        return None

    def noises(self, setting: Setting) -> list[tuple[Law, Moves]]:  # noqa: ARG002
        """Laws of independent noise, and how far one user moves the numbers under each; none where none says all."""
        return []

    def profile(self, setting: Setting) -> PrivacyProfile:
        """What all records together tell about one user: upper bounds, from the stated parameters alone."""
        return reduce(PrivacyProfile.compose, (law.profile(moves) for law, moves in self.noises(setting)))

    def largest_loss(self, setting: Setting) -> Fraction | None:
        """The most nats that all records together can tell about one user, never too small; None: no limit is known."""
        return added(law.largest_loss(moves) for law, moves in self.noises(setting))

    def rho(self, setting: Setting) -> Fraction | None:
        """The zero-concentrated loss of all records together, never too small; None: none is known."""
        return added(law.rho(moves) for law, moves in self.noises(setting))


class Derived(Mechanism):
    """Computed from noisy values of the release it is made of; no noise, no privacy is spent. Source: DR14."""

    name: Literal["derived"] = "derived"
    accounting: Literal["none"] = "none"
