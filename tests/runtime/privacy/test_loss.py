"""The temporal loss function against reference numbers, literal algorithms and exact arithmetic."""

from __future__ import annotations

import math
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.hull import Pairs, Vertex
from policyc.planning.leakage.loss import LossFunction
from policyc_check.errors import InvalidMatrixError

oracles = run_path(str(Path(__file__).with_name("oracles.py")))
REFERENCE, MATRICES = oracles["reference"](), oracles["reference_matrices"]()
ALPHAS = (1e-12, 1e-6, 0.01, 0.5, 1.0, 3.0, 30.0, 699.0, 701.0, 1e4, 1e6)


@st.composite
def transition(draw, least=2, most=6):
    """Row-stochastic matrices with zeros, ties, tiny entries and nearly equal rows among them."""
    n = draw(st.integers(least, most))
    entry = st.sampled_from([0.0, 1.0, 1.0, 2.0, 1e-9]) | st.floats(0.001, 1)
    rows = [draw(st.lists(entry, min_size=n, max_size=n).filter(any)) for _ in range(n)]
    if draw(st.booleans()):
        rows[-1] = [p * (1 + 1e-9 * k) for k, p in enumerate(rows[0])]
    P = np.array(rows)
    return P / P.sum(axis=1, keepdims=True)


def both_ways(P, alpha):
    """The first value asked, found without the hull, and the value on the hull."""
    L = LossFunction(P)
    return L(alpha), L(alpha)


@pytest.mark.parametrize("name", MATRICES)
def test_reference_values(name):
    """L equals every reference value within 1e-12 relative, directly and on the hull."""
    for row in REFERENCE["loss"][name]:
        for found in both_ways(MATRICES[name], float(row["alpha"])):
            assert found == pytest.approx(row["L"], rel=1e-12, abs=1e-300)


def test_reference_slopes():
    """The slope of L at 0 is the Dobrushin coefficient."""
    for name, value in REFERENCE["dobrushin"].items():
        assert LossFunction(MATRICES[name]).dobrushin == pytest.approx(value, rel=1e-14)


def test_reference_suprema():
    """The supremum under a constant budget has the reference value, or is infinite where there is none."""
    for row in REFERENCE["supremum"]:
        expected = math.inf if row["supremum"] in (None, "inf") else row["supremum"]
        assert LossFunction(MATRICES[row["matrix"]]).supremum(float(row["epsilon"])) == pytest.approx(
            expected, rel=1e-12
        )


@given(transition(), st.sampled_from(ALPHAS) | st.floats(1e-3, 20))
@settings(max_examples=60, deadline=None)
def test_brute_force(P, alpha):
    """L equals the maximum over all pairs and column sets in 60-digit arithmetic, from 1e-12 to 1e6 nats."""
    expected = oracles["brute_force"](P.tolist(), alpha)
    for found in both_ways(P, alpha):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-16 * alpha)


@given(transition(2, 8), st.floats(0.01, 8))
@settings(max_examples=40, deadline=None)
def test_algorithm_1_and_linear_programs(P, alpha):
    """L equals literal Algorithm 1, and what HiGHS finds, as far as its tolerance goes."""
    L = LossFunction(P)(alpha)
    assert pytest.approx(oracles["algorithm_1"](P, alpha), rel=1e-9, abs=1e-14) == L
    programs = [oracles["linear_program"](P[i], P[j], alpha) for i in range(2) for j in range(2) if i != j]
    assert all(value <= L + 1e-5 for value in programs)


@given(transition(), st.lists(st.floats(1e-9, 50), min_size=2, max_size=8))
@settings(max_examples=60, deadline=None)
def test_bounds_and_shape(P, alphas):
    """0 <= L <= min(a, log(1 + eta (e^a - 1))), L is monotone and 1-Lipschitz, and arrays give the scalars' values."""
    L = LossFunction(P)
    a = np.sort(np.array(alphas))
    values = L(a)
    assert (values >= 0).all()
    assert (values <= a).all()
    assert (values <= np.log1p(L.dobrushin * np.expm1(a)) * (1 + 1e-12)).all()
    assert (np.diff(values) >= -1e-13 * a[1:]).all()
    assert (np.diff(values) <= np.diff(a) + 1e-13 * a[1:]).all()
    assert values.tolist() == pytest.approx([L(x) for x in a.tolist()], rel=1e-14)  # the first was found directly
    assert L(0.0) == 0
    assert L.budget(1.0) == 1.0 - L(1.0)


@given(transition(), st.floats(1e-3, 5))
@settings(max_examples=60, deadline=None)
def test_supremum_is_the_fixed_point(P, epsilon):
    """The supremum B solves B = epsilon + L(B), and where it is infinite the recursion grows beyond any bound."""
    L = LossFunction(P)
    B = L.supremum(epsilon)
    if math.isfinite(B):
        assert epsilon + L(B) == pytest.approx(B, rel=1e-9)
    else:
        assert all(epsilon + L(b) > b * (1 - 1e-12) for b in (1.0, 10.0, 100.0, 1000.0))


@pytest.mark.parametrize("n", [40, 300])
def test_large_matrices(n):
    """Direct values, found in whole numbers first, equal the hull's for ties, zeros and dense rows."""
    rng = np.random.default_rng(3)
    dense = rng.random((n, n))
    sparse = np.where(rng.random((n, n)) < 0.1, dense, 0) + np.eye(n)
    for rows in (dense, sparse, oracles["smoothed_permutation"](n, 0.005)):
        P = rows / rows.sum(axis=1, keepdims=True)
        L = LossFunction(P)
        L.supremum(1.0)
        for alpha in (1e-3, 1.0, 10.0):
            direct = LossFunction(P)(alpha)
            assert L(alpha) == pytest.approx(direct, rel=1e-13)
        if n == 40:
            assert direct == pytest.approx(oracles["algorithm_1"](P, alpha), rel=1e-12)


@pytest.mark.parametrize("concentration", [1.0, 0.05, 50.0])
@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0])
def test_no_pair_is_lost_in_whole_numbers(concentration, mu):
    """Every pair above a level is among those kept by 16-bit sums, and few others are."""
    n = 300
    rows = Pairs(np.random.default_rng(4).dirichlet(np.full(n, concentration), n))
    excess = rows.excesses(mu)
    level = float(np.quantile(excess, 0.999))
    kept = rows.roughly_above(mu, level - rows.rough_error)
    assert set(np.flatnonzero(excess > level)) <= set(kept.tolist())
    assert excess[kept].min() > level - 2 * rows.rough_error


def test_disjoint_rows_and_equal_rows():
    """Disjoint rows pass everything on, without a supremum; equal rows pass on nothing."""
    same = LossFunction([[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]])
    assert same.is_identity
    assert all(same(a) == a for a in (1e-9, 1.0, 30.0, 1e6, math.inf))
    assert same.supremum(0.1) == math.inf
    assert set(same.worst_rows) in ({0, 1}, {1, 2})
    none = LossFunction([[0.3, 0.7], [0.3, 0.7]])
    assert not none.is_identity
    assert [none(a) for a in (1e-9, 1.0, 1e6, math.inf)] == [0, 0, 0, 0]
    assert none.supremum(0.1) == pytest.approx(0.1)
    assert LossFunction([[1.0]])(1.0) == 0


@given(transition(2, 4), st.floats(0.01, 20), st.floats(0.001, 0.2), st.randoms())
@settings(max_examples=40, deadline=None)
def test_row_tolerance(P, alpha, rho, random):
    """With rows known within rho of total variation, L bounds the loss of every matrix that close."""
    bound = LossFunction(P, row_tolerance=rho)
    for _ in range(5):
        R = np.array([[random.random() ** 4 + 1e-9 for _ in row] for row in P])
        other = (1 - rho) * P + rho * R / R.sum(axis=1, keepdims=True)
        assert LossFunction(other)(alpha) <= bound(alpha) * (1 + 1e-12)
    assert bound(alpha) <= alpha
    limit = bound.supremum(0.1)
    assert math.isinf(limit) or 0.1 + bound(limit) == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        ([[0.5, 0.5], [0.5, 0.501]], "row 2"),
        ([[0.5, 0.5], [1.5, -0.5]], "row 2, column 2"),
        ([[0.5, 0.5], [math.nan, 0.5]], "row 2, column 1"),
        ([[0.5, 0.5]], "1 x 2"),
        ([], "square"),
        ([[0.5, 0.5], [1.0]], "table of numbers"),
        ("abc", "table of numbers"),
        (1.0, "a single number"),
    ],
)
def test_matrices_that_are_none(matrix, says):
    """A table that is no transition matrix is refused with the place of the fault."""
    with pytest.raises(InvalidMatrixError, match=says) as caught:
        LossFunction(matrix)
    assert caught.value.code == "E0805"


def test_printed_decimals():
    """Rows that miss 1 by rounding of printed decimals are accepted and brought to 1."""
    L = LossFunction([[0.333333333, 0.333333333, 0.333333333], [0.2, 0.3, 0.5], [0, 0, 1]])
    assert L.matrix.sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-15)


def test_leakage_below_zero():
    """A negative leakage is refused."""
    for wrong in (-1.0, math.nan, np.array([1.0, -1.0])):
        with pytest.raises(ValueError, match="at least 0"):
            LossFunction([[0.5, 0.5], [0.1, 0.9]])(wrong)


@pytest.mark.parametrize("epsilon", [600.0, 700.0, 708.0, 710.0, 740.0, 745.0, 746.0, 1e3, 1e6])
def test_a_supremum_of_a_huge_budget_is_one(epsilon):
    """Beyond what exponentials of floats can hold, it is still the fixed point, and not below the budget."""
    for P in (np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]]), np.array([[0.5, 0.5], [0.0, 1.0]])):
        loss = LossFunction(P)
        limit = loss.supremum(epsilon)
        assert limit >= epsilon
        if math.isfinite(limit):
            assert epsilon + loss(limit) == pytest.approx(limit, rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(transition(1), st.sampled_from([0.0, 0.01, 0.3, 0.6, 0.999]), st.booleans())
def test_many_values_are_those_of_each(P, rho, tiny):
    """Of an array, to the last digits, from next to nothing to all that a float holds."""
    if tiny and len(P) > 1:
        P = np.where(P.max(axis=1, keepdims=True) > P, 1e-305, P)
        P /= P.sum(axis=1, keepdims=True)
    alphas = np.array([0.0, 1e-320, 1e-300, 1e-9, *ALPHAS, 700.0, 1e300, math.inf])
    one, L = LossFunction(P, rho), LossFunction(P, rho)
    one(1.0)
    each, found = np.array([one(alpha) for alpha in alphas.tolist()]), L(alphas.reshape(2, -1)).ravel()
    assert (np.isinf(found) == np.isinf(each)).all()
    some = np.isfinite(each)
    assert (np.abs(found[some] - each[some]) <= 2e-15 * each[some]).all()


def test_a_corner_that_takes_over_beyond_all_floats() -> None:
    """Its place is a fraction too large for a float, and is told by logarithms."""
    one, other = Vertex(1.0, 1e-320, 0.0), Vertex(0.5, 5e-324, 0.5)
    assert one.takeover(other) == pytest.approx(320 * math.log(10), rel=1e-4)
    assert other.takeover(one) == math.inf
