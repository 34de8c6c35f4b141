"""Plans a promise about all events of a user: which mechanism measures each release, and with how much noise.

Each release that is measured is first planned as if it were alone. Several of them share the promise: all get more
noise, so that what they tell together is the promise. What is made of another release costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import cast

from policyc.diagnostics import Diagnostic, PolicyError, Span
from policyc.offers import AtDelta, Goal
from policyc.offers.calibration import least_near, log_excess
from policyc.offers.goals import Added, goal_of
from policyc.planning.assemble import (
    constraint_rows,
    policy_record,
    release_cells,
    stream_record,
    suppression_rules,
)
from policyc.planning.candidates import Refused, estimators
from policyc.planning.courses import courses
from policyc.planning.degradation import user_level_claims
from policyc.planning.expected_errors import PlannedRelease, finished
from policyc.planning.measurements import Measurement, measurements, parts, shares, with_signal
from policyc.planning.queries import ordered_releases, participation_of, query_of
from policyc.planning.series import Pair, modelled_signal, pairs, series_estimators, signal_evidence, with_one_signal
from policyc.planning.total_errors import least_together, weights
from policyc.semantics.policy import Policy, Release, UserLevelTarget
from policyc.version import __version__
from policyc_check.mechanisms import Derived
from policyc_check.plan.claims import Claims
from policyc_check.plan.correlation import Correlation
from policyc_check.plan.queries import PrefixQuery, SumQuery, WindowQuery
from policyc_check.plan.stream import Delivery
from policyc_check.plan.targets import AnyUserPromise, NeighboringRelation, UserLevel, UserRho
from policyc_check.rounding import rounded_down
from policyc_check.users.claims import (
    composed,
    contribution_of,
    promised_user_level,
    setting_of,
    source_release,
    spread_of,
    unit_of,
)
from policyc_check.users.profile import PrivacyProfile
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.linear import Linear
from policyc_runtime.estimation.plain_series import PlainSeries, SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.plan import DerivedRelease, ErrorRun, MeasuredRelease, Notice, Plan, PredictedError, ReleasePlan

RELATIONS = {"add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}


def plan_user_level(policy: Policy, notices: Sequence[Diagnostic]) -> Plan:
    """The sealed plan of a policy whose target is all events of a user; the caller has the kernel verify it.

    Raises:
        PolicyError: no mechanism or estimator that the policy allows applies.
    """
    (target,) = (target for target in policy.targets if isinstance(target, UserLevelTarget))
    plan = draft_user_level(policy, target, notices)
    (promise,) = promised_user_level(plan)
    goal = goal_of(promise)
    planned = [_measured(policy, promise, plan, release, notices) for release in plan.releases]
    planned = _sharing(policy, goal, _measuring_totals(policy, goal, planned))
    plan = plan.model_copy(update={"releases": tuple(_of_its_kind(one) for one in planned)})
    releases = tuple(finished(policy, plan, one, planned) for one in planned)
    plan = plan.model_copy(update={"releases": releases})
    return plan.model_copy(update={"claims": user_level_claims(plan)}).sealed()


def draft_user_level(policy: Policy, target: UserLevelTarget, notices: Sequence[Diagnostic]) -> Plan:
    """Everything but mechanisms, expected errors and claims: what follows from the policy alone."""
    policy = with_one_signal(policy)
    evidence = next((correlation.evidence for correlation in policy.correlations), None)
    draft = Plan(
        compiler=f"policyc {__version__}",
        policy=policy_record(policy),
        stream=stream_record(policy),
        delivery=Delivery(kind=policy.delivery.kind, delay=policy.delivery.delay),
        objective=policy.objective,
        targets=(_promise(target),),
        correlation=Correlation(kind="none", chains=(), evidence=evidence),
        participation=participation_of(policy),
        signal=modelled_signal(policy),
        signal_evidence=signal_evidence(policy),
        releases=tuple(_draft_release(policy, release, notices) for release in ordered_releases(policy)),
        claims=Claims(total_leakage=None, budget_sum=None, largest_budget=None),
        notices=tuple(Notice(code=notice.code, message=notice.message) for notice in notices),
    )
    return draft.model_copy(update={"releases": tuple(_sensitive(draft, release) for release in draft.releases)})


def _promise(target: UserLevelTarget) -> AnyUserPromise:
    """The promise as the plan has it."""
    relation = RELATIONS[target.neighbors]
    if target.rho is not None:
        return UserRho(rho=target.rho, relation=relation, per=target.per)
    assert target.epsilon is not None, "read with a delta"
    assert target.delta is not None, "read with an epsilon"
    return UserLevel(epsilon=target.epsilon, delta=target.delta, relation=relation, per=target.per)


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
        suppressions=suppression_rules(policy, release),
        predicted=PredictedError(
            kind="expected",
            published=0.0,
            without_postprocessing=0.0,
            prior_alone=None,
            signal=None,
            method="variance of the noise",
        ),
        candidates=(),
    )


def _sensitive(plan: Plan, release: ReleasePlan) -> ReleasePlan:
    """The release with what one user changes in a step."""
    query = source_release(plan, release).query
    assert plan.participation is not None, "the draft has it"
    assert not isinstance(query, PrefixQuery | WindowQuery), "resolved by its source"
    per_step = plan.participation.per_step
    spread = spread_of(plan, release)
    moved = contribution_of(query, per_step) * spread * unit_of(plan, release)
    if query.kind == "count" and spread > 1:
        reason = f"one user counts at most once in each of {spread:,} cells of a step"
    elif query.kind == "count":
        reason = f"one user counts at most {'once' if per_step == 1 else f'{per_step:,} times'} in a step"
    elif spread > 1:
        reason = (
            f"one user adds at most one value between {query.low} and {query.high}, in units of {query.grid}, in each "
            f"of {spread:,} cells of a step"
        )
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
    plain_ones = [SeriesFilter(signal=SignalModel()), SeriesSmoother(), Linear()]
    late = [kind.reason_against_delay(delay) for kind in plain_ones if kind.described().split("(")[0] == wanted]
    reasons = [reason for reason in late if reason is not None]
    reasons += [entry.reason for entry in found if isinstance(entry, Refused) and entry.name.startswith(wanted)]
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
    policy: Policy, target: AnyUserPromise, plan: Plan, release: ReleasePlan, notices: Sequence[Diagnostic]
) -> PlannedRelease:
    """The mechanism and estimator with the least error for a release that had the whole promise.

    Totals of totals are always made of what they add up: a mechanism hides what one user changes in a count or sum.
    """
    single = sum(not isinstance(part.query, PrefixQuery | WindowQuery) for part in plan.releases) == 1
    query = source_release(plan, release).query
    low = float(query.low) if isinstance(query, SumQuery) else 0.0
    length = plan.expected_steps
    given = courses(policy, length, least=-math.inf if low < 0 else 0.0) if single else None
    if _made_of_totals(plan, release):
        none = Refused("every mechanism", "it is a total of totals, made of these")
        return PlannedRelease(release, None, (none,), given=given)
    goal = goal_of(target)
    setting = setting_of(plan, release, target.relation)
    made = isinstance(release.query, PrefixQuery | WindowQuery)
    series = _series(policy, release)
    unit = unit_of(plan, release)
    wish = with_signal(policy.mechanism, policy.signal, unit)
    known = given is not None and not made
    totals = [part.query for part in plan.releases if isinstance(part.query, PrefixQuery | WindowQuery)]
    tried = list(
        measurements(
            setting,
            unit,
            goal,
            wish,
            fills=bool(series),
            known=known,
            totalled=any(query.of == release.name for query in totals),
        )
    )
    refused = [entry for entry in tried if isinstance(entry, Refused)]
    if policy.estimate.name in ("none", "mle", "map", "joint_map"):
        series = []
    named = bool(series) and policy.estimate.name != "auto"  # what is named is done, or nothing
    allowed: list[Estimator] = [*series] if named else [*series, release.estimator]
    demands = release.constraint_set
    if given is not None and not given.placed:  # nobody knows which bounds are near
        demands = ConstraintSet.of_rows((), len(release.cells), integer=release.integer)
    usable = pairs(tried, allowed, demands, policy.objective, given if known else None)
    if named:
        used = [pair.measurement for pair in usable]
        refused += [_unused(entry, policy) for entry in tried if isinstance(entry, Measurement) and entry not in used]
    if made and (wish.name == "auto" or not usable):
        return PlannedRelease(release, None, (*usable, *refused), given=given)
    if not usable:
        reasons = [f"{entry.name}: {entry.reason}" for entry in refused]
        finding = Diagnostic(
            "E0755",
            f"no mechanism can measure `{release.name}`",
            wish.span or policy.targets[0].span,
            because="; ".join(reasons) or "no estimator that the policy allows fits one",
            help="write `mechanism auto`, or a mechanism that applies",
        )
        raise PolicyError(policy.source, [*notices, finding])
    best, *others = usable
    draft = release.model_copy(update={"estimator": best.estimator})
    return PlannedRelease(draft, best, (*others, *refused), given=given)


def _made_of_totals(plan: Plan, release: ReleasePlan) -> bool:
    query = release.query
    return isinstance(query, PrefixQuery | WindowQuery) and plan.release_named(query.of) != source_release(
        plan, release
    )


def _unused(entry: Measurement, policy: Policy) -> Refused:
    """A mechanism whose values the estimator that the policy names is not for."""
    name = policy.estimate.name
    reason = f"it has a value at every step, and `{name}` is for steps without one"
    if entry.setting.wait and entry.mechanism.ready(entry.setting, 1) == 0:
        reason = f"its values wait for a block of steps already, and `{name}` would wait again; write `estimate auto`"
    elif entry.mechanism.estimates:
        reason = f"its values are estimates already, and `{name}` expects plain noise; write `estimate auto`"
    return Refused(entry.mechanism.name, reason)


def _measuring_totals(policy: Policy, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
    """Running totals and windows are measured by themselves where that lowers the error of all releases together."""
    if policy.budget.name == "parts":  # which are of counts and sums
        return planned
    for index, one in enumerate(planned):
        usable = [entry for entry in one.others if isinstance(entry, Pair)]
        if one.pair is not None or not usable:
            continue
        best = min(usable, key=lambda entry: entry.mean_error(policy.objective))
        others = tuple(entry for entry in one.others if entry is not best)
        measured = [*planned[:index], replace(one, pair=best, others=others), *planned[index + 1 :]]
        costs = [
            least_together(_weights(policy, entries), policy.objective, goal.power) for entries in (planned, measured)
        ]
        if costs[1] < costs[0]:
            reason = f"all releases together would have {costs[0] / costs[1]:.3g} times the error, in units of a user"
            measured[index] = replace(measured[index], others=(Refused("derived", reason), *others))
            planned = measured
    return planned


def _weights(policy: Policy, planned: Sequence[PlannedRelease]) -> dict[str, float]:
    alone = {one.draft.name: one.alone for one in planned if one.alone is not None}
    return weights([one.draft for one in planned], alone, policy.objective)


def _sharing(policy: Policy, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
    """All measured releases with noise for the whole promise together."""
    alone = [one.alone for one in planned if one.alone is not None]
    if policy.budget.name == "parts":
        assert isinstance(goal, Added), "checked before"
        given = {name: replace(goal, limit=cast(Decimal, part)) for name, part in policy.budget.arguments.items()}
        return [
            one if one.alone is None else replace(one, measurement=one.alone.fitted(given[one.draft.name]))
            for one in planned
        ]
    if len(alone) == 1:
        return [replace(one, measurement=one.alone) for one in planned]
    errors = list(_weights(policy, planned).values())
    if isinstance(goal, AtDelta):
        shared = _within(goal, alone, shares(errors, policy.objective))
    else:
        each = goal.parts(parts(errors, policy.objective, goal.power))
        shared = [entry.fitted(part) for entry, part in zip(alone, each, strict=True)]
    finished = iter(shared)
    return [one if one.alone is None else replace(one, measurement=next(finished)) for one in planned]


def _within(goal: AtDelta, alone: Sequence[Measurement], factors: Sequence[float]) -> list[Measurement]:
    """Measurements whose curves together keep a goal, with about these factors of what each alone would need."""
    shared = [entry.noisier(factor) for entry, factor in zip(alone, factors, strict=True)]
    epsilon, delta = rounded_down(goal.epsilon), rounded_down(goal.delta)

    def together(factor: float) -> PrivacyProfile:
        return _together([entry.noisier(factor) for entry in shared])

    near = least_near(lambda factor: log_excess(together(factor).coarse.delta(epsilon), delta), 1.0, 1e-6)
    high = least_near(lambda factor: log_excess(together(factor).delta(epsilon), delta), near, 1e-11)
    return [entry.noisier(high) for entry in shared]


def _together(entries: Sequence[Measurement]) -> PrivacyProfile:
    return composed(entry.mechanism.profile(entry.setting) for entry in entries)


def _of_its_kind(one: PlannedRelease) -> ReleasePlan:
    """The release as it is made: measured, or derived from another."""
    fields = {name: getattr(one.draft, name) for name in ReleasePlan.model_fields}
    if one.measurement is None:
        return DerivedRelease(**fields)
    return MeasuredRelease(**{**fields, "mechanism": one.measurement.mechanism})


__all__ = ["plan_user_level"]
