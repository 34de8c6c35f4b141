"""Whether a planned release tells more than was public before: its error beside what is known without the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from policyc.diagnostics import Diagnostic
from policyc.offers import LargestLoss
from policyc.offers.goals import goal_of
from policyc.planning.courses import Courses, courses
from policyc.planning.draft import Draft
from policyc.planning.expected_errors import PlannedRelease
from policyc.planning.measurements import Measurement, Objective, measurements
from policyc.semantics.policy import Policy, Release, Wish
from policyc.semantics.postprocessing import LinearConstraint
from policyc.semantics.reading import written
from policyc.semantics.rules.utility import check_utility
from policyc_check.plan.claims import Claims, Degradation, RhoLeft, UserLevelClaim, UserRhoClaim
from policyc_check.plan.queries import CountQuery, PrefixQuery, SumQuery, WindowQuery
from policyc_check.plan.release import Asked
from policyc_check.plan.stream import MONTH
from policyc_check.users.claims import own_bound, period_of, promised_user_level, setting_of
from policyc_runtime.beyond import periods_in
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.predicted_errors import PredictedError

SOON_CALIBRATED = ("common_noise", "gaussian")  # mechanisms that are held against the one with a bound
PURE = ("laplace",)  # those where nothing is left to chance
MORE_NOISE = 1.5  # times as much, for which nothing is dropped: few steps dropped of each user are more
MEAN_OF_ABSOLUTE = math.sqrt(2 / math.pi)  # of a normal value, in standard deviations

HARDLY = 10  # nats from which hardly anything is hidden

KNOWN = {
    "noise": "the error before post-processing",
    "at_least": "the least expected error",
    "unconstrained": "the least error before constraints",
}


def utility_warnings(
    policy: Policy, release: Release, predicted: PredictedError, broken: Sequence[tuple[LinearConstraint, float]]
) -> list[Diagnostic]:
    """Warnings about a release whose promise is about single steps; errors are compared in the unit of the counts."""
    published, prior = _in_counts(policy, predicted.published), predicted.prior_alone
    alone = None if prior is None else _in_counts(policy, prior)
    return check_utility(policy, release, published, alone, predicted.signal, broken)


def user_level_warnings(
    policy: Policy, draft: Draft, planned: Sequence[PlannedRelease], releases: Sequence[ReleasePlan], claims: Claims
) -> Iterator[Diagnostic]:
    """Warnings about releases of a promise about all events of a user.

    A declared signal with a mean, or a public pilot, says how far off a guess of that mean is; a signal without one
    how far values move; the population how large a count or sum can be. Of totals nothing is said.
    """
    yield from _dropping_warnings(policy, draft, planned)
    yield from _habit_warnings(policy, draft, claims)
    declared = {release.name: release for release in policy.releases}
    given = _course(policy, draft)
    for part in releases:
        if isinstance(part.query, PrefixQuery | WindowQuery):
            continue
        published = part.predicted.kind != "noise"
        spread, known = _spread(given, policy.objective) if given is not None and published else (None, False)
        sizes = [size for size in (None if known else spread, _largest(draft, part)) if size is not None]
        yield from check_utility(
            policy,
            declared[part.name],
            _in_counts(policy, part.predicted.published),
            spread if known else None,
            min(sizes, default=None),
            unit=_unit(draft, part),
            known=KNOWN.get(part.predicted.kind, "the expected error"),
        )


def _dropping_warnings(policy: Policy, draft: Draft, planned: Sequence[PlannedRelease]) -> Iterator[Diagnostic]:
    """A bound that drops nothing, where its noise is about that of the bound that the policy enforces."""
    record, most = draft.participation, policy.longest_part
    parts = [(one.draft, one.measurement) for one in planned if one.measurement is not None]
    dropping = record is not None and record.enforced is not None and most is not None and record.bound < most
    if not dropping or len(parts) != 1 or len(draft.targets) > 1 or record is None or policy.participation is None:
        return
    ((part, now),), (target,) = parts, promised_user_level(draft)
    whole = replace(setting_of(draft, part, target, most), touched=1)  # of one period, or of all
    errors = []
    goal = goal_of(target)
    for name in PURE if isinstance(goal, LargestLoss) else SOON_CALIBRATED:
        tried = measurements(whole, now.unit, goal, Wish(name), fills=False, known=False, totalled=False, leaks=False)
        errors += [entry.mean_error(policy.objective) for entry in tried if isinstance(entry, Measurement)]
    if not errors:
        return
    found, stated = (_in_counts(policy, error) for error in (min(errors), now.mean_error(policy.objective)))
    if found <= MORE_NOISE * stated:
        beside = "less" if found < stated else "hardly more"
        of_period = "" if target.per is None else " of a period"
        per = "" if target.per is None else f"per = {written(target.per)}, "
        yield Diagnostic(
            "W0761",
            f"a bound of all {most:,} steps{of_period} would drop nothing, with {beside} noise: {found:.3g} "
            f"{_unit(draft, part)} beside {stated:.3g}",
            policy.participation.span,
            because=f"steps of a user beyond {record.bound:,} are dropped before noise is added, and no error tells "
            "how much that takes away; where users come back it is soon more than all noise",
            help=f"write `at_most({most} steps, {per}enforced = {record.enforced})`, unless hardly anybody takes "
            "part in "
            f"more than {record.bound:,}",
        )


def _habit_warnings(policy: Policy, draft: Draft, claims: Claims) -> Iterator[Diagnostic]:
    """W0762: a promise about short periods that leaves next to nothing of a month."""
    for target, claim in zip(promised_user_level(draft), claims.user_level, strict=True):
        if target.per is None or target.per == MONTH:
            continue
        month = periods_in(draft, 31)
        left = [_left(claim, point) for point in claim.beyond if point.participation == month * own_bound(draft)]
        epsilon, delta = left[0] if left else (Decimal(0), Decimal(0))
        if month == 1 or (epsilon is not None and epsilon <= HARDLY):
            continue
        at = f" at delta {delta:f}" if delta else ""
        left_words = "nothing" if epsilon is None else f"{epsilon.normalize():f} nats{at}"
        yield Diagnostic(
            "W0762",
            f"of what a user does in a month, {month:,} periods, {left_words} is promised",
            policy.targets[0].span,
            because="each period is hidden by itself: a habit shows in all of them, and they add up. A reader may "
            "take the promise for a stronger one",
            help="say it beside the numbers; or promise a longer period, or a smaller epsilon",
        )


def _left(claim: UserLevelClaim | UserRhoClaim, point: Degradation | RhoLeft) -> tuple[Decimal | None, Decimal]:
    """An epsilon that is left, None for none, and at which delta: of a rho, the largest that is told."""
    if isinstance(point, RhoLeft):
        return point.curve[0].epsilon, point.curve[0].delta
    return point.epsilon, claim.delta if isinstance(claim, UserLevelClaim) else Decimal(0)


def _in_counts(policy: Policy, error: float) -> float:
    return math.sqrt(error) if policy.objective == "mean_squared_error" else error


def _course(policy: Policy, draft: Draft) -> Courses | None:
    """How the one release that a signal is about moves; None where several are measured."""
    measured = [part.query for part in draft.releases if not isinstance(part.query, PrefixQuery | WindowQuery)]
    if len(measured) != 1:
        return None
    least = -math.inf if isinstance(measured[0], SumQuery) and measured[0].low < 0 else 0.0
    return courses(policy, draft.expected_steps, least=least)


def _spread(given: Courses, objective: Objective) -> tuple[float, bool]:
    """The error of always guessing the mean, in published units, and whether the mean is public."""
    absolute = objective == "mean_absolute_error"
    if given.process is not None:
        size = given.process.stddev * (MEAN_OF_ABSOLUTE if absolute else 1.0)
        return size, given.process.mean is not None
    missed = np.abs(given.course(0) - given.course(0).mean())
    return float(missed.mean() if absolute else math.sqrt(float((missed**2).mean()))), True


def _largest(draft: Draft, part: Asked) -> float | None:
    """The largest count or sum that there can be, on either side of 0, where the size of the population is public."""
    if draft.stream.population is None or draft.participation is None:
        return None
    events = draft.stream.population * draft.participation.per_step * math.ceil(1 / (period_of(draft) or 1))
    if isinstance(part.query, SumQuery):
        return events * float(max(abs(part.query.low), abs(part.query.high)))
    return events if isinstance(part.query, CountQuery) else None


def _unit(draft: Draft, part: Asked) -> str:
    if isinstance(part.query, SumQuery):
        return f"units of `{part.query.column}`"
    return "events" if draft.participation is not None and draft.participation.per_step > 1 else "users"
