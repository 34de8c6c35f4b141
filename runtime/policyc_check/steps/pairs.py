"""What steps inherit, accounted for every ordered pair of states: tighter where rows that leak most are far apart.

A plan states numbers B[i, j] and weights. Let v be how likely all outputs up to a step are, given its state, with
v_k <= e^(A[k, m]) v_m for all k and m. Given the state i one step later it is M_i v, M the law of the state before. If

    e^(B[i, j]) M_j - M_i = sum of weights[k, m] (e^(A[k, m]) e_m - e_k) + a vector without negative entries,

all weights at least 0, then M_i v <= e^(B[i, j]) M_j v: weak duality. With A = B + the largest budget between the
ends, and at least the first one, this holds at every step by induction. From after it is the same with time reversed.
Given the state of a step, what lies before and after it is independent: for each pair both sides add up.
"""

from __future__ import annotations

import numpy as np

from policyc_check.errors import PlanRejectedError
from policyc_check.plan.claims import PairBounds
from policyc_check.rounding import UNIT
from policyc_check.steps.budgets import Floats, all_up
from policyc_check.steps.chains import Side


def inherited_by_pairs(stated: PairBounds, budgets: Floats, side: Side, where: str, *, endless: bool) -> Floats:
    """What every step inherits at most from one side, nats, (n, n); PlanRejectedError E0801 where that is not shown.

    Budgets, (T,), are in the order of the recursion. Source: CAO17's induction, for pairs.
    """
    law = side.law(1, 1)
    n, later = len(law.matrix), budgets if endless else budgets[1:-1]
    nats, weights = np.array(stated.nats).reshape(n, n), np.array(stated.weights)
    leaked = np.maximum(all_up(nats, later.max(initial=0.0)), 0.0 if endless else budgets[0])
    i, j, k, m = np.unravel_index(np.array(stated.places, dtype=np.int64), (n,) * 4)
    with np.errstate(over="ignore", invalid="ignore"):
        paid = np.exp(nats)[:, :, None] * law.matrix[None]
        owed = np.repeat(law.matrix[:, None], n, axis=1)
        np.add.at(paid, (i, j, k), weights)
        np.add.at(owed, (i, j, m), weights * np.exp(leaked[k, m]))
        error = law.relative_error + (n + 16) * UNIT  # of an entry; of at most n + 2 sums of what exp is off by 4 units
        shown = (paid * (1 - error) >= owed * (1 + error)).all(axis=2) | np.eye(n, dtype=np.bool_)
    if side.settled or not (shown.all() and (np.diff(stated.places) > 0).all()):
        detail = "leakage passed on between pairs of states is not shown to be as little as said"
        raise PlanRejectedError("E0801", detail, where=f"claims.inherited, {where}")
    return nats
