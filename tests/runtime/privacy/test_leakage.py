"""Leakage of schedules: the paper's recursion, longer lags, gaps, windows, and the truth on tiny chains."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.losses import Losses
from policyc.planning.leakage.recursion import (
    backward_leakage,
    forward_leakage,
    inherited,
    largest_constant_budget,
    supremum,
    total_leakage,
    window_leakage,
)
from policyc_check.errors import InvalidMatrixError
from policyc_check.steps.chains import Chain, Side

oracles = run_path(str(Path(__file__).with_name("oracles.py")))
REFERENCE, MATRICES = oracles["reference"](), oracles["reference_matrices"]()
SYM = MATRICES["sym"]
NEARLY = [[0.9, 0.02, 0.05, 0.03], [0.01, 0.92, 0.02, 0.05], [0.03, 0.04, 0.91, 0.02], [0.02, 0.02, 0.04, 0.92]]
FAINT = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1e-4, 0.5, 0.4999]]
RING = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.5, 0.5], [0.5, 0.0, 0.0, 0.5]]  # lag 1 never fades


@st.composite
def tiny_chain(draw):
    """Two or three states, zeros and sure moves among the probabilities."""
    n = draw(st.integers(2, 3))
    entry = st.sampled_from([0.0, 1.0, 1.0]) | st.floats(0.01, 1)
    rows = [draw(st.lists(entry, min_size=n, max_size=n).filter(any)) for _ in range(n)]
    initial = draw(st.lists(st.floats(0.05, 1), min_size=n, max_size=n))
    P = np.array(rows)
    return P / P.sum(axis=1, keepdims=True), np.array(initial) / sum(initial)


@pytest.mark.parametrize("case", REFERENCE["recursion"], ids=lambda c: f"{c['backward']}-{c['forward']}")
def test_reference_recursion(case):
    """Lag 1 is the paper's recursion: BPL, FPL, TPL and windows equal the reference."""
    epsilons = np.array(case["eps"], dtype=float)
    B, F = MATRICES.get(case["backward"]), MATRICES.get(case["forward"])
    assert backward_leakage(epsilons, B) == pytest.approx(case["bpl"], rel=1e-12)
    assert forward_leakage(epsilons, F) == pytest.approx(case["fpl"], rel=1e-12)
    assert total_leakage(epsilons, B, F) == pytest.approx(case["tpl"], rel=1e-12)
    for width, values in case["window"].items():
        assert window_leakage(epsilons, B, F, int(width)) == pytest.approx(values, rel=1e-12)


@pytest.mark.parametrize("case", REFERENCE["lag"], ids=lambda c: c["name"])
def test_reference_lags(case):
    """With lags the reference chains reach their finite suprema, the ring among them."""
    P = np.array(case["matrix"])
    for row in case["values"]:
        leakage = backward_leakage(np.full(200, row["epsilon"]), P, row["lags"])
        for step, value in row["backward_leakage_at"].items():
            assert leakage[int(step) - 1] == pytest.approx(value, rel=1e-10)
        assert supremum(row["epsilon"], P, row["lags"]) == pytest.approx(row["supremum"], rel=1e-10)


def test_ring_without_lags_has_no_supremum():
    """The same ring has no supremum under the paper's recursion: two of its rows share no place."""
    assert supremum(0.1, np.array(REFERENCE["lag"][0]["matrix"])) == math.inf


@pytest.mark.law
@given(tiny_chain(), st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0]), min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_never_below_the_truth(chain, epsilons):
    """No bound is below the exact leakage of randomized response, whatever the start, the zeros and the gaps."""
    P, initial = chain
    true_backward, true_total = oracles["exact_total_leakage"](epsilons, P, initial)
    for lags in (1, 2, 4, (1, 3)):
        told = Chain(forward=P, initial=initial)
        sides = told.backward_side(), told.forward_side()
        assert (backward_leakage(epsilons, sides[0], lags) >= true_backward - 1e-12).all()
        assert (total_leakage(epsilons, *sides, lags) >= true_total - 1e-12).all()


@given(tiny_chain(), st.lists(st.floats(0, 2), min_size=1, max_size=12), st.integers(1, 6))
@settings(max_examples=80, deadline=None)
def test_lags_only_help(chain, epsilons, lags):
    """More lags never raise a bound, and no bound exceeds the sum of all budgets."""
    P, _ = chain
    one, more = (total_leakage(epsilons, P, P, k) for k in (1, lags))
    assert (more <= one * (1 + 1e-12)).all()
    assert (one <= sum(epsilons) * (1 + 1e-12) + 1e-300).all()
    assert (one >= np.array(epsilons)).all()


def test_a_stack_of_one_matrix():
    """A matrix told for every step gives what the matrix told once gives, in both directions, with lags and windows."""
    epsilons = np.array([0.3, 0.0, 0.0, 0.5, 0.1, 0.2])
    P = MATRICES["slide_F"]
    stack = np.repeat(P[None], 5, axis=0)
    for lags in (1, 3):
        assert window_leakage(epsilons, stack, stack, 2, lags) == pytest.approx(
            window_leakage(epsilons, P, P, 2, lags), rel=1e-13
        )
    with pytest.raises(InvalidMatrixError, match="6 steps need 5"):
        backward_leakage(epsilons, stack[:4])


def test_a_stack_keeps_its_order():
    """Entry t - 1 of a stack lies between steps t - 1 and t, whichever direction is asked."""
    stack = np.array([np.eye(2), np.full((2, 2), 0.5)])
    assert backward_leakage([1.0, 1.0, 1.0], stack) == pytest.approx([1, 2, 1])
    assert forward_leakage([1.0, 1.0, 1.0], stack) == pytest.approx([2, 1, 1])


def test_started_chain_equals_its_stack():
    """A chain that does not start stationary passes leakage back through Bayes' rule at each step."""
    P, start = MATRICES["slide_F"], np.array([0.9, 0.1, 0.0])
    laws = [start]
    for _ in range(7):
        laws.append(laws[-1] @ P)
    stack = np.array([(P.T * a) / b[:, None] for a, b in pairwise(laws)])
    epsilons = np.linspace(0.1, 0.8, 8)
    told = Chain(forward=P, initial=start).backward_side()
    for lags in (1, 3):
        assert backward_leakage(epsilons, told, lags) == pytest.approx(
            backward_leakage(epsilons, stack, lags), rel=1e-12
        )


def test_steps_without_release():
    """A gap is crossed through the law of the whole gap, never step by step."""
    L = LossFunction(SYM @ SYM @ SYM)
    assert backward_leakage([1.0, 0, 0, 0.5], SYM) == pytest.approx(
        [1.0, LossFunction(SYM)(1.0), LossFunction(SYM @ SYM)(1.0), 0.5 + L(1.0)], rel=1e-14
    )
    assert backward_leakage([0, 0, 0.5], SYM).tolist() == [0, 0, 0.5]


def test_long_gaps():
    """Beyond 31 steps a gap is crossed through a shorter one's law, which only adds; no leakage is lost."""
    P = np.array([[0.99, 0.01], [0.02, 0.98]])
    found = backward_leakage([1.0, *[0.0] * 200], P)
    exact = [LossFunction(np.linalg.matrix_power(P, k))(1.0) for k in range(1, 201)]
    assert (found[1:] >= np.array(exact) * (1 - 1e-12)).all()
    assert found[1:32] == pytest.approx(exact[:31], rel=1e-12)


def test_no_correlation():
    """A side without correlation adds nothing, and the widest window is the sum of all budgets."""
    epsilons = np.array([0.1, 0.2, 0.3])
    assert total_leakage(epsilons, None, None).tolist() == epsilons.tolist()
    assert window_leakage(epsilons, SYM, SYM, 3) == pytest.approx([0.6])
    assert total_leakage([], SYM, SYM).shape == (0,)


def test_constant_runs_are_filled():
    """A long constant run, filled once leakage repeats, equals the recursion step by step, below the supremum."""
    epsilons = np.full(5000, 0.2)
    epsilons[2500:2600] = 0.7
    L = LossFunction(SYM)
    expected = [0.2]
    for e in epsilons[1:].tolist():
        expected.append(e + L(expected[-1]))
    assert backward_leakage(epsilons, SYM).tolist() == pytest.approx(expected, rel=1e-14)
    assert max(expected[:2500]) <= supremum(0.2, SYM) * (1 + 1e-14)


@pytest.mark.parametrize("pattern", [[0.05], [0.0, 0.3, 0.0], [0.2, 0.1]])
@pytest.mark.parametrize(
    ("matrix", "rho", "lags"),
    [
        (NEARLY, 0.01, (1, 5)),
        (NEARLY, 0.05, (1,)),
        (FAINT, 0.0, (1, 2, 3)),
        (RING, 0.0, (1, 4)),
        (NEARLY, 0.01, (1, 2, 64)),
    ],
)
def test_even_growth_is_not_followed_step_by_step(pattern, matrix, rho, lags):
    """Leakage is what following all steps says, up to rounding, before, in and after a long stretch."""
    budgets = np.array([0.4, 0.1, *pattern * (9_000 // len(pattern)), 0.7, 0.2, *[0.01] * 500])
    side = Losses(Side(np.array(matrix)), rho)
    found = backward_leakage(budgets, side, lags)
    followed = budgets + inherited(budgets, side, lags, lambda t, k, b: side.loss(t, k)(b), lambda a, b: a + b)[0]
    assert np.allclose(found, followed, rtol=1e-11, atol=0)
    assert (found >= followed * (1 - 1e-12)).all()


def test_even_growth_takes_few_values_of_the_loss(monkeypatch):
    """A million steps of a chain known within 0.05 take as many values as some thousand."""
    asked, loss = [], LossFunction.__call__
    monkeypatch.setattr(LossFunction, "__call__", lambda self, alpha: asked.append(alpha) or loss(self, alpha))
    leaked = [
        backward_leakage(np.full(steps, 0.05), Losses(Side(np.array(NEARLY)), 0.05))[-1] for steps in (5_000, 10**6)
    ]
    assert len(asked) < 4_000
    assert leaked[1] == pytest.approx(leaked[0] + 0.05 * (10**6 - 5_000), rel=1e-11)


@pytest.mark.parametrize("rho", [0.0, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("matrix", [NEARLY, FAINT, RING])
def test_all_is_passed_on_from_some_leakage(matrix, rho):
    """From there on L(a) = a, and below, where there is something below, less."""
    loss = LossFunction(np.array(matrix), rho)
    start = loss.whole_from
    if start == math.inf:
        assert loss(600.0) < 600.0
        return
    assert all(loss(a) == a for a in (start * (1 + 1e-9), start + 1.0, start + 50.0, start + 5_000.0))


@given(tiny_chain(), st.floats(0.05, 5), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_largest_constant_budget(chain, bound, lags):
    """The largest constant budget has the bound as its supremum."""
    P, _ = chain
    epsilon = largest_constant_budget(bound, P, lags)
    assert epsilon >= 0
    if epsilon > 1e-9 * bound:
        assert supremum(epsilon * (1 - 1e-9), P, lags) <= bound * (1 + 1e-7)
        assert backward_leakage(np.full(60, epsilon), P, lags).max() <= bound * (1 + 1e-12)


def test_started_chain_for_ever():
    """Before a chain has settled its steps are followed one by one: the supremum covers them all."""
    chain = Chain(forward=MATRICES["slide_F"], initial=[0.98, 0.01, 0.01])
    side = chain.backward_side()
    limit = supremum(0.5, side, 3)
    assert backward_leakage(np.full(300, 0.5), side, 3).max() <= limit * (1 + 1e-13)
    epsilon = largest_constant_budget(1.0, side, 3)
    assert backward_leakage(np.full(300, epsilon), side, 3).max() <= 1 + 1e-13


@pytest.mark.law
def test_variance_gain_of_lags():
    """On a smoothed ring of 10 places lags cut the noise variance at least 20 times, at alpha = 1."""
    ring = np.array(REFERENCE["lag"][0]["matrix"])
    P = (ring + 0.001) / 1.01

    def budget(lags):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            fits = 2 * supremum(middle, P, lags) - middle <= 1
            low, high = (middle, high) if fits else (low, middle)
        return low

    gain = (budget(60) / budget(1)) ** 2
    print(f"variance gain {gain:.1f}x")
    assert gain >= 20


@pytest.mark.parametrize("epsilons", [[-0.1], [math.nan], [math.inf], [[0.1, 0.2]]])
def test_wrong_budgets(epsilons):
    """Budgets that are negative, not finite or not a list are refused."""
    with pytest.raises(ValueError, match="budget"):
        backward_leakage(epsilons, SYM)
    with pytest.raises(ValueError, match="lag"):
        backward_leakage([0.1], SYM, (0, 1))
    with pytest.raises(ValueError, match="window"):
        window_leakage([0.1], SYM, SYM, 2)
