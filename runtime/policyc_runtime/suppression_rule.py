"""Which published values are left out, as a policy says it."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.records import Name, PositiveDecimal, Record, Steps


class SuppressionRule(Record):
    """`text` and `line` are the policy's."""

    text: str
    line: Steps


class Below(SuppressionRule):
    """Values below a threshold are left out, in published units."""

    kind: Literal["below"] = "below"
    below: PositiveDecimal


class Where(SuppressionRule):
    """Values are left out where those of another release are, which has the same cells."""

    kind: Literal["where"] = "where"
    where: Name


class ErrorAbove(SuppressionRule):
    """Values are left out whose error may be above `error`, with a probability of more than `chance`.

    `error` is in published units, or a part of the published value where it is `relative`.
    """

    kind: Literal["error_above"] = "error_above"
    error: PositiveDecimal
    relative: bool
    chance: Annotated[Decimal, Field(gt=0, lt=1, allow_inf_nan=False)]


AnySuppressionRule = Annotated[Below | Where | ErrorAbove, Field(discriminator="kind")]
