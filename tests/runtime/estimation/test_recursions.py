"""Products of many steps: each is that of its own matrix, and rows of 0, of steps without a release, cost nothing."""

from __future__ import annotations

import numpy as np
import pytest

from policyc_runtime.estimation.recursions import apply_each


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
