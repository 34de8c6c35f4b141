"""What steps inherit, accounted for every ordered pair of states, through all steps before: no more than is reached.

A plan states numbers B[i, j]. Let v >= 0 be how likely all outputs before a step are, given its state. Its own outputs
make of it u, v with entries multiplied by at least 1 and at most e^budget, up to a common factor. Given the state i one
step later all these are M_i u likely, M the law of the state before. So what must be shown is left u >= 0 for
left = e^(B[i, j]) M_j - M_i. Whatever v is, those factors are worst that are e^budget where left is below 0, and 1
elsewhere: left u >= (left worst) v, and v = M u' with u' of a step earlier. What is left is carried on, rounded down,
to the first step, whose v is 1; or until it is below 0 for no u whose entries differ by no more than the largest B and
budget allow, as by induction they do. From after it is the same with time reversed. Given the state of a step, what
lies before and after it is independent: for each pair both sides add up.
"""

from __future__ import annotations

import numpy as np

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import PairBounds
from policyc_check.rounding import UNIT
from policyc_check.steps.budgets import Floats
from policyc_check.steps.chains import Side

LONGEST = 20_000  # steps that are followed
_VANISHING = 1e-280  # more than all that underflows


def inherited_by_pairs(stated: PairBounds, budgets: Floats, side: Side, where: str, earlier: int | None) -> Floats:
    """What every step inherits at most from one side, nats, (n, n); PlanRejectedError E0801 where that is not shown.

    Budgets, (T,), in the order of the recursion; `earlier` steps are before the last. Source: CAO17, for pairs.
    """
    law = side.law(1, 1)
    n, inside = len(law.matrix), float((budgets if earlier is None else budgets[1:-1]).max(initial=0.0))
    first = inside if earlier is None else max(inside, float(budgets[0]))
    error = law.relative_error + (n + 24) * UNIT  # of an entry, of exp, which is off by 4 units, and of sums of n
    least, most, nats = law.matrix * (1 - error), law.matrix * (1 + error), np.array(stated.nats).reshape(n, n)
    detail = "leakage passed on between pairs of states is not shown to be as little as said"
    refused = PlanRejectedError("E0801", detail, where=f"claims.inherited, {where}")
    with np.errstate(over="ignore", invalid="ignore"):
        begun, apart = np.exp([first, max(float(nats.max()) + inside, first)]) * (1 + error)
        left = (np.exp(nats)[:, :, None] * least - most[:, None])[~np.eye(n, dtype=np.bool_)]
        for steps in range(1, LONGEST + 1):
            paid, owed = np.maximum(left, 0.0), np.maximum(-left, 0.0)
            has, needs = paid.sum(axis=1) * (1 - error), owed.sum(axis=1) * (1 + error)
            if side.settled or not (has >= needs * begun).all():
                raise refused
            more = ~(has >= needs * apart)
            if steps == earlier or not more.any():
                return nats
            left = paid[more] @ least - np.exp(inside) * (owed[more] @ most) - _VANISHING
    raise refused
