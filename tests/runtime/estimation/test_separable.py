"""The exact solvers, against trying everything and against another solver."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from costs import cost_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammaln

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation import map_counts
from policyc_runtime.estimation.separable import (
    MapCost,
    SquaredCost,
    WeighedSquares,
    minimise_integers,
    minimise_reals,
)

Array = NDArray[np.float64]


def map_cost(counts: Array, noisy: Array, scale: float, law: Array) -> float:
    """Minus the log posterior, written out."""
    if (counts[law == 0] > 0).any():
        return np.inf
    some = law > 0
    likely = gammaln(counts[some] + 1).sum() - (counts[some] * np.log(law[some])).sum()
    return float(np.abs(counts - noisy).sum() / scale + likely)


def all_counts(total: int, cells: int) -> Array:
    every = itertools.product(range(total + 1), repeat=cells)
    return np.array([counts for counts in every if sum(counts) == total], dtype=float)


@pytest.mark.sampled(50)
@pytest.mark.parametrize("seed", range(300))
def test_integer_map_equals_trying_everything(seed: int) -> None:
    """On 300 random cases, noisy values whole and not, impossible cells included, no counts are likelier."""
    rng = np.random.default_rng(seed)
    cells, total, scale = int(rng.integers(1, 5)), int(rng.integers(0, 11)), float(np.exp(rng.uniform(-3, 3)))
    noisy = rng.normal(total / cells, 4, cells)
    noisy = np.rint(noisy) if seed % 2 else noisy
    law = rng.dirichlet(np.ones(cells))
    if seed % 5 == 0 and cells > 1:
        law[0] = 0
        law /= law.sum()
    found = map_counts(noisy, scale, law, total)
    best = min(map_cost(counts, noisy, scale, law) for counts in all_counts(total, cells))
    assert found.sum() == total
    assert found.min() >= 0
    assert map_cost(found.astype(float), noisy, scale, law) == pytest.approx(best, abs=1e-9)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("seed", range(100))
def test_integer_projection_equals_trying_everything(seed: int) -> None:
    """The nearest whole numbers under a sum and bounds are nearest in L2, and in L1 as well."""
    rng = np.random.default_rng(seed)
    cells, total = int(rng.integers(2, 5)), int(rng.integers(1, 10))
    noisy = rng.normal(total / cells, 4, cells)
    noisy = np.rint(noisy) if seed % 2 else noisy
    lower, upper = np.zeros(cells), np.where(rng.random(cells) < 0.3, np.ceil(total / 2), np.inf)
    upper[0] = np.inf
    found = minimise_integers(SquaredCost(noisy[None]), float(total), lower, upper)[0]
    allowed = [counts for counts in all_counts(total, cells) if (counts <= upper).all()]
    assert ((found - noisy) ** 2).sum() == pytest.approx(min(((c - noisy) ** 2).sum() for c in allowed), abs=1e-9)
    assert np.abs(found - noisy).sum() == pytest.approx(min(np.abs(c - noisy).sum() for c in allowed), abs=1e-9)


@given(
    noisy=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8),
    total=st.integers(0, 10**6),
    whole=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_projection_is_feasible_and_idempotent(noisy: list[float], total: int, whole: bool) -> None:
    """A projection satisfies its constraints, and projecting again changes nothing."""
    solve = minimise_integers if whole else minimise_reals
    lower, upper = np.zeros(len(noisy)), np.full(len(noisy), np.inf)
    once = solve(SquaredCost(np.array([noisy])), float(total), lower, upper)
    assert once.min() >= 0
    assert once.sum() == pytest.approx(total, rel=1e-12, abs=1e-9)
    assert solve(SquaredCost(once), float(total), lower, upper) == pytest.approx(once, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_a_unit_costs_the_difference_of_two_costs(seed: int) -> None:
    """Below the noisy value, across it and above; of cells where nobody can be it costs infinitely much."""
    rng = np.random.default_rng(seed)
    noisy, law = rng.normal(10, 6, (4, 5)), rng.dirichlet(np.ones(5), 4)
    law[:, 0] = 0.0
    held = np.rint(np.maximum(noisy + rng.normal(0, 1, noisy.shape), 0.0))
    held[:, 0] = 0.0
    costs = MapCost(noisy, np.full((4, 1), 2.5), law), SquaredCost(noisy), WeighedSquares(noisy, rng.uniform(0.1, 1, 5))
    for cost in costs:
        difference = cost_of(cost, held + 1.0) - cost_of(cost, held)
        assert cost.unit(held) == pytest.approx(difference, rel=1e-9, abs=1e-9)
    assert np.isinf(costs[0].unit(held)[:, 0]).all()


def test_the_cheapest_unit_is_found_of_huge_counts() -> None:
    """Of 10^12 users, where costs of all of them differ by less than their last digit, cells have what is theirs."""
    law, total = np.array([[0.25, 0.75]]), 10.0**12
    cost = MapCost(np.array([[0.0, 0.0]]), np.full((1, 1), 3.0), law)
    found = minimise_integers(cost, total, np.zeros(2), np.full(2, np.inf))
    assert found.sum() == total
    assert found[0, 0] == pytest.approx(total / 4, abs=1)


@pytest.mark.parametrize("seed", range(20))
def test_real_projection_satisfies_its_optimality_conditions(seed: int) -> None:
    """Values inside their bounds are all moved by the same amount; those at a bound would go further."""
    rng = np.random.default_rng(seed)
    noisy = rng.normal(20, 30, (5, 6))
    lower, upper = np.zeros(6), np.array([np.inf, 40, 15, np.inf, np.inf, 30])
    found = minimise_reals(SquaredCost(noisy), 100.0, lower, upper)
    for values, seen in zip(found, noisy, strict=True):
        moved = values - seen
        inside = (values > lower + 1e-9) & (values < upper - 1e-9)
        assert np.ptp(moved[inside]) < 1e-9
        assert (moved[values <= lower + 1e-9] >= moved[inside].max() - 1e-9).all()
        assert (moved[values >= upper - 1e-9] <= moved[inside].min() + 1e-9).all()


@pytest.mark.parametrize("seed", range(20))
def test_real_map_satisfies_its_optimality_conditions(seed: int) -> None:
    """No small exchange between two cells makes the values likelier, and the sum holds."""
    rng = np.random.default_rng(seed)
    cells, total = 5, 200.0
    noisy, law = np.rint(rng.normal(40, 30, (8, cells))), rng.dirichlet(np.ones(cells), 8)
    cost = MapCost(noisy, np.full((8, 1), float(np.exp(rng.uniform(-1, 3)))), law)
    found = minimise_reals(cost, total, np.zeros(cells), np.full(cells, np.inf))
    assert found.sum(axis=1) == pytest.approx(total, rel=1e-13)
    here = cost_of(cost, found).sum(axis=1)
    for one, other in itertools.permutations(range(cells), 2):
        step = np.minimum(1e-3, found[:, one])
        moved = found.copy()
        moved[:, one] -= step
        moved[:, other] += step
        assert (cost_of(cost, moved).sum(axis=1) >= here - 1e-9).all()
    whole = minimise_integers(cost, total, np.zeros(cells), np.full(cells, np.inf))
    assert (cost_of(cost, whole).sum(axis=1) >= here - 1e-9).all()


def test_real_map_fixes_impossible_cells_at_zero() -> None:
    """Where nobody can be, the value is exactly 0."""
    cost = MapCost(np.array([[9.0, 5.0, 1.0]]), np.ones((1, 1)), np.array([[0.0, 0.5, 0.5]]))
    found = minimise_reals(cost, 10.0, np.zeros(3), np.full(3, np.inf))
    assert found[0, 0] == 0
    assert found.sum() == pytest.approx(10)


def test_rows_do_not_know_of_each_other() -> None:
    """Many steps at once give the same counts as one at a time, to the last bit."""
    rng = np.random.default_rng(2)
    noisy, scale = np.rint(rng.normal(50, 30, (40, 4))), rng.uniform(1, 30, 40)
    law = np.tile([0.25, 0.25, 0.25, 0.25], (40, 1))
    together = map_counts(noisy, scale, law, 200)
    alone = [map_counts(noisy[row], float(scale[row]), law[row], 200) for row in range(40)]
    assert (together == alone).all()


@pytest.mark.parametrize("population", [0, 1, 4037, 10**9, 2**50])
def test_counts_of_every_size_add_up(population: int) -> None:
    """The sum holds exactly from nobody to a quadrillion."""
    noisy = np.array([population * 0.5 + 3, population * 0.2 - 8.0, population * 0.3])
    assert map_counts(noisy, 20.0, np.array([0.5, 0.2, 0.3]), population).sum() == population


def test_nowhere_to_be_is_refused() -> None:
    """A step whose probabilities are all 0 has no counts."""
    with pytest.raises(ReleaseError) as refused:
        map_counts(np.array([3.0, 4.0]), 1.0, np.zeros(2), 7)
    assert refused.value.code == "E0833"


@pytest.mark.parametrize(("population", "most"), [(0, 4), (30, 6), (4037, 8), (10**9, 22)])
def test_few_multipliers_are_tried(population: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of counts is nearly exponential in the multiplier, which is looked for where that says."""
    rng = np.random.default_rng(4)
    tried: list[int] = []
    units = MapCost.units

    def counted(self: MapCost, multiplier: Array) -> Array:
        tried.append(len(multiplier))
        return units(self, multiplier)

    monkeypatch.setattr(MapCost, "units", counted)
    law = rng.dirichlet(np.ones(4), 500)
    noisy = np.rint(population * law + rng.laplace(0, 30, (500, 4)))
    found = map_counts(noisy, 30.0, law, population)
    assert (found.sum(axis=1) == population).all()
    assert sum(tried) <= most * 500  # halves from 0 on take 4, 8, 19 and 38 a row


@pytest.mark.parametrize(
    ("noisy", "scale", "law", "population", "expected"),
    [
        ([3.0, 4.0], 1.0, [5e-324, 0.0], 7, [7, 0]),
        ([3.0, 4.0], 1e-310, [0.5, 0.5], 9, [5, 4]),
        ([3.0, 4.0], 1e300, [0.5, 0.5], 9, [5, 4]),
        ([-1e12, 1e12], 1e-3, [0.5, 0.5], 9, [0, 9]),
        ([3.0, 4.0], 1.0, [0.5, 0.5], 0, [0, 0]),
    ],
)
def test_whole_counts_are_found_at_the_ends_of_doubles(
    noisy: list[float], scale: float, law: list[float], population: int, expected: list[int]
) -> None:
    """Probabilities and noise next to nothing, noise beyond all counts, nobody."""
    with np.errstate(all="ignore"):
        assert map_counts(np.array(noisy), scale, np.array(law), population).tolist() == expected


def test_of_nobody_who_can_be_nowhere_there_is_nobody() -> None:
    cost = MapCost(np.array([[9.0, 5.0]]), np.ones((1, 1)), np.zeros((1, 2)))
    assert minimise_integers(cost, 0.0, np.zeros(2), np.full(2, np.inf)).tolist() == [[0.0, 0.0]]
