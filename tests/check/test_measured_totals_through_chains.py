"""Of totals that are measured: the recursion of leakage holds where a step is in several of them.

Let the likelihood of all that is published change by a factor of at most exp(c[t]) when one user's state at step t
alone changes. Given the states after it, a step inherits at most L(c[t - 1] + what that one inherits) from before,
whatever the likelihood is a product of: by induction over t, as for steps that are released by themselves.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

STEPS = 4
TOTALS = [
    (0, 1),
    (1, 2),
    (2, 3),
    (3, 4),
    (0, 2),
    (2, 4),
    (0, 4),
]  # of a binary tree, each from a step to before another


def passed(law, leakage):
    """The loss function of a law by its definition, over all pairs of rows and sets of columns."""
    chosen = np.array(list(product([0, 1], repeat=len(law))))
    sums = chosen @ law.T * np.expm1(leakage) + 1
    return float(np.log(sums[:, :, None] / sums[:, None]).max())


@pytest.mark.parametrize("states", [2, 3])
def test_totals_tell_no_more_of_a_step_than_the_recursion_of_all_they_tell_of_it(states):
    """All courses of one user, all kinds of outputs; and between two states nearly all of it is told."""
    drawn = np.random.default_rng(states)
    nearest = 0.0
    for _ in range(8):
        forward = drawn.dirichlet(np.full(states, 0.5), states)
        laws = [drawn.dirichlet(np.ones(states))]
        for _ in range(STEPS - 1):
            laws.append(laws[-1] @ forward)
        scales = drawn.uniform(1, 8, len(TOTALS))
        cost = [sum(1 / b for (i, j), b in zip(TOTALS, scales, strict=True) if i <= t < j) for t in range(STEPS)]
        before, after = [0.0] * STEPS, [0.0] * STEPS
        for t in range(1, STEPS):
            backward = (forward * laws[t - 1][:, None]).T / laws[t][:, None]
            before[t] = passed(backward, cost[t - 1] + before[t - 1])
        for t in range(STEPS - 2, -1, -1):
            after[t] = passed(forward, cost[t + 1] + after[t + 1])
        courses = np.array(list(product(range(states), repeat=STEPS)))
        likely = laws[0][courses[:, 0]] * np.prod(
            [forward[courses[:, t], courses[:, u]] for t, u in pairwise(range(4))], 0
        )
        totals = np.array([(courses[:, i:j] == 0).sum(axis=1) for i, j in TOTALS])
        values = product(*(sorted({0, (j - i) // 2, j - i}) for i, j in TOTALS))
        seen = np.exp([-(np.abs(totals - np.array(row)[:, None]) / scales[:, None]).sum(axis=0) for row in values])
        for t in range(STEPS):
            own = [(seen * likely * (courses[:, t] == state)).sum(axis=1) / laws[t][state] for state in range(states)]
            told = float(np.log(np.max(own, axis=0) / np.min(own, axis=0)).max())
            bound = before[t] + cost[t] + after[t]
            assert told <= bound * (1 + 1e-12)
            nearest = max(nearest, told / bound)
    assert nearest > 0.95
