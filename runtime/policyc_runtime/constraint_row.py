"""What published values must satisfy, as a policy says it."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from policyc_check.records import Record, Steps


class ConstraintRow(Record):
    """sum over cells of coefficient times value (and times the value one step earlier) compared with a bound.

    `current` and `previous` are sparse: (cell index, coefficient). `text` and `line` are the policy's.
    """

    text: str
    line: Steps
    current: tuple[tuple[int, Decimal], ...]
    previous: tuple[tuple[int, Decimal], ...]
    relation: Literal["==", "<=", ">="]
    bound: Decimal
