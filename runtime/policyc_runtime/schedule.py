"""The budget of every step, compactly: patterns that repeat."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

from pydantic import Field, PositiveInt, model_validator

from policyc_runtime.records import NonNegativeDecimal, Record


class BudgetSegment(Record):
    """A pattern of steps that repeats: budgets (nats), noise scales, and predicted error of the published values.

    All three have the pattern's length. An epsilon of 0 means: nothing is released at that step (its scale is 0).
    `repeats` None means for ever; only the last segment of an unbounded plan has it.
    """

    epsilons: Annotated[tuple[NonNegativeDecimal, ...], Field(min_length=1)]
    scales: tuple[NonNegativeDecimal, ...]
    expected_errors: tuple[float, ...]
    repeats: PositiveInt | None

    @model_validator(mode="after")
    def _same_length(self) -> BudgetSegment:
        if not len(self.epsilons) == len(self.scales) == len(self.expected_errors):
            raise ValueError("epsilons, scales and expected_errors must have the same length")
        return self


class Schedule(Record):
    """The budget of every step, compactly: segments one after the other."""

    name: str
    segments: Annotated[tuple[BudgetSegment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _ends_once(self) -> Schedule:
        if any(segment.repeats is None for segment in self.segments[:-1]):
            raise ValueError("only the last segment of a schedule goes on for ever")
        return self

    def _column(self, field: str, steps: int) -> Iterator[Decimal | float]:
        left = steps
        for segment in self.segments:
            pattern = getattr(segment, field)
            repeats = segment.repeats if segment.repeats is not None else -(-left // len(pattern))
            for _ in range(repeats):
                if left <= 0:
                    return
                yield from pattern[:left]
                left -= len(pattern)
        if left > 0:
            raise ValueError(f"the schedule ends {left} steps too early")

    def epsilons(self, steps: int) -> list[Decimal]:
        """Budgets of the first `steps` steps, in nats."""
        return list(self._column("epsilons", steps))  # type: ignore[arg-type]

    def scales(self, steps: int) -> list[Decimal]:
        """Noise scales of the first `steps` steps."""
        return list(self._column("scales", steps))  # type: ignore[arg-type]

    def expected_errors(self, steps: int) -> list[float]:
        """Predicted error of the published values at the first `steps` steps, in the objective's unit."""
        return list(self._column("expected_errors", steps))  # type: ignore[arg-type]

    @property
    def length(self) -> int | None:
        """Number of steps, None when it goes on for ever."""
        total = 0
        for segment in self.segments:
            if segment.repeats is None:
                return None
            total += segment.repeats * len(segment.epsilons)
        return total
