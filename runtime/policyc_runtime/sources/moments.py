"""Moments and steps, in whole microseconds since 1970; a moment without a zone is taken as it is written."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.plan import Plan

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MONDAY = -3 * 86_400 * 1_000_000  # 1969-12-29: whole steps are counted from here, so that weeks begin on Mondays


FIRST_MOMENT = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
LAST_MOMENT = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // MICROSECOND  # a day of room for every zone


def now() -> int:
    """What this machine's clock says."""
    return time.time_ns() // 1000


def step_microseconds(plan: Plan) -> int:
    """The length of a step."""
    return plan.stream.step_milliseconds * 1000


def declared_start(plan: Plan) -> int | None:
    """The moment of step 0 that the plan gives, or None.

    Raises:
        DataError: it is not an ISO moment.
    """
    if plan.stream.start is None:
        return None
    try:
        return moment_of(plan.stream.start)
    except ValueError:
        raise DataError(
            "E0812",
            "the start of the stream is not a moment",
            where="plan.json: stream.start",
            help="write it like `2013-01-31T17:05:00`",
        ) from None


def agreed_start(plan: Plan, said: str | None, fixed: int | None) -> int | None:
    """The moment of step 0, where the plan, the run or an earlier run says one; all that say one say the same.

    Args:
        plan: may have a `start`.
        said: ISO text that this run was given.
        fixed: what the first run fixed.

    Raises:
        DataError: what was said is no moment, or not the plan's.
        LedgerError: another one was fixed.
    """
    declared = declared_start(plan)
    if said is None:
        return declared if fixed is None else fixed
    try:
        moment = moment_of(said) if said else LAST_MOMENT
    except ValueError:
        moment = LAST_MOMENT
    if not FIRST_MOMENT <= moment < LAST_MOMENT:
        raise DataError(
            "E0812",
            "this is not a moment, or not one from the year 1 to 9999-12-30",
            where="--start",
            because="steps are counted from it, within years of four digits, and offsets from UTC are less than a day",
            help="write it like `2013-01-31`, `2013-01-31T17:05:00Z` or `2013-01-31T17:05:00+02:00`",
        )
    if declared is not None and declared != moment:
        raise DataError(
            "E0865",
            "the policy says another start of the stream",
            where="--start",
            because=f"its step 0 begins at {iso_moment(declared)}",
            help="leave `--start` out",
        )
    if fixed is not None and fixed != moment:
        raise LedgerError(
            "E0865",
            "the first run began the stream at another moment",
            where="--start",
            because=f"step 0 begins at {iso_moment(fixed)}, and steps were released that are counted from there",
            help="leave `--start` out",
        )
    return moment


def says_zone(text: str | None) -> bool:
    """Whether an ISO moment says its zone."""
    return text is not None and datetime.fromisoformat(text).tzinfo is not None


def moment_of(text: str) -> int:
    """An ISO moment in microseconds since 1970; -1 for an empty text; ValueError for anything else."""
    if not text:
        return -1
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def whole_step_before(moment: int, step: int) -> int:
    """The last moment at or before this one that is a whole number of steps from a Monday, midnight."""
    return moment - (moment - MONDAY) % step


def iso_moment(moment: int) -> str:
    """ISO text without zone, with fractions of a second only where there are any."""
    return (EPOCH + moment * MICROSECOND).replace(tzinfo=None).isoformat()


def steps_in_calendar(plan: Plan) -> int:
    """How many steps from the declared start on, or from the first moment, are over before the year 9999 is."""
    start = declared_start(plan)
    return (LAST_MOMENT - (FIRST_MOMENT if start is None else start)) // step_microseconds(plan)


def step_times(plan: Plan, start: int | None, steps: int) -> tuple[str, ...]:
    """The moment each step begins, ISO; empty texts without a start."""
    if start is None:
        return ("",) * steps
    length = step_microseconds(plan)
    return tuple(iso_moment(start + step * length) for step in range(steps))
