"""The hull of many states, whose pairs are summed in single precision first, is the hull without that."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policyc.planning.leakage import hull, loss
from policyc.planning.leakage.loss import LossFunction


def _lazy(rng: np.random.Generator, states: int) -> np.ndarray:
    return 0.9 * np.eye(states) + 0.1 * rng.dirichlet(np.ones(states), states)


def _anywhere(rng: np.random.Generator, states: int) -> np.ndarray:
    return rng.dirichlet(np.full(states, 2.0), states)


def _with_zeros(rng: np.random.Generator, states: int) -> np.ndarray:
    rows = rng.random((states, states)) * (rng.random((states, states)) < 0.4) + np.eye(states)
    return rows / rows.sum(axis=1, keepdims=True)


def _almost_equal(rng: np.random.Generator, states: int) -> np.ndarray:
    rows = 1 + 1e-9 * rng.random((states, states))
    return rows / rows.sum(axis=1, keepdims=True)


def _of_all_sizes(rng: np.random.Generator, states: int) -> np.ndarray:
    rows = 10.0 ** rng.uniform(-60, 0, (states, states))
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("rows", [_lazy, _anywhere, _with_zeros, _almost_equal, _of_all_sizes])
@pytest.mark.parametrize("states", [2, 3, 24])
def test_hull_is_the_same(rows, states, monkeypatch) -> None:
    """The same corners; and what is said of every pair is no less than its excess, the largest being exact."""
    P = rows(np.random.default_rng(states), states)
    plain = hull.Pairs(P)
    corners = plain.hull()
    monkeypatch.setattr(hull, "_MANY", 2)
    pairs = hull.Pairs(P)
    found = pairs.hull()
    for mu in (0.0, 1e-3, 0.3, 7.0, 1e6):
        mine, exact = pairs.largest_excess(mu, np.arange(pairs.count)), plain.excesses(mu)
        assert (mine >= exact * (1 - 1e-12) - 1e-15).all()
        assert mine.max() == pytest.approx(exact.max(), rel=1e-12, abs=1e-16)
    for mu in np.concatenate([[0.0], np.geomspace(1e-12, 1e6, 200)]):
        height = [max(v.gain - mu * v.mass for v in given) for given in (corners, found)]
        assert height[0] == pytest.approx(height[1], rel=1e-12, abs=1e-16)


def test_first_values_that_are_asked_often_are_those_found_directly() -> None:
    """They come from the hull, which is needed anyway, and differ by roundings at most."""
    rows = np.random.default_rng(8).random((260, 260)) ** 3
    rows /= rows.sum(axis=1, keepdims=True)
    directly, often = LossFunction(rows), LossFunction(rows, often=True)
    assert directly(0.7) == pytest.approx(often(0.7), rel=1e-13)
    assert not directly._begun[1][1]
    assert often._begun[1][1]


@pytest.mark.parametrize("rows", [_lazy, _anywhere, _with_zeros, _almost_equal, _of_all_sizes])
@pytest.mark.parametrize("tolerance", [0.0, 0.003, 0.3, 0.9])
def test_part_of_a_hull_tells_what_the_whole_does(rows, tolerance, monkeypatch) -> None:
    """Losses and suprema, asked in any order; of what is more than asked for, something that is more."""
    monkeypatch.setattr(loss, "_LARGE", 2)
    rng = np.random.default_rng(3)
    for states in (2, 3, 24, 60):
        P = rows(rng, states)
        hull._KEPT.clear()
        whole = LossFunction(P, tolerance)
        assert whole._hull
        hull._KEPT.clear()
        part = LossFunction(P, tolerance, often=True)
        for alpha in (0.0, 1e-9, *rng.uniform(0, 1, 20), *rng.uniform(0, 3, 20), *np.geomspace(1e-6, 30, 50)):
            assert part(alpha) == pytest.approx(whole(alpha), rel=1e-12, abs=1e-300)
        for epsilon in (1e-3, 0.05, 0.5, 1.0, 3.0):
            limit = whole.supremum(epsilon)
            hull._KEPT.clear()
            assert LossFunction(P, tolerance, often=True).supremum(epsilon) == pytest.approx(limit, rel=1e-12)
            for most in (0.01, 0.3, 1.0, 2.0):
                hull._KEPT.clear()
                found = LossFunction(P, tolerance, often=True).supremum(epsilon, most)
                assert found == pytest.approx(limit, rel=1e-12) if limit <= most else found > most


@pytest.mark.parametrize("rows", [_lazy, _anywhere, _with_zeros])
@pytest.mark.parametrize("tolerance", [0.5, 0.7, 0.999])
def test_rows_that_may_share_nothing_pass_all_on(rows, tolerance) -> None:
    """So the corners say, moved by the tolerance, of any matrix; they need not be found."""
    P = rows(np.random.default_rng(5), 24)
    moved = [hull.Vertex(v.gain + 2 * tolerance, v.mass - tolerance, v.rest - 2 * tolerance) for v in hull.kept_hull(P)]
    known = LossFunction(P, tolerance)
    for alpha in (0.0, 1e-9, 0.3, 1.0, 4.0, 60.0):
        assert known(alpha) == max(corner.loss(alpha) for corner in moved) == alpha
    assert known.supremum(0.1) == known(math.inf) == math.inf
    assert known.whole_from == 0
