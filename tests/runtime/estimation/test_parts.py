"""Totals divided among their parts: against every choice of which parts are at bounds, and every whole vector."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from policyc_runtime.estimation.parts import added_up, nearest_parts, whole_parts


def drawn(seed):
    """Three totals of one to four parts in any order, with bounds that some parts have."""
    generator = np.random.default_rng(seed)
    own = generator.permutation(np.repeat(np.arange(3), generator.integers(1, 5, 3)))
    size = len(own)
    lower = np.where(generator.random(size) < 0.6, generator.integers(-3, 3, size), -np.inf)
    upper = np.where(generator.random(size) < 0.4, np.where(np.isfinite(lower), lower, 0) + 5, np.inf)
    spreads = generator.uniform(0.2, 4, (2, size))
    values = generator.normal(0, 4, (2, size))
    inside = np.clip(generator.integers(-6, 9, (2, size)), lower, upper)
    return added_up(inside, own), values, spreads, own, lower, upper


def least(total, values, spreads, lower, upper):
    """The nearest parts of one total: the best of all choices of which are at which bound."""
    best, cost = None, np.inf
    for choice in product((0, 1, 2), repeat=len(values)):
        fixed = np.array([{0: low, 1: np.nan, 2: high}[at] for at, low, high in zip(choice, lower, upper, strict=True)])
        free = np.isnan(fixed)
        if np.isinf(fixed).any():
            continue
        missing = total - fixed[~free].sum() - values[free].sum()
        if free.any():
            fixed[free] = values[free] + spreads[free] * missing / spreads[free].sum()
        if abs(fixed.sum() - total) > 1e-9 or (fixed < lower - 1e-9).any() or (fixed > upper + 1e-9).any():
            continue
        found = ((fixed - values) ** 2 / spreads).sum()
        if found < cost - 1e-12:
            best, cost = fixed, found
    return best


@pytest.mark.parametrize("seed", range(30))
def test_parts_are_the_nearest(seed):
    """Of every total: those of the best choice of parts at bounds; a step alone has the same bits."""
    totals, values, spreads, own, lower, upper = drawn(seed)
    found = nearest_parts(totals, values, spreads, own, lower, upper)
    for row in range(2):
        for total in range(3):
            mine = own == total
            best = least(totals[row, total], values[row, mine], spreads[row, mine], lower[mine], upper[mine])
            assert found[row, mine] == pytest.approx(best, abs=1e-9)
    alone = nearest_parts(totals[1:], values[1:], spreads[1:], own, lower, upper)
    assert np.array_equal(alone[0], found[1])
    assert (found >= lower).all()
    assert (found <= upper).all()


@pytest.mark.parametrize("seed", range(30))
def test_whole_parts_are_the_nearest(seed):
    """Of every total: as near as the best of all whole vectors beside the values."""
    totals, values, spreads, own, lower, upper = drawn(seed)
    values = nearest_parts(totals, values, spreads, own, lower, upper)
    found = whole_parts(totals, values, own, lower, upper)
    assert np.array_equal(added_up(found, own), totals)
    assert ((found >= lower) & (found <= upper) & (found == np.rint(found))).all()
    for row in range(2):
        for total in range(3):
            mine = own == total
            near = [np.floor(value) + np.arange(-1, 3) for value in values[row, mine]]
            vectors = np.array(list(product(*near)))
            kept = vectors.sum(axis=1) == totals[row, total]
            kept &= ((vectors >= lower[mine]) & (vectors <= upper[mine])).all(axis=1)
            best = ((vectors[kept] - values[row, mine]) ** 2).sum(axis=1).min()
            assert ((found[row, mine] - values[row, mine]) ** 2).sum() == pytest.approx(best, abs=1e-5)


def test_equal_parts_are_told_apart_by_their_order():
    """Two units among three parts that are alike up to rounding: the earlier ones get them, on every machine."""
    values = np.full((1, 3), 2 / 3) + np.array([[-1e-13, 0, 1e-13]])
    found = whole_parts(np.array([[2.0]]), values, np.zeros(3, np.int64), np.zeros(3), np.full(3, np.inf))
    assert found.tolist() == [[1, 1, 0]]
