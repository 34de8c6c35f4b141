"""Which value of a step each cell belongs to, at the level of a release."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.stream import CellRecord

Indices = NDArray[np.int64]


def ancestors(cell: CellRecord, column: str) -> Indices:
    """The index of each cell's own value in a column, (cells,): that of a level, or the cell's own."""
    level = next((level for level in cell.levels if level.column == column and column != cell.column), None)
    return np.arange(len(cell.cells)) if level is None else np.array(level.of, dtype=np.int64)


def counted_in(cell: CellRecord, column: str) -> Indices | None:
    """The index of the value in which who is in a state is counted, (states,), by a column; None for its own."""
    if column == cell.column:
        return None
    own = ancestors(cell, column)
    return own if cell.otherwise is None else np.append(own, own.max() + 1)


def summed(rows: NDArray[Any], of: Indices | None) -> NDArray[Any]:
    """Sums over what is counted in the same value, (rows, values) of (rows, states); of None the rows themselves."""
    return rows if of is None else rows @ np.eye(int(of.max()) + 1, dtype=rows.dtype)[of]


def counted_by(cell: CellRecord, by: str | None, states: NDArray[Any]) -> NDArray[Any]:
    """(rows, values) of what is split by a column, from users by state (rows, states); by none: who is in a cell."""
    if by is None:
        return np.asarray(states[:, : len(cell.cells)].sum(axis=1, keepdims=True))
    return summed(states, counted_in(cell, by))


def parents(cell: CellRecord, child: str, parent: str) -> Indices | None:
    """The index of each value of one column in another, (values of the child,); None where one belongs to several."""
    own, above = ancestors(cell, child), ancestors(cell, parent)
    if cell.otherwise is not None:  # is a value of each
        own, above = np.append(own, own.max() + 1), np.append(above, above.max() + 1)
    found = np.zeros(int(own.max()) + 1, dtype=np.int64)
    found[own] = above
    return found if bool((found[own] == above).all()) else None


def reason_against_levels(cell: CellRecord) -> str | None:
    """Why levels do not say what every cell belongs to, naming one; None where they do."""
    columns = [level.column for level in (*cell.levels, cell)]
    for level in cell.levels:
        if columns.count(level.column) > 1:
            return f"two levels have the name `{level.column}`"
        if len(level.of) != len(cell.cells) or {*level.of} != {*range(len(level.cells))}:
            return f"the level `{level.column}` does not say what every cell belongs to"
    return None
