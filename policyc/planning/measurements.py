"""Which mechanism measures one release under a user-level promise, and what each is expected to cost in error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from policyc.offers import AtDelta, Goal, LargestLoss, StreamOffer, mechanism_offers
from policyc.offers.goals import Added
from policyc.planning.candidates import Refused
from policyc.planning.courses import declared_signal
from policyc.planning.several_promises import Beside, keeping_beside, options_for, reason_not_beside
from policyc.semantics.policy import Signal, Wish
from policyc_check.errors import KernelError
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import StreamMechanism
from policyc_runtime.offset import Offset
from policyc_runtime.plan import STRETCH

Array = NDArray[np.float64]
Objective = Literal["mean_squared_error", "mean_absolute_error"]

LEAST_DELTA = Decimal("1e-200")
SHARED = "its noise is not of single steps, each of which leaks what it tells through the chains"
NOT_ALL = "nothing is known of what its noise tells under one of the promises"


@dataclass(frozen=True)
class Measurement:
    """A mechanism for one release, with noise enough for the promise, or for its share of it.

    `unit` is what one protected unit stands for in published values.
    """

    mechanism: StreamMechanism
    setting: Setting
    unit: Decimal

    @property
    def steps(self) -> int:
        """How many steps are planned; of an endless stream, those that stand for it."""
        return self.setting.horizon or STRETCH

    def errors(self, objective: Objective) -> Array:
        """Expected error of the noisy value of every step, in the objective's unit, (steps,); NaN without a value."""
        if objective == "mean_squared_error":
            return self.variances()
        return self.mechanism.absolute_errors(self.setting, self.steps) * float(self.unit)

    def variances(self) -> Array:
        """Expected variance of the noise of every step, in published units squared, (steps,); NaN without a value."""
        return self.mechanism.variances(self.setting, self.steps) * float(self.unit) ** 2

    @property
    def plain(self) -> bool:
        """Whether the noise of a step is independent of that of others, but for what they have in common."""
        return self.mechanism.independent or self.offset.stddev > 0

    @property
    def offset(self) -> Offset:
        """What noisy values are off by together, in published units."""
        return self.mechanism.offset(self.setting).scaled(float(self.unit))

    def own_stddevs(self) -> Array:
        """The standard deviation of every step's own noise, (steps,), in published units; NaN without a value."""
        own = self.mechanism.variances(self.setting, self.steps) - self.mechanism.common_variance(self.setting)
        return np.asarray(np.sqrt(own) * float(self.unit))

    def own_variances(self) -> Array:
        """The same as `variances`, of every step's own noise."""
        return self.variances() - self.offset.stddev**2

    def variance_of_all(self) -> float:
        """The least variance that an average of the noisy values of all steps can have, in published units squared."""
        from policyc_runtime.randomness import SimulationRandomness

        nothing = np.zeros((self.steps, self.setting.cells), np.int64)
        records = self.mechanism.measure(self.setting, nothing, (), SimulationRandomness(0))
        given = np.isfinite(self.mechanism.values(self.setting, records)[:, 0])
        return 1.0 / float((1.0 / self.variances()[given]).sum())

    def mean_error(self, objective: Objective) -> float:
        """Mean over the steps that have a value."""
        return float(np.nanmean(self.errors(objective)))

    def noisier(self, factor: float) -> Measurement:
        """The same with more noise."""
        return replace(self, mechanism=self.mechanism.with_noise(factor))

    def fitted(self, goal: Added) -> Measurement:
        """The same with the least noise for a goal."""
        return replace(self, mechanism=goal.fitted(self.mechanism, self.setting))


def of_variances(variances: Array, objective: Objective) -> Array:
    """Errors of noise of these variances, taken as normal for the absolute error."""
    return variances if objective == "mean_squared_error" else np.sqrt(variances * (2 / math.pi))


def measurements(
    setting: Setting,
    unit: Decimal,
    goal: Goal,
    wish: Wish,
    *,
    fills: bool,
    known: bool,
    totalled: bool,
    leaks: bool,
    beside: Beside = (),
) -> Iterator[Measurement | Refused]:
    """Every mechanism that the policy allows, calibrated as if it had the whole promise, or why it does not apply.

    `fills`: whether an estimator fills steps without a value; `known`: whether the policy says how values move;
    `totalled`: whether totals of its values are published too; `leaks`: whether what a step tells leaks through chains;
    `beside`: what else has to be kept.
    """
    for name, offer in mechanism_offers().items():
        if wish.name not in ("auto", name) or not isinstance(offer, StreamOffer):
            continue
        if wish.name == "auto" and "user_level" not in offer.promises:
            continue  # of windows: what it errs depends on how values move
        kind = offer.record()
        goals = [goal, *(other for _, other in beside)]
        unable = (one.because for one in goals if offer.keeping(one, wish.arguments) is None)
        reason = next(unable, None) or kind.reason_not_here(setting) or reason_not_beside(kind, beside)
        reason = reason or (SHARED if leaks and name != "laplace" else None)
        if any(isinstance(one, AtDelta) and one.delta < LEAST_DELTA for one in goals):
            reason = f"a delta below {LEAST_DELTA} cannot be accounted for"
        if not isinstance(goal, LargestLoss):
            reason = reason or kind.reason_not_composed(setting)
        if reason is None and kind.leaves_gaps and totalled:
            reason = "it leaves steps without a value, and totals are made of every step's"
        if reason is None and kind.leaves_gaps and not fills:
            reason = "it leaves steps without a value, which the estimator cannot fill"
        if reason is None and kind.estimates and wish.name == "auto" and not known:
            reason = "its error depends on how the stream moves, which the policy does not say"
        if reason is None and kind.leaves_gaps and wish.name == "auto" and not known:
            reason = "what it leaves out depends on how the stream moves, which the policy does not say"
        if reason is not None:
            yield Refused(name, reason)
            continue
        for given in offer.variants(setting) if wish.name == "auto" else [wish.arguments]:
            try:
                options = options_for(offer, goals, given)
                found = keeping_beside(offer.least(setting, goal, given if options is None else options), beside)
                yield Refused(name, NOT_ALL) if found is None else Measurement(found, setting, unit)
            except KernelError as error:
                yield Refused(name, error.because or error.message)


def with_signal(wish: Wish, signal: Signal | None, unit: Decimal) -> Wish:
    """The wish with the process that the policy declares, in units, for the mechanism that predicts by one."""
    offer = mechanism_offers().get(wish.name)
    if offer is None or not offer.predicts or signal is None:
        return wish
    if signal.kind in ("ar", "autocovariance") and signal.arguments.get("mean") is not None:
        return replace(wish, arguments={**wish.arguments, "process": declared_signal(signal).in_units(unit)})
    if signal.kind != "ar1":
        return wish
    told = {name: signal.arguments.get(name) for name in ("mean", "sd", "autocorrelation")}
    if not all(isinstance(value, Decimal) for value in told.values()):
        return wish
    declared = {name: value / (1 if name == "autocorrelation" else unit) for name, value in told.items()}  # type: ignore[operator]
    return replace(wish, arguments={**wish.arguments, **declared})


def parts(whole: list[float], objective: Objective, power: int = 2) -> list[float]:
    """What part of the promise each of several releases gets, so that the sum of errors is least; they add up to 1.

    `whole` are the errors that each would have alone, with those of what is made of it. With f times as much noise a
    release takes 1 / f^q of the promise: q = `power` is 1 of a largest loss and 2 of rho, and of epsilon at a delta,
    exactly for Gaussian noise. Errors v f^p, p = 2 of squared ones and 1 of absolute ones, are then least for parts
    ~ v^(q / (p + q)).
    """
    errors = 2 if objective == "mean_squared_error" else 1
    weights = np.array(whole) ** (power / (errors + power))
    return [float(weight) for weight in weights / weights.sum()]


def shares(whole: list[float], objective: Objective, power: int = 2) -> list[float]:
    """How much more noise each of several releases gets for its part, as factors."""
    return [float(part ** (-1 / power)) for part in parts(whole, objective, power)]
