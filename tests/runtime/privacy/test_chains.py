"""Chains: stationary laws, time reversal, marginals, and which lags are worth their time."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.lags import useful_lags
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.recursion import supremum
from policyc_check.errors import InvalidMatrixError
from policyc_check.steps.chains import Chain
from policyc_runtime.estimation.count_process import marginals

oracles = run_path(str(Path(__file__).with_name("oracles.py")))
MATRICES = oracles["reference_matrices"]()


@given(st.integers(2, 6), st.randoms())
@settings(max_examples=40, deadline=None)
def test_stationary_law_and_reversal(n, random):
    """The stationary law stays, to the last digits; reversing twice gives the chain back."""
    P = np.array([[10 ** random.uniform(-9, 0) for _ in range(n)] for _ in range(n)])
    P /= P.sum(axis=1, keepdims=True)
    chain = Chain(forward=P)
    law = chain.marginal(0)
    assert law @ P == pytest.approx(law, rel=1e-13)
    assert Chain(backward=chain.backward).forward == pytest.approx(chain.forward, rel=1e-11)
    assert marginals(chain, 3) == pytest.approx(np.tile(law, (3, 1)))


def test_transient_states_and_several_laws():
    """States left for ever have stationary probability 0; two closed parts are refused, by name."""
    assert Chain(forward=[[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]).marginal(0).tolist() == [0, 0.5, 0.5]
    with pytest.raises(InvalidMatrixError, match="state 1 and state 2"):
        Chain(forward=np.eye(2)).marginal(0)


def test_a_closed_chain_can_be_started():
    """A chain with several stationary laws serves when the first law is given."""
    chain = Chain(forward=np.eye(2), initial=[0.5, 0.5])
    assert supremum(0.1, chain.forward_side()) == np.inf
    assert losses_of(chain)[0].loss(3, 2).is_identity


def test_marginals_settle():
    """Marginal laws follow the chain and stop moving once floats cannot tell the difference."""
    P = MATRICES["slide_F"]
    chain = Chain(forward=P, initial=[1, 0, 0])
    laws = marginals(chain, 400)
    assert laws[3] == pytest.approx(np.array([1, 0, 0]) @ np.linalg.matrix_power(P, 3), rel=1e-14)
    assert laws[-1] == pytest.approx(Chain(forward=P).marginal(0), rel=1e-13)
    assert chain.settled < 200
    assert losses_of(chain)[0].loss(5000, 2) is losses_of(chain)[0].loss(10**6, 2)


def test_unreachable_states():
    """A state that cannot have been reached has no row of its own, so it adds no leakage."""
    chain = Chain(forward=[[0.6, 0.4, 0], [0.3, 0.7, 0], [0, 0, 1]], initial=[0.5, 0.5, 0])
    loss = losses_of(chain)[0].loss(1, 1)
    assert not loss.is_identity
    assert loss.matrix[2].tolist() in loss.matrix[:2].tolist()


def test_both_matrices_given():
    """Matrices given together are used as given, whatever the start."""
    B, F = MATRICES["slide_B"], MATRICES["slide_F"]
    chain = Chain(forward=F, backward=B, initial=[1, 0, 0])
    assert chain.backward_side().law(1, 1).matrix == pytest.approx(B)
    assert chain.forward_side().law(1, 1).matrix == pytest.approx(F)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs a matrix"),
        ({"forward": np.eye(2), "backward": np.eye(3)}, "square"),
        ({"forward": np.eye(2), "initial": [0.5, 0.6]}, "sum to 1"),
        ({"forward": np.eye(2), "initial": [1.0]}, "2 probabilities"),
    ],
)
def test_chains_that_are_none(arguments, says):
    """A chain without a matrix, with matrices of different sizes, or with a wrong first law is refused."""
    with pytest.raises(InvalidMatrixError, match=says):
        Chain(**arguments)


def test_useful_lags():
    """Two states and dense chains keep lag 1; a ring gets lags that give it a supremum."""
    ring = np.array(oracles["reference"]()["lag"][0]["matrix"])
    rng = np.random.default_rng(0)
    dense = rng.random((10, 10)) + 0.5
    assert useful_lags(Chain(forward=MATRICES["asym"])) == (1,)
    assert useful_lags(Chain(forward=dense / dense.sum(axis=1, keepdims=True))) == (1,)
    assert useful_lags(Chain(forward=np.eye(4), initial=[0.25] * 4)) == (1,)
    lags = useful_lags(Chain(forward=ring))
    for epsilon in (0.02, 0.1, 0.5, 2.0):
        assert supremum(epsilon, ring, lags) <= 1.02 * supremum(epsilon, ring, 64)
