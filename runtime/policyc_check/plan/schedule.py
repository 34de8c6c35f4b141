"""The budget of every step, compactly: patterns that repeat."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from policyc_check.records import Label, NonNegativeDecimal, Record, Steps
from policyc_check.runs import Runs


class BudgetSegment(Record):
    """A pattern of steps that repeats: budgets (nats), noise scales, and predicted error of the published values.

    All three have the pattern's length. An epsilon of 0 means: nothing is released at that step (its scale is 0).
    `repeats` None means for ever; only the last segment of an unbounded plan has it.
    """

    epsilons: Annotated[tuple[NonNegativeDecimal, ...], Field(min_length=1)]
    scales: tuple[NonNegativeDecimal, ...]
    expected_errors: tuple[float, ...]
    repeats: Steps | None

    @model_validator(mode="after")
    def _same_length(self) -> BudgetSegment:
        if not len(self.epsilons) == len(self.scales) == len(self.expected_errors):
            raise ValueError("epsilons, scales and expected_errors must have the same length")
        return self


class Schedule(Record):
    """The budget of every step, compactly: segments one after the other."""

    name: Label
    segments: Annotated[tuple[BudgetSegment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _ends_once(self) -> Schedule:
        if any(segment.repeats is None for segment in self.segments[:-1]):
            raise ValueError("only the last segment of a schedule goes on for ever")
        return self

    @property
    def runs(self) -> Runs:
        """How the patterns follow each other."""
        return Runs((len(segment.epsilons), segment.repeats) for segment in self.segments)

    @property
    def length(self) -> int | None:
        """Number of steps, None when it goes on for ever."""
        return None if self.segments[-1].repeats is None else int(self.runs.ends[-1])
