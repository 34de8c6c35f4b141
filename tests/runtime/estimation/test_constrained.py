"""Linear constraints of any kind, against trying everything and against a quadratic program."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from costs import cost_of
from demands import at_least_zero, change_at_most, demand, demands, total
from numpy.typing import NDArray

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.constrained import minimise_under_constraints, nearest_under_constraints
from policyc_runtime.estimation.separable import MapCost, SquaredCost, minimise_integers, minimise_reals

Array = NDArray[np.float64]


def coupled(cells: int, population: int, limit: int, *, integer: bool) -> ConstraintSet:
    """A sum, bounds, a sum of two cells, and a limit on changes."""
    pair = demand("x[0] + x[1] <= most", {0: 1, 1: 1}, "<=", max(population * 6 // 10, 1), line=12)
    rows = (total(cells, population), *at_least_zero(cells), pair, *change_at_most(cells, limit))
    return demands(*rows, cells=cells, integer=integer)


def allowed_values(constraints: ConstraintSet, steps: int, population: int, previous: Array | None) -> list[Array]:
    every = itertools.product(range(population + 1), repeat=steps * constraints.cells)
    shaped = (np.array(values, dtype=float).reshape(steps, constraints.cells) for values in every)
    return [values for values in shaped if constraints.violation(values, previous) < 1e-9]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(24))
def test_constrained_estimates_equal_trying_everything(seed: int) -> None:
    """Coupled steps, sums of cells: both estimators find the best whole numbers, or say that there are none."""
    rng = np.random.default_rng(seed)
    steps = 1 + seed % 2
    cells = 2 if steps == 2 else 3
    population, limit = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    noisy = rng.normal(population / cells, 4, (steps, cells))
    noisy = np.rint(noisy) if seed % 3 else noisy
    law = rng.dirichlet(np.ones(cells), steps)
    previous = None if seed % 4 < 2 else np.array([0.0] * (cells - 1) + [float(population)])
    whole, real = (coupled(cells, population, limit, integer=kind) for kind in (True, False))
    cost = MapCost(noisy, np.full((steps, 1), float(np.exp(rng.uniform(-1, 2)))), law)
    allowed = allowed_values(whole, steps, population, previous)
    if not allowed:
        with pytest.raises(ReleaseError):
            minimise_under_constraints(cost, whole, previous)
        return
    likeliest = minimise_under_constraints(cost, whole, previous)
    best = min(cost_of(cost, values).sum() for values in allowed)
    assert whole.violation(likeliest, previous) < 1e-9
    assert cost_of(cost, likeliest).sum() == pytest.approx(best, abs=1e-6)
    relaxed = minimise_under_constraints(cost, real, previous)
    assert real.violation(relaxed, previous) < 1e-9
    assert cost_of(cost, relaxed).sum() <= best + 1e-6

    def distances(values: Array) -> tuple[float, float]:
        return round(float(np.abs(values - noisy).sum()), 8), round(float(((values - noisy) ** 2).sum()), 8)

    nearest = nearest_under_constraints(noisy, whole, previous)
    assert whole.violation(nearest, previous) < 1e-9
    assert distances(nearest) == pytest.approx(min(distances(values) for values in allowed), abs=1e-6)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(10))
def test_general_and_special_solvers_agree(seed: int) -> None:
    """On constraints that both can do, the linear program finds what the exact solvers find."""
    rng = np.random.default_rng(seed)
    noisy, law = np.rint(rng.normal(50, 25, (4, 4))), rng.dirichlet(np.full(4, 2.0), 4)
    lower, upper = np.zeros(4), np.array([np.inf, np.inf, 60.0, np.inf])
    rows = (total(4, 200), *at_least_zero(4), demand("x <= 60", {2: 1}, "<=", 60))
    cost = MapCost(noisy, np.full((4, 1), 15.0), law)
    squares = SquaredCost(noisy)
    for integer, solve in ((True, minimise_integers), (False, minimise_reals)):
        constraints = demands(*rows, cells=4, integer=integer)
        special, general = solve(cost, 200.0, lower, upper), minimise_under_constraints(cost, constraints, None)
        assert cost_of(cost, general).sum() == pytest.approx(cost_of(cost, special).sum(), rel=1e-9)
        assert general == pytest.approx(special, abs=1.0 if integer else 2e-3)
        near, nearest = solve(squares, 200.0, lower, upper), nearest_under_constraints(noisy, constraints, None)
        assert cost_of(squares, nearest).sum() == pytest.approx(cost_of(squares, near).sum(), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_coupled_projection_is_feasible_and_idempotent(seed: int) -> None:
    """Values that satisfy everything are published as they are."""
    rng = np.random.default_rng(seed)
    constraints = coupled(3, 200, 10, integer=False)
    noisy = np.rint(rng.normal(67, 20, (25, 3)))
    once = nearest_under_constraints(noisy, constraints, None)
    assert constraints.violation(once, None) < 1e-9
    assert nearest_under_constraints(once, constraints, None) == pytest.approx(once, abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_real_nearest_values_are_an_l1_minimum(seed: int) -> None:
    """No linear program finds values of smaller L1 distance."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    noisy = np.rint(rng.normal(20, 20, (1, 4)))
    pair = demand("pair", {0: 1, 1: 1}, "<=", 30)
    constraints = demands(total(4, 80), *at_least_zero(4), pair, cells=4, integer=False)
    found = nearest_under_constraints(noisy, constraints, None)
    one = np.eye(4)
    oracle = linprog(
        np.r_[np.zeros(4), np.ones(4)],
        A_ub=np.block([[one, -one], [-one, -one], [np.array([[1, 1, 0, 0]]), np.zeros((1, 4))]]),
        b_ub=np.r_[noisy[0], -noisy[0], 30],
        A_eq=np.r_[np.ones(4), np.zeros(4)][None],
        b_eq=[80],
    )
    assert np.abs(found - noisy).sum() == pytest.approx(oracle.fun, abs=1e-6)


def test_contradictions_name_step_and_words_but_no_data() -> None:
    """The refusal has the policy's lines and texts, the step, and none of the values."""
    rows = (total(2, 10), demand("x <= 4", {0: 1}, "<=", 4, line=14), demand("x <= 5", {1: 1}, "<=", 5, line=15))
    pair = demand("twice", {0: 1, 1: 2}, "<=", 100, line=16)
    constraints = demands(*rows, pair, cells=2)
    with pytest.raises(ReleaseError) as refused:
        nearest_under_constraints(np.array([[98765.0, 3.0]]), constraints, None)
    assert refused.value.code == "E0830"
    assert refused.value.where == "step 0"
    assert "line 14: `x <= 4`" in str(refused.value.because)
    assert "98765" not in f"{refused.value} {refused.value.because}"


@pytest.mark.law
@pytest.mark.parametrize("integer", [True, False])
def test_large_populations_far_from_their_constraints_are_solved(integer: bool) -> None:
    """A quarter of a million users, moved far by the constraints: large numbers do not stop the solver."""
    rng = np.random.default_rng(5)
    population, law = 268_941, rng.dirichlet(np.ones(4), 30)
    noisy = np.rint(np.array([rng.multinomial(population, row) for row in law]) + rng.laplace(0, 8, (30, 4)))
    rows = (
        total(4, population),
        *at_least_zero(4),
        demand("pair", {0: 1, 1: 1}, "<=", population // 2),
        demand("order", {0: 1, 2: -1}, "<=", population // 10),
        *change_at_most(4, population // 3),
    )
    constraints = demands(*rows, cells=4, integer=integer)
    cost = MapCost(noisy, np.full((30, 1), 8.0), law)
    nearest = nearest_under_constraints(noisy, constraints, None)
    likeliest = minimise_under_constraints(cost, constraints, None)
    assert constraints.violation(nearest, None) < 1e-9
    assert constraints.violation(likeliest, None) < 1e-9
    assert cost_of(cost, likeliest).sum() <= cost_of(cost, np.maximum(nearest, 0)).sum() * (1 + 1e-9)
    assert np.abs(nearest - noisy).sum() <= np.abs(likeliest - noisy).sum() * (1 + 1e-6)


@pytest.mark.parametrize("previous", [[12.0, -10.0, -57.0, -18.0], [12.0, -4.0, -49.0, -18.0]])
def test_a_solver_that_goes_in_circles_is_stopped(previous: list[float]) -> None:
    """On these values HiGHS' quadratic solver never ends; what is published is the nearest that is allowed."""
    noisy, before = np.array([[12.0, -4.0, 74.0, -18.0]]), np.array(previous)
    rows = [demand("r - previous(r) <= 8", {cell: 1}, "<=", 8, {cell: -1}) for cell in range(4)]
    found = nearest_under_constraints(noisy, demands(*rows, cells=4, integer=False), before)
    assert found == pytest.approx(np.minimum(noisy, before + 8)[0].reshape(1, 4), abs=1e-6)
