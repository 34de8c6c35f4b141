"""The audit: accepts what holds, refuses what does not, and costs next to no budget."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage import proposals
from policyc.planning.leakage.inheritance import audited_stationary_leakage, audited_total_leakage
from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.recursion import supremum, total_leakage
from policyc_check.errors import PlanRejectedError
from policyc_check.steps import loss_bound
from policyc_check.steps.chains import Chain
from policyc_check.steps.loss_bound import audited_loss_bound

oracles = run_path(str(Path(__file__).with_name("oracles.py")))
MATRICES = oracles["reference_matrices"]()
ALPHAS = np.array([1e-12, 1e-6, 0.01, 0.5, 1.0, 3.0, 30.0, 699.0, 701.0, 1e4, 1e6])


def random_matrix(n, seed):
    rng = np.random.default_rng(seed)
    P = rng.random((n, n)) ** 2 * (rng.random((n, n)) < 0.8) + 1e-3 * (np.eye(n) + np.roll(np.eye(n), 1, axis=1))
    return P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("P", [*MATRICES.values(), random_matrix(7, 1), random_matrix(60, 2)])
def test_accepts_and_refuses(P):
    """L plus a few ulps is accepted from 1e-12 to 1e6 nats; L less 1e-9 is refused."""
    L = LossFunction(P)
    values = L(ALPHAS)
    assert audited_loss_bound(P, ALPHAS, values * (1 + 2e-14)).all()
    above_zero = values > 0
    assert not audited_loss_bound(P, ALPHAS[above_zero], values[above_zero] * (1 - 1e-9)).any()


@given(st.integers(2, 5), st.integers(0, 10**6), st.sampled_from(ALPHAS.tolist()) | st.floats(1e-3, 20))
@settings(max_examples=60, deadline=None)
def test_never_accepts_below_exact_arithmetic(n, seed, alpha):
    """No bound below L in 60-digit arithmetic is accepted, not even by one part in 1e14."""
    P = random_matrix(n, seed)
    exact = oracles["brute_force"](P.tolist(), alpha)
    if exact > 0:
        assert not audited_loss_bound(P, [alpha], [exact * (1 - 1e-14)])[0]
        assert audited_loss_bound(P, [alpha], [min(alpha, exact * (1 + 2e-14))])[0]


def test_many_claims_are_decided_as_each_would_be():
    """Among 900 claims on one law, a bound lowered by 1e-9 is refused, and none beside it."""
    P = random_matrix(40, 3)
    alphas = np.random.default_rng(1).uniform(0.01, 4, 900)
    bounds = LossFunction(P)(alphas) * (1 + 2e-14)
    low = np.arange(900) % 7 == 3
    shown = audited_loss_bound(P, alphas, np.where(low, bounds * (1 - 1e-9), bounds))
    assert (shown == ~low).all()


@pytest.mark.parametrize("relative_error", [0.0, 1e-13, 1.0])
def test_single_precision_never_sums_to_less(relative_error):
    """What single precision says of all pairs is no less than exact sums, and near them where mu is small."""
    P = random_matrix(30, 4)
    P[0], P[1, :4] = np.eye(30)[3], [1e-300, 1e-44, 1e-39, 1e-20]
    P /= P.sum(axis=1, keepdims=True)
    mu = np.array([0.0, 1e-12, 0.3, 7.0, 1e20, 1e300])
    at_most = loss_bound._RoundedUp(P, relative_error).at_most(mu)
    rows = [list(map(Fraction, row)) for row in np.unique(P, axis=0).tolist()]
    for k, times in enumerate(1 + Fraction(value) for value in mu.tolist()):
        exact = [[sum(max(q - times * d, 0) for q, d in zip(a, b, strict=True)) for b in rows] for a in rows]
        for found, true in zip(at_most[:, :, k].tolist(), exact, strict=True):
            assert all(Fraction(x) >= y for x, y in zip(found, true, strict=True))
        if relative_error < 1 and mu[k] < 100:  # beyond, entries that may be roundings count
            assert np.abs(at_most[:, :, k] - np.array(exact, dtype=np.float64)).max() < 1e-4


@pytest.mark.parametrize("tie", [False, True])
def test_what_single_precision_leaves_open_is_summed(tie):
    """A pair that exceeds all others by 1e-9, or none that does: it decides, as the sums of all pairs do."""
    P = 0.5 * np.eye(40) + np.full((40, 40), 0.0125)
    if not tie:
        P[7, [7, 8]] += [1e-9, -1e-9]
    loss, alphas = LossFunction(P), np.linspace(0.1, 3, 9)
    bounds = np.array([LossFunction(P)(a) for a in alphas.tolist()])
    assert np.allclose(bounds, loss(alphas), rtol=1e-13, atol=0)
    assert audited_loss_bound(P, alphas, bounds * (1 + 2e-14)).all()
    assert not audited_loss_bound(P, alphas, bounds * (1 - 1e-12)).any()


def test_trivial_bounds():
    """The leakage itself is always a bound; negative, unknown and infinite numbers show nothing."""
    alpha = np.array([1.0, 0.0, 1.0, np.nan, np.inf, 1.0])
    bound = np.array([1.0, 0.0, -1.0, 0.5, 5.0, np.nan])
    assert audited_loss_bound(np.eye(2), alpha, bound).tolist() == [True, True, False, False, False, False]


@given(
    st.integers(2, 5),
    st.integers(0, 10**6),
    st.lists(st.just(0.0) | st.floats(1e-12, 2), min_size=1, max_size=30),
    st.integers(1, 4),
)
@settings(max_examples=50, deadline=None)
def test_audited_leakage(n, seed, epsilons, lags):
    """The audited leakage is never below the computed one, and above it by less than 1e-12 of the largest."""
    chain = Chain(forward=random_matrix(n, seed), initial=np.full(n, 1 / n))
    computed = total_leakage(epsilons, chain.backward_side(), chain.forward_side(), lags)
    audited = audited_total_leakage(epsilons, chain, lags)
    assert (audited >= computed).all()
    assert (audited <= computed + 1e-12 * computed.max() + 1e-280).all()


def test_audit_costs_no_budget():
    """A schedule whose leakage is alpha (1 - 3e-13) is accepted under alpha, for 20,000 steps of a well-mixed chain."""
    chain = Chain(forward=MATRICES["slide_F"])
    alpha = 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        worst = sum(supremum(middle, side) for side in (chain.backward_side(), chain.forward_side())) - middle
        low, high = (middle, high) if worst <= alpha * (1 - 3e-13) else (low, middle)
    assert audited_total_leakage(np.full(20_000, low), chain).max() <= alpha
    assert audited_stationary_leakage(low, chain) <= alpha


@given(st.integers(2, 5), st.integers(0, 10**6), st.floats(0.01, 2))
@settings(max_examples=30, deadline=None)
def test_audited_supremum(n, seed, epsilon):
    """The audited limit covers every step of a long constant stream, closely; it is infinite where there is none."""
    chain = Chain(forward=random_matrix(n, seed))
    sides = chain.backward_side(), chain.forward_side()
    expected = sum(supremum(epsilon, side, 3) for side in sides) - epsilon
    found = audited_stationary_leakage(epsilon, chain, 3)
    if expected < np.inf:
        assert found >= total_leakage(np.full(300, epsilon), *sides, 3).max()
        assert found >= expected
        assert found <= expected * (1 + 1e-9)
    else:
        assert found == np.inf


def test_a_wrong_proposal_is_refused(monkeypatch):
    """If the hull proposed too little, the audit would refuse and name the number."""
    monkeypatch.setattr(proposals, "_outward", lambda width: 1 - 1e-9)
    with pytest.raises(PlanRejectedError) as caught:
        audited_total_leakage([0.5, 0.5, 0.5], Chain(forward=MATRICES["slide_F"]))
    assert caught.value.code == "E0801"
    assert re.fullmatch(r"claims\.inherited, after: 0\.\d+ nats by lag 1", caught.value.where)


def test_endless_streams_need_one_law():
    """A chain whose law never settles has no audited limit for endless streams; one whose law does has."""
    with pytest.raises(PlanRejectedError, match="endless"):
        audited_stationary_leakage(0.1, Chain(forward=np.array([[0.0, 1.0], [1.0, 0.0]]), initial=[1, 0]))
    assert audited_stationary_leakage(0.1, Chain(forward=MATRICES["slide_F"], initial=[1, 0, 0])) >= 0.1
