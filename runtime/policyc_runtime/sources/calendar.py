"""Which step and which period a moment lies in, in numbers and in SQL: the only place where time is divided.

Without a clock, pieces of one length follow each other from step 0 on. With one, days and whatever is made of days are
those that the clock shows, and months those of its calendar; what is shorter than a day is elapsed time. A moment's
piece depends on that moment alone. Moments and lengths are whole microseconds, moments since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.plan.stream import DAY, MONTH, Length, longest
from policyc_check.users.claims import period_of, promised_user_level
from policyc_runtime.sources.engines.dialect import DUCKDB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_check.plan.plan import Stated
    from policyc_check.plan.stream import ClockRecord, StreamRecord
    from policyc_runtime.sources.engines.dialect import Dialect

    Numbers = NDArray[np.int64]

SECOND = 1_000_000


@dataclass(frozen=True)
class Clock:
    """A clock that is so many microseconds `ahead` of UTC from each of the moments `since` on, the first one always."""

    since: tuple[int, ...]
    ahead: tuple[int, ...]

    @classmethod
    def of(cls, record: ClockRecord) -> Clock:
        """The clock of a plan."""
        since, ahead = zip(*record.changes, strict=True)
        return cls(tuple(SECOND * moment for moment in since), tuple(SECOND * offset for offset in ahead))

    @property
    def _until_shown(self) -> list[int]:
        """What it shows from which on the next offset is meant: of an hour that comes twice, only after it."""
        return [moment + max(pair) for moment, pair in zip(self.since[1:], pairwise(self.ahead), strict=True)]

    def shown(self, moments: Numbers) -> Numbers:
        """What it shows at moments, as if that were UTC."""
        found: Numbers = moments + np.array(self.ahead)[np.searchsorted(self.since[1:], moments, side="right")]
        return found

    def moment_of(self, shown: Numbers) -> Numbers:
        """When it shows something: of an hour that comes twice the first time, of one left out as if it were not."""
        found: Numbers = shown - np.array(self.ahead)[np.searchsorted(self._until_shown, shown, side="right")]
        return found

    def reached(self, shown: Numbers) -> Numbers:
        """The first moment when it shows that or more."""
        after = np.array([*self.since[1:], np.iinfo(np.int64).max])
        last: Numbers = after[np.searchsorted(self._until_shown, shown, side="right")]
        return np.minimum(self.moment_of(shown), last)

    def shown_sql(self, moment: str) -> str:
        """SQL for what it shows at a moment, a column."""
        return f"({moment} + {_looked_up(moment, self.since[1:], self.ahead)})"

    def moment_sql(self, shown: str) -> str:
        """SQL for when it shows what a column says."""
        return f"({shown} - {_looked_up(shown, self._until_shown, self.ahead)})"


def _looked_up(column: str, limits: Sequence[int], values: Sequence[int]) -> str:
    """SQL for the value whose limits, the one before it and its own, a column lies between; by halves."""
    if not limits:
        return str(values[0])
    half = len(limits) // 2
    below = _looked_up(column, limits[:half], values[: half + 1])
    above = _looked_up(column, limits[half + 1 :], values[half + 1 :])
    return f"CASE WHEN {column} < {limits[half]} THEN {below} ELSE {above} END"


@dataclass(frozen=True)
class Division:
    """Time from `start` on in pieces 0, 1, 2, ...

    Args:
        start: when piece 0 begins; of months and periods, a moment in it.
        length: of a piece, the longest.
        clock: whose days are meant; None for elapsed time.
        months: pieces are the months of the clock.
    """

    start: int
    length: int
    clock: Clock | None = None
    months: bool = False

    @classmethod
    def into(cls, length: Length, stream: StreamRecord, start: int) -> Division:
        """Into pieces of a length, by the stream's clock where they are days or more."""
        days = stream.clock is not None and longest(length) >= DAY
        clock = Clock.of(stream.clock) if days and stream.clock is not None else None
        return cls(start, longest(length) * 1000, clock, length == MONTH and days)

    @cached_property
    def _begin(self) -> int:
        """What is shown at the start, in months since 1970 or microseconds."""
        shown = np.array([self.start]) if self.clock is None else self.clock.shown(np.array([self.start]))
        return int(_months(shown)[0]) if self.months else int(shown[0])

    def of(self, moments: Numbers) -> Numbers:
        """The pieces that moments lie in."""
        shown = moments if self.clock is None else self.clock.shown(moments)
        return _months(shown) - self._begin if self.months else (shown - self._begin) // self.length

    def begin(self, pieces: Numbers) -> Numbers:
        """The moments when pieces begin."""
        if self.months:
            shown = (pieces + self._begin).astype("M8[M]").astype("M8[us]").astype(np.int64)
        else:
            shown = self._begin + pieces * self.length
        return shown if self.clock is None else self.clock.reached(shown)

    def over(self, moment: int) -> int:
        """How many pieces are over at a moment: no later one lies in them."""
        later = () if self.clock is None else tuple(since for since in self.clock.since if since > moment)
        return int(self.of(np.array([moment, *later])).min())

    def sql(self, moment: str, dialect: Dialect = DUCKDB) -> str:
        """SQL for the piece that a column's moment, not before the start, lies in."""
        shown = moment if self.clock is None else self.clock.shown_sql(moment)
        if self.months:
            return f"({dialect.month(shown)} - {self._begin})"
        return dialect.quotient(f"({shown} - {self._begin})", self.length)


def _months(shown: Numbers) -> Numbers:
    return shown.astype("M8[us]").astype("M8[M]").astype(np.int64)


@dataclass(frozen=True)
class Calendar:
    """The steps of a plan, and the periods that its promise is about; None where it is about all of a user."""

    steps: Division
    periods: Division | None

    def period_of(self, steps: Numbers) -> Numbers:
        """The periods in which steps begin; that of a stream without any is 0."""
        return steps * 0 if self.periods is None else self.periods.of(self.steps.begin(steps))

    def going_on(self, step: int) -> int:
        """The first step of the period that goes on, or begins, when a step begins."""
        if self.periods is None:
            return 0
        period = self.periods.over(int(self.steps.begin(np.array([step]))[0]))
        return max(0, int(self.steps.of(self.periods.begin(np.array([period])))[0]))

    def first_steps(self, steps: int) -> Numbers:
        """The first step of every period that these steps lie in, and of the one after; a step of periods is one."""
        longest = 1 if self.periods is None else -(-self.periods.length // self.steps.length)
        periods = self.period_of(np.arange(steps + longest + 1))
        begins = np.flatnonzero(np.diff(periods, prepend=-1))
        return begins[: np.searchsorted(begins, steps) + 1]


def calendar_of(plan: Stated, start: int) -> Calendar:
    """How time is divided from step 0 on."""
    stream = plan.stream
    steps = Division.into(step_of(stream), stream, start)
    periods = None
    if period_of(plan) is not None:
        per = promised_user_level(plan)[0].per  # none of windows, in which every step is a period
        periods = steps if per is None else Division.into(per, stream, start)
    return Calendar(steps, periods)


def step_of(stream: StreamRecord) -> Length:
    """The length of a step."""
    return MONTH if stream.step_text == MONTH and stream.clock is not None else stream.step_milliseconds
