"""What a release measured for a whole stream is expected to err, and everything that was considered for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import Refused
from policyc.planning.comparison import ADAPTS, NOTICED, more_error
from policyc.planning.courses import Courses, still
from policyc.planning.draft import DraftRelease
from policyc.planning.measurements import Measurement, of_variances
from policyc.planning.series import Pair
from policyc.planning.still_errors import still_totals
from policyc.planning.trials import (
    ACCURATE,
    FEW_COURSES,
    FEW_STEPS,
    MOST_COURSES,
    MOST_STEPS,
    SEED,
    Estimated,
    Trial,
    known_errors,
)
from policyc.semantics.policy import Policy
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.projection import NearestValues
from policyc_runtime.mechanisms import Derived, StreamMechanism, WindowMechanism, still_error
from policyc_runtime.noisy_values import derived_values, totalled
from policyc_runtime.planned_release import DerivedRelease, MeasuredRelease
from policyc_runtime.predicted_errors import Candidate, ErrorKind, ErrorRun, PredictedError
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]
Total = Callable[[Array], Array]

FAR = "of values that stand still far above the noise, over all steps, by simulation"
MOVES = "how far off values are depends on how the stream moves, which the policy does not say"
GAINS = "that depends on how the stream moves, which the policy does not say"
COUPLED = "of constraints between steps, that depends on how the stream moves, which the policy does not say"
BOUNDED = "near their bounds constraints take error away, and the policy does not say where values lie"
NO_MEAN = "the declared signal says how values move, and not where they lie"
MOST_RUNS = 64  # of expected errors in a plan
ROUNDED = 2.0  # the typical error from which on rounding to whole numbers takes less than 1 % away


@dataclass(frozen=True)
class PlannedRelease:
    """One release as it is planned: how it is measured (None: made of another), and what else was considered.

    `pair` has noise for the whole promise, `measurement` for the release's share of it. `given` is what pairs were
    tried on, None where the policy does not say how values move.
    """

    draft: DraftRelease
    estimator: Estimator
    pair: Pair | None
    others: tuple[Pair | Refused, ...]
    measurement: Measurement | None = None
    given: Courses | None = None

    @property
    def alone(self) -> Measurement | None:
        """The measurement with noise for the whole promise."""
        return None if self.pair is None else self.pair.measurement

    @property
    def mechanism(self) -> StreamMechanism | Derived:
        """How its noisy values are found."""
        return Derived() if self.measurement is None else self.measurement.mechanism


@dataclass(frozen=True)
class _Origin:
    """Where the values of a release come from: a measurement of `source`, and totals of its noisy values in order."""

    source: DraftRelease
    base: Measurement
    totals: tuple[DraftRelease, ...] = ()

    @classmethod
    def of(cls, one: PlannedRelease, planned: Sequence[PlannedRelease]) -> _Origin:
        """That of one of the releases that are planned together."""
        if one.measurement is not None:
            return cls(one.draft, one.measurement)
        query = one.draft.query
        assert isinstance(query, PrefixQuery | WindowQuery), "all others are measured"
        made = cls.of(next(other for other in planned if other.draft.name == query.of), planned)
        return replace(made, totals=(*made.totals, one.draft))

    @property
    def measured(self) -> Total | None:
        """What the mechanism measures of true values; None for themselves."""
        total = isinstance(self.source.query, PrefixQuery | WindowQuery)
        return partial(derived_values, self.source) if total else None

    @property
    def derive(self) -> Total | None:
        """What is then made of them; None for nothing."""
        return self._derived if self.totals else None

    def _derived(self, values: Array) -> Array:
        return totalled(self.totals, values)

    def variances(self) -> Array:
        """Of the noise, as if that of the steps that totals add up were independent, but for what is common, (steps,).

        Rounded as that of the plan is (`noise_stddevs`).
        """
        own, common = self.base.own_stddevs(), self.base.offset.of_totals(self._derived, self.base.steps)
        for total in self.totals:
            own = np.sqrt(derived_values(total, own[:, None] ** 2))[:, 0]
        return np.asarray(np.hypot(own, common) ** 2)


def finished(
    policy: Policy, one: PlannedRelease, planned: Sequence[PlannedRelease], agreed: Found | None = None
) -> MeasuredRelease | DerivedRelease:
    """The release with its expected errors and everything that was considered; `planned` are all of the plan.

    `agreed` is what is known of values that are made to agree with those of other releases.
    """
    origin = _Origin.of(one, planned)
    noisy = _noise(policy, one, origin)
    found = _published(policy, one, origin) if agreed is None else agreed
    errors = np.nan_to_num(noisy, nan=float(np.nanmean(noisy))) if found.errors is None else found.errors
    predicted = PredictedError(
        kind=found.kind,
        published=float(errors.mean()),
        stderr=found.stderr,
        because=found.because,
        without_postprocessing=_alone(policy, one, origin, found),
        prior_alone=None,
        signal=None,
        method=found.method,
    )
    made: dict[str, Any] = {
        **dict(one.draft),
        "mechanism": one.mechanism,
        "schedule": None,
        "expected_errors": tuple(_runs(errors, origin.base.setting.horizon)),
        "estimator": one.estimator,
        "predicted": predicted,
        "candidates": tuple(_candidates(policy, one, predicted)),
    }
    return DerivedRelease(**made) if one.measurement is None else MeasuredRelease(**made)


@dataclass(frozen=True)
class Found:
    """What is known of the errors of published values; `errors` (steps,) None for those of the noisy ones."""

    kind: ErrorKind
    method: str
    errors: Array | None = None
    stderr: float | None = None
    because: str | None = None


def _published(policy: Policy, one: PlannedRelease, origin: _Origin) -> Found:
    """What is known of the errors of what is published.

    What is found far from every bound holds there alone: it is stated as what it is before constraints, unless the
    policy says where values lie.
    """
    given = one.given
    if given is None or one.pair is None or one.pair.error is None:
        found = _untried(policy, one, origin)
    else:
        found = _tried(policy, one, one.pair, origin, given)
    placed = given is not None and given.placed
    if placed or found.kind == "noise" or not _may_lower(policy, one, origin, found.errors):
        return found
    return replace(found, kind="unconstrained", because=found.because or (BOUNDED if given is None else NO_MEAN))


def _tried(policy: Policy, one: PlannedRelease, pair: Pair, origin: _Origin, given: Courses) -> Found:
    """The same of one that was tried on courses: anew where it has a share of the promise only."""
    errors, estimated = pair.errors, Estimated(pair.error or 0.0, pair.stderr or 0.0)
    if one.measurement is not None and one.measurement != pair.measurement:
        trial = _trial(policy, one, origin, given)
        errors = known_errors(one.measurement, one.estimator, trial.constraints, policy.objective, given)
        estimated = trial.settled() if errors is None else estimated
    if errors is None:
        return _simulated(given, origin.base.steps, estimated)
    computed = f"{given.said}: the covariance of what is missed follows from it and from the noise"
    return Found("expected", computed, errors)


def _untried(policy: Policy, one: PlannedRelease, origin: _Origin) -> Found:
    """The same of a release that was not tried on courses of a signal while mechanisms were compared."""
    pair, given, mechanism, steps = one.pair, one.given, origin.base.mechanism, origin.base.steps
    constraints, coupled = one.draft.constraints, one.draft.constraint_set.couples_steps
    moving = (mechanism.estimates or mechanism.leaves_gaps) and not (pair is not None and mechanism.declared)
    if moving and given is None:
        return _least(policy, one, origin)
    if moving or (given is not None and constraints) or (pair is None and not mechanism.independent):
        there = given if given is not None and (moving or constraints) else still(policy, steps)
        return _simulated(there, steps, _trial(policy, one, origin, there).settled())
    if one.estimator.plain or coupled:
        open_gain = "what constraints between steps gain" if coupled else "what the estimator gains"
        method = f"law of the noise alone: no signal says how values move, so {open_gain} is not known"
        return Found("noise", method, because=COUPLED if coupled else GAINS)
    if mechanism.declared:
        return Found("expected", "errors of the declared process")
    noise = "law of the noise"
    may_lower = _may_lower(policy, one, origin)
    return Found("noise", noise, because=BOUNDED) if may_lower else Found("expected", noise)


def _may_lower(policy: Policy, one: PlannedRelease, origin: _Origin, errors: Array | None = None) -> bool:
    """Whether the release's demands may lower errors somewhere: (steps,) of values as they are estimated, or noise."""
    if one.draft.constraints or not one.draft.integer:
        return len(one.draft.constraints) > 0
    if errors is None and origin.base.mechanism.whole_values and origin.base.unit == 1:
        return False
    found = of_variances(origin.variances(), policy.objective) if errors is None else errors
    typical = float(np.nanmean(found)) ** (0.5 if policy.objective == "mean_squared_error" else 1.0)
    return bool(typical < ROUNDED)


def _least(policy: Policy, one: PlannedRelease, origin: _Origin) -> Found:
    """The errors of a stream that stands still."""
    base, steps = origin.base, origin.base.steps
    if base.mechanism.leaves_gaps:
        variance = base.variance_of_all()
        method = "variance of the mean of all measured values, which no estimate of a still stream is below"
        return Found("at_least", method, of_variances(np.full(steps, variance), policy.objective), because=MOVES)
    if isinstance(rule := base.mechanism, WindowMechanism) and origin.derive is None:
        size = still_error(rule.name, rule.window, base.setting.cells, base.setting.horizon, policy.objective)
        told = replace(base, mechanism=rule.model_copy(update={"still_error": size}))
        return Found("at_least", FAR, told.errors(policy.objective), because=ADAPTS)
    if isinstance(base.mechanism, WindowMechanism) and origin.derive is not None:
        error, stderr = still_totals(base, policy.objective, origin.derive)
        return Found("at_least", FAR, np.full(steps, error), stderr, ADAPTS)
    error, stderr = _trial(policy, one, origin, still(policy, steps)).settled(FEW_STEPS)
    method = "errors of a stream that does not move, simulated; one that moves has larger errors"
    known = stderr if math.isfinite(stderr) else None
    return Found("at_least", method, np.full(steps, error), known, MOVES)


def _trial(policy: Policy, one: PlannedRelease, origin: _Origin, there: Courses) -> Trial:
    """What a release makes of a measurement; whatever the constraints where nobody says where values lie."""
    rows = one.draft.constraints if there.placed else ()
    constraints = ConstraintSet(rows, len(one.draft.cells), integer=one.draft.integer)
    return Trial(origin.base, one.estimator, constraints, policy.objective, there, origin.measured, origin.derive)


def _simulated(given: Courses, steps: int, found: Estimated) -> Found:
    """What was found on courses."""
    if not math.isfinite(found.error):
        return Found("noise", "law of the noise alone", because="no values of the signal keep the constraints")
    known = found.stderr if math.isfinite(found.stderr) else None
    errors = np.full(steps, found.error)
    return Found("simulated", f"{given.said}, through mechanism and estimator, simulated", errors, known)


def _noise(policy: Policy, one: PlannedRelease, origin: _Origin) -> Array:
    """Expected errors of the noisy values, (steps,); NaN without one."""
    if one.measurement is not None:
        return one.measurement.errors(policy.objective)
    return of_variances(origin.variances(), policy.objective)


def _alone(policy: Policy, one: PlannedRelease, origin: _Origin, found: Found) -> float | None:
    """Expected error of what the mechanism gives, as `none()` would publish it; None where no signal tells it.

    What is more than the truth and noise is tried on the courses that what is published was tried on; where only noises
    depend on each other, any course tells.
    """
    base, mechanism = origin.base, origin.base.mechanism
    if mechanism.errs_by_variances and (one.measurement is not None or mechanism.independent):
        return float(np.nanmean(_noise(policy, one, origin)))
    same = isinstance(one.estimator, NearestValues) and one.draft.constraint_set.demands_nothing
    if same and found.errors is not None and found.kind in ("expected", "simulated"):
        return float(found.errors.mean())
    there = still(policy, base.steps) if one.given is None and mechanism.errs_by_variances else one.given
    if there is None:
        return None
    measure, derive = origin.measured, origin.derive
    unit, means = float(base.unit), np.empty(0)
    while means.size * base.steps < MOST_STEPS and means.size < MOST_COURSES:
        raw = np.rint(there.course(means.size) / unit).astype(np.int64)[:, None].repeat(base.setting.cells, axis=1)
        records = mechanism.measure(base.setting, raw, (), SimulationRandomness(SEED + means.size))
        true: Array = np.asarray(raw * unit, np.float64)
        values: Array = mechanism.values(base.setting, records) * unit
        true = true if measure is None else measure(true)
        away = values - true if derive is None else derive(values) - derive(true)
        squared = policy.objective == "mean_squared_error"
        means = np.append(means, np.nanmean(away**2 if squared else np.abs(away)))
        if means.size >= FEW_COURSES and means.std() <= ACCURATE * means.mean() * means.size**0.5:
            break
    return float(means.mean())


def _runs(errors: NDArray[np.float64], horizon: int | None) -> list[ErrorRun]:
    """The errors of all steps, equal ones that follow each other taken together; of many, the means of stretches."""
    runs = [ErrorRun(error=error, steps=len(list(run))) for error, run in groupby(errors.tolist())]
    if len(runs) > MOST_RUNS:
        runs = [ErrorRun(error=float(np.nanmean(part)), steps=len(part)) for part in np.array_split(errors, MOST_RUNS)]
    return runs if horizon is not None else [*runs[:-1], ErrorRun(error=runs[-1].error, steps=None)]


def _candidates(policy: Policy, one: PlannedRelease, predicted: PredictedError) -> list[Candidate]:
    free, mean = one.pair is None, predicted.published
    own = 1.0 if one.pair is None else one.pair.mean_error(policy.objective)
    ratios = [entry.mean_error(policy.objective) / own for entry in one.others if isinstance(entry, Pair)]
    reason = "costs no privacy" if free else "lowest predicted error"
    if not free and min(ratios, default=1.0) < 1 / NOTICED:
        reason = "a tie with the lowest predicted error"
    if not free and predicted.because is not None:
        wish = policy.mechanism.name
        reason = "least noise" if wish == "auto" else "named by the policy"
        reason += "; no signal says how values move, so nothing was tried"
    rows = [_row(one.mechanism.described(), one.estimator, mean, reason, chosen=True)]
    for entry in one.others:
        if isinstance(entry, Refused):
            rows.append(_row(entry.name, one.estimator, None, entry.reason))
            continue
        ratio = entry.mean_error(policy.objective) / own
        error: float | None = ratio * (1.0 if free else mean)
        words = "would take a share of the promise" if free else more_error(ratio)
        if not math.isfinite(ratio):
            error, words = None, "no values keep the constraints"
        rows.append(_row(entry.measurement.mechanism.described(), entry.estimator, error, words))
    return rows


def _row(mechanism: str, estimator: Estimator, error: float | None, reason: str, *, chosen: bool = False) -> Candidate:
    return Candidate(
        schedule="whole stream",
        mechanism=mechanism,
        estimator=estimator.described(),
        predicted_error=error,
        chosen=chosen,
        reason=reason,
    )
