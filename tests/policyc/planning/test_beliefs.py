"""What estimators believe after every first release: all corners at once as one by one, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from policyc.planning.beliefs import MANY, Beliefs
from policyc.planning.leakage.inheritance import audited_total_leakage
from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import every_estimator
from policyc_runtime.estimation.count_process import Mixture

CELLS, STEPS = 7, (0, 1, 2, 3, 5, 9, 40, 300)


def chain(seed: int) -> Chain:
    rows = np.random.default_rng(seed).random((CELLS, CELLS)) + 5 * np.eye(CELLS)
    return Chain(forward=rows / rows.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("moving", [None, chain(1), Mixture([chain(1), chain(2)], [0.25, 0.75])])
def test_laws_of_all_corners(moving) -> None:
    """Each row is what the estimator says after a first release of that corner alone."""
    beliefs, corners = Beliefs(moving, CELLS), MANY * np.eye(CELLS)
    for estimator in every_estimator():
        if moving is None and estimator.described() == "map(prior = initial)":
            continue
        for step in STEPS:
            laws = [estimator.law(moving, range(step, step + 1), CELLS, corner) for corner in corners]
            plain = np.array([law[0] for law in laws if law is not None])
            found = beliefs.laws(estimator, step)
            assert len(found) in ((0,) if not len(plain) else (1, CELLS))
            assert not len(plain) or np.abs(found - plain).max() < 1e-9
            assert len(found) != 1 or np.ptp(plain, axis=0).max() == 0


def test_what_leaks_too_much_is_not_shown() -> None:
    """Where the sums of proposed numbers exceed what was promised, they are returned; else the audited ones."""
    budgets, moving = np.full(50, 0.1), chain(1)
    audited = audited_total_leakage(budgets, moving)
    assert audited_total_leakage(budgets, moving, most=float(audited.max())).tolist() == audited.tolist()
    assert audited_total_leakage(budgets, moving, most=float(audited.max()) * (1 - 1e-9)).max() >= audited.max()
