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
@pytest.mark.parametrize("longest", [8, 130])
def test_filled_leakage_is_that_of_every_single_step(
    seed: int, lags: tuple[int, ...], longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeating patterns with head and tail leak exactly what the recursion gives step by step, audited or not."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 6))
    forward = rng.dirichlet(np.full(cells, 0.5), size=cells)
    initial = "stationary" if seed % 3 else rng.dirichlet(np.ones(cells))
    chain = Chain(forward=0.9 * forward + 0.1 / cells, initial=initial)
    pattern = rng.uniform(0.0, 0.4, int(rng.integers(1 if longest == 8 else 65, longest + 1)))
    pattern[1:] *= rng.random(len(pattern) - 1) < 0.5
    budgets = [
        rng.uniform(0, 0.5, 9),
        np.tile(pattern, 1200 // longest),
        np.full(200, 0.2),
        np.zeros(100),
        rng.uniform(0, 0.5, 5),
    ]
    epsilons = np.concatenate(budgets)

    def both() -> tuple[np.ndarray, np.ndarray]:
        plain = total_leakage(epsilons, chain.backward_side(), chain.forward_side(), lags)
        return plain, audited_total_leakage(epsilons, chain, lags)

    found = both()
    monkeypatch.setattr(repeats, "SHORTEST_STRETCH", 10**9)
    for filled, literal in zip(found, both(), strict=True):
        assert (filled == literal).all()


@pytest.mark.parametrize("period", [1, 2, 5, 63, 64, 65, 97, 1440])
@pytest.mark.parametrize("kind", ["seldom", "any", "twice", "with lags"])
def test_what_repeats_is_found(period: int, kind: str) -> None:
    """With a release a period, other values, a largest one that comes twice, and numbers beside their lags."""
    rng, times = np.random.default_rng(period), 80 if period <= 64 else 20
    pattern = np.zeros(period) if kind == "seldom" else rng.random(period)
    pattern[0] = 2.0
    if kind == "twice":
        pattern[period // 3] = 2.0
    values = np.concatenate([[0.7, 0.3, 3.0], np.tile(pattern, times), [0.1], np.full(500, 0.4), rng.random(70)])
    if kind == "with lags":
        values = values + 1j
    found = [(size, rounds) for size, rounds in repeats.patterns(values) if rounds > 1]
    assert sum(size * rounds for size, rounds in repeats.patterns(values)) == len(values)
    assert (1, rounds := found[-1][1]) == found[-1]
    assert rounds >= 498
    assert max(rounds for size, rounds in found if size == period) >= times - 2
    begin = 0
    for size, rounds in repeats.patterns(values):
        part = values[begin : begin + size * rounds]
        assert np.array_equal(part, np.tile(part[:size], rounds))
        begin += size * rounds


def test_leakage_is_not_filled_in_while_the_chain_still_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets and leakage repeat for long, then the chain gets stronger: later steps leak more, and are told so."""
    weak, strong = np.array([[0.6, 0.4], [0.4, 0.6]]), np.array([[0.95, 0.05], [0.05, 0.95]])
    moves = np.array([weak] * 400 + [strong] * 199)
    epsilons = np.full(600, 0.1)
    found = total_leakage(epsilons, moves, moves)
    assert found[500] > 1.5 * found[200]
    monkeypatch.setattr(repeats, "SHORTEST_STRETCH", 10**9)
    assert (found == total_leakage(epsilons, moves, moves)).all()
