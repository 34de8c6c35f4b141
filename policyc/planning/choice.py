"""Compares every schedule and estimator by the predicted error of what is published, and takes the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policyc.planning.candidates import Predictor, Refused
from policyc.planning.schedules import Allocation, exact
from policyc_runtime.estimation import Estimator
from policyc_runtime.mechanisms import Mechanism
from policyc_runtime.plan import Candidate, PredictedError


@dataclass(frozen=True)
class Choice:
    """What the plan will use, with everything that was compared. `expected_errors` has one number a run."""

    allocation: Allocation
    mechanism: Mechanism
    estimator: Estimator
    expected_errors: tuple[float, ...]
    predicted: PredictedError
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class _Entry:
    allocation: Allocation
    estimator: Estimator
    errors: tuple[float, ...]
    mean: float


def choose(
    schedules: Sequence[Allocation | Refused],
    estimators: Sequence[Estimator | Refused],
    mechanism: Mechanism,
    predictor: Predictor,
) -> Choice | None:
    """The combination with the lowest predicted error; None when no schedule or no estimator applies.

    Ties go to the one named first.
    """
    possible = [a for a in schedules if isinstance(a, Allocation)]
    usable = [e for e in estimators if isinstance(e, Estimator)]
    entries = [_entry(a, e, mechanism, predictor) for a in possible for e in usable]
    if not entries:
        return None
    best = min(entries, key=lambda entry: entry.mean)
    predicted = PredictedError(
        published=best.mean,
        without_postprocessing=_noise_error(best.allocation, mechanism, predictor),
        prior_alone=predictor.prior_alone(_steps(best.allocation)),
        signal=predictor.signal(),
        method=predictor.method(),
    )
    candidates = [_candidate(entry, best, mechanism) for entry in entries]
    candidates += [_refused(r, mechanism, "schedule") for r in schedules if isinstance(r, Refused)]
    candidates += [_refused(r, mechanism, "estimator") for r in estimators if isinstance(r, Refused)]
    return Choice(best.allocation, mechanism, best.estimator, best.errors, predicted, tuple(candidates))


def _scales(allocation: Allocation, mechanism: Mechanism) -> list[float]:
    return [float(mechanism.calibrate(exact(run.epsilon))) for run in allocation.runs]


def _entry(allocation: Allocation, estimator: Estimator, mechanism: Mechanism, predictor: Predictor) -> _Entry:
    scales = _scales(allocation, mechanism)
    start, errors = 0, []
    for run, scale in zip(allocation.runs, scales, strict=True):
        errors.append(predictor.run_error(estimator, start, run, scale, scales[0]))
        start += run.steps or 0
    return _Entry(allocation, estimator, tuple(errors), _mean(allocation, errors))


def _mean(allocation: Allocation, errors: Sequence[float]) -> float:
    if allocation.runs[-1].steps is None:
        return errors[-1]
    return float(np.average(errors, weights=[run.steps or 0 for run in allocation.runs]))


def _noise_error(allocation: Allocation, mechanism: Mechanism, predictor: Predictor) -> float:
    errors = [predictor.noise_error(scale) for scale in _scales(allocation, mechanism)]
    return _mean(allocation, errors)


def _steps(allocation: Allocation) -> int | None:
    if allocation.runs[-1].steps is None:
        return None
    return sum(run.steps or 0 for run in allocation.runs)


def _candidate(entry: _Entry, best: _Entry, mechanism: Mechanism) -> Candidate:
    chosen = entry is best
    ratio = entry.mean / best.mean if best.mean > 0 else float("inf")
    more = f"{100 * (ratio - 1):.2g} % more error than" if ratio < 2 else f"{ratio:.3g} times the error of"
    reason = "lowest predicted error" if chosen else f"{more} the one chosen"
    return Candidate(
        schedule=entry.allocation.name,
        mechanism=mechanism.name,
        estimator=entry.estimator.described(),
        predicted_error=entry.mean,
        chosen=chosen,
        reason=reason,
    )


def _refused(refused: Refused, mechanism: Mechanism, kind: str) -> Candidate:
    return Candidate(
        schedule=refused.name if kind == "schedule" else "any",
        mechanism=mechanism.name,
        estimator=refused.name if kind == "estimator" else "any",
        predicted_error=None,
        chosen=False,
        reason=refused.reason,
    )
