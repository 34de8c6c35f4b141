"""Errors that are predicted for each cell by itself are near those of whole covariances, as certificates say."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import kalman
from policyc_runtime.estimation.cell_by_cell import variances_by_cell
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.kalman import Filter, Smoother
from policyc_runtime.estimation.posterior import Posterior

SCALES = {"every step": np.full(24, 5.0), "every third": np.where(np.arange(24) % 3 == 0, 3.0, 0.0)}


def chain_of(kind: str, states: int = 36) -> Chain:
    """Users who go anywhere, who mostly stay, or who move to the next of a row."""
    if kind == "row":
        walk = 0.6 * np.eye(states) + 0.25 * np.eye(states, k=1) + 0.15 * np.eye(states, k=-1)
        return Chain(forward=walk / walk.sum(axis=1, keepdims=True))
    rows = np.random.default_rng(5).random((states, states)) + 0.2
    rows /= rows.sum(axis=1, keepdims=True)
    return Chain(forward=0.9 * np.eye(states) + 0.1 * rows if kind == "lazy" else rows)


@pytest.mark.parametrize("delay", [None, 0, 2])
@pytest.mark.parametrize("noise", SCALES)
@pytest.mark.parametrize(("kind", "near"), [("dense", 0.03), ("lazy", 0.03), ("row", 0.2)])
def test_errors_are_near_those_of_whole_covariances(kind: str, near: float, noise: str, delay: int | None) -> None:
    """Mean squared errors of 36 cells; most is left out where all users drift to the same cells."""
    process = CountProcess.of(720.0, chain_of(kind))
    whole = Posterior(process, SCALES[noise], delay).variances()
    alone = variances_by_cell(process, SCALES[noise], delay)
    assert alone.shape == whole.shape
    assert abs(alone.mean() / whole.mean() - 1) < near


@pytest.mark.parametrize("estimator", [Filter(), Smoother()])
def test_many_states_are_predicted_cell_by_cell(estimator: Filter | Smoother, monkeypatch: pytest.MonkeyPatch) -> None:
    """On each side of the limit."""
    chain, delay = chain_of("lazy", 12), 0 if isinstance(estimator, Filter) else None
    process = CountProcess.of(240.0, chain)
    for most, expected in (
        (12, Posterior(process, SCALES["every step"], delay).variances()),
        (11, variances_by_cell(process, SCALES["every step"], delay)),
    ):
        monkeypatch.setattr(kalman, "MOST_TOGETHER", most)
        found = estimator.predicted_errors(
            chain, 240, SCALES["every step"], delay, "mean_squared_error", integer=False, balanced=False
        )
        assert found is not None
        assert np.allclose(found, expected.mean(axis=1), rtol=1e-12, atol=0)
