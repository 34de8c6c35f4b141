"""How the values of a release move, as far as the policy says it: courses to try mechanisms and estimators on.

Only the policy's `signal` is used: a declared process, or a public pilot series. The protected data is never looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from policyc.semantics.policy import Policy, Signal
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel, drawn_series
from policyc_runtime.estimation.whittle import learned_process

Array = NDArray[np.float64]

SEED = 2022
FAR = 2.4  # standard deviations from a bound, which is then met so seldom that errors change by less than 1 %
NOWHERE_NEAR = 10.0  # standard deviations above 0, where the policy does not say what the mean is
STILL = 1e6  # a value that no bound is near


@dataclass(frozen=True)
class Courses:
    """True values to try pairs on.

    Args:
        course: values of course 0, 1, ..., (steps,), in published units; a pilot has one course, whatever the number.
        model: what is known of how they move: a filter that is only tried out is given it, and need not learn.
        process: the process that the policy declares; None of a pilot or a stream that stands still.
        least: below which no value lies.
        said: where they are from, as a phrase.
        still: whether they do not move.
    """

    course: Callable[[int], Array]
    model: SignalModel
    process: SeriesProcess | None
    least: float
    said: str
    still: bool = False

    @property
    def placed(self) -> bool:
        """Whether it is known where values lie, and not only how they move."""
        return not self.still and (self.process is None or self.process.mean is not None)

    def far_from_bounds(self, constraints: ConstraintSet, noise: float = 0.0) -> bool:
        """Whether values of the declared process come near no bound, so that nothing but the process counts.

        Args:
            constraints: of the release.
            noise: the standard deviation of what is added to them before they are held against their bounds, >= 0.
        """
        if self.process is None:
            return False
        if constraints.couples_steps or constraints.total is not None:
            return False
        if (np.count_nonzero(constraints.coupled.current, axis=1) > 1).any():
            return False
        lower, upper = constraints.cell_bounds
        if self.process.mean is None:
            return True
        mean, reach = self.process.mean, FAR * float(np.hypot(self.process.stddev, noise))
        inside = (mean - reach >= lower).all() and (mean + reach <= upper).all()
        return bool(inside and mean - FAR * self.process.stddev >= self.least)


def courses(policy: Policy, steps: int, *, least: float = 0.0) -> Courses | None:
    """Courses of the policy's signal over so many steps, none below `least`; None where it does not say enough."""
    signal = policy.signal
    if signal is None:
        return None
    if signal.kind == "pilot":
        return _pilot(signal, steps)
    model = declared_signal(signal)
    process = learned_process(model, np.empty(0), np.empty(0))
    if process is None:
        return None
    drawn = process
    if process.mean is None:
        drawn = SeriesProcess(**{**vars(process), "mean": NOWHERE_NEAR * process.stddev})

    def course(number: int) -> Array:
        return drawn_series(drawn, steps, np.random.default_rng([SEED, number]), least)

    return Courses(course, model, process, least, "the declared signal")


def still(policy: Policy, steps: int) -> Courses:
    """A stream that does not move, at the declared mean where there is one: nothing has smaller errors."""
    told = policy.signal.arguments.get("mean") if policy.signal is not None else None
    value = float(told) if isinstance(told, Decimal) else STILL
    return Courses(lambda _: np.full(steps, value), SignalModel(), None, 0.0, "a stream that does not move", still=True)


def declared_signal(signal: Signal) -> SignalModel:
    """The process that the policy declares."""
    told = signal.arguments
    period = told.get("period")
    return SignalModel.model_validate(
        {
            "period": period,
            "mean": told.get("mean"),
            "seasonal_stddev": told.get("seasonal_sd"),
            "residual_stddev": told.get("residual_sd" if period else "sd"),
            "autocorrelation": told.get("autocorrelation"),
            "coefficients": told.get("coefficients", ()),
            "covariances": told.get("lags", ()),
            "observation_noise": bool(told.get("observation_noise")),
        }
    )


def _pilot(signal: Signal, steps: int) -> Courses | None:
    series = signal.arguments.get("series")
    if not isinstance(series, tuple):
        return None
    values = np.resize(np.array([float(value) for value in series]), steps)
    near = np.full(values.size, max(float(np.var(values)), 1.0) * 1e-6)
    found = learned_process(SignalModel(), values, near)
    if found is None:
        return None
    model = _as_model(found, float(values.mean()))
    return Courses(lambda _: values, model, None, -np.inf, "the public pilot series")


def _as_model(process: SeriesProcess, mean: float) -> SignalModel:
    return SignalModel(
        mean=Decimal(repr(mean)),
        residual_stddev=Decimal(repr(max(process.residual_stddev, 1e-9))),
        autocorrelation=Decimal(repr(max(process.autocorrelation, 0.0))),
    )
