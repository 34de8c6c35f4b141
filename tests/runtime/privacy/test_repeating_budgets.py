"""Long streams whose budgets repeat: leakage is filled in where it has begun to repeat, and is the same to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from policyc.planning.leakage import repeats
from policyc.planning.leakage.inheritance import audited_total_leakage
from policyc.planning.leakage.recursion import total_leakage
from policyc_check.steps.chains import Chain


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lags", [(1,), (1, 2), (1, 3, 7)])
def test_filled_leakage_is_that_of_every_single_step(
    seed: int, lags: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating patterns with head and tail leak exactly what the recursion gives step by step, audited or not."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 6))
    forward = rng.dirichlet(np.full(cells, 0.5), size=cells)
    initial = "stationary" if seed % 3 else rng.dirichlet(np.ones(cells))
    chain = Chain(forward=0.9 * forward + 0.1 / cells, initial=initial)
    pattern = rng.uniform(0.0, 0.4, int(rng.integers(1, 9)))
    pattern[1:] *= rng.random(len(pattern) - 1) < 0.5
    budgets = [rng.uniform(0, 0.5, 9), np.tile(pattern, 150), np.full(200, 0.2), np.zeros(100), rng.uniform(0, 0.5, 5)]
    epsilons = np.concatenate(budgets)

    def both() -> tuple[np.ndarray, np.ndarray]:
        plain = total_leakage(epsilons, chain.backward_side(), chain.forward_side(), lags)
        return plain, audited_total_leakage(epsilons, chain, lags)

    found = both()
    monkeypatch.setattr(repeats, "SHORTEST_STRETCH", 10**9)
    for filled, literal in zip(found, both(), strict=True):
        assert (filled == literal).all()


def test_leakage_is_not_filled_in_while_the_chain_still_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets and leakage repeat for long, then the chain gets stronger: later steps leak more, and are told so."""
    weak, strong = np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([[0.95, 0.05], [0.05, 0.95]])
    moves = np.array([weak] * 400 + [strong] * 199)
    epsilons = np.full(600, 0.1)
    found = total_leakage(epsilons, moves, moves)
    assert found[500] > 1.5 * found[200]
    monkeypatch.setattr(repeats, "SHORTEST_STRETCH", 10**9)
    assert (found == total_leakage(epsilons, moves, moves)).all()
