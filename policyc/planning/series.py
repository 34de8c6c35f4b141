"""Which mechanism and estimator measure a plain series best: tried on what the policy says of how it moves.

Only the policy's `signal` is used: a declared process, or a public pilot series. A few courses of it go through every
pair with a fixed seed. The protected data is never looked at. Where the policy does not say how values move, nothing
can be tried: the mechanism of least noise is taken, with the estimator that learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import Refused
from policyc.planning.measurements import Measurement, Objective
from policyc.semantics.policy import Policy, Signal
from policyc_runtime.errors import KernelError
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.linear import Linear
from policyc_runtime.estimation.plain_series import PlainSeries, SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel, drawn_series, learned_process
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]

COURSES = 3
SEED = 2022
LONG = 2000  # steps beyond which one course says enough
STRETCHES = 40
SAME = 1.02  # errors this near are a tie, as simulations err by 1 %: gaussian with filter or smoother is taken


@dataclass(frozen=True)
class Pair:
    """A mechanism and what is done to its values; `error` was simulated, None where the policy gives no signal."""

    measurement: Measurement
    estimator: Estimator
    error: float | None = None

    def mean_error(self, objective: Objective) -> float:
        """Simulated, or that of the noise."""
        return self.measurement.mean_error(objective) if self.error is None else self.error


def series_estimators(signal: Signal | None, delay: int | None) -> list[PlainSeries]:
    """The estimators of plain series that apply, the one that suits most first."""
    model = estimated_signal(signal)
    smoother = SeriesSmoother(observation_noise=model.observation_noise)
    found: list[PlainSeries] = [smoother, Linear(), SeriesFilter(signal=model)]
    return [kind for kind in found if kind.reason_against_delay(delay) is None]


def estimated_signal(signal: Signal | None) -> SignalModel:
    """What the filter takes as given; all but the period is learned where the policy says `learned = true`."""
    if signal is None or signal.kind == "pilot":
        return SignalModel()
    declared = declared_signal(signal)
    if not signal.arguments.get("learned"):
        return declared
    return SignalModel(period=declared.period, observation_noise=declared.observation_noise)


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
            "observation_noise": bool(told.get("observation_noise")),
        }
    )


@dataclass(frozen=True)
class Courses:
    """True values to try pairs on, in published units, and the process that a filter is given for speed.

    `said` is where they are from, for the certificate.
    """

    values: tuple[Array, ...]
    process: SignalModel
    said: str


def courses(policy: Policy, steps: int) -> Courses | None:
    """A few courses of the policy's signal over so many steps; None where it does not say enough to draw one."""
    signal = policy.signal
    if signal is None:
        return None
    if signal.kind == "pilot":
        return _pilot(signal, steps)
    model = declared_signal(signal)
    process = learned_process(model, np.empty(0), np.empty(0))
    if process is None or process.mean is None:
        return None
    count = COURSES if steps <= LONG else 1
    generator = np.random.default_rng(SEED)
    return Courses(
        tuple(drawn_series(process, steps, generator) for _ in range(count)), model, "the declared signal, simulated"
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
    return Courses((values,), _as_model(found, float(values.mean())), "the public pilot series, with simulated noise")


def _as_model(process: SeriesProcess, mean: float) -> SignalModel:
    return SignalModel(
        mean=Decimal(repr(mean)),
        residual_stddev=Decimal(repr(max(process.residual_stddev, 1e-9))),
        autocorrelation=Decimal(repr(max(process.autocorrelation, 0.0))),
    )


def pairs(
    tried: Sequence[Measurement | Refused],
    plain: Estimator,
    series: Sequence[PlainSeries],
    constraints: ConstraintSet,
    objective: Objective,
    given: Courses | None,
) -> list[Pair]:
    """Every pair that applies, with its simulated error where there is something to try it on; the best one first.

    Args:
        tried: calibrated mechanisms.
        plain: the estimator that looks at every step on its own.
        series: those for plain series that the policy allows.
        constraints: of the release.
        objective: what error counts.
        given: what to try them on.
    """
    found = []
    for entry in tried:
        if isinstance(entry, Refused):
            continue
        allowed: list[Estimator] = [kind for kind in (*series, plain) if _fits(entry, kind, given)]
        for estimator in allowed if given is not None else allowed[:1]:
            pair = Pair(entry, estimator)
            found.append(pair if given is None else replace(pair, error=_tried(pair, constraints, objective, given)))
    if not found:
        return []
    least = min(pair.mean_error(objective) for pair in found)
    ties = [pair for pair in found if pair.mean_error(objective) <= SAME * least]
    usual = [pair for pair in ties if pair.measurement.mechanism.name == "gaussian" and pair.estimator.fills]
    best = min(usual or ties, key=lambda pair: pair.mean_error(objective))
    others = sorted((pair for pair in found if pair is not best), key=lambda pair: pair.mean_error(objective))
    return [best, *others]


def _fits(entry: Measurement, estimator: Estimator, given: Courses | None) -> bool:
    """Steps without a value need an estimator that fills them; straight lines are for those alone.

    What a mechanism estimated already is estimated again only where that was tried.
    """
    if entry.mechanism.leaves_gaps:
        return estimator.fills
    if entry.mechanism.estimates and given is None:
        return not estimator.plain
    return not isinstance(estimator, Linear)


def _tried(pair: Pair, constraints: ConstraintSet, objective: Objective, given: Courses) -> float:
    """Mean error over all courses and steps; infinite where no values keep the constraints."""
    entry, unit = pair.measurement, float(pair.measurement.unit)
    estimator: Estimator = pair.estimator
    if isinstance(estimator, SeriesFilter):
        estimator = SeriesFilter(signal=given.process)  # known, not learned: a pass instead of many
    cells, errors, squares = entry.setting.cells, [], []
    for seed, truth in enumerate(given.values):
        raw = np.repeat(np.rint(truth / unit).astype(np.int64)[:, None], cells, axis=1)
        records = entry.mechanism.measure(entry.setting, raw, (), SimulationRandomness(SEED + seed))
        noisy = entry.mechanism.values(entry.setting, records) * unit
        variances = entry.mechanism.variances(entry.setting, truth.size) * unit**2
        scales = np.nan_to_num(np.sqrt(variances / 2))
        try:
            values = estimator.estimate_series(noisy, scales, 0, None, constraints, None, entry.setting.wait)
        except KernelError:
            return float("inf")
        errors.append(np.abs(values - raw * unit))
        squares.append((noisy - raw * unit) ** 2 / variances[:, None])
    found = np.array(errors) ** (2 if objective == "mean_squared_error" else 1)
    if entry.mechanism.estimates or entry.mechanism.leaves_gaps:
        return float(found.mean())
    return mean_at_expected_noise(found.ravel(), np.array(squares).ravel())


def mean_at_expected_noise(errors: Array, squares: Array) -> float:
    """The mean error, less what it owes to noise that was drawn larger or smaller than it is expected to be.

    How errors follow the noise is seen from stretch to stretch. Without this, mechanisms whose noise is equally large
    would differ by several percent from so few courses.

    Args:
        errors: (n,) in the order of steps.
        squares: (n,) of the noise, relative to their expectation.
    """
    means = np.array([(part.mean(), one.mean()) for part, one in zip(_cut(errors), _cut(squares), strict=True)])
    spread = float(np.var(means[:, 1]))
    slope = float(np.cov(means.T, bias=True)[0, 1]) / spread if spread > 0 else 0.0
    corrected = errors.mean() - slope * (squares.mean() - 1)
    return float(max(corrected, errors.mean() / 2))


def _cut(series: Array) -> list[Array]:
    return np.array_split(series, min(STRETCHES, series.size))
