"""The audit bounds what the chain of the plan's decimals leaks: against rational chains and 60-digit logarithms."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.planning.leakage.inheritance import audited_stationary_leakage, audited_total_leakage
from policyc_check.plan.correlation import ChainRecord
from policyc_check.steps.chains import Chain
from policyc_check.steps.stationary import stationary_law

Rows = list[list[Fraction]]


def divided(row):
    return [value / sum(row) for value in row]


def product(A: Rows, B: Rows) -> Rows:
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*B, strict=True)] for row in A]


def power(P: Rows, k: int) -> Rows:
    return P if k == 1 else product(power(P, k - 1), P)


def stationary(P: Rows) -> list[Fraction]:
    A = [row[:] for row in P]
    for k in range(len(A) - 1, 0, -1):
        for i in range(k):
            A[i][k] /= sum(A[k][:k])
            for j in range(k):
                A[i][j] += A[i][k] * A[k][j]
    law = [Fraction(1)]
    for k in range(1, len(A)):
        law.append(sum(law[i] * A[i][k] for i in range(k)))
    return divided(law)


def reverse(P: Rows, law: list[Fraction]) -> Rows:
    return [divided([law[j] * P[j][i] for j in range(len(P))]) for i in range(len(P))]


def loss(P: Rows, alpha: Decimal) -> Decimal:
    """The maximum over all pairs of rows and all sets of columns."""
    E, best = alpha.exp() - 1, Decimal(1)
    rows = [[Decimal(p.numerator) / p.denominator for p in row] for row in P]
    for q, d in itertools.permutations(rows, 2):
        for chosen in itertools.product((0, 1), repeat=len(q)):
            Q, D = (sum((p for p, s in zip(row, chosen, strict=True) if s), Decimal(0)) for row in (q, d))
            best = max(best, (Q * E + 1) / (D * E + 1))
    return best.ln()


def leakage(epsilons, law, lags):
    """B_t, the least over lags; `law(step, lag)` is that of the state `lag` steps away."""
    found: list[Decimal] = []
    for t, epsilon in enumerate(map(Decimal, epsilons)):
        bounds = [
            sum(map(Decimal, epsilons[t - k + 1 : t]), Decimal(0)) + loss(law(t, k), found[t - k])
            for k in lags
            if k <= t
        ]
        found.append(epsilon + min(bounds, default=Decimal(0)))
    return found


def total(epsilons, P, initial, lags):
    """Total leakage of every step, to 60 digits."""
    laws = [stationary(P) if initial is None else initial]
    for _ in epsilons:
        laws.append([sum(laws[-1][i] * P[i][j] for i in range(len(P))) for j in range(len(P))])
    powers = {k: power(P, k) for k in lags}
    with localcontext(prec=60):
        before = leakage(epsilons, lambda t, k: reverse(powers[k], laws[t - k]), lags)
        after = leakage(epsilons[::-1], lambda t, k: powers[k], lags)[::-1]
        return [b + f - Decimal(e) for b, f, e in zip(before, after, epsilons, strict=True)]


@st.composite
def chains(draw):
    """A chain as a plan has it: decimals whose rows sum to 1, or miss it by a little, as printed ones do."""
    n = draw(st.integers(2, 4))
    digits = draw(st.sampled_from([1, 2, 6, 17]))
    part = st.integers(1, 10**digits) | st.integers(1, 10)
    rows = [[draw(part) for _ in range(n)] for _ in range(n)]
    if n > 2 and draw(st.booleans()):
        rows[0][-1] = 0
    with localcontext(prec=digits + 11):
        matrix = [[Decimal(value) / sum(row) for value in row] for row in rows]
        if draw(st.booleans()):  # a ring moves most users on: leakage fades slowly
            matrix = [[(p + 9 * ((i + 1) % n == j)) / 10 for j, p in enumerate(row)] for i, row in enumerate(matrix)]
    initial = draw(st.none() | st.lists(st.integers(1, 99), min_size=n, max_size=n))
    return matrix, initial


@given(chains(), st.lists(st.floats(1e-3, 2), min_size=2, max_size=6), st.sampled_from([(1,), (1, 2), (1, 3)]))
@settings(max_examples=40, deadline=None)
def test_never_below_the_leakage_of_the_chain_in_decimals(chain, epsilons, lags):
    """Reversal, powers, marginals and recursion together: at least the exact leakage, and within 1e-12 of it."""
    matrix, weights = chain
    initial = "stationary" if weights is None else tuple(Decimal(w) / sum(weights) for w in weights)
    record = ChainRecord(
        group=None, forward=tuple(map(tuple, matrix)), backward=None, initial=initial, evidence="-", lags=lags
    )
    exact = [divided([Fraction(p) for p in row]) for row in matrix]
    start = None if weights is None else divided([Fraction(p) for p in initial])
    truth = total(epsilons, exact, start, lags)
    audited = audited_total_leakage(epsilons, record.chain(), lags).tolist()
    assert all(Fraction(a) >= Fraction(t) for a, t in zip(audited, truth, strict=True))
    assert max(a - float(t) for a, t in zip(audited, truth, strict=True)) <= 1e-12 * max(audited)


@given(st.integers(2, 12), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_stationary_laws_are_right_to_two_roundings(n, seed):
    """However small some probabilities are, each has full relative precision."""
    P = 10 ** np.random.default_rng(seed).uniform(-12, 0, (n, n))
    P /= P.sum(axis=1, keepdims=True)
    truth = stationary([[Fraction(p) for p in row] for row in P.tolist()])
    ratios = [Fraction(found) / exact for found, exact in zip(stationary_law(P).tolist(), truth, strict=True)]
    assert float(max(ratios) / min(ratios) - 1) < 5 * 2**-53


def test_a_start_that_has_settled_is_bounded_for_ever():
    """From the step at which floats no longer move, a law's stated error covers the exact law of every later step."""
    P = [[Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 5), Fraction(4, 5)]]
    chain = Chain(np.array(P, dtype=float), initial=[1, 0], relative_error=2**-53)
    settled = int(chain.settled)
    for step in (3, settled - 1, settled, settled + 1, 10 * settled):
        decay = Fraction(7, 10) ** step
        exact = [Fraction(2, 3) + decay / 3, Fraction(1, 3) - decay / 3]
        ratios = [Fraction(p) / e for p, e in zip(chain.marginal(step).tolist(), exact, strict=True)]
        assert float(max(ratios) / min(ratios) - 1) <= 2 * chain.marginal_error(step) < 1e-11


def test_a_law_that_still_moves_is_no_invariant_one():
    """Were a chain taken for settled too early, the distance that is left would be in its error, for ever."""
    chain = Chain([[0.9, 0.1], [0.2, 0.8]], initial=[1, 0])
    chain.marginal(5)
    chain._settled = 5
    for step in (5, 6, 20, 1000):
        decay = Fraction(7, 10) ** step
        exact = [Fraction(2, 3) + decay / 3, Fraction(1, 3) - decay / 3]
        ratios = [Fraction(p) / e for p, e in zip(chain.marginal(step).tolist(), exact, strict=True)]
        assert float(max(ratios) / min(ratios) - 1) <= np.expm1(2 * chain.marginal_error(step))


def largest_error(law, exact):
    """By what relative error floats differ from rational numbers."""
    pairs = [pair for rows in zip(law.tolist(), exact, strict=True) for pair in zip(*rows, strict=True)]
    return max(abs(float(Fraction(p) / e - 1)) for p, e in pairs if e)


@given(chains(), st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_stated_errors_cover_the_decimals_of_a_plan(chain, lag):
    """Of the matrix itself, of its powers and of their reversals."""
    exact = [divided([Fraction(p) for p in row]) for row in chain[0]]
    record = ChainRecord(
        group=None, forward=tuple(map(tuple, chain[0])), backward=None, initial="stationary", evidence="-", lags=(1,)
    )
    ahead, back = record.chain().forward_side(), record.chain().backward_side()
    for k in (1, lag):
        turned = reverse(power(exact, k), stationary(exact))
        for law, truth in ((ahead.law(k, k), power(exact, k)), (back.law(k, k), turned)):
            assert largest_error(law.matrix, truth) <= np.expm1(law.relative_error) < 1e-12


def test_powers_of_floats_state_their_own_roundings():
    """Where the matrix is exact, what is left is the error of products, and it is stated."""
    P = np.random.default_rng(5).random((6, 6))
    P /= P.sum(axis=1, keepdims=True)
    law = Chain(P).forward_side().law(0, 7)
    found = largest_error(law.matrix, power([[Fraction(p) for p in row] for row in P.tolist()], 7))
    assert 0 < found <= np.expm1(law.relative_error) < 1e-13


def test_entries_that_floats_lose_are_raised_and_never_zero():
    """Four improbable moves in a row are possible, though their probability is below the least float."""
    rare = 1e-100
    P = np.array(
        [[1 - rare, rare, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1 - rare, rare, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]]
    )
    for exponent in (4, 5, 8):
        reached = np.linalg.matrix_power((P > 0).astype(float), exponent) > 0
        assert ((Chain(P, initial=[1, 0, 0, 0, 0]).forward_side().law(0, exponent).matrix > 0) == reached).all()
    chain = np.diag([1 - rare] * 5) + np.diag([rare] * 4, 1)
    chain[4, 4] = 1
    assert Chain(chain, initial=[1, 0, 0, 0, 0]).forward_side().law(0, 4).matrix[0, 4] > 0


@pytest.mark.parametrize("error", [0.0, 1e-6])
def test_an_error_of_the_probabilities_is_paid_for(error):
    """The stated error of the entries raises the leakage: an audit that left it out would be found here."""
    P = np.array([[0.9, 0.1], [0.2, 0.8]])
    worse = np.array([[0.9 * np.exp(1e-6), 0.1], [0.2, 0.8 * np.exp(1e-6)]])
    worse[:, ::-1][[0, 1], [0, 1]] = 1 - worse[[0, 1], [0, 1]]
    for lags in (1, 2):
        stated = audited_stationary_leakage(0.3, Chain(P, relative_error=error), lags)
        assert (stated >= audited_stationary_leakage(0.3, Chain(worse), lags)) == (error > 0)
