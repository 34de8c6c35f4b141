"""What the cells of a quotient are divided by."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from policyc_runtime.ancestors import parents
from policyc_runtime.made_release import Quotient
from policyc_runtime.plan import Plan


def denominators(plan: Plan, query: Quotient, values: NDArray[Any]) -> NDArray[Any]:
    """For every cell of a quotient what belongs to its denominator, of whose cells are the columns of `values`.

    That is the column of the same cell, or of what the cell belongs to. One column is for all cells.
    """
    cell, by = plan.stream.cell, {one.name: one.query.by for one in plan.releases}
    by |= {one.name: one.query.by for one in plan.made}
    over = query.by if query.over is None else by[query.over]
    if values.shape[1] == 1 or cell is None or query.by is None or over in (None, query.by):
        return values
    above = parents(cell, query.by, str(over))
    assert above is not None, "checked when the plan was read"
    return values[:, above]
