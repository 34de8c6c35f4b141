"""Which policy a plan is of, what stream it is about, how often a user takes part, when values are published."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from policyc_check.records import NOTHING, Count, Label, Name, NonNegativeInteger, Opaque, Record, Steps

MOST_CELLS = 100_000


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


class StreamRecord(Record):
    """The event stream.

    `horizon` is in steps, None when unbounded; `start` is the ISO moment of step 0, None when the first run is
    told it; `population` is a public number, published unprotected.
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


class ParticipationRecord(Record):
    """In how many steps one user takes part.

    Args:
        bound: steps at most.
        per_step: events of one user that count in a step, at most.
        spacing: steps between two of them at least; 1 says nothing.
        enforced: which events are kept, by the run; None when the bound is assumed.
        assumed: why it holds without being enforced.
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
