"""Leakage about windows of steps: never below the truth, exact where the recursion is, the sum where it is whole."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.inheritance import audited_stationary_leakage, audited_total_leakage
from policyc.planning.leakage.recursion import window_leakage
from policyc_check.errors import PlanRejectedError
from policyc_check.steps.budgets import window_sums
from policyc_check.steps.chains import Chain

oracles = run_path(str(Path(__file__).with_name("oracles.py")))
STICKY = np.array([[0.9, 0.1], [0.3, 0.7]])


@st.composite
def tiny_chain(draw):
    rows = [draw(st.lists(st.sampled_from([0.0, 0.2, 0.7, 1.0]), min_size=2, max_size=2).filter(any)) for _ in range(2)]
    start = draw(st.floats(0.1, 0.9))
    P = np.array(rows)
    return P / P.sum(axis=1, keepdims=True), np.array([start, 1 - start])


@given(tiny_chain(), st.lists(st.sampled_from([0.0, 0.3, 1.0, 2.0]), min_size=2, max_size=4), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_never_below_the_truth(chain, epsilons, width):
    """Over all outputs and all states of a window, likelihoods differ by no more than the audited bound."""
    P, initial = chain
    width = min(width, len(epsilons))
    truth = oracles["exact_window_leakage"](epsilons, P, initial, width)
    for lags in (1, 3):
        found = audited_total_leakage(epsilons, Chain(forward=P, initial=initial), lags, width)
        assert (found >= truth - 1e-12).all()


def test_two_states_reach_the_bound():
    """On a chain of two states the bound is the truth: a smaller one would be false."""
    chain = Chain(forward=STICKY, initial="stationary")
    epsilons = [0.5, 0.5, 0.5, 0.5]
    truth = oracles["exact_window_leakage"](epsilons, STICKY, chain.marginal(0), 2)
    assert audited_total_leakage(epsilons, chain, 1, 2) == pytest.approx(truth, rel=1e-12)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=30), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_sums_are_rounded_up_from_exact_ones(budgets, width):
    """Every window's sum is at or above the exact one, by less than two units in the last place."""
    found = window_sums(np.array(budgets), width)
    width = min(width, len(budgets))
    exact = [sum(map(Fraction, budgets[t : t + width]), Fraction(0)) for t in range(len(budgets) - width + 1)]
    assert len(found) == len(exact)
    for up, true in zip(found.tolist(), exact, strict=True):
        assert true <= Fraction(up) <= true * Fraction(1 + 2**-51) + Fraction(1, 2**70)


@pytest.mark.parametrize("pattern", [[0.3], [0.8, 0, 0], [0.5, 0.1]])
@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_endless_windows_bound_every_finite_stretch(pattern, width):
    """No window of a long stretch leaks more than the endless bound, and the worst one nearly as much."""
    chain = Chain(forward=STICKY, initial="stationary")
    limit = audited_stationary_leakage(pattern, chain, (1, len(pattern)), width)
    stretch = np.resize(pattern, 60 * len(pattern))
    long = window_leakage(stretch, chain.backward_side(), chain.forward_side(), width, (1, len(pattern)))
    assert long.max() <= limit * (1 + 1e-12)
    assert long.max() >= limit * (1 - 1e-5)


def test_a_window_of_the_whole_horizon_is_the_sum():
    """Who knows nothing outside the window learns what its budgets tell, and no more."""
    chain = Chain(forward=STICKY, initial="stationary")
    for width in (5, 6, 1000):
        assert audited_total_leakage([0.1] * 5, chain, 1, width) == pytest.approx([0.5], rel=1e-15)


@pytest.mark.parametrize("budgets", [[0.1, math.inf], [0.1, -1.0], [math.nan]])
def test_what_is_no_budget_is_refused(budgets):
    """A budget that is not a number of at least 0 is never added up."""
    with pytest.raises(PlanRejectedError):
        window_sums(np.array(budgets), 2)
