"""What steps inherit, for every ordered pair of states, through all steps before: no more than is reached (from CAO17).

Let v >= 0 be how likely all outputs before a step are, given its state; its own multiply entries by 1 to e^budget: u.
Of the states i and j one step later left u >= 0 is to be shown, left = e^(B[i, j]) M_j - M_i, M the law of the state
before. Whatever v is, e^budget is worst where left is below 0, and 1 elsewhere: left u >= (left worst) v, v = M u' of a
step earlier. That is carried on, rounded down, to the first step, whose v is 1; or until no u is below 0 that the
largest B and budget allow: induction. The same with time reversed; given a step's state, both sides are independent.
"""

from __future__ import annotations

import numpy as np

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import PairBounds
from policyc_check.rounding import UNIT, Floats
from policyc_check.steps.chains import Side


def inherited_by_pairs(stated: PairBounds, budgets: Floats, side: Side, where: str, earlier: int | None) -> Floats:
    """What steps inherit from one side, nats, (n, n), of at most `earlier` steps; E0801 where that is not shown."""
    law = side.law(1, 1)
    n, inside = len(law.matrix), float((budgets if earlier is None else budgets[1:-1]).max(initial=0.0))
    first, error = max(inside, float(budgets[0])), law.relative_error + (n + 24) * UNIT  # entries, exp, sums of n
    least, most, nats = law.matrix * (1 - error), law.matrix * (1 + error), np.array(stated.nats).reshape(n, n)
    refused = PlanRejectedError(
        "E0801", "leakage passed on between states is not shown", where=f"claims.inherited, {where}"
    )
    with np.errstate(over="ignore", invalid="ignore"):
        begun, apart = np.exp([first, max(float(nats.max()) + inside, first)]) * (1 + error + 800 * UNIT)  # of the sum
        left = (np.exp(nats)[:, :, None] * least - most[:, None])[~np.eye(n, dtype=np.bool_)]
        for steps in range(1, 20_001):
            paid, owed = np.maximum(left, 0.0), np.maximum(-left, 0.0)
            has, needs = paid.sum(axis=1) * (1 - error), owed.sum(axis=1) * (1 + error)
            if side.settled or not (has >= needs * begun).all():
                raise refused
            more = ~(has >= needs * apart)
            if steps == earlier or not more.any():
                return nats
            left = paid[more] @ least - np.exp(inside) * (owed[more] @ most) - 1e-280  # more than underflows
    raise refused
