"""How much noise `optimal` saves against `quantified`, and how long it takes beside a general solver, in one run."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import minimize

from policyc.planning.leakage.recursion import total_leakage
from policyc.planning.patterns import allocate_optimal
from policyc.planning.schedules import Group, allocate_quantified, allocate_uniform, expand
from policyc_check.steps.chains import Chain

pytestmark = pytest.mark.law

SETTINGS = [("n = 2, s = 0.01", None, 0.1, 5), (".8, .2; 0, 1", [[0.8, 0.2], [0.0, 1.0]], 5.0, 5)]


def smoothed(states: int, s: float) -> np.ndarray:
    """CAO17's strongest correlation, a shifted identity, with s added to every entry before rows are divided."""
    return (np.roll(np.eye(states), 1, axis=1) + s) / (1 + states * s)


def noise(epsilons: np.ndarray) -> float:
    return float(np.sum(1 / epsilons**2))


@pytest.mark.parametrize(("name", "rows", "alpha", "horizon"), SETTINGS)
def test_noise_of_quantified_over_optimal(name, rows, alpha, horizon):
    """The sum of 1 / e^2 of `quantified` as a multiple of that of `optimal`, never below 1."""
    moves = smoothed(2, 0.01) if rows is None else np.array(rows)
    group = Group(None, Chain(backward=moves, forward=moves))
    optimal = noise(expand(allocate_optimal(alpha, horizon, [group]).runs))
    ratio = noise(expand(allocate_quantified(alpha, horizon, [group]).runs)) / optimal
    print(f"{name}, alpha {alpha:g}, T {horizon}: quantified has {ratio:.3g} times the noise power of optimal")
    assert ratio >= 0.999


def test_beside_a_general_solver():
    """T = 50: seconds of `optimal`, audit and all, and of SLSQP with exact gradients of the objective."""
    rng = np.random.default_rng(1)
    group = Group(None, Chain(forward=0.97 * rng.dirichlet(np.full(4, 0.3), size=4) + 0.0075, initial="stationary"))
    before, after = group.chain.backward_side(), group.chain.forward_side()
    allocate_optimal(1.0, 2, [group])  # libraries are loaded
    start = time.perf_counter()
    ours = noise(expand(allocate_optimal(1.0, 50, [group]).runs))
    middle = time.perf_counter()
    level = 0.9 * allocate_uniform(1.0, 50, [group]).runs[0].epsilon
    unit = 50 / level**2
    found = minimize(
        lambda e: np.sum(1 / e**2) / unit,
        np.full(50, level),
        jac=lambda e: -2 / e**3 / unit,
        constraints=[{"type": "ineq", "fun": lambda e: 1 - total_leakage(np.maximum(e, 1e-9), before, after)}],
        bounds=[(1e-4, 1.0)] * 50,
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-9},
    ).x
    end = time.perf_counter()
    theirs = noise(found / max(1.0, total_leakage(found, before, after).max()))
    print(f"optimal {middle - start:.3f} s, SLSQP {end - middle:.2f} s: {(end - middle) / (middle - start):.0f} times")
    print(f"noise power of optimal / SLSQP: {ours / theirs:.6f}")
    assert ours <= theirs * 1.001
