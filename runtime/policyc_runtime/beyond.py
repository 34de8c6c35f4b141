"""Users beyond the participation bound: for which bounds a plan says what is left of its promise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from policyc_check.claims import Claim
from policyc_check.plan.plan import Plan, Stated
from policyc_check.plan.stream import DAY, MONTH
from policyc_check.users.claims import own_bound, period_of, promised_user_level, window_of

STRETCHES = (7, 31, 366)  # days of a week, a month and a year, at most


def beyond_claims(plan: Plan) -> Iterator[Claim]:
    """Whether every user-level claim has these bounds; what it says of each is held by the check."""
    for index, claim in enumerate(plan.claims.user_level):
        stated, place = [point.participation for point in claim.beyond], f"claims.user_level.{index}.beyond"
        if stated != beyond_bounds(plan):
            detail = "they are other bounds than pages name"
            yield Claim("what is left for users beyond the participation bound is said", False, detail, place)


def periods_in(plan: Stated, days: int) -> int:
    """How many of a promise's periods so many days touch; whole days where these are made of periods."""
    (per, *_), clock = (target.per or 1 for target in promised_user_level(plan)), plan.stream.clock
    if per == MONTH:
        return -(-(days * DAY - 1) // (61 * DAY // 2)) + 1  # 366 days touch 13, and 31 may touch three
    back = 0 if clock is None or per >= DAY else clock.put_back(per)
    return (days * DAY + back) // per if DAY % per == 0 else -(-(days * DAY - 1) // per) + 1


def periods_of_horizon(plan: Stated) -> int | None:
    """How many of a promise's periods there are, as stated where a clock divides them; None where they do not end."""
    horizon, clock, period = plan.stream.horizon, plan.stream.clock, period_of(plan)
    if horizon is None or period is None:
        return None
    least = math.ceil(horizon / (period if clock is None else max(period, Fraction(1))))
    return least if clock is None else max(least, clock.periods or 1)  # as stated, unless so few cannot be


def beyond_bounds(plan: Stated) -> list[int]:
    """Participation bounds for which the certificate says what is left: two and four times as many, and all steps.

    Of promises about periods: of as many as any stretch of one touches, or of a week, a month and a year, and all.
    """
    if plan.participation is None:
        return []
    own, last, window = own_bound(plan) * (window_of(plan) or 1), periods_of_horizon(plan), window_of(plan)
    if period_of(plan) is None or window is not None:
        last = plan.stream.horizon or 16 * own
        return sorted({min(2 * own, last), min(4 * own, last), last} - {own})
    periods = [2, *filter(lambda count: count > 1, (periods_in(plan, days) for days in STRETCHES))]
    if last is not None:
        periods = [min(count, last) for count in (*periods, last)]
    return sorted({own * count for count in periods} - {own})
