"""Plans a promise about all events of a user: which mechanism measures each release, and with how much noise.

Each release that is measured is first planned as if it were alone. Several of them share the promise: all get more
noise, so that what they tell together is the promise. What is made of another release costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from policyc.diagnostics import Diagnostic, PolicyError, Span
from policyc.planning.assemble import constraint_rows, policy_record, release_cells, round_up, stream_record
from policyc.planning.candidates import Refused, estimators
from policyc.planning.made import least_together, weights
from policyc.planning.measurements import STRETCH, Measurement, measurements, of_variances, shares, with_signal
from policyc.planning.queries import ordered_releases, participation_of, query_of
from policyc.planning.series import Courses, Pair, courses, pairs, series_estimators
from policyc.semantics.policy import Policy, Release, UserLevelTarget
from policyc.version import __version__
from policyc_runtime.correlation import Correlation
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.plain_series import PlainSeries, SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.measuring import noise_stddevs
from policyc_runtime.mechanisms import Derived
from policyc_runtime.plan import (
    Candidate,
    Claims,
    Degradation,
    Delivery,
    ErrorRun,
    Notice,
    Plan,
    PredictedError,
    ReleasePlan,
    UserLevelClaim,
)
from policyc_runtime.privacy.composition import least, least_near
from policyc_runtime.privacy.gaussian import gaussian_epsilon
from policyc_runtime.privacy.profile import PrivacyProfile, log_excess
from policyc_runtime.queries import PrefixQuery, WindowQuery
from policyc_runtime.rounding import rounded_down
from policyc_runtime.targets import NeighboringRelation, UserLevel
from policyc_runtime.user_level import (
    beyond_bounds,
    composed,
    contribution_of,
    setting_of,
    source_release,
    stream_profile,
    unit_of,
)

MOST_RUNS = 64  # of expected errors in a plan
RELATIONS = {"add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}


@dataclass(frozen=True)
class _Planned:
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


def plan_user_level(policy: Policy, notices: Sequence[Diagnostic]) -> Plan:
    """The sealed plan of a policy whose target is all events of a user; the caller has the kernel verify it.

    Raises:
        PolicyError: no mechanism or estimator that the policy allows applies.
    """
    (target,) = (target for target in policy.targets if isinstance(target, UserLevelTarget))
    plan = _draft(policy, target, notices)
    planned = [_measured(policy, target, plan, release, notices) for release in plan.releases]
    planned = _sharing(policy, target, _measuring_totals(policy, planned))
    plan = plan.model_copy(update={"releases": tuple(_with_mechanism(one) for one in planned)})
    releases = tuple(_finished(policy, plan, one) for one in planned)
    plan = plan.model_copy(update={"releases": releases})
    return plan.model_copy(update={"claims": _claims(plan)}).sealed()


def _draft(policy: Policy, target: UserLevelTarget, notices: Sequence[Diagnostic]) -> Plan:
    """Everything but mechanisms, expected errors and claims."""
    evidence = next((correlation.evidence for correlation in policy.correlations), None)
    draft = Plan(
        compiler=f"policyc {__version__}",
        policy=policy_record(policy),
        stream=stream_record(policy),
        delivery=Delivery(kind=policy.delivery.kind, delay=policy.delivery.delay),
        objective=policy.objective,
        targets=(UserLevel(epsilon=target.epsilon, delta=target.delta, relation=RELATIONS[target.neighbors]),),
        correlation=Correlation(kind="none", chains=(), evidence=evidence),
        participation=participation_of(policy),
        releases=tuple(_draft_release(policy, release, notices) for release in ordered_releases(policy)),
        claims=Claims(total_leakage=None, budget_sum=None, largest_budget=None),
        notices=tuple(Notice(code=notice.code, message=notice.message) for notice in notices),
    )
    return draft.model_copy(update={"releases": tuple(_sensitive(draft, release) for release in draft.releases)})


def _draft_release(policy: Policy, release: Release, notices: Sequence[Diagnostic]) -> ReleasePlan:
    rows, integer = constraint_rows(policy, release)
    cells = release_cells(policy, release)
    return ReleasePlan(
        name=release.name,
        query=query_of(policy, release),
        cells=cells,
        l1_sensitivity=Decimal(1),
        sensitivity_reason="",
        mechanism=Derived(),
        schedule=None,
        expected_errors=(ErrorRun(error=0.0, steps=policy.stream.horizon),),
        estimator=_estimator(policy, ConstraintSet.of_rows(rows, len(cells), integer=integer), notices),
        constraints=rows,
        integer=integer,
        predicted=PredictedError(
            published=0.0, without_postprocessing=0.0, prior_alone=None, signal=None, method="variance of the noise"
        ),
        candidates=(),
    )


def _sensitive(plan: Plan, release: ReleasePlan) -> ReleasePlan:
    """The release with what one user changes in a step."""
    query = source_release(plan, release).query
    assert plan.participation is not None, "the draft has it"
    assert not isinstance(query, PrefixQuery | WindowQuery), "resolved by its source"
    per_step = plan.participation.per_step
    moved = contribution_of(query, per_step) * unit_of(plan, release)
    if query.kind == "count":
        reason = f"one user counts at most {'once' if per_step == 1 else f'{per_step:,} times'} in a step"
    else:
        reason = (
            f"one user adds at most {per_step:,} value{'' if per_step == 1 else 's'} between {query.low} and "
            f"{query.high} in a step, in units of {query.grid}"
        )
    return release.model_copy(update={"l1_sensitivity": moved, "sensitivity_reason": reason})


def _estimator(policy: Policy, constraints: ConstraintSet, notices: Sequence[Diagnostic]) -> Estimator:
    """What is done to the noisy values of every step alone: the plainest that keeps the constraints.

    Raises:
        PolicyError: the policy names an estimator that does not apply.
    """
    delay = _delay(policy)
    found = list(estimators(0, constraints, delay))
    usable = [entry for entry in found if isinstance(entry, Estimator)]
    wanted = policy.estimate.name
    plain = "none" if constraints.demands_nothing else "mle"
    named = {kind.described().split("(")[0] for kind in series_estimators(policy.signal, delay)}
    chosen = next((e for e in usable if e.name == (plain if wanted in ("auto", *named) else wanted)), None)
    if chosen is not None:
        return chosen
    reasons = [entry.reason for entry in found if isinstance(entry, Refused) and entry.name.startswith(wanted)]
    if wanted == "filter":
        reasons = [SeriesFilter(signal=SignalModel()).reason_against_delay(delay) or ""]
    finding = Diagnostic(
        "E0752",
        f"the estimator `{wanted}` does not apply to this release",
        policy.estimate.span or Span(0, 1),
        because=next(iter(reasons), "it needs what the policy does not declare"),
        help="write `estimate auto`, or declare what it needs",
    )
    raise PolicyError(policy.source, [*notices, finding])


def _delay(policy: Policy) -> int | None:
    return {"realtime": 0, "within": policy.delivery.delay, "offline": None}[policy.delivery.kind]


def _series(policy: Policy, release: ReleasePlan) -> list[PlainSeries]:
    """The estimators of plain series that the policy allows; a running total or window is no such series."""
    if isinstance(release.query, PrefixQuery | WindowQuery):
        return []
    found = series_estimators(policy.signal, _delay(policy))
    if policy.estimate.name == "smoother" and policy.estimate.arguments.get("observation_noise"):
        found = [SeriesSmoother(observation_noise=True), *found]
    wanted = policy.estimate.name
    return [kind for kind in found if wanted in ("auto", kind.described().split("(")[0])]


def _measured(
    policy: Policy, target: UserLevelTarget, plan: Plan, release: ReleasePlan, notices: Sequence[Diagnostic]
) -> _Planned:
    """The mechanism and estimator with the least error for a release that had the whole promise."""
    setting = setting_of(plan, release, RELATIONS[target.neighbors])
    made = isinstance(release.query, PrefixQuery | WindowQuery)
    series = _series(policy, release)
    single = sum(not isinstance(part.query, PrefixQuery | WindowQuery) for part in plan.releases) == 1
    given = courses(policy, setting.horizon or STRETCH) if single and not made else None
    unit = unit_of(plan, release)
    wish = with_signal(policy.mechanism, policy.signal, unit)
    tried = list(
        measurements(setting, unit, target.epsilon, target.delta, wish, fills=bool(series), known=given is not None)
    )
    refused = [entry for entry in tried if isinstance(entry, Refused)]
    if policy.estimate.name in ("none", "mle", "map", "joint_map"):
        series = []
    constraints = ConstraintSet.of(release)
    usable = pairs(tried, release.estimator, series, constraints, policy.objective, given)
    if series and policy.estimate.name != "auto":  # what is named is done, or nothing
        usable = [pair for pair in usable if pair.estimator in series]
        used = [pair.measurement for pair in usable]
        refused += [_unused(entry, policy) for entry in tried if isinstance(entry, Measurement) and entry not in used]
    if made and (wish.name == "auto" or not usable):
        return _Planned(release, None, (*usable, *refused))
    if not usable:
        reasons = [f"{entry.name}: {entry.reason}" for entry in refused]
        finding = Diagnostic(
            "E0755",
            f"no mechanism can measure `{release.name}`",
            wish.span or target.span,
            because="; ".join(reasons) or "no estimator that the policy allows fits one",
            help="write `mechanism auto`, or a mechanism that applies",
        )
        raise PolicyError(policy.source, [*notices, finding])
    best, *others = usable
    draft = release.model_copy(update={"estimator": best.estimator})
    return _Planned(draft, best, (*others, *refused), given=given)


def _unused(entry: Measurement, policy: Policy) -> Refused:
    """A mechanism whose values the estimator that the policy names is not for."""
    name = policy.estimate.name
    reason = f"it has a value at every step, and `{name}` is for steps without one"
    if entry.mechanism.estimates:
        reason = f"its values are estimates already, and `{name}` expects plain noise; write `estimate auto`"
    return Refused(entry.mechanism.name, reason)


def _measuring_totals(policy: Policy, planned: list[_Planned]) -> list[_Planned]:
    """Running totals and windows are measured by themselves where that lowers the error of all releases together."""
    for index, one in enumerate(planned):
        usable = [entry for entry in one.others if isinstance(entry, Pair)]
        if one.pair is not None or not usable:
            continue
        best = min(usable, key=lambda entry: entry.mean_error(policy.objective))
        others = tuple(entry for entry in one.others if entry is not best)
        measured = [*planned[:index], replace(one, pair=best, others=others), *planned[index + 1 :]]
        costs = [least_together(_weights(policy, entries), policy.objective) for entries in (planned, measured)]
        if costs[1] < costs[0]:
            reason = f"all releases together would have {costs[0] / costs[1]:.3g} times the error, in units of a user"
            measured[index] = replace(measured[index], others=(Refused("derived", reason), *others))
            planned = measured
    return planned


def _weights(policy: Policy, planned: Sequence[_Planned]) -> dict[str, float]:
    alone = {one.draft.name: one.alone for one in planned if one.alone is not None}
    return weights([one.draft for one in planned], alone, policy.objective)


def _sharing(policy: Policy, target: UserLevelTarget, planned: list[_Planned]) -> list[_Planned]:
    """All measured releases with noise for the whole promise together."""
    alone = [one.alone for one in planned if one.alone is not None]
    if len(alone) == 1:
        return [replace(one, measurement=one.alone) for one in planned]
    errors = list(_weights(policy, planned).values())
    shared = [entry.noisier(factor) for entry, factor in zip(alone, shares(errors, policy.objective), strict=True)]
    epsilon, delta = rounded_down(target.epsilon), rounded_down(target.delta)

    def excess(factor: float) -> float:
        return log_excess(_together([entry.noisier(factor) for entry in shared]).delta(epsilon), delta)

    high = least_near(excess, 1.0, 1e-11)
    finished = iter([entry.noisier(high) for entry in shared])
    return [one if one.alone is None else replace(one, measurement=next(finished)) for one in planned]


def _together(entries: Sequence[Measurement]) -> PrivacyProfile:
    return composed(entry.mechanism.profile(entry.setting) for entry in entries)


def _with_mechanism(one: _Planned) -> ReleasePlan:
    if one.measurement is None:
        return one.draft
    return one.draft.model_copy(update={"mechanism": one.measurement.mechanism})


def _finished(policy: Policy, plan: Plan, one: _Planned) -> ReleasePlan:
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


def _method(release: ReleasePlan, one: _Planned) -> str:
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


def _candidates(policy: Policy, release: ReleasePlan, one: _Planned, mean: float) -> list[Candidate]:
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


def _compared(one: _Planned) -> bool:
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


def _claims(plan: Plan) -> Claims:
    """What was promised, which the noise was made for, and what is left of it when the participation bound fails."""
    claims = []
    for target in plan.targets:
        assert isinstance(target, UserLevel), "other targets are planned by schedules"
        beyond = []
        for bound in beyond_bounds(plan):
            left = _epsilon_at(stream_profile(plan, target.relation, bound).coarse, rounded_down(target.delta))
            beyond.append(Degradation(participation=bound, epsilon=round_up(Fraction(left), 3)))
        claims.append(
            UserLevelClaim(epsilon=target.epsilon, delta=target.delta, relation=target.relation, beyond=tuple(beyond))
        )
    return Claims(total_leakage=None, budget_sum=None, largest_budget=None, user_level=tuple(claims))


def _epsilon_at(profile: PrivacyProfile, delta: float) -> float:
    """An epsilon (nats) that a profile keeps at this delta, at most a relative 1e-4 above the least."""
    spread = math.sqrt(profile.mu**2 + math.fsum(loss.variance for loss in profile.losses))
    low = high = max(gaussian_epsilon(delta, spread), 1e-6)  # many small losses are nearly normal
    factor = 1.01
    while profile.delta(high) > delta:
        low, high, factor = high, high * factor, factor**2
    while low == high or profile.delta(low) <= delta:
        high, low, factor = low, low / factor, factor**2
    return least(lambda epsilon: log_excess(profile.delta(epsilon), delta), low, high, 1e-4)


__all__ = ["plan_user_level"]
