"""Schedules reach the reference's budgets and never exceed their promise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.lags import useful_lags
from policyc.planning.leakage.recursion import total_leakage
from policyc.planning.schedules import (
    Group,
    ScheduleError,
    allocate_bounded,
    allocate_quantified,
    allocate_uniform,
)
from policyc_check.steps.chains import Chain

REFERENCE = json.loads((Path(__file__).parents[2] / "data" / "leakage.json").read_text())
RING = 0.8 * np.eye(10) + 0.1 * np.roll(np.eye(10), 1, axis=1) + 0.1 * np.roll(np.eye(10), -1, axis=1)


def matrix(name: str) -> np.ndarray:
    return np.array([[float(value) for value in row] for row in REFERENCE["matrices"][name]])


def expand(allocation):
    return np.concatenate([np.full(run.steps, run.epsilon) for run in allocation.runs])


def leakage(allocation, group):
    chain = group.chain
    return total_leakage(expand(allocation), chain.backward_side(), chain.forward_side(), lags=group.lags)


@pytest.mark.parametrize("case", REFERENCE["allocation"], ids=lambda c: f"{c['backward']}-{c['forward']}-{c['alpha']}")
def test_budgets_are_the_references(case):
    """`bounded` and `quantified` give the reference's a_B, a_F and middle budget; `uniform` its constant for each T."""
    group = Group(None, Chain(backward=matrix(case["backward"]), forward=matrix(case["forward"])))
    alpha = float(case["alpha"])
    quantified = [run.epsilon for run in allocate_quantified(alpha, 50, [group]).runs]
    assert quantified == pytest.approx([case["a_B"], case["eps_m"], case["a_F"]], rel=1e-10)
    assert allocate_bounded(alpha, None, [group]).runs[0].epsilon == pytest.approx(case["eps_m"], rel=1e-10)
    for horizon in (2, 5, 20):
        found = allocate_uniform(alpha, horizon, [group]).runs[0].epsilon
        assert found == pytest.approx(case[f"T{horizon}"]["uniform_eps"], rel=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("alpha", [0.2, 1.0, 1.4])
@pytest.mark.parametrize("horizon", [5, 100, 500])
def test_quantified_raises_both_ends_where_only_lags_help(alpha, horizon):
    """A chain with forbidden moves: every step has a budget, the ends more than the middle, and alpha is used up."""
    chain = Chain(forward=np.array([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]), initial="stationary")
    group = Group(None, chain).with_lags(useful_lags(chain))
    found = allocate_quantified(alpha, horizon, [group])
    first, middle, last = (run.epsilon for run in found.runs)
    assert min(first, last) > 1.5 * middle > 0
    assert alpha * (1 - 1e-6) < leakage(found, group).max() <= alpha


@pytest.mark.parametrize("case", REFERENCE["allocation"], ids=lambda c: f"{c['backward']}-{c['forward']}-{c['alpha']}")
@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 300])
def test_quantified_leaks_alpha_at_every_step_and_never_more(case, horizon):
    """Total leakage of `quantified` equals alpha within 1e-12 at every step, and never exceeds it."""
    group = Group(None, Chain(backward=matrix(case["backward"]), forward=matrix(case["forward"])))
    alpha = float(case["alpha"])
    found = allocate_quantified(alpha, horizon, [group])
    total = leakage(found, group)
    assert total.max() <= alpha
    assert found.leakage <= alpha
    assert total.min() >= alpha - 1e-12 * max(alpha, 1)


def test_uniform_is_the_minimax_optimum():
    """A constant budget larger by a billionth breaks the promise."""
    group = Group(None, Chain(forward=matrix("asym"), initial="stationary"))
    found = allocate_uniform(1.0, 30, [group]).runs[0].epsilon
    raised = total_leakage(
        np.full(30, found * (1 + 1e-9)), group.chain.backward_side(), group.chain.forward_side(), lags=group.lags
    )
    assert raised.max() > 1.0


def test_a_ring_has_no_one_lag_supremum_but_a_budget_for_ever():
    """Where two rows never overlap in one step, one lag has no bounded schedule; several lags have."""
    chain = Chain(forward=RING, initial="stationary")
    with pytest.raises(ScheduleError, match="without end"):
        allocate_bounded(1.0, None, [Group(None, chain)])
    lags = useful_lags(chain)
    assert allocate_bounded(1.0, None, [Group(None, chain, lags)]).runs[0].epsilon > 0.01


def test_every_group_is_kept_below_alpha():
    """With two groups each one's leakage stays within the promise, and one of them reaches it."""
    groups = [
        Group("commuters", Chain(forward=matrix("asym"), initial="stationary")),
        Group("residents", Chain(forward=matrix("sym"), initial="stationary")),
    ]
    for allocate in (allocate_uniform, allocate_bounded, allocate_quantified):
        found = allocate(0.7, 40, groups)
        worst = [leakage(found, group).max() for group in groups]
        assert max(worst) <= 0.7
        assert max(worst) >= 0.7 - (1e-9 if allocate is not allocate_bounded else 0.02)


def test_a_start_that_is_not_stationary_is_kept_below_alpha():
    """Backward matrices that differ from step to step are accounted step by step."""
    group = Group(None, Chain(forward=matrix("asym"), initial=np.array([0.9, 0.1])))
    for allocate in (allocate_uniform, allocate_bounded, allocate_quantified):
        found = allocate(1.0, 60, [group])
        assert leakage(found, group).max() <= 1.0
        assert found.leakage <= 1.0


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5), st.integers(1, 60), st.floats(0.05, 5.0), st.integers(0, 10_000))
def test_no_schedule_exceeds_its_promise(states, horizon, alpha, seed):
    """Whatever the chain, horizon and alpha: the audited leakage of every schedule is at most alpha."""
    rng = np.random.default_rng(seed)
    group = Group(None, Chain(forward=rng.dirichlet(np.ones(states), size=states), initial="stationary"))
    for allocate in (allocate_uniform, allocate_bounded, allocate_quantified):
        found = allocate(alpha, horizon, [group])
        assert found.leakage <= alpha
        assert leakage(found, group).max() <= alpha
