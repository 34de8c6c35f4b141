"""Chains of many states, between which few moves are made: estimates are those of products with all moves."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import count_process, gains
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.estimation.safeguard import candidates, evidence


def row_of(states: int) -> CountProcess:
    """Users who stay or move to the next of a row."""
    walk = 0.6 * np.eye(states) + 0.25 * np.eye(states, k=1) + 0.15 * np.eye(states, k=-1)
    return CountProcess.of(720.0, Chain(forward=walk / walk.sum(axis=1, keepdims=True)))


def test_what_is_moved_on_is_the_product_with_all_moves() -> None:
    """Of the chain and every candidate for it, smoothed ones among them, whose other moves are alike in each row."""
    found = np.random.default_rng(3).random((120, 120))
    for process in candidates(row_of(120)):
        assert process._few_moves is not None
        assert np.allclose(process.moved(found), process.move.T @ found, rtol=1e-13, atol=0)


@pytest.mark.parametrize("delay", [None, 0, 2])
def test_estimates_are_those_of_all_moves(delay: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Likelihoods of candidates, means and variances on both sides of the limit."""
    noisy, scales = np.random.default_rng(4).normal(20.0, 6.0, (9, 36)), np.full(9, 4.0)
    found = []
    for many in (36, 37):
        for module in (count_process, gains):
            monkeypatch.setattr(module, "MANY", many)
        monkeypatch.setattr(count_process, "FEW_MOVES", 0.1)
        process = row_of(36)
        assert (process._few_moves is not None) == (many == 36)
        estimate = Posterior(process, scales, delay)
        logs = evidence([process, process.smoothed(0.1), process.dispersed(4.0)], noisy, scales)
        found.append((logs, estimate.means(noisy), estimate.variances()))
    for few, all_moves in zip(*found, strict=True):
        assert np.allclose(few, all_moves, rtol=1e-9, atol=0)
        assert not np.array_equal(few, all_moves)  # two ways were taken


def test_the_law_of_a_smoothed_chain_stays_the_same() -> None:
    """It is solved for, and is that of the check's elimination."""
    rows = np.random.default_rng(7).random((6, 6)) ** 4
    process = CountProcess.of(50.0, Chain(forward=rows / rows.sum(axis=1, keepdims=True)))
    for one in candidates(process)[1:8]:
        assert one.chain is not None
        law = one.chain.marginal(0)
        assert np.allclose(law @ one.move, law, rtol=1e-14, atol=0)
        assert np.allclose(law, Chain(forward=one.move).marginal(0), rtol=1e-13, atol=0)
