"""Which mechanism and estimator measure a plain series best: what each makes of the signal that the policy declares.

Errors that can be computed are; all other pairs go through the same courses. Most are told apart by a few of these,
with a filter that is given what it would have to learn; those that may be the best are run as they are, on more. Where
the policy does not say how values move, nothing can be tried: the mechanism of least noise is taken, with the estimator
that learns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from policyc.offers import mechanism_offers
from policyc.planning.candidates import Refused
from policyc.planning.courses import Courses, courses, declared_signal
from policyc.planning.measurements import Measurement, Objective
from policyc.planning.trials import FEW_STEPS, Estimated, Trial, known_errors
from policyc.progress import counted
from policyc.semantics.policy import Policy, Signal
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.linear import Linear
from policyc_runtime.estimation.plain_series import PlainSeries, SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.plan import STRETCH

Array = NDArray[np.float64]

NEAR = 1.5  # times the least error seen so far, within which a pair may be the best
NEARER = 1.1  # the same, of pairs that were run as they are
SAME = 1.03  # errors this near are a tie: gaussian with filter or smoother wins, then what is computed, not simulated


@dataclass(frozen=True)
class Pair:
    """A mechanism and what is done to its values.

    `error` is expected of what is published, None where the policy gives no signal; `stderr` its standard error, None
    where it was computed; `errors` (steps,) those of every step, where they are known.
    """

    measurement: Measurement
    estimator: Estimator
    error: float | None = None
    stderr: float | None = None
    errors: Array | None = None

    def mean_error(self, objective: Objective) -> float:
        """What is expected of published values, or that of the noise."""
        return self.measurement.mean_error(objective) if self.error is None else self.error

    def surely(self, objective: Objective) -> float:
        """The same with two standard errors on top: what is lower by chance is not the best."""
        return self.mean_error(objective) + 2 * (self.stderr or 0.0)


def series_estimators(signal: Signal | None, delay: int | None) -> list[PlainSeries]:
    """The estimators of plain series that apply, the one that suits most first."""
    model = estimated_signal(signal)
    smoother = SeriesSmoother(observation_noise=model.observation_noise)
    declared = [SeriesSmoother(signal=model)] if model.complete else []
    found: list[PlainSeries] = [smoother, *declared, Linear(), SeriesFilter(signal=model)]
    return [kind for kind in found if kind.reason_against_delay(delay) is None]


def estimated_signal(signal: Signal | None) -> SignalModel:
    """What the filter takes as given; all but the period is learned where the policy says `learned = true`."""
    if signal is None or signal.kind == "pilot":
        return SignalModel()
    declared = declared_signal(signal)
    if not signal.arguments.get("learned"):
        return declared
    return SignalModel(period=declared.period, observation_noise=declared.observation_noise)


def with_one_signal(policy: Policy) -> Policy:
    """The policy with what may be taken of its signal.

    It says how one series moves: of several counts and sums nobody knows which, so that all but the
    period is learned of each.
    """
    signal = policy.signal
    if signal is None or not policy.several_series:
        return policy
    told = signal.arguments
    kept: dict[str, object] = {name: told[name] for name in ("period", "observation_noise") if name in told}
    learned = None if signal.kind == "pilot" else replace(signal, arguments={**kept, "learned": True})
    return replace(policy, signal=learned)


def modelled_signal(policy: Policy) -> SignalModel | None:
    """What the plan says of how the released numbers move: as declared, or as a public pilot series did."""
    signal = policy.signal
    if signal is None or signal.kind != "pilot":
        return None if signal is None else estimated_signal(signal)
    found = courses(policy, policy.stream.horizon or STRETCH)
    return None if found is None else found.model


def signal_evidence(policy: Policy) -> str | None:
    """Who says that the released numbers move so; None where nobody does."""
    told = None if policy.signal is None else policy.signal.arguments.get("evidence")
    return told if isinstance(told, str) else None


def pairs(
    tried: Sequence[Measurement | Refused],
    allowed: Sequence[Estimator],
    constraints: ConstraintSet,
    objective: Objective,
    given: Courses | None,
) -> list[Pair]:
    """Every pair that applies, with its expected error where there is a signal; the best one first.

    Args:
        tried: calibrated mechanisms.
        allowed: the estimators that the policy allows, the one that suits most first.
        constraints: of the release.
        objective: what error counts.
        given: what to try them on.
    """
    entries = [entry for entry in tried if isinstance(entry, Measurement)]
    fitting = [(entry, [kind for kind in allowed if _fits(entry, kind, given)]) for entry in entries]
    if given is None:
        found = [Pair(entry, kinds[0]) for entry, kinds in fitting if kinds]
    else:
        every = [Pair(entry, kind) for entry, kinds in fitting for kind in kinds]
        found = _with_errors(every, constraints, objective, given)
    if not found:
        return []
    least = min(pair.surely(objective) for pair in found)
    ties = [pair for pair in found if pair.surely(objective) <= SAME * least]
    offers = mechanism_offers()
    usual = [pair for pair in ties if offers[pair.measurement.mechanism.name].usual and pair.estimator.fills]
    computed = [pair for pair in ties if pair.errors is not None]
    best = min(usual or computed or ties, key=lambda pair: pair.surely(objective))
    others = sorted((pair for pair in found if pair is not best), key=lambda pair: pair.mean_error(objective))
    if best.error is None or best.errors is not None or Estimated(best.error, best.stderr or 0.0).accurate:
        return [best, *others]
    assert given is not None, "there is an error"
    more = _of(best, Trial(best.measurement, best.estimator, constraints, objective, given).settled())
    factor = (more.error or 0.0) / best.error
    # the chance that is taken away was that of the others too, where they are simulated: on the same courses
    others = [pair if pair.errors is not None else replace(pair, error=(pair.error or 0.0) * factor) for pair in others]
    return [more, *others]


def _fits(entry: Measurement, estimator: Estimator, given: Courses | None) -> bool:
    """Steps without a value need an estimator that fills them; straight lines are for those alone.

    What a mechanism estimated already is estimated again only where that was tried; what waits for a whole block of
    steps does not wait again for an estimator that looks at later ones.
    """
    if waits_twice(entry, estimator):
        return False
    if entry.mechanism.leaves_gaps:
        return estimator.fills
    if entry.mechanism.estimates and given is None:
        return not estimator.plain
    return not isinstance(estimator, Linear)


def waits_twice(entry: Measurement, estimator: Estimator) -> bool:
    """Whether values would wait for their block, and then as long again for the steps that the estimator looks at."""
    wait = entry.setting.wait
    return bool(wait) and entry.mechanism.ready(entry.setting, 1) == 0 and estimator.looks_ahead(wait)


def _with_errors(found: Sequence[Pair], constraints: ConstraintSet, objective: Objective, given: Courses) -> list[Pair]:
    """Pairs with what each is expected to err, accurately enough to tell those that may be the best apart."""
    trials = [Trial(pair.measurement, pair.estimator, constraints, objective, given) for pair in found]
    seen = []
    for pair, trial in counted("mechanisms and estimators", zip(found, trials, strict=True), len(found)):
        known = known_errors(pair.measurement, pair.estimator, constraints, objective, given)
        quick = _quick(pair.estimator, given)
        if known is not None:
            seen.append(replace(pair, error=float(known.mean()), errors=known))
        else:
            seen.append(_of(pair, (trial if quick == pair.estimator else replace(trial, estimator=quick)).settled(0)))
    for enough, steps in ((NEAR, 0), (NEARER, FEW_STEPS)):
        least = min((pair.error or 0.0 for pair in seen), default=0.0)
        seen = [
            _of(pair, trial.settled(steps)) if pair.errors is None and (pair.error or 0.0) <= enough * least else pair
            for pair, trial in counted("those that may be best", zip(seen, trials, strict=True), len(found))
        ]
    return _on_the_same_courses(seen, trials)


def _on_the_same_courses(seen: list[Pair], trials: Sequence[Trial]) -> list[Pair]:
    """Pairs of which each may be the best, held against one of them course by course, which takes chance away.

    That one is what was computed, where one was, and else what was found most accurately.
    """
    least = min((pair.error or 0.0 for pair in seen), default=0.0)
    close = [index for index, pair in enumerate(seen) if (pair.error or 0.0) <= NEARER * least]
    if len(close) < 2 or all(seen[index].errors is not None for index in close):
        return seen
    count = max(trials[index].courses for index in close)
    held = min(
        close, key=lambda index: (seen[index].errors is None, seen[index].stderr or 0.0, seen[index].error or 0.0)
    )
    against = _of(seen[held], trials[held].run(count)) if seen[held].errors is None else seen[held]
    found = list(seen)
    found[held] = against
    for index in close:
        if index != held and seen[index].errors is None:
            more = trials[index].beyond(trials[held], count)
            error = max((against.error or 0.0) + more.error, 0.0)
            found[index] = replace(seen[index], error=error, stderr=math.hypot(against.stderr or 0.0, more.stderr))
    return found


def _of(pair: Pair, found: Estimated) -> Pair:
    return replace(pair, error=found.error, stderr=found.stderr)


def _quick(estimator: Estimator, given: Courses) -> Estimator:
    """The same filter with the process known instead of learned: a pass instead of many."""
    if isinstance(estimator, SeriesFilter) and given.model.complete:
        return SeriesFilter(signal=given.model)
    return estimator
