"""What the noise of a promise about all of a user has to keep: epsilon at a delta, a largest loss, or a rho.

A largest loss and a rho add up over releases, exactly, so each release can be given a part of them, and its noise
follows from the part in closed form. Epsilon at a delta does not: there the curves of all releases are composed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policyc_check.mechanisms import StreamMechanism as Checked
    from policyc_check.plan.targets import AnyUserPromise, AnyUserSteps
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism

Noise = Literal["gaussian", "laplace", "coins", "sampled"]
"""Of what kind noise is, as far as it matters for what it can keep; `sampled`: of some steps, chosen by chance."""

UP, DOWN = Context(prec=10, rounding=ROUND_CEILING), Context(prec=12, rounding=ROUND_FLOOR)
FINE = Context(prec=40)
Drawn = TypeVar("Drawn", bound="StreamMechanism")


@dataclass(frozen=True)
class AtDelta:
    """At most epsilon nats, but for a probability of delta in (0, 1)."""

    epsilon: Decimal
    delta: Decimal
    noises: ClassVar[frozenset[Noise]] = frozenset({"gaussian", "laplace", "coins", "sampled"})
    because: ClassVar[str] = ""
    power: ClassVar[int] = 2  # of Gaussian noise; of other noise about


@dataclass(frozen=True)
class Added(ABC):
    """A loss of which that of several releases is the sum.

    Attributes:
        limit: what all releases together may lose.
        power: to which power of the noise one over the loss grows.
        noises: which kinds of noise have such a loss.
        because: why the others are out, a clause.
    """

    limit: Decimal
    power: ClassVar[int]
    noises: ClassVar[frozenset[Noise]]
    because: ClassVar[str]

    @abstractmethod
    def lost(self, mechanism: Checked, setting: Setting) -> Fraction | None:
        """What one release loses, exactly; None where it has no such loss."""

    def size(self, mechanism: StreamMechanism, setting: Setting) -> Decimal:
        """The noise with which just the limit is lost, to ten digits, rounded up."""
        ratio = self._known(mechanism, setting) / Fraction(self.limit) * Fraction(mechanism.noise_size) ** self.power
        size = FINE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
        return UP.plus(size if self.power == 1 else FINE.sqrt(size))

    def fitted(self, mechanism: Drawn, setting: Setting) -> Drawn:
        """The mechanism with the least noise of ten digits that loses at most the limit.

        Raises:
            KernelError: so much noise would not fit 64-bit integers.
        """
        size = self.size(mechanism, setting)
        made = mechanism.of_size(max(float(size), mechanism.least_size))
        while self._known(made, setting) > Fraction(self.limit):
            size = UP.next_plus(size)
            made = mechanism.of_size(float(size))
        return made

    def _known(self, mechanism: StreamMechanism, setting: Setting) -> Fraction:
        lost = self.lost(mechanism, setting)
        assert lost is not None, "noise without such a loss was refused before"
        return lost

    def parts(self, weights: Sequence[float]) -> list[Self]:
        """The same for several releases, in parts as these weights (> 0), which add up to the limit at most."""
        total = sum(map(Fraction, weights), Fraction(0))
        shares = [Fraction(weight) / total * Fraction(self.limit) for weight in weights]
        return [replace(self, limit=DOWN.divide(Decimal(s.numerator), Decimal(s.denominator))) for s in shares]


@dataclass(frozen=True)
class LargestLoss(Added):
    """At most so many nats, with nothing left to chance: epsilon at a delta of 0."""

    power: ClassVar[int] = 1
    noises: ClassVar[frozenset[Noise]] = frozenset({"laplace"})
    because: ClassVar[str] = "nothing is left to chance, and only Laplace noise has a limit to what it can tell"

    def lost(self, mechanism: Checked, setting: Setting) -> Fraction | None:
        """The most nats that its records can tell."""
        return mechanism.largest_loss(setting)


@dataclass(frozen=True)
class Rho(Added):
    """A zero-concentrated loss."""

    power: ClassVar[int] = 2
    noises: ClassVar[frozenset[Noise]] = frozenset({"laplace", "gaussian"})
    because: ClassVar[str] = "rho is known of Gaussian and of Laplace noise on values that are measured for certain"

    def lost(self, mechanism: Checked, setting: Setting) -> Fraction | None:
        """The rho of its records."""
        return mechanism.rho(setting)


Goal = AtDelta | LargestLoss | Rho


def goal_of(target: AnyUserPromise | AnyUserSteps) -> Goal:
    """What the noise of all releases together has to keep for a promise of a plan."""
    if target.kind == "user_level_rho" or target.kind == "user_steps_rho":  # noqa: PLR1714  so that mypy sees it
        return Rho(target.rho)
    return AtDelta(target.epsilon, target.delta) if target.delta else LargestLoss(target.epsilon)
