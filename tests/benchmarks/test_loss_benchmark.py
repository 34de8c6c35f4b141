"""How fast the loss function is, beside the alternative in the same run: ratios are printed, never asserted."""

from __future__ import annotations

import time
from pathlib import Path
from runpy import run_path

import numpy as np

from policyc_runtime.privacy import Chain, LossFunction, audited_total_leakage, total_leakage, useful_lags

oracles = run_path(str(Path(__file__).parents[1] / "runtime" / "privacy" / "oracles.py"))


def random_matrix(n):
    P = np.random.default_rng(1).random((n, n))
    return P / P.sum(axis=1, keepdims=True)


def seconds(work, repeat=3):
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def test_one_value_against_algorithm_1_and_highs():
    """One L at n = 50 equals literal Algorithm 1; both are timed beside HiGHS over all pairs (from 30 pairs)."""
    P = random_matrix(50)
    L = LossFunction(P)
    assert L(1.0) == L(1.0)
    cold, warm = seconds(lambda: LossFunction(P)(1.0), 10), seconds(lambda: [L(1.0) for _ in range(1000)]) / 1000
    literal = seconds(lambda: oracles["algorithm_1"](P, 1.0), 1)
    highs = seconds(lambda: [oracles["linear_program"](P[0], P[j], 1.0) for j in range(1, 31)], 1) * 50 * 49 / 30
    print(f"\nn = 50: cold {cold * 1e3:.2f} ms, warm {warm * 1e6:.2f} us")
    print(f"cold: Algorithm 1 takes {literal / cold:,.0f}x, HiGHS {highs / cold:,.0f}x")
    print(f"warm: Algorithm 1 takes {literal / warm:,.0f}x, HiGHS {highs / warm:,.0f}x")


def test_hull_and_large_matrices_against_a_matrix_product():
    """The hull of n = 200 and one value at n = 1000 give the same L; they are timed beside an n x n matrix product."""
    P, large = random_matrix(200), random_matrix(1000)
    L = LossFunction(P)
    assert abs(L(1.0) - L(1.0)) < 1e-14
    hull = seconds(lambda: LossFunction(P).supremum(1.0))
    product = seconds(lambda: large @ large)
    one = seconds(lambda: LossFunction(large)(1.0), 2)
    print(f"\nhull of n = 200: {hull * 1e3:.0f} ms ({hull / product:.1f} products of n = 1000)")
    print(f"n = 1000, one value: {one * 1e3:.0f} ms, {one / product:.1f} matrix products of {product * 1e3:.1f} ms")


def test_a_long_schedule():
    """100,000 steps, every budget different: computed and audited leakage agree; both are timed."""
    chain = Chain(forward=[[0.8, 0.2], [0.1, 0.9]])
    epsilons = np.random.default_rng(0).uniform(0.1, 0.2, 100_000)
    constant = np.full(100_000, 0.1)
    computed = total_leakage(epsilons, chain.backward_side(), chain.forward_side())
    assert (audited_total_leakage(epsilons, chain) <= computed * (1 + 1e-12)).all()
    for name, budgets in (("different", epsilons), ("constant", constant)):
        plain = seconds(lambda b=budgets: total_leakage(b, chain.backward_side(), chain.forward_side()), 1)
        audit = seconds(lambda b=budgets: audited_total_leakage(b, chain), 1)
        print(f"\n100,000 {name} budgets: leakage {plain:.2f} s, audited {audit:.2f} s")


def test_lags_cost_little_without_gain():
    """A dense chain keeps lag 1; deciding that is timed beside the leakage under lag 1 itself."""
    P = random_matrix(50)

    def leakage(lagged):
        chain = Chain(forward=P)
        lags = useful_lags(chain) if lagged else (1,)
        assert lags == (1,)
        total_leakage(np.linspace(0.1, 0.2, 1000), chain.backward_side(), chain.forward_side(), lags)

    one, decided = seconds(lambda: leakage(False)), seconds(lambda: leakage(True))
    print(f"\nlags decided and used: {decided / one:.2f}x the time of lag 1")
