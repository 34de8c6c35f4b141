"""What steps inherit, for every ordered pair of states, through all steps before: no more than is reached (from CAO17).

Let v >= 0 be how likely all outputs before a step are, given its state; its own multiply entries by 1 to e^budget: u.
Of the states i and j one step later left u >= 0 is to be shown, left = e^(B[i, j]) M_j - M_i, M the law of the state
before. Whatever v is, e^budget is worst where left is below 0, and 1 elsewhere: left u >= (left worst) v, v = M u' of a
step earlier. That is carried on, rounded down, to the first step, whose v is 1; or until no u is below 0 that the
largest B and budget allow: induction. The same with time reversed; given a step's state, both sides are independent.
Where steps with more others before them have a larger B, each is shown of its own steps; every u keeps to the largest.
"""

from __future__ import annotations

import numpy as np

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import PairBounds
from policyc_check.rounding import UNIT, Floats
from policyc_check.steps.chains import Side


def inherited_by_pairs(stated: PairBounds, budgets: Floats, side: Side, where: str, earlier: float) -> Floats:
    """What steps inherit from one side, nats, (m, n, n), of at most `earlier` steps; E0801 where that is not shown."""
    law, until = side.law(1, 1), np.array([0, *(stated.until or [earlier])])
    n, inside = len(law.matrix), float((budgets if earlier == np.inf else budgets[1:-1]).max(initial=0.0))
    first, error = max(inside, float(budgets[0])), law.relative_error + (n + 24) * UNIT  # entries, exp, sums of n
    least, most, nats = law.matrix * (1 - error), law.matrix * (1 + error), np.array(stated.nats).reshape(-1, n, n)
    said = "leakage passed on between states is not shown"
    refused = PlanRejectedError("E0801", said, where=f"claims.inherited, {where}")
    if side.settled or len(nats) != len(until) - 1 or until[-1] != earlier or (np.diff(stated.until) <= 0).any():
        raise refused
    with np.errstate(over="ignore", invalid="ignore"):
        begun, apart = np.exp([first, max(float(nats.max()) + inside, first)]) * (1 + error + 800 * UNIT)  # of the sum
        left = (np.exp(nats)[..., None] * least - most[:, None])[:, ~np.eye(n, dtype=np.bool_)].reshape(-1, n)
        fewer, last = (np.repeat(ends, n * (n - 1)) for ends in (until[:-1], until[1:]))  # of every pair's steps
        for steps in range(1, 20_001):
            paid, owed = np.maximum(left, 0.0), np.maximum(-left, 0.0)
            has, needs = paid.sum(axis=1) * (1 - error), owed.sum(axis=1) * (1 + error)
            if not ((has >= needs * begun) | (steps <= fewer)).all():
                raise refused
            more = ~(has >= needs * apart) & (steps < last)
            if not more.any():
                return nats
            left = paid[more] @ least - np.exp(inside) * (owed[more] @ most) - 1e-280  # more than underflows
            fewer, last = fewer[more], last[more]
    raise refused
