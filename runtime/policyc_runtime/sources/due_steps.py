"""How many steps a run may release when nobody says it: none that is not over, and none that a wrong date would add.

The number of steps is published, and one user's event must not decide it, whatever is promised: steps are released that
are over by the clock. Whoever releases a long stretch without any event says so by a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policyc_check.plan.stream import MONTH
from policyc_runtime.errors import DataError
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.moments import iso_moment, now
from policyc_runtime.sources.step_counts import LARGEST_HORIZON

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.plan import Plan

HOUR = 3_600_000_000
DAY = 24 * HOUR
WEST = 12 * HOUR  # a moment without a zone is everywhere on Earth in the past so much later
EAST = 14 * HOUR  # and comes somewhere on Earth so much earlier
FEW_STEPS = 10
TIMES_LONGER = 10


def due_steps(
    plan: Plan, start: int, occupied: NDArray[np.int64], done: int, where: str, *, zoned: bool, simulated: bool = False
) -> int:
    """How many steps to release.

    Args:
        plan: what is promised, and its horizon.
        start: the moment of step 0, microseconds since 1970.
        occupied: the steps that have rows, in order, from 0; none only where steps were released already.
        done: how many are released already.
        where: the file, for messages.
        zoned: whether `start` was said with its zone; without one a step is over when it is so everywhere on Earth.
        simulated: the events come from a seed; then no clock counts, and all steps of the horizon are released.

    Raises:
        DataError: no step is over, or an event lies in the future, or there is a long stretch without events:
            longer than `FEW_STEPS`, than `TIMES_LONGER` times every one before it, and than all that lies before it
            (a day counts as much as more), so that the nights of a stream are asked about once at most.
    """
    reached = int(occupied[-1]) + 1 if occupied.size else 1
    if simulated:
        return max(done, plan.stream.horizon or reached)
    over = _over(plan, start, reached, where, zoned=zoned)
    due = max(done, over)
    _refuse_long_gap(plan, occupied[occupied < due], done, due, where)
    return due


def due_counts(plan: Plan, start: int, rows: int, done: int, where: str, *, zoned: bool) -> int:
    """How many of `rows` >= 1 steps of ready counts to release; other arguments and refusals as for events."""
    return max(done, min(rows, _over(plan, start, rows, where, zoned=zoned)))


def _over(plan: Plan, start: int, reached: int, where: str, *, zoned: bool) -> int:
    """How many steps are over by the clock, at least one; refuses data that reaches beyond the step that goes on."""
    over = steps_over(plan, start, zoned=zoned)
    begins = int(calendar_of(plan, start).steps.begin(np.array([reached - 1]))[0])
    if begins > now() + (0 if zoned else EAST):
        raise DataError(
            "E0863",
            f"the data reaches into step {reached - 1}, which has not begun",
            where=where,
            because=f"by this machine's clock {over:,} steps are over; a wrong date would spend steps that are still "
            "to come",
            help=f"correct the date, or say what to release: `--steps {max(over, 1)}` is what is over, "
            f"`--steps {reached}` everything",
        )
    if over == 0:
        wait = "" if zoned else "; it was said without a zone, so that 12 hours more are waited for"
        raise DataError(
            "E0863",
            "no step is over yet",
            where=where,
            because=f"step 0 begins at {iso_moment(start, plan)} and lasts {_length(plan)}{wait}",
            help=f"run again when it is; `--steps {reached}` releases through step {reached - 1} at once, and rows "
            "that come later for these steps are then refused",
        )
    return over


def steps_over(plan: Plan, start: int, *, zoned: bool) -> int:
    """How many steps are over by the clock, at most the horizon."""
    moment = now() - (0 if zoned else WEST)
    return max(0, min(calendar_of(plan, start).steps.over(moment), plan.stream.horizon or LARGEST_HORIZON))


def _length(plan: Plan) -> str:
    return "a month" if plan.stream.step_text == MONTH else plan.stream.step_text


def _refuse_long_gap(plan: Plan, occupied: NDArray[np.int64], done: int, due: int, where: str) -> None:
    """Nothing when no stretch without events that would be released now is longer than those before it explain."""
    ends = np.append(occupied, due)
    begins = np.append(0, occupied + 1)
    lengths = ends - begins
    usual = np.maximum.accumulate(np.append(0, lengths[:-1]))
    day = DAY // (1000 * plan.stream.step_milliseconds)
    earlier = np.where(begins == 0, day, np.minimum(begins, day))  # a stream may start at midnight, and people at eight
    limit = np.maximum(np.maximum(TIMES_LONGER * usual, earlier), FEW_STEPS)
    long = np.flatnonzero((lengths > limit) & (ends > done))
    if not long.size:
        return
    first, last = int(begins[long[0]]), int(ends[long[0]]) - 1
    raise DataError(
        "E0864",
        f"no event lies in steps {first:,} to {last:,}",
        where=where,
        because="one wrong date, a wrong start, or a file that ends early looks like this; a released step cannot be "
        "released again when its rows are found",
        help="if the data is not whole, correct it; else say how many steps to release, by the calendar and not by "
        f"where the events end, since the number is published: `--steps {due}` is everything",
    )
