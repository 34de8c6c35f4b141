"""Moments as text: in whole microseconds since 1970; without a zone as the clock of the plan shows it, else as UTC."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import chain

import numpy as np

from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.plan import Plan
from policyc_runtime.sources.calendar import SECOND, Clock, calendar_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
PIECE = 2**16  # moments that become texts at a time
MONDAY = -3 * 86_400 * 1_000_000  # 1969-12-29: whole steps are counted from here, so that weeks begin on Mondays


FIRST_MOMENT = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND
LAST_MOMENT = (datetime(9999, 12, 31, tzinfo=UTC) - EPOCH) // MICROSECOND  # a day of room for every zone


def now() -> int:
    """What this machine's clock says."""
    return time.time_ns() // 1000


def declared_start(plan: Plan) -> int | None:
    """The moment of step 0 that the plan gives, or None.

    Raises:
        DataError: it is not an ISO moment, or not the day with which the plan's clock begins.
    """
    if plan.stream.start is None:
        return None
    clock = plan.stream.clock
    try:
        if clock is None:
            return moment_of(plan.stream.start)
        (begin, ahead), *_ = clock.changes
        if date.fromisoformat(plan.stream.start) == (EPOCH + timedelta(seconds=begin + ahead)).date():
            return SECOND * begin
    except (ValueError, OverflowError):
        pass
    raise DataError(
        "E0812",
        "the start of the stream is not a moment"
        if clock is None
        else "the stream's clock has not the day of its start",
        where="plan.json: stream.start",
        help="write it like `2013-01-31T17:05:00`" if clock is None else "compile the policy again",
    )


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
        moment = _said_moment(plan, said) if said else LAST_MOMENT
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
            because=f"its step 0 begins at {iso_moment(declared, plan)}",
            help="leave `--start` out",
        )
    if fixed is not None and fixed != moment:
        raise LedgerError(
            "E0865",
            "the first run began the stream at another moment",
            where="--start",
            because=f"step 0 begins at {iso_moment(fixed, plan)}, and steps were released that are counted from there",
            help="leave `--start` out",
        )
    return moment


def unsaid_start(where: str, because: str, example: str = "--start 2013-01-31") -> DataError:
    """The refusal of rows whose steps follow from moments, where nobody says when the first one begins."""
    return DataError(
        "E0865",
        "nobody says when step 0 begins",
        where=where,
        because=because,
        help=f"say it in this first run: `{example}`; later runs know it. Or write `start` in the policy",
    )


def says_zone(text: str | None) -> bool:
    """Whether an ISO moment says its zone."""
    return text is not None and text != "" and datetime.fromisoformat(text).tzinfo is not None


def _said_moment(plan: Plan, text: str) -> int:
    """The same of what the plan's clock shows, where the text says no zone."""
    moment = moment_of(text)
    if plan.stream.clock is None or says_zone(text):
        return moment
    return int(Clock.of(plan.stream.clock).moment_of(np.array([moment]))[0])


def moment_of(text: str) -> int:
    """An ISO moment in microseconds since 1970; -1 for an empty text; ValueError for anything else."""
    if not text:
        return -1
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def whole_step_before(moment: int, step: int) -> int:
    """The last moment at or before this one that is a whole number of steps from a Monday, midnight."""
    return moment - (moment - MONDAY) % step


def iso_moment(moment: int, plan: Plan) -> str:
    """ISO text, with fractions of a second only where there are any: without zone, or as the plan's clock shows it."""
    if plan.stream.clock is None:
        return (EPOCH + moment * MICROSECOND).replace(tzinfo=None).isoformat()
    ahead = int(Clock.of(plan.stream.clock).shown(np.array([moment]))[0]) - moment
    return (EPOCH + moment * MICROSECOND).astimezone(timezone(ahead * MICROSECOND)).isoformat()


def last_moment(plan: Plan) -> int:
    """The moment from which on no step can end: the year 9999 is over, or nobody knows the plan's clock."""
    clock = plan.stream.clock
    return LAST_MOMENT if clock is None else min(LAST_MOMENT, SECOND * clock.end)


def steps_in_calendar(plan: Plan) -> int:
    """How many steps from the declared start on, or from the first moment, are over before that.

    Raises:
        DataError: none.
    """
    start = declared_start(plan)
    steps = calendar_of(plan, FIRST_MOMENT if start is None else start).steps.over(last_moment(plan))
    if steps < 1:
        raise DataError(
            "E0812", "the stream begins when its calendar is over", where="plan.json: stream", help="compile it again"
        )
    return steps


def step_times(plan: Plan, start: int | None, steps: int, first: int = 0) -> tuple[str, ...]:
    """The moment each step from `first` on begins, ISO; empty texts without a start."""
    if start is None:
        return ("",) * (steps - first)
    begins = calendar_of(plan, start).steps.begin(np.arange(first, steps))
    if plan.stream.clock is not None:
        return tuple(iso_moment(moment, plan) for moment in begins.tolist())
    pieces = np.split(begins.astype("M8[us]"), range(PIECE, len(begins), PIECE))
    shown = chain.from_iterable(np.datetime_as_string(piece).tolist() for piece in pieces)
    return tuple(text.removesuffix(".000000") for text in shown)
