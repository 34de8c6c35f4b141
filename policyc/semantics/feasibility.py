"""Whether some values satisfy a set of linear constraints, and if not, which few of them are to blame."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from policyc.semantics.postprocessing import LinearConstraint

Group = Sequence[LinearConstraint]
_MOST_STEPS = 64
_MOST_VARIABLES = 20_000
_TOLERANCE = Decimal("1e-9")


def conflicting(groups: Sequence[Group], horizon: int | None) -> list[Group]:
    """A smallest set of constraints that no series of values satisfies; empty when all of them can hold.

    Smallest in that without any one of them the rest can hold. Series of up to 64 steps are looked at, so that a
    demand such as `NAME - previous(NAME) >= 10` meets an upper bound.

    Args:
        groups: the rows of each constraint as written (one, or one a cell).
        horizon: the number of steps, or None.
    """
    if not groups or _constant_series_holds(groups):
        return []
    cells = groups[0][0].cells
    steps = max(2, min(horizon or _MOST_STEPS, _MOST_STEPS, _MOST_VARIABLES // cells))
    if horizon == 1:
        steps = 1
    if _feasible(groups, steps):
        return []
    blamed = list(groups)
    for group in groups:
        rest = [g for g in blamed if g is not group]
        if not _feasible(rest, steps):
            blamed = rest
    return blamed


def _constant_series_holds(groups: Sequence[Group]) -> bool:
    """Whether everything holds for a series of zeros, or of one number everywhere: most policies need no solver."""
    rows = [row for group in groups for row in group]
    values = {Decimal(0)}
    for row in rows:
        weight = _weight(row)
        if weight:
            values.add(row.bound / weight)
    candidates = sorted(values)[:16]
    return any(all(_holds(row, value) for row in rows) for value in candidates)


def _weight(row: LinearConstraint) -> Decimal:
    return sum(row.current.values(), Decimal(0)) + sum(row.previous.values(), Decimal(0))


def _holds(row: LinearConstraint, value: Decimal) -> bool:
    slack = value * _weight(row) - row.bound
    near = _TOLERANCE * max(Decimal(1), abs(row.bound))
    if row.relation == "<=":
        return slack <= near
    return slack >= -near and (row.relation == ">=" or slack <= near)


def _feasible(groups: Sequence[Group], steps: int) -> bool:
    """Whether a series of free values satisfies every row at every step; a row on the past begins at the second."""
    import highspy
    import numpy as np

    rows = [row for group in groups for row in group]
    if not rows:
        return True
    cells = rows[0].cells
    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]  # shipped without types
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    for _ in range(cells * steps):
        model.addVar(-highspy.kHighsInf, highspy.kHighsInf)
    for step in range(steps):
        for row in rows:
            if row.previous and step == 0:
                continue
            entries = [(step * cells + i, float(c)) for i, c in row.current.items()]
            entries += [((step - 1) * cells + i, float(c)) for i, c in row.previous.items()]
            bound = float(row.bound)
            low = bound if row.relation in ("==", ">=") else -highspy.kHighsInf
            high = bound if row.relation in ("==", "<=") else highspy.kHighsInf
            index = np.array([i for i, _ in entries], dtype=np.int32)
            value = np.array([c for _, c in entries], dtype=np.float64)
            model.addRow(low, high, len(entries), index, value)
    model.run()
    return bool(model.getModelStatus() != highspy.HighsModelStatus.kInfeasible)
