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


def inherited_by_pairs(stated: PairBounds, budgets: Floats, side: Side, where: str, earlier: int | None) -> Floats:
    """What steps inherit from one side, nats, (m, n, n), of at most `earlier` steps; E0801 where that is not shown."""
    law, until = side.law(1, 1), [0, *(stated.until or [earlier])]
    n, inside = len(law.matrix), float((budgets if earlier is None else budgets[1:-1]).max(initial=0.0))
    first, error = max(inside, float(budgets[0])), law.relative_error + (n + 24) * UNIT  # entries, exp, sums of n
    least, most = law.matrix * (1 - error), law.matrix * (1 + error)
    said, rising = "leakage passed on between states is not shown", sorted(set(stated.until)) == [*stated.until]
    refused = PlanRejectedError("E0801", said, where=f"claims.inherited, {where}")
    if side.settled or not rising or until[-1] != earlier or len(stated.nats) != n * n * len(until[1:]):
        raise refused
    nats = np.array(stated.nats).reshape(-1, n, n)
    with np.errstate(over="ignore", invalid="ignore"):
        begun, apart = np.exp([first, max(float(nats.max()) + inside, first)]) * (1 + error + 800 * UNIT)  # of the sum
        for bound, fewer, last in zip(nats, until, until[1:], strict=False):
            left = (np.exp(bound)[:, :, None] * least - most[:, None])[~np.eye(n, dtype=np.bool_)]
            for steps in range(1, 20_001):
                paid, owed = np.maximum(left, 0.0), np.maximum(-left, 0.0)
                has, needs = paid.sum(axis=1) * (1 - error), owed.sum(axis=1) * (1 + error)
                more = ~(has >= needs * apart)
                if steps > fewer and not (has >= needs * begun).all():
                    raise refused
                if steps == last or not more.any():
                    break
                left = paid[more] @ least - np.exp(inside) * (owed[more] @ most) - 1e-280  # more than underflows
            else:
                raise refused
    return nats
