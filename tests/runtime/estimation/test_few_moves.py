"""Chains of many states, between which few moves are made: estimates are those of products with all moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from policyc_check.steps.chains import Chain
from policyc_runtime.estimation import count_process, covariance, posterior, safeguard
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.gains import Forward
from policyc_runtime.estimation.interned import Interned
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.estimation.safeguard import candidates, evidence


def row_of(states: int, *, stationary: bool = True) -> CountProcess:
    """Users who stay or move to the next of a row; where they do not begin as they go on, half of them in one place."""
    walk = 0.6 * np.eye(states) + 0.25 * np.eye(states, k=1) + 0.15 * np.eye(states, k=-1)
    initial = None if stationary else np.where(np.arange(states) == 3, 0.5, 0.5 / (states - 1))
    return CountProcess.of(720.0, Chain(forward=walk / walk.sum(axis=1, keepdims=True), initial=initial))


def test_what_is_moved_on_is_the_product_with_all_moves() -> None:
    """Of the chain and every candidate for it, smoothed ones among them, whose other moves are alike in each row."""
    found = np.random.default_rng(3).random((120, 120))
    for process in candidates(row_of(120)):
        assert process._few_moves is not None
        assert np.allclose(process.moved(found), process.move.T @ found, rtol=1e-13, atol=0)
        assert np.allclose(process.moved_back(found), process.move @ found, rtol=1e-13, atol=0)


@pytest.mark.parametrize("delay", [None, 0, 2])
@pytest.mark.parametrize("gaps", [(), (1,), (0, 1, 2, 5, 6, 7, 8, 11)])
@pytest.mark.parametrize("stationary", [True, False])
def test_estimates_are_those_of_all_moves(
    delay: int | None, gaps: Sequence[int], stationary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likelihoods of candidates, means and variances on both sides of the limit, with and without steps in between."""
    noisy, scales = np.random.default_rng(4).normal(20.0, 6.0, (12, 36)), np.full(12, 4.0)
    scales[list(gaps)] = 0.0
    found = []
    for many in (36, 37):
        for module in (count_process, covariance, posterior, safeguard):
            monkeypatch.setattr(module, "MANY", many)
        monkeypatch.setattr(count_process, "FEW_MOVES", 0.1)
        process = row_of(36, stationary=stationary)
        assert (process._few_moves is not None) == (many == 36)
        estimate = Posterior(process, scales, delay)
        logs = evidence([process, process.smoothed(0.1), process.dispersed(4.0)], noisy, scales)
        found.append((logs, estimate.means(noisy), estimate.variances()))
    for few, all_moves in zip(*found, strict=True):
        assert np.allclose(few, all_moves, rtol=1e-9, atol=0)
        assert not np.array_equal(few, all_moves)  # two ways were taken


def test_what_is_foretold_after_a_gap_is_what_every_step_of_it_makes() -> None:
    """The covariance before every release, of gaps that come again, that settle, and of a start that has not."""
    labels = np.array([0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, *[1] * 400, 0, 1, 0])
    precisions = np.array([np.full(36, 0.1), np.zeros(36)])
    for stationary in (True, False):
        process = row_of(36, stationary=stationary)
        kept, passed = (Forward(process, labels, precisions, gaps_at_once=at_once) for at_once in (False, True))
        for t in np.flatnonzero(labels == 0):
            one, other = kept.before[kept.index[t]], passed.before[passed.index[t]]
            assert np.allclose(
                one, other, rtol=0, atol=1e-7 * one.max()
            )  # step by step, drifts of 1e-9 are not followed
        assert np.allclose(kept.before[kept.index[1]], passed.before[passed.index[1]], rtol=1e-12, atol=0)
        assert len(passed.after) < (12 if stationary else 20)  # one entry a gap
        assert all(not precision.any() for precision in np.array(passed.precision)[passed.index[labels == 1]])


def test_the_law_of_a_smoothed_chain_stays_the_same() -> None:
    """It is solved for, and is that of the check's elimination."""
    rows = np.random.default_rng(7).random((6, 6)) ** 4
    process = CountProcess.of(50.0, Chain(forward=rows / rows.sum(axis=1, keepdims=True)))
    for one in candidates(process)[1:8]:
        assert one.chain is not None
        law = one.chain.marginal(0)
        assert np.allclose(law @ one.move, law, rtol=1e-14, atol=0)
        assert np.allclose(law, Chain(forward=one.move).marginal(0), rtol=1e-13, atol=0)


def test_users_are_drawn_among_the_moves_that_they_make() -> None:
    """Whole numbers that add up, at neighbours alone, with the means and variances of the law."""
    process, generator = row_of(120), np.random.default_rng(8)
    counts = process.drawn(3, 4_000, generator)
    assert counts.dtype == np.int64
    assert (counts.sum(axis=2) == 720).all()
    law = process.expected(3)[2] / 720
    assert np.abs(counts[2].mean(axis=0) - 720 * law).max() < 5 * np.sqrt(720 * law / 4_000).max()
    assert counts[2].var(axis=0) == pytest.approx(720 * law * (1 - law), rel=0.15, abs=0.01)
    chain = Chain(forward=process.move, initial=np.eye(120)[60])  # all begin in one place of the row
    begun = CountProcess.of(720.0, chain).drawn(2, 4_000, generator)
    assert set(np.flatnonzero(begun[1].any(axis=0)).tolist()) == {59, 60, 61}
    moves = begun[1][:, 59:62].mean(axis=0) / 720
    assert moves == pytest.approx(process.move[60, 59:62], abs=5e-4)


def test_large_covariances_with_one_diagonal_are_told_apart() -> None:
    """What is the same within rounding has one number, of few and of many states."""
    for states in (4, 40):
        known, one = Interned(), 1.5 * np.eye(states)
        other = one.copy()
        other[0, 1] = other[1, 0] = 1e-6
        numbers = [known.number(array) for array in (one, other, one * (1 + 1e-13), other.copy(), 2 * one)]
        assert numbers == [0, 1, 0, 1, 2]
