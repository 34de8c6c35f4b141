"""What is counted, summed or totalled in a release."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, model_validator

from policyc_check.records import UNSAID, Count, Label, Name, PositiveDecimal, Record, Steps


class CountQuery(Record):
    """Users present in a step; `by` is the cell column, or None for one number a step.

    A user counts in one cell of a step, or once in each of up to `cells_per_step` where that is said.
    """

    kind: Literal["count"] = "count"
    by: Label | None
    cells_per_step: Count | None = UNSAID


class SumQuery(Record):
    """The sum of a column over the events of a step, each value clamped to low..high and rounded to whole grid steps.

    All that is protected is counted in units of the grid, in whole numbers.
    """

    kind: Literal["sum"] = "sum"
    column: Label
    low: Decimal
    high: Decimal
    grid: PositiveDecimal
    by: Label | None
    cells_per_step: Count | None = UNSAID

    @model_validator(mode="after")
    def _ordered(self) -> SumQuery:
        if not self.low < self.high:
            raise ValueError("a clamp has a low end below its high end")
        return self


class PrefixQuery(Record):
    """The running total of another release, `of`, from step 0 on."""

    kind: Literal["prefix"] = "prefix"
    of: Name
    by: Label | None


class WindowQuery(Record):
    """The total of another release, `of`, over the last `steps` steps, fewer at the start."""

    kind: Literal["window"] = "window"
    of: Name
    steps: Steps
    by: Label | None


TotalQuery = Annotated[PrefixQuery | WindowQuery, Field(discriminator="kind")]
"""What is made of another release."""

Query = Annotated[CountQuery | SumQuery | PrefixQuery | WindowQuery, Field(discriminator="kind")]
