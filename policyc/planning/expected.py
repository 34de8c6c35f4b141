"""What a release measured for a whole stream is expected to err, and everything that was considered for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import Refused
from policyc.planning.measurements import Measurement, of_variances
from policyc.planning.series import Courses, Pair
from policyc.semantics.policy import Policy
from policyc_runtime.estimation import Estimator
from policyc_runtime.measuring import noise_stddevs
from policyc_runtime.plan import Candidate, ErrorRun, Plan, PredictedError, ReleasePlan

MOST_RUNS = 64  # of expected errors in a plan


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


def finished(policy: Policy, plan: Plan, one: PlannedRelease) -> ReleasePlan:
    """The release with its expected errors and everything that was considered."""
    release = plan.release_named(one.draft.name)
    horizon = plan.stream.horizon
    errors = of_variances(noise_stddevs(plan, release, horizon or 1) ** 2, policy.objective)
    noise = float(np.nanmean(errors))
    errors = np.nan_to_num(errors, nan=noise)  # a step that is not measured has its value from others
    simulated = None if one.pair is None else one.pair.error
    if simulated is not None:
        errors = np.full(horizon or 1, simulated)
    mean = float(np.nanmean(errors))
    update = {
        "expected_errors": tuple(_runs(errors, horizon)),
        "predicted": PredictedError(
            published=mean,
            without_postprocessing=noise,
            prior_alone=None,
            signal=None,
            method=_method(release, one),
        ),
        "candidates": tuple(_candidates(policy, release, one, mean)),
    }
    return release.model_copy(update=update)


def _method(release: ReleasePlan, one: PlannedRelease) -> str:
    """How the error was predicted."""
    if one.given is not None:
        return f"{one.given.said}, through mechanism and estimator"
    mechanism = release.stream_mechanism
    if mechanism is not None and mechanism.estimates:
        return f"{mechanism.errors_of}; a stream that moves otherwise has larger errors"
    if release.estimator.plain:
        return "variance of the noise alone: no signal says how values move, so what the estimator gains is not known"
    return "variance of the noise; true values are taken to be far from every bound"


def _runs(errors: NDArray[np.float64], horizon: int | None) -> list[ErrorRun]:
    """The errors of all steps, equal ones that follow each other taken together; of many, the means of stretches."""
    if horizon is None:
        return [ErrorRun(error=float(errors[-1]), steps=None)]
    runs = [ErrorRun(error=error, steps=len(list(run))) for error, run in groupby(errors.tolist())]
    if len(runs) <= MOST_RUNS:
        return runs
    return [ErrorRun(error=float(np.nanmean(part)), steps=len(part)) for part in np.array_split(errors, MOST_RUNS)]


def _candidates(policy: Policy, release: ReleasePlan, one: PlannedRelease, mean: float) -> list[Candidate]:
    free = one.pair is None
    unknown = "least noise; no signal says how values move, so nothing was tried"
    reason = "costs no privacy" if free else "lowest predicted error" if _compared(one) else unknown
    rows = [_row(release.mechanism.described(), release.estimator, mean, reason, chosen=True)]
    own = 1.0 if one.pair is None else one.pair.mean_error(policy.objective)
    for entry in one.others:
        if isinstance(entry, Refused):
            rows.append(_row(entry.name, release.estimator, None, entry.reason))
            continue
        ratio = entry.mean_error(policy.objective) / own
        error: float | None = ratio * (1.0 if free else mean)
        words = "would take a share of the promise" if free else f"{ratio:.3g} times the error of the one chosen"
        if not math.isfinite(ratio):
            error, words = None, "no values keep the constraints"
        rows.append(_row(entry.measurement.mechanism.described(), entry.estimator, error, words))
    return rows


def _compared(one: PlannedRelease) -> bool:
    """Whether errors of what is published were compared, not only noise."""
    return one.given is not None or not one.draft.estimator.plain


def _row(mechanism: str, estimator: Estimator, error: float | None, reason: str, *, chosen: bool = False) -> Candidate:
    return Candidate(
        schedule="whole stream",
        mechanism=mechanism,
        estimator=estimator.described(),
        predicted_error=error,
        chosen=chosen,
        reason=reason,
    )
