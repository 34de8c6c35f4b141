"""Plans a promise about all events of a user: which mechanism measures each release, and with how much noise.

Each release that is measured is first planned as if it were alone. Several of them share the promise: all get more
noise, so that what they tell together is the promise. What is made of another release costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import cast

import numpy as np

from policyc.diagnostics import Diagnostic, PolicyError, Span
from policyc.offers import AtDelta, Goal
from policyc.offers.goals import Added, goal_of
from policyc.planning.agreement import agreed_errors, least_parts
from policyc.planning.assemble import built_plan, step_claims
from policyc.planning.candidates import Refused, estimators
from policyc.planning.courses import courses
from policyc.planning.degradation import user_level_claims
from policyc.planning.draft import Draft, DraftRelease, Lags, draft_of
from policyc.planning.expected_errors import PlannedRelease, finished
from policyc.planning.measurements import Measurement, Objective, measurements, of_variances, with_signal
from policyc.planning.series import Pair, pairs, series_estimators
from policyc.planning.several_promises import keeping, least_of_all, within
from policyc.planning.shown import shown_warnings
from policyc.planning.total_errors import least_together, weights
from policyc.planning.usefulness import user_level_warnings
from policyc.progress import counted
from policyc.semantics.policy import Policy
from policyc_check.plan.plan import Stated
from policyc_check.plan.queries import PrefixQuery, SumQuery, WindowQuery
from policyc_check.users.claims import Promise, setting_of, source_release, unit_of
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.linear import Linear
from policyc_runtime.estimation.plain_series import PlainSeries, SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.projection import NearestValues
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.plan import Plan


def plan_user_level(policy: Policy, notices: Sequence[Diagnostic], lags: Lags) -> tuple[Plan, list[Diagnostic]]:
    """The sealed plan of a policy whose target is all events of a user; the caller has the kernel verify it.

    Args:
        policy: the policy.
        notices: about it.
        lags: of the accounting of what leaks through its chains, by group.

    Returns:
        The plan, and further warnings (about utility).

    Raises:
        PolicyError: no mechanism or estimator that the policy allows applies.
    """
    draft = draft_of(policy, lags)
    promises = [target for target in draft.targets if isinstance(target, Promise)]
    found = [partial(_keeping_all, policy, draft, one, notices) for one in promises]
    planned = least_of_all(found, lambda plan: sum(_errors(policy, plan).values()))
    measured = {one.draft.name: one.measurement for one in planned if one.measurement is not None}
    estimated = {one.draft.name for one in planned if not isinstance(one.estimator, NearestValues)}
    agreeing = agreed_errors(draft, measured, policy.objective, estimated)
    releases = [finished(policy, one, planned, agreeing.get(one.draft.name)) for one in planned]
    claims = user_level_claims(draft, planned)
    if policy.measured_through_chains:
        spent = step_claims(Stated(**{**dict(draft), "releases": tuple(releases)}))
        claims = spent.model_copy(update={"user_level": claims.user_level})
    more = list(user_level_warnings(policy, draft, planned, releases, claims))
    plan = built_plan(policy, draft, releases, claims, (*notices, *more))
    if unseen := list(shown_warnings(policy, plan, notices)):
        more += unseen
        plan = built_plan(policy, draft, releases, claims, (*notices, *more))
    return plan, more


def _keeping_all(policy: Policy, draft: Draft, first: Promise, notices: Sequence[Diagnostic]) -> list[PlannedRelease]:
    """All releases, planned for one promise, with noise enough for the others."""
    goal = goal_of(first)
    plain = [_estimator(policy, part.constraint_set, notices) for part in draft.releases]
    planned = [
        _measured(policy, first, draft, part, estimator, notices)
        for part, estimator in counted("releases", zip(draft.releases, plain, strict=True), len(plain))
    ]
    planned = _composed(policy, draft, goal, _measuring_totals(policy, goal, planned))
    for other in (target for target in draft.targets if isinstance(target, Promise) and target is not first):
        entries = [(one, one.measurement) for one in planned if one.measurement is not None]
        parts = [(entry.mechanism, setting_of(draft, one.draft, other)) for one, entry in entries]
        noisy = zip((entry for _, entry in entries), keeping(goal_of(other), parts), strict=True)
        found = iter([replace(entry, mechanism=mechanism) for entry, mechanism in noisy])
        planned = [one if one.measurement is None else replace(one, measurement=next(found)) for one in planned]
    return planned


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


def _series(policy: Policy, release: DraftRelease) -> list[PlainSeries]:
    """The estimators of plain series that the policy allows; a running total or window is no such series."""
    if isinstance(release.query, PrefixQuery | WindowQuery):
        return []
    found = series_estimators(policy.signal, _delay(policy))
    if policy.estimate.name == "smoother" and policy.estimate.arguments.get("observation_noise"):
        found = [SeriesSmoother(observation_noise=True), *found]
    wanted = policy.estimate.name
    return [kind for kind in found if wanted in ("auto", kind.described().split("(")[0])]


def _measured(
    policy: Policy,
    target: Promise,
    draft: Draft,
    release: DraftRelease,
    plain: Estimator,
    notices: Sequence[Diagnostic],
) -> PlannedRelease:
    """The mechanism and estimator with the least error for a release that had the whole promise.

    `plain` is what is done to the values of every step alone, where nothing else is better.
    Totals of totals are always made of what they add up: a mechanism hides what one user changes in a count or sum.
    """
    single = sum(not isinstance(part.query, PrefixQuery | WindowQuery) for part in draft.releases) == 1
    query = source_release(draft, release).query
    low = float(query.low) if isinstance(query, SumQuery) else 0.0
    given = courses(policy, draft.expected_steps, least=-math.inf if low < 0 else 0.0) if single else None
    if _made_of_totals(draft, release):
        none = Refused("every mechanism", "it is a total of totals, made of these")
        return PlannedRelease(release, plain, None, (none,), given=given)
    goal = goal_of(target)
    setting = setting_of(draft, release, target)
    made = isinstance(release.query, PrefixQuery | WindowQuery)
    series = _series(policy, release)
    unit = unit_of(draft, release)
    wish = with_signal(policy.mechanism, policy.signal, unit)
    known = given is not None and not made
    totals = [part.query for part in draft.releases if isinstance(part.query, PrefixQuery | WindowQuery)]
    tried = list(
        measurements(
            setting,
            unit,
            goal,
            wish,
            fills=bool(series),
            known=known,
            totalled=any(query.of == release.name for query in totals),
            leaks=policy.measured_through_chains,
            beside=[
                (setting_of(draft, release, other), goal_of(other))
                for other in draft.targets
                if isinstance(other, Promise) and other is not target
            ],
        )
    )
    agrees = any(release.name in tree.names for tree in draft.trees)
    if agrees:
        tried = [_that_may_agree(entry) for entry in tried]
        series = series if policy.estimate.name != "auto" else []  # nobody can say what it would gain
    refused = [entry for entry in tried if isinstance(entry, Refused)]
    if policy.estimate.name in ("none", "mle", "map", "joint_map"):
        series = []
    named = bool(series) and policy.estimate.name != "auto"  # what is named is done, or nothing
    allowed: list[Estimator] = [*series] if named else [*series, plain]
    demands = release.constraint_set
    if given is not None and not given.placed:  # nobody knows which bounds are near
        demands = ConstraintSet((), len(release.cells), integer=release.integer)
    usable = pairs(tried, allowed, demands, policy.objective, given if known else None)
    if named:
        used = [pair.measurement for pair in usable]
        refused += [_unused(entry, policy) for entry in tried if isinstance(entry, Measurement) and entry not in used]
    if made and (wish.name == "auto" or not usable or policy.budget.name == "parts"):  # parts are of counts and sums
        return PlannedRelease(release, plain, None, (*usable, *refused), given=given)
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
    return PlannedRelease(release, best.estimator, best, (*others, *refused), given=given)


def _that_may_agree(entry: Measurement | Refused) -> Measurement | Refused:
    """A measurement of values that may be made to agree with others of the same step."""
    if isinstance(entry, Refused) or entry.mechanism.may_agree:
        return entry
    return Refused(entry.mechanism.name, "values that agree are off by a known variance at every step")


def _made_of_totals(draft: Draft, release: DraftRelease) -> bool:
    query = release.query
    return isinstance(query, PrefixQuery | WindowQuery) and query.of != source_release(draft, release).name


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


def _composed(policy: Policy, draft: Draft, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
    """All measured releases with noise for the whole promise together, of the mechanisms that are best together.

    What one release would lose least by need not be best beside others: of many losses those of Gaussian noise add up
    slowest.
    """
    found = _sharing(policy, draft, goal, planned)
    measured = [one for one in planned if one.pair is not None]
    if policy.mechanism.name != "auto" or not isinstance(goal, AtDelta) or len(measured) == 1:
        return found
    other = [_gaussian(one) for one in planned]
    if other == planned or None in other:
        return found
    shared = _sharing(policy, draft, goal, cast(list[PlannedRelease], other))
    costs = [sum(_errors(policy, entries).values()) for entries in (shared, found)]
    if not costs[0] < costs[1]:
        return found
    reason = f"all releases together would have {costs[1] / costs[0]:.3g} times the error, in units of a user"
    return [one if one.pair is None else _beside_others(one, policy.objective, reason) for one in shared]


def _gaussian(one: PlannedRelease) -> PlannedRelease | None:
    """A release with Gaussian noise, where that was a choice; None where it was not."""
    if one.pair is None or one.pair.measurement.mechanism.name == "gaussian":
        return one
    usable = (entry for entry in one.others if isinstance(entry, Pair))
    pair = next((entry for entry in usable if entry.measurement.mechanism.name == "gaussian"), None)
    if pair is None:
        return None
    others = (one.pair, *(entry for entry in one.others if entry is not pair))
    return replace(one, pair=pair, estimator=pair.estimator, others=others)


def _beside_others(one: PlannedRelease, objective: Objective, reason: str) -> PlannedRelease:
    """A release whose mechanism has less error than others only beside other releases, and says so of these."""
    assert one.pair is not None, "it is measured"
    least = one.pair.mean_error(objective)
    others = (
        Refused(entry.measurement.mechanism.name, reason)
        if isinstance(entry, Pair) and entry.mean_error(objective) < least
        else entry
        for entry in one.others
    )
    return replace(one, others=tuple(others))


def _errors(policy: Policy, planned: Sequence[PlannedRelease]) -> dict[str, float]:
    """By measured release, the error of its values with noise for its share, by the law of that noise."""
    shared = {one.draft.name: one.measurement for one in planned if one.measurement is not None}
    as_normal = weights([one.draft for one in planned], shared, policy.objective, policy.weight_of)
    normal = {name: of_variances(entry.variances(), policy.objective) for name, entry in shared.items()}
    own = {name: entry.mean_error(policy.objective) / float(np.nanmean(normal[name])) for name, entry in shared.items()}
    return {name: error * own[name] for name, error in as_normal.items()}


def _weights(policy: Policy, planned: Sequence[PlannedRelease]) -> dict[str, float]:
    alone = {one.draft.name: one.alone for one in planned if one.alone is not None}
    return weights([one.draft for one in planned], alone, policy.objective, policy.weight_of)


def _sharing(policy: Policy, draft: Draft, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
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
    by_name = {one.draft.name: one.alone for one in planned if one.alone is not None}
    least = least_parts(policy, draft, by_name, _weights(policy, planned), goal.power)
    if isinstance(goal, AtDelta):
        shared = _within(goal, alone, [part ** (-1 / goal.power) for part in least])
    else:
        each = goal.parts(least)
        shared = [entry.fitted(part) for entry, part in zip(alone, each, strict=True)]
    finished = iter(shared)
    return [one if one.alone is None else replace(one, measurement=next(finished)) for one in planned]


def _within(goal: AtDelta, alone: Sequence[Measurement], factors: Sequence[float]) -> list[Measurement]:
    """Measurements whose curves together keep a goal, with about these factors of what each alone would need."""
    shared = [entry.noisier(factor) for entry, factor in zip(alone, factors, strict=True)]
    found = within(goal, [(entry.mechanism, entry.setting) for entry in shared])
    return [replace(entry, mechanism=mechanism) for entry, mechanism in zip(shared, found, strict=True)]


__all__ = ["plan_user_level"]
