"""Products of many steps: each is that of its own matrix, and rows of 0, of steps without a release, cost nothing."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_runtime.estimation import recursions
from policyc_runtime.estimation.recursions import FEW_STATES, STRETCH, apply_each, recur, recur_back


@pytest.mark.parametrize("zeros", [0.0, 0.3, 0.9, 1.0])
def test_each_row_is_multiplied_by_its_matrix(zeros: float) -> None:
    """Also where a row is 0 for a part only."""
    generator = np.random.default_rng(3)
    matrices, index = [*generator.normal(size=(4, 5, 3))], generator.integers(0, 4, 60)
    rows = generator.normal(size=(60, 3))
    rows[generator.random(60) < zeros] = 0.0
    rows[7, :2] = 0.0
    found = apply_each(index, matrices, rows)
    assert np.allclose(found, [matrices[kind] @ row for kind, row in zip(index, rows, strict=True)], rtol=1e-13, atol=0)
    assert (found[~rows.any(axis=1)] == 0).all()
    alone = np.concatenate([apply_each(index[[t]], matrices, rows[[t]]) for t in range(60)])
    assert np.array_equal(found, alone)  # to the bit: a value does not hang on which steps are looked at with it


@pytest.mark.parametrize("size", [1, 3, FEW_STATES, FEW_STATES + 1])
@pytest.mark.parametrize("lasting", [1, 2, STRETCH - 1, STRETCH, STRETCH + 1, 3 * STRETCH, 10 * STRETCH])
def test_a_recursion_is_that_of_its_steps(size: int, lasting: int) -> None:
    """As one after the other, wherever the matrix changes; taken in pieces, or ending sooner, it is so to the bit."""
    generator = np.random.default_rng(size)
    matrices, steps = [*generator.normal(size=(5, size, size)) / (1.5 * size)], 10 * STRETCH + 7
    index = np.repeat(generator.integers(0, 5, steps), lasting)[:steps]
    inputs, start = generator.normal(size=(steps, size)), generator.normal(size=size)
    states, last = recur(index, matrices, inputs, start)
    now = start
    for t in range(steps):
        assert states[t] == pytest.approx(now, rel=1e-12, abs=1e-13)
        now = matrices[index[t]] @ now + inputs[t]
    assert last == pytest.approx(now, rel=1e-12, abs=1e-13)
    for end in (1, 2, STRETCH - 1, STRETCH, STRETCH + 1, 5 * STRETCH, steps - 1):
        sooner, after = recur(index[:end], matrices, inputs[:end], start)
        assert np.array_equal(sooner, states[:end])
        assert np.array_equal(after, states[end])
    back, before = recur_back(index, matrices, inputs, start)
    assert np.array_equal(back, recur(index[::-1], matrices, inputs[::-1], start)[0][::-1])
    assert before == pytest.approx(matrices[index[0]] @ back[0] + inputs[0], rel=1e-12, abs=1e-13)


def test_a_long_recursion_goes_on_from_piece_to_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a long stream begin where the last one ended."""
    generator = np.random.default_rng(2)
    matrices, index = [0.9 * np.eye(2), 0.5 * np.eye(2)], np.repeat([0, 1, 0], [300, 200, 500])
    inputs = generator.normal(size=(1000, 2))
    whole, last = recur(index, matrices, inputs, np.ones(2))
    monkeypatch.setattr(recursions, "PIECE", 2 * STRETCH)
    found, end = recur(index, matrices, inputs, np.ones(2))
    assert found == pytest.approx(whole, rel=1e-12, abs=1e-13)
    assert end == pytest.approx(last, rel=1e-12, abs=1e-13)
