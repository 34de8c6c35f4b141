"""Which policy a plan is of, what stream it is about, how often a user takes part, when values are published."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from policyc_check.records import NOTHING, UNSAID, Count, Label, Name, NonNegativeInteger, Opaque, Record, Steps

MOST_CELLS = 100_000
DAY = 86_400_000  # milliseconds
MONTH: Literal["month"] = "month"
Length = Annotated[int, Field(gt=0)] | Literal["month"]
"""Milliseconds, or a calendar month of the stream's clock."""

Moment = Annotated[int, Field(ge=-62_135_596_800, lt=253_402_300_800 - 2 * 86_400)]  # of the years 1 to 9999
Ahead = Annotated[int, Field(gt=-86_400, lt=86_400)]


def longest(length: Length) -> int:
    """The most milliseconds that a clock which is never put back has in it."""
    return 31 * DAY if length == MONTH else length


class PolicyRecord(Record):
    """Which policy this plan was compiled from; its files are of no concern here."""

    name: Name
    purpose: str
    source: Opaque
    files: Opaque


class Listed(Record):
    """What has a value in every step, and the column that says which."""

    column: Label
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS)]


class LevelRecord(Listed):
    """What the stream's cells belong to: `of` has the index of each one's own, whichever that is."""

    of: Annotated[tuple[NonNegativeInteger, ...], Field(max_length=MOST_CELLS)]


class CellRecord(Listed):
    """Where a user can be. States are the cells in order, then `otherwise` when there is one; so at every level."""

    otherwise: Label | None
    levels: tuple[LevelRecord, ...] = NOTHING

    @model_validator(mode="after")
    def _told_apart(self) -> CellRecord:
        if any(len(set(names)) < len(names) for names in self.states_by.values()):
            raise ValueError("two cells have one name")
        return self

    @property
    def states(self) -> tuple[str, ...]:
        """The order of every matrix and vector, and of output by cell."""
        return self.states_by[self.column]

    @property
    def states_by(self) -> dict[str | None, tuple[str, ...]]:
        """The values of a step, in order, of what is split by a column: a level, or the cell."""
        last = () if self.otherwise is None else (self.otherwise,)
        return {part.column: (*part.cells, *last) for part in (*self.levels, self)}


class ClockRecord(Record):
    """The clock whose days and months are meant, as known at compilation; moments are seconds since 1970."""

    zone: Label
    changes: Annotated[tuple[tuple[Moment, Ahead], ...], Field(min_length=1)]  # since when it is how far ahead of UTC
    end: Moment  # until when that is known; nothing later is released
    periods: Steps | None = UNSAID  # how many the horizon touches, of a promise about periods

    def put_back(self, unit: int) -> int:
        """The most milliseconds by which days are longer than usual; ValueError where some are not of whole units."""
        back, (begin, ahead) = 0, self.changes[0]
        broken = (begin + ahead) * 1000 % DAY or max(unit, DAY) % min(unit, DAY)
        for (since, before), (moment, offset) in pairwise(self.changes):
            uneven = unit < DAY and any((moment + shown) * 1000 % unit for shown in (before, offset))
            broken = broken or uneven or moment <= since or moment + offset < begin + self.changes[0][1]
            ahead = max(ahead, offset)
            back = max(back, ahead - offset)
        if broken:
            raise ValueError(f"days of the clock of {self.zone} are not made of whole units")
        return 1000 * back if unit < DAY else 0


class StreamRecord(Record):
    """The event stream.

    `horizon` is in steps, None when unbounded; `start` is the ISO moment of step 0, None when the first run is
    told it; `population` is a public number, published unprotected. `step_text` is `month` of calendar months.
    """

    name: Name
    user_column: Label
    time_column: Label
    cell: CellRecord | None
    step_milliseconds: PositiveInt
    step_text: Label
    horizon: Steps | None
    population: Count | None
    start: Label | None
    clock: ClockRecord | None = UNSAID
    dataset: Name | None = UNSAID  # whose account keeps what several plans tell together


class ParticipationRecord(Record):
    """In how many steps one user takes part at most, with how many events that count in each, and how far apart.

    A spacing of 1 says nothing. `enforced`: which events are kept, by the run; or `assumed`: why it holds without.
    """

    bound: Steps
    per_step: Count
    spacing: Steps
    enforced: Literal["keep_first", "keep_sample"] | None
    assumed: str | None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> ParticipationRecord:
        if (self.enforced is None) == (self.assumed is None):
            raise ValueError("a participation bound is either enforced or assumed")
        return self


class Delivery(Record):
    """When values are published; `delay` in steps, for `within` only."""

    kind: Literal["realtime", "within", "offline"]
    delay: Steps | None

    @property
    def longest_wait(self) -> int | None:
        """How many later steps a value may wait for: 0, the delay, or None for all."""
        return None if self.kind == "offline" else self.delay or 0
