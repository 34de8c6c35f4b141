"""What a release measured for a whole stream is expected to err, and everything that was considered for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import Refused
from policyc.planning.comparison import NOTICED, more_error
from policyc.planning.courses import Courses, still
from policyc.planning.measurements import Measurement, of_variances
from policyc.planning.series import Pair
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
from policyc_runtime.noisy_values import derived_values, noise_stddevs, whole_values
from policyc_runtime.plan import Candidate, DerivedRelease, ErrorKind, ErrorRun, Plan, PredictedError, ReleasePlan
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]
Total = Callable[[Array], Array]

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

    draft: ReleasePlan
    pair: Pair | None
    others: tuple[Pair | Refused, ...]
    measurement: Measurement | None = None
    given: Courses | None = None

    @property
    def alone(self) -> Measurement | None:
        """The measurement with noise for the whole promise."""
        return None if self.pair is None else self.pair.measurement


def finished(policy: Policy, plan: Plan, one: PlannedRelease, planned: Sequence[PlannedRelease]) -> ReleasePlan:
    """The release with its expected errors and everything that was considered; `planned` are all of the plan."""
    release = plan.release_named(one.draft.name)
    horizon = plan.stream.horizon
    noisy = _noise(policy, plan, one, release)
    found = _published(policy, plan, one, planned)
    errors = np.nan_to_num(noisy, nan=float(np.nanmean(noisy))) if found.errors is None else found.errors
    mean = float(errors.mean())
    predicted = PredictedError(
        kind=found.kind,
        published=mean,
        stderr=found.stderr,
        because=found.because,
        without_postprocessing=_alone(policy, plan, one, _measured_base(plan, one, planned), found),
        prior_alone=None,
        signal=None,
        method=found.method,
    )
    update = {
        "expected_errors": tuple(_runs(errors, horizon)),
        "predicted": predicted,
        "candidates": tuple(_candidates(policy, release, one, predicted)),
    }
    return release.model_copy(update=update)


@dataclass(frozen=True)
class _Found:
    """What is known of the errors of published values; `errors` (steps,) None for those of the noisy ones."""

    kind: ErrorKind
    method: str
    errors: Array | None = None
    stderr: float | None = None
    because: str | None = None


def _published(policy: Policy, plan: Plan, one: PlannedRelease, planned: Sequence[PlannedRelease]) -> _Found:
    """What is known of the errors of what is published.

    What is found far from every bound holds there alone: it is stated as what it is before constraints, unless the
    policy says where values lie.
    """
    release, pair, given = plan.release_named(one.draft.name), one.pair, one.given
    if given is None or pair is None or pair.error is None:
        found = _untried(policy, plan, one, _measured_base(plan, one, planned))
    else:
        found = _tried(policy, plan, one, given)
    placed = given is not None and given.placed
    if placed or found.kind == "noise" or not _may_lower(plan, release, found.errors):
        return found
    return replace(found, kind="unconstrained", because=found.because or (BOUNDED if given is None else NO_MEAN))


def _tried(policy: Policy, plan: Plan, one: PlannedRelease, given: Courses) -> _Found:
    """The same of one that was tried on courses: anew where it has a share of the promise only."""
    pair, release = one.pair, plan.release_named(one.draft.name)
    assert pair is not None, "only pairs are tried"
    errors, estimated = pair.errors, Estimated(pair.error or 0.0, pair.stderr or 0.0)
    if one.measurement is not None and one.measurement != pair.measurement:
        trial = _trial(policy, plan, release, one.measurement, given)
        errors = known_errors(one.measurement, release.estimator, trial.constraints, policy.objective, given)
        estimated = trial.settled() if errors is None else estimated
    if errors is None:
        return _simulated(given, plan, estimated)
    computed = f"{given.said}: the covariance of what is missed follows from it and from the noise"
    return _Found("expected", computed, errors)


def _untried(policy: Policy, plan: Plan, one: PlannedRelease, base: Measurement) -> _Found:
    """The same of a release that was not tried on courses of a signal while mechanisms were compared."""
    release, pair, given, mechanism = plan.release_named(one.draft.name), one.pair, one.given, base.mechanism
    moving = (mechanism.estimates or mechanism.leaves_gaps) and not (pair is not None and mechanism.declared)
    if moving and given is None:
        return _least(policy, plan, release, base)
    if moving or (given is not None and release.constraints) or (pair is None and not mechanism.independent):
        there = given if given is not None and (moving or release.constraints) else still(policy, base.steps)
        return _simulated(there, plan, _trial(policy, plan, release, base, there).settled())
    coupled = release.constraint_set.couples_steps
    if release.estimator.plain or coupled:
        open_gain = "what constraints between steps gain" if coupled else "what the estimator gains"
        method = f"variance of the noise alone: no signal says how values move, so {open_gain} is not known"
        return _Found("noise", method, because=COUPLED if coupled else GAINS)
    if mechanism.declared:
        return _Found("expected", "errors of the declared AR(1) process")
    noise = "variance of the noise"
    return _Found("noise", noise, because=BOUNDED) if _may_lower(plan, release) else _Found("expected", noise)


def _may_lower(plan: Plan, release: ReleasePlan, errors: Array | None = None) -> bool:
    """Whether the release's demands may lower errors somewhere: (steps,) of values as they are estimated, or noise."""
    if release.constraints or not release.integer:
        return len(release.constraints) > 0
    if errors is None and whole_values(plan, release):
        return False
    variances = noise_stddevs(plan, release, plan.expected_steps) ** 2
    found = of_variances(variances, plan.objective) if errors is None else errors
    typical = float(np.nanmean(found)) ** (0.5 if plan.objective == "mean_squared_error" else 1.0)
    return bool(typical < ROUNDED)


def _least(policy: Policy, plan: Plan, release: ReleasePlan, base: Measurement) -> _Found:
    """The errors of a stream that stands still."""
    there, steps = still(policy, base.steps), plan.expected_steps
    if base.mechanism.leaves_gaps:
        variance = base.variance_of_all()
        method = "variance of the mean of all measured values, which no estimate of a still stream is below"
        return _Found("at_least", method, of_variances(np.full(steps, variance), policy.objective), because=MOVES)
    error, stderr = _trial(policy, plan, release, base, there).settled(FEW_STEPS)
    method = "errors of a stream that does not move, simulated; one that moves has larger errors"
    known = stderr if math.isfinite(stderr) else None
    return _Found("at_least", method, np.full(steps, error), known, MOVES)


def _trial(policy: Policy, plan: Plan, release: ReleasePlan, base: Measurement, there: Courses) -> Trial:
    """What a release makes of a measurement; whatever the constraints where nobody says where values lie."""
    rows = release.constraints if there.placed else ()
    constraints = ConstraintSet.of_rows(rows, len(release.cells), integer=release.integer)
    return Trial(base, release.estimator, constraints, policy.objective, there, *_totals(plan, release))


def _simulated(given: Courses, plan: Plan, found: Estimated) -> _Found:
    """What was found on courses."""
    if not math.isfinite(found.error):
        return _Found("noise", "variance of the noise alone", because="no values of the signal keep the constraints")
    known = found.stderr if math.isfinite(found.stderr) else None
    errors = np.full(plan.expected_steps, found.error)
    return _Found("simulated", f"{given.said}, through mechanism and estimator, simulated", errors, known)


def _noise(policy: Policy, plan: Plan, one: PlannedRelease, release: ReleasePlan) -> Array:
    """Expected errors of the noisy values, (steps,); NaN without one."""
    if one.measurement is not None:
        return one.measurement.errors(policy.objective)
    return of_variances(noise_stddevs(plan, release, plan.expected_steps) ** 2, policy.objective)


def _alone(policy: Policy, plan: Plan, one: PlannedRelease, base: Measurement, found: _Found) -> float | None:
    """Expected error of what the mechanism gives, as `none()` would publish it; None where no signal tells it.

    What is more than the truth and noise is tried on the courses that what is published was tried on; where only noises
    depend on each other, any course tells.
    """
    release, mechanism = plan.release_named(one.draft.name), base.mechanism
    if mechanism.errs_by_variances and (one.measurement is not None or mechanism.independent):
        return float(np.nanmean(_noise(policy, plan, one, release)))
    same = isinstance(release.estimator, NearestValues) and release.constraint_set.demands_nothing
    if same and found.errors is not None and found.kind in ("expected", "simulated"):
        return float(found.errors.mean())
    there = still(policy, base.steps) if one.given is None and mechanism.errs_by_variances else one.given
    if there is None:
        return None
    measure, derive = _totals(plan, release)
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


def _measured_base(plan: Plan, one: PlannedRelease, planned: Sequence[PlannedRelease]) -> Measurement:
    """The measurement that a release is, or is made of."""
    known = {entry.draft.name: entry.measurement for entry in planned}
    release = one.draft
    while (found := known[release.name]) is None:
        assert isinstance(release.query, PrefixQuery | WindowQuery), "all others are measured"
        release = plan.release_named(release.query.of)
    return found


def _totals(plan: Plan, release: ReleasePlan) -> tuple[Total | None, Total | None]:
    """What the mechanism measures of the values of its source, and what is then made of it; None for nothing."""
    totals: list[ReleasePlan] = []
    measured: list[ReleasePlan] = []
    while isinstance(release.query, PrefixQuery | WindowQuery):
        (totals if isinstance(release, DerivedRelease) else measured).append(release)
        release = plan.release_named(release.query.of)

    def chained(parts: list[ReleasePlan]) -> Total | None:
        def total(values: Array) -> Array:
            for part in reversed(parts):
                values = derived_values(part, values)
            return values

        return total if parts else None

    return chained(measured), chained(totals)


def _runs(errors: NDArray[np.float64], horizon: int | None) -> list[ErrorRun]:
    """The errors of all steps, equal ones that follow each other taken together; of many, the means of stretches."""
    runs = [ErrorRun(error=error, steps=len(list(run))) for error, run in groupby(errors.tolist())]
    if len(runs) > MOST_RUNS:
        runs = [ErrorRun(error=float(np.nanmean(part)), steps=len(part)) for part in np.array_split(errors, MOST_RUNS)]
    return runs if horizon is not None else [*runs[:-1], ErrorRun(error=runs[-1].error, steps=None)]


def _candidates(
    policy: Policy, release: ReleasePlan, one: PlannedRelease, predicted: PredictedError
) -> list[Candidate]:
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
    rows = [_row(release.mechanism.described(), release.estimator, mean, reason, chosen=True)]
    for entry in one.others:
        if isinstance(entry, Refused):
            rows.append(_row(entry.name, release.estimator, None, entry.reason))
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
