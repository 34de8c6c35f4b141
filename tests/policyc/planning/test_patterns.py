"""Schedules that differ from step to step: optimal budgets, and steps without a release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from policyc.planning.leakage.inheritance import audited_stationary_leakage, audited_total_leakage
from policyc.planning.leakage.lags import useful_lags
from policyc.planning.leakage.recursion import total_leakage
from policyc.planning.patterns import _scaled, allocate_optimal, allocate_sparse
from policyc.planning.promise import Promise
from policyc.planning.schedules import Allocation, Group, Run, ScheduleError, allocate_uniform, expand, spare
from policyc_check.steps.chains import Chain

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "leakage.json").read_text())


def matrix(name: str) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in REFERENCE["matrices"][name]])


def lazy(stay: float, states: int) -> Chain:
    moves = np.full((states, states), (1 - stay) / (states - 1))
    np.fill_diagonal(moves, stay)
    return Chain(forward=moves, initial="stationary")


def leakage(epsilons, group):
    chain = group.chain
    return total_leakage(epsilons, chain.backward_side(), chain.forward_side(), lags=group.lags)


def noise(found: Allocation) -> float:
    epsilons = expand(found.runs)
    return float(np.sum(1 / epsilons[epsilons > 0] ** 2))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", REFERENCE["allocation"], ids=lambda c: f"{c['backward']}-{c['forward']}-{c['alpha']}")
@pytest.mark.parametrize("horizon", [2, 5, 20])
def test_optimal_reaches_the_references_optimum(case, horizon):
    """The sum of 1 / e^2 is the reference's within 0.01 %, and leakage never exceeds alpha."""
    group = Group(None, Chain(backward=matrix(case["backward"]), forward=matrix(case["forward"])))
    found = allocate_optimal(float(case["alpha"]), horizon, [group])
    assert noise(found) == pytest.approx(case[f"T{horizon}"]["min_sum_inv_eps2"], rel=1e-4)
    assert leakage(expand(found.runs), group).max() <= float(case["alpha"])


def by_slsqp(groups, alpha, weights):
    """An independent search, from equal budgets, made feasible by scaling."""
    count = len(weights)
    start = np.full(count, 0.9 * allocate_uniform(alpha, count, groups).runs[0].epsilon)
    unit = np.sum(weights / start**2)

    def total(budgets):
        return np.array([leakage(np.maximum(budgets, 1e-9), group) for group in groups]).ravel()

    found = minimize(
        lambda e: np.sum(weights / e**2) / unit,
        start,
        jac=lambda e: -2 * weights / e**3 / unit,
        constraints=[{"type": "ineq", "fun": lambda e: 1 - total(e) / alpha}],
        bounds=[(1e-4 * alpha, alpha)] * count,
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-10},
    ).x
    return found * min(1.0, alpha / total(found).max())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(20))
def test_optimal_agrees_with_an_independent_solver(seed):
    """On random chains, groups, starts and weights it is at most 0.1 % above what SLSQP finds."""
    rng = np.random.default_rng(seed)
    states, horizon, alpha = int(rng.integers(2, 5)), int(rng.integers(2, 13)), float(rng.uniform(0.1, 4))
    groups = []
    for name in "ab"[: 1 + seed % 2]:
        moves = 0.97 * rng.dirichlet(np.full(states, 0.3), size=states) + 0.03 / states
        initial = "stationary" if seed % 4 else rng.dirichlet(np.ones(states))
        groups.append(Group(name, Chain(forward=moves, initial=initial)))
    weights = rng.uniform(0.5, 2, horizon)
    found = allocate_optimal(alpha, horizon, groups, weights)
    ours = np.sum(weights / expand(found.runs) ** 2)
    assert ours <= np.sum(weights / by_slsqp(groups, alpha, weights) ** 2) * 1.001
    assert found.leakage <= alpha


def test_optimal_with_several_lags_keeps_its_promise_and_beats_equal_budgets():
    """Where larger lags bound leakage, budgets found with them are accepted under them."""
    rng = np.random.default_rng(3)
    chain = Chain(forward=0.97 * rng.dirichlet(np.full(5, 0.2), size=5) + 0.006, initial="stationary")
    group = Group(None, chain, useful_lags(chain))
    assert group.lags != (1,)
    found = allocate_optimal(1.0, 40, [group])
    assert audited_total_leakage(expand(found.runs), chain, group.lags).max() <= 1.0
    assert noise(found) < 40 / allocate_uniform(1.0, 40, [group]).runs[0].epsilon ** 2


def test_a_long_horizon_repeats_the_stationary_middle():
    """The long schedule has the short one's ends, one middle budget, and per step no more noise than equal budgets."""
    group = Group(None, lazy(0.9, 4))
    short, long = (allocate_optimal(1.0, horizon, [group]) for horizon in (400, 30_000))
    assert len(long.runs) < 100
    assert expand(long.runs)[:10] == pytest.approx(expand(short.runs)[:10], rel=1e-4)
    assert expand(long.runs)[-10:] == pytest.approx(expand(short.runs)[-10:], rel=1e-4)
    assert sum(run.steps or 0 for run in long.runs) == 30_000
    assert noise(long) <= 30_000 / allocate_uniform(1.0, 30_000, [group]).runs[0].epsilon ** 2 * (1 + 1e-5)
    assert long.leakage <= 1.0


@pytest.mark.parametrize(("every", "phase", "horizon"), [(2, 0, 21), (3, 1, 30), (5, 4, 50), (40, 3, 200)])
def test_sparse_is_the_optimum_on_the_power_of_the_chain(every, phase, horizon):
    """At its releases it has the budgets that `optimal` has on P^k; the kernel's leakage there is that of P^k."""
    chain = lazy(0.95, 3)
    powered = Group(None, Chain(forward=np.linalg.matrix_power(chain.forward, every), initial="stationary"))
    group = Group(None, chain, (1, every))
    epsilons = expand(allocate_sparse(1.0, horizon, [group], every, phase).runs)
    assert len(epsilons) == horizon
    released = np.flatnonzero(epsilons)
    assert released.tolist() == list(range(phase, horizon, every))
    optimal = expand(allocate_optimal(1.0, len(released), [powered]).runs)
    assert epsilons[released] == pytest.approx(optimal, rel=1e-4)
    assert leakage(epsilons, group)[released] == pytest.approx(leakage(epsilons[released], powered), rel=1e-9)
    assert audited_total_leakage(epsilons, chain, group.lags).max() <= 1.0


def test_sparse_keeps_every_group_and_a_moving_start_below_alpha():
    """With two groups, one of which starts outside its stationary law, no step leaks more than alpha to either."""
    groups = [
        Group("a", Chain(forward=lazy(0.9, 3).forward, initial=np.array([0.8, 0.1, 0.1])), (1, 4)),
        Group("b", lazy(0.6, 3), (1, 4)),
    ]
    found = allocate_sparse(0.7, 60, groups, 4, 1)
    worst = [leakage(expand(found.runs), group).max() for group in groups]
    assert max(worst) <= 0.7
    assert max(worst) >= 0.7 - 1e-4
    assert found.leakage <= 0.7


@pytest.mark.parametrize("every", [2, 7, 40])
def test_an_endless_sparse_schedule_never_exceeds_alpha(every):
    """Its constant budget nearly reaches alpha, and every finite stretch of it stays below, steps between included."""
    group = Group(None, lazy(0.97, 4), (1, every))
    found = allocate_sparse(1.0, None, [group], every)
    (run,) = found.runs
    assert (run.steps, run.period) == (None, every)
    stretch = np.tile(run.pattern, 3000 // every)
    assert leakage(stretch, group).max() <= found.leakage <= 1.0
    assert found.leakage >= 1.0 - 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_a_repeating_pattern_is_bounded_for_ever(seed):
    """The audited bound of a random pattern is above every finite stretch of it, and near what these approach."""
    rng = np.random.default_rng(seed)
    chain = Chain(forward=rng.dirichlet(np.ones(3), size=3), initial="stationary")
    pattern = rng.uniform(0.05, 0.6, int(rng.integers(1, 7))) * (rng.random(1) < rng.uniform(0.3, 1.0, 1))
    pattern = np.where(rng.random(len(pattern)) < 0.5, pattern, 0.0)
    pattern[0] = 0.3
    bound = audited_stationary_leakage(pattern.tolist(), chain)
    reached = leakage(np.tile(pattern, 200), Group(None, chain)).max()
    assert reached <= bound
    assert reached == pytest.approx(bound, rel=1e-6)


def test_what_cannot_be_is_refused():
    """A phase after the end, an endless stream whose law takes turns, and a chain that never forgets."""
    moving = Group(None, Chain(forward=lazy(0.9, 2).forward, initial=np.array([1.0, 0.0])))
    with pytest.raises(ScheduleError, match="no step"):
        allocate_sparse(1.0, 5, [moving], 6, 5)
    turning = Group(None, Chain(forward=[[0.0, 1.0], [1.0, 0.0]], initial=np.array([1.0, 0.0])))
    with pytest.raises(ScheduleError, match="without end"):
        allocate_sparse(1.0, None, [turning], 3)
    frozen = Group(None, Chain(forward=np.eye(2), backward=np.eye(2)))
    with pytest.raises(ScheduleError, match="without end"):
        allocate_sparse(1.0, None, [frozen], 3)


def test_a_run_spends_at_the_first_step_of_its_period():
    """Runs expand to their budgets, in order."""
    assert expand([Run(0.0, 2), Run(0.5, 4, 2), Run(0.25, 1)]).tolist() == [0, 0, 0.5, 0, 0.5, 0, 0.25]


@pytest.mark.parametrize("every", [2, 5, 12, 30])
def test_sparse_schedules_leave_next_to_nothing_of_the_promise(every: int) -> None:
    """Also where more leaks between releases than at them, as on a walk among hardly any users who stay."""
    walk = 0.3 * np.eye(9) + 0.4 * np.roll(np.eye(9), 1, axis=1) + 0.3 * np.roll(np.eye(9), -1, axis=1)
    group = Group(None, Chain(forward=walk), (1, every))
    for alpha in (0.2, 1.0, 3.0):
        found = allocate_sparse(alpha, 100, [group], every)
        assert alpha * (1 - 1.2e-6) <= found.leakage <= alpha
        exact = leakage(expand(found.runs), group)
        assert exact.max() <= found.leakage <= exact.max() * (1 + 1e-9)


def test_budgets_are_scaled_to_the_promise_from_above_and_below() -> None:
    """Also where all that leaks beyond the promise is taken to be passed on, so that a little too much looks like much.

    The runs are a reviewer's, of which 2 % of the promise were left.
    """
    group = Group(None, Chain(forward=np.array([[0.41127115, 0.58872885], [0.00738904, 0.99261096]])))
    promise = Promise.of(0.704868551177144, 160)
    kept = [Run(0.13653965993495462 * 5.16237224608788, 20, 20), Run(0.003435636006505668 * 5.16237224608788, 140, 20)]
    for factor in (1e-3, 0.5, 1 - 1e-5, 1.0, 1 + 1e-7, 1.01, 3.0, 1e3):
        found = _scaled([Run(run.epsilon * factor, run.steps, run.period) for run in kept], promise, [group])
        assert 0 <= spare(found, promise, [group]) <= 1e-6 * promise.nats
        assert found[0].epsilon / found[1].epsilon == pytest.approx(kept[0].epsilon / kept[1].epsilon)


@pytest.mark.parametrize("initial", [None, (0.6, 0.4)])
@pytest.mark.parametrize("seed", range(6))
def test_a_promise_about_steps_in_a_row_is_spent(seed: int, initial: tuple[float, ...] | None) -> None:
    """Where budgets are solved for again they may come out much too small: these are raised as far as it goes."""
    rng = np.random.default_rng(seed)
    away, back = rng.uniform(0.001, 0.06, 2).tolist()
    start = "stationary" if initial is None else np.array(initial)
    chain = Chain(forward=[[1 - away, away], [back, 1 - back]], initial=start)
    nats, window = float(rng.choice([2.0, 3.0, 5.0])), int(rng.integers(4, 60))
    for every in (1, 5):
        found = allocate_sparse(Promise(((nats, window),)), 250, [Group(None, chain, tuple({1, every}))], every)
        assert nats * (1 - 2e-6) <= found.leakage <= nats
