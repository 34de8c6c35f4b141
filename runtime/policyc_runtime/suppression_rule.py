"""Which published values are left out, as a policy says it."""

from __future__ import annotations

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


AnySuppressionRule = Annotated[Below | Where, Field(discriminator="kind")]
