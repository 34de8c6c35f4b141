"""Constraint sets in the words of tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation import ConstraintSet


def demand(
    text: str, current: dict[int, Any], relation: Any, bound: Any, previous: dict[int, Any] | None = None, line: int = 1
) -> ConstraintRow:
    """One row; numbers may be anything that a decimal reads."""

    def sparse(values: dict[int, Any]) -> tuple[tuple[int, Decimal], ...]:
        return tuple((cell, Decimal(value)) for cell, value in values.items())

    return ConstraintRow(
        text=text,
        line=line,
        current=sparse(current),
        previous=sparse(previous or {}),
        relation=relation,
        bound=Decimal(bound),
    )


def total(cells: int, bound: Any) -> ConstraintRow:
    return demand("sum(x) == population", dict.fromkeys(range(cells), 1), "==", bound, line=10)


def at_least_zero(cells: int) -> tuple[ConstraintRow, ...]:
    return tuple(demand("x >= 0", {cell: 1}, ">=", 0, line=11) for cell in range(cells))


def change_at_most(cells: int, limit: Any) -> tuple[ConstraintRow, ...]:
    return tuple(demand("x - previous(x) <= limit", {c: 1}, "<=", limit, {c: -1}, line=13) for c in range(cells))


def demands(*rows: ConstraintRow, cells: int, integer: bool = True) -> ConstraintSet:
    return ConstraintSet(rows, cells, integer=integer)
