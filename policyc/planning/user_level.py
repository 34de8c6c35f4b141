"""Plans a promise about all events of a user: which mechanism measures each release, and with how much noise.

Each release that is measured is first planned as if it were alone. Several of them share the promise: all get more
noise, so that what they tell together is the promise. What is made of another release costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from policyc.diagnostics import Diagnostic, PolicyError, Span
from policyc.offers.goals import goal_of
from policyc.planning.agreement import agreed_errors
from policyc.planning.assemble import built_plan, step_claims
from policyc.planning.candidates import Refused, estimators
from policyc.planning.composition import composed, errors_together, measuring_totals
from policyc.planning.courses import courses
from policyc.planning.degradation import user_level_claims
from policyc.planning.draft import Draft, DraftRelease, Lags, draft_of
from policyc.planning.expected_errors import PlannedRelease, finished
from policyc.planning.measurements import Measurement, measurements, with_signal
from policyc.planning.series import pairs, series_estimators
from policyc.planning.several_promises import keeping, least_of_all
from policyc.planning.shown import shown_warnings
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
    planned = least_of_all(found, lambda plan: sum(errors_together(policy, plan).values()))
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
    planned = composed(policy, draft, goal, measuring_totals(policy, goal, planned))
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


__all__ = ["plan_user_level"]
