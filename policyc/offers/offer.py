"""What an offer is: a name that a policy may write, its options, when it applies, and how its noise is found."""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from policyc.offers.goals import AtDelta, Goal, LargestLoss, Noise

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism

Options = Mapping[str, object]
"""The arguments of a policy's statement, by name; decimals are `Decimal`."""

Promise = Literal["steps", "windows", "user_level"]
"""What a mechanism accounts for: the budget of every step, of every window of steps, or all events of a user."""


@dataclass(frozen=True)
class Option:
    """One argument of a statement.

    Args:
        name: as it is written before `=`.
        reads: what its value is: "whole", "number", "fraction", "truth" or "steps", or the words that it may be.
        example: what to write.
        required: whether leaving it out is an error.
    """

    name: str
    reads: Literal["whole", "number", "fraction", "truth", "steps"] | tuple[str, ...]
    example: str
    required: bool = False


WINDOW = Option("window", "steps", "window = 12 steps")
"""Over how many steps in a row a mechanism divides a budget that it spends as counts move."""


class Offer:
    """What a policy may name.

    Attributes:
        name: as the policy writes it.
        says: what it does, a clause for tables.
        options: its arguments.
    """

    name: ClassVar[str]
    says: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()

    def written(self) -> str:
        """The call, with examples of what must be given."""
        return f"{self.name}({', '.join(option.example for option in self.options if option.required)})"


class MechanismOffer(Offer):
    """A mechanism.

    Attributes:
        promises: what it can account for.
        whole_stream: why no value exists before the last step of the stream; None where one does.
        blocks: whether under `within` it measures blocks of steps instead of the whole stream.
        leaves_gaps: whether it leaves steps without a value, for an estimator to fill.
        usual: whether it is taken where others err the same.
        predicts: whether it predicts by the process that the policy's signal declares: `calibrated` is given its mean,
            sd and autocorrelation, or its `process`, in units, beside the statement's options.
    """

    promises: ClassVar[frozenset[Promise]] = frozenset({"user_level"})
    whole_stream: ClassVar[str | None] = None
    blocks: ClassVar[bool] = False
    leaves_gaps: ClassVar[bool] = False
    usual: ClassVar[bool] = False
    predicts: ClassVar[bool] = False

    def noise(self, options: Options) -> Noise:  # noqa: ARG002
        """Of what kind its noise is."""
        return "gaussian"

    def keeping(self, goal: Goal, options: Options) -> Options | None:
        """The options with which it can keep a goal: as they are, or with what they leave open; None for none."""
        return options if self.noise(options) in goal.noises else None


class StreamOffer(MechanismOffer, ABC):
    """A mechanism that accounts for all events of a user, and how the noise for a promise is found."""

    def record(self) -> type[StreamMechanism]:
        """The mechanism as it is drawn."""
        from policyc_runtime.mechanisms import stream_mechanism_kinds  # start-up: `policyc check` draws nothing

        return stream_mechanism_kinds()[self.name]

    def variants(self, setting: Setting) -> Sequence[Options]:  # noqa: ARG002
        """The options worth comparing under `mechanism auto`; each is given to `calibrated`."""
        return ({},)

    def fixed(self, setting: Setting, options: Options) -> dict[str, Any]:  # noqa: ARG002
        """What of the record does not depend on the noise."""
        return dict(options)

    def plain(self, setting: Setting, options: Options) -> StreamMechanism:
        """The mechanism with any noise."""
        record = self.record()
        return record.model_validate({record.noise_field: Decimal(1), **self.fixed(setting, options)})

    def least(self, setting: Setting, goal: Goal, options: Options) -> StreamMechanism:
        """The mechanism with the least noise that keeps a goal; see `calibrated`."""
        if isinstance(goal, AtDelta):
            return self.calibrated(setting, goal.epsilon, goal.delta, options)
        return goal.fitted(self.plain(setting, options), setting)

    @abstractmethod
    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The mechanism with the least noise whose whole stream is (epsilon, delta)-private, parameters rounded up.

        Args:
            setting: what one user can change, and what is released; the record's `reason_against` it is None.
            epsilon: nats, > 0.
            delta: in (0, 1).
            options: of the policy's statement; missing ones are chosen here.

        Returns:
            A record with profile(setting).delta(rounded_down(epsilon)) <= delta, without tolerance.

        Raises:
            KernelError: the noise would not fit 64-bit integers, or the promise would be none.
        """


class AdaptiveOffer(StreamOffer):
    """A mechanism that publishes when counts have moved, and divides what windows of steps may spend."""

    promises = frozenset({"windows"})

    def noise(self, options: Options) -> Noise:  # noqa: ARG002
        """Laplace."""
        return "laplace"

    def fixed(self, setting: Setting, options: Options) -> dict[str, Any]:
        """Without `window` that of the promise; budgets are for what one user moves in a step."""
        from policyc_check.users.participation import Participation  # start-up: `policyc check` calculates nothing
        from policyc_runtime.mechanisms import still_error

        part, one = setting.participation, replace(setting, participation=Participation(1, 1))
        window = int(str(options.get("window", part.window or part.steps)))
        error = still_error(self.name, window, setting.cells, setting.horizon, "mean_squared_error")
        return {"window": window, "l1_sensitivity": one.changes * one.shift, "still_error": error}

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """That of the largest loss whose worst curve, that of randomised response, is within delta."""
        from policyc_check.rounding import rounded_down

        e, d = rounded_down(epsilon), rounded_down(delta)
        loss = math.log((math.exp(e) + d) / (1 - d))
        made = LargestLoss(Decimal(loss)).fitted(self.plain(setting, options), setting)
        while made.profile(setting).delta(e) > d:
            made = made.with_noise(1 + 1e-12)
        return made


class EstimatorOffer(Offer):
    """An estimator.

    Attributes:
        later_values: why it needs later steps; None where it does not.
        whole_stream: whether it needs all of them, and not only the few of `within`.
        counts_users: whether it counts users who are always somewhere, under noise of every step.
    """

    later_values: ClassVar[str | None] = None
    whole_stream: ClassVar[bool] = False
    counts_users: ClassVar[bool] = False


class BudgetOffer(Offer):
    """A way to divide a promise between steps."""


Kind = TypeVar("Kind", bound=Offer)


def _found(package: str, kind: type[Kind]) -> dict[str, Kind]:
    """The offers that modules of a package define, by name."""
    place = importlib.import_module(package)
    names = [f"{package}.{module.name}" for module in pkgutil.iter_modules(getattr(place, "__path__", []))]
    modules = [place, *map(importlib.import_module, names)]
    kinds = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, kind) and value.__module__ == module.__name__
    ]
    return {one.name: one() for one in sorted(kinds, key=lambda one: one.name)}


@cache
def mechanism_offers() -> dict[str, MechanismOffer]:
    """All mechanisms by name."""
    return _found("policyc.offers.mechanisms", MechanismOffer)


@cache
def estimator_offers() -> dict[str, EstimatorOffer]:
    """All estimators by name."""
    return _found("policyc.offers.estimators", EstimatorOffer)


@cache
def budget_offers() -> dict[str, BudgetOffer]:
    """All budgets by name."""
    return _found("policyc.offers.budgets", BudgetOffer)


def calibrate(
    name: str | type[Any], setting: Setting, epsilon: Decimal, delta: Decimal, options: Options | None = None
) -> Any:
    """The mechanism of a name, or of a record's name, with the least noise; see `StreamOffer.calibrated`."""
    return calibrate_to(name, setting, AtDelta(epsilon, delta), options)


def calibrate_to(name: str | type[Any], setting: Setting, goal: Goal, options: Options | None = None) -> Any:
    """The same for any goal."""
    wanted = name if isinstance(name, str) else str(name.model_fields["name"].default)
    offer = mechanism_offers()[wanted]
    assert isinstance(offer, StreamOffer), "only these account for all events of a user"
    return offer.least(setting, goal, options or {})
