"""How fast the loss function is, beside the alternative in the same run: ratios are printed, never asserted."""

from __future__ import annotations

import time
from pathlib import Path
from runpy import run_path

import numpy as np
import pytest

from policyc.planning.leakage.inheritance import audited_total_leakage
from policyc.planning.leakage.lags import useful_lags
from policyc.planning.leakage.loss import LossFunction
from policyc.planning.leakage.recursion import supremum, total_leakage
from policyc_check.steps.chains import Chain
from policyc_check.steps.loss_bound import audited_loss_bound

pytestmark = pytest.mark.law

oracles = run_path(str(Path(__file__).parents[1] / "runtime" / "privacy" / "oracles.py"))


def random_matrix(n):
    P = np.random.default_rng(1).random((n, n))
    return P / P.sum(axis=1, keepdims=True)


def dirichlet_matrix(n):
    return np.random.default_rng(1).dirichlet(np.ones(n), n)


def seconds(work, repeat=3):
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def seconds_and_products(work, repeat=4):
    """Least seconds of `work`, and least time in products of n = 1000 that ran just before and after for as long."""
    A = np.random.default_rng(0).random((1000, 1000))
    took, ratio = np.inf, np.inf
    for _ in range(repeat):
        before = seconds(lambda: [A @ A for _ in range(5)], 1) / 5
        one = seconds(work, 1)
        after = seconds(lambda: [A @ A for _ in range(5)], 1) / 5
        took, ratio = min(took, one), min(ratio, 2 * one / (before + after))
    return took, ratio


def test_one_value_against_algorithm_1_and_highs():
    """One L at n = 50 equals literal Algorithm 1; both are timed beside HiGHS over all pairs (from 30 pairs)."""
    P = random_matrix(50)
    L = LossFunction(P)
    first, again = L(1.0), L(1.0)
    assert abs(first - again) < 1e-14
    cold, warm = seconds(lambda: LossFunction(P)(1.0), 20), seconds(lambda: [L(1.0) for _ in range(1000)]) / 1000
    literal = seconds(lambda: oracles["algorithm_1"](P, 1.0), 2)
    assert abs(first - oracles["algorithm_1"](P, 1.0)) < 1e-12
    highs = seconds(lambda: [oracles["linear_program"](P[0], P[j], 1.0) for j in range(1, 31)], 1) * 50 * 49 / 30
    print(f"\nn = 50: cold {cold * 1e3:.2f} ms, warm {warm * 1e6:.2f} us")
    print(f"cold: Algorithm 1 takes {literal / cold:,.0f}x (wanted 50x), HiGHS {highs / cold:,.0f}x (wanted 3,000x)")
    print(f"warm: Algorithm 1 takes {literal / warm:,.0f}x, HiGHS {highs / warm:,.0f}x")


def test_hull_of_200_states():
    """The hull of n = 200 holds the value found without it; timed in products of n = 1000 (dense, tied, sparse)."""
    n = 200
    sparse = np.where(np.random.default_rng(3).random((n, n)) < 0.1, dirichlet_matrix(n), 0) + np.eye(n)
    matrices = {
        "dense": dirichlet_matrix(n),
        "tied": oracles["smoothed_permutation"](n, 0.001),
        "sparse": sparse / sparse.sum(axis=1, keepdims=True),
    }
    for name, P in matrices.items():
        L = LossFunction(P)
        direct = L(1.0)
        assert abs(L(1.0) - direct) < 1e-14
        took, products = seconds_and_products(lambda P=P: LossFunction(P).supremum(1.0))
        print(f"\nhull of n = 200, {name}: {took * 1e3:.0f} ms (wanted 150), {products:.1f} products of n = 1000")


def test_one_value_of_1000_states():
    """One value at n = 1000 beside an n x n product: dense rows, ties with two different entries, and with many."""
    n = 1000
    tied = np.roll(np.eye(n), 1, axis=1) + 0.001
    uneven = tied * np.random.default_rng(2).uniform(1 - 1e-13, 1 + 1e-13, (n, n))
    for name, P in {"dense": dirichlet_matrix(n), "tied": tied / 2, "almost tied": uneven / 2}.items():
        took, products = seconds_and_products(lambda P=P: LossFunction(P)(1.0))
        print(f"\nn = 1000, one value, {name}: {took * 1e3:.0f} ms, {products:.1f} products (wanted 20)")


def test_a_long_schedule():
    """100,000 steps, every budget different: computed and audited leakage agree; both are timed."""
    chain = Chain(forward=[[0.8, 0.2], [0.1, 0.9]])
    epsilons = np.random.default_rng(0).uniform(0.1, 0.2, 100_000)
    constant = np.full(100_000, 0.1)
    computed = total_leakage(epsilons, chain.backward_side(), chain.forward_side())
    assert (audited_total_leakage(epsilons, chain) <= computed * (1 + 1e-12)).all()
    for name, budgets in (("different", epsilons), ("constant", constant)):
        plain = seconds(lambda b=budgets: total_leakage(b, chain.backward_side(), chain.forward_side()), 2)
        audit = seconds(lambda b=budgets: audited_total_leakage(b, chain), 2)
        print(f"\n100,000 {name} budgets: leakage {plain:.2f} s, audited {audit:.2f} s")


def test_audit_of_many_claims():
    """50 states, 2,000 claims: the audit, beside what one claim at a time would take (from 20)."""
    P = random_matrix(50)
    alphas = np.random.default_rng(0).uniform(0.1, 3, 2000)
    bounds = LossFunction(P)(alphas) * (1 + 2e-14)
    assert audited_loss_bound(P, alphas, bounds).all()
    together = seconds(lambda: audited_loss_bound(P, alphas, bounds))
    single = seconds(lambda: [audited_loss_bound(P, a, b) for a, b in zip(alphas[:20], bounds[:20], strict=True)])
    print(f"\n2,000 claims: {together:.3f} s, one at a time {100 * single / together:,.0f}x")


def test_lags_gain_variance():
    """Lags cut the noise variance of a smoothed ring of 10 places at alpha = 1: the gain over lag 1 is printed."""
    ring = np.array(oracles["reference"]()["lag"][0]["matrix"])
    P = (ring + 0.001) / (1 + 0.001 * len(ring))
    chain = Chain(forward=P)
    sides = chain.backward_side(), chain.forward_side()

    def budget(lags):
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            fits = sum(supremum(middle, side, lags) for side in sides) - middle <= 1
            low, high = (middle, high) if fits else (low, middle)
        return low

    plain, lagged = budget(1), budget(useful_lags(chain))
    assert lagged >= plain
    print(f"\nsmoothed ring: variance falls {(lagged / plain) ** 2:.1f}x through lags (wanted 20x)")


def test_lags_cost_little_without_gain():
    """Chains without gain keep lag 1; deciding that and using it is timed beside the leakage under lag 1 itself."""
    for name, P in (("dense", random_matrix(50)), ("two states", np.eye(2) * 0.6 + 0.2)):

        def leakage(lagged, P=P):
            chain = Chain(forward=P)
            lags = useful_lags(chain) if lagged else (1,)
            assert lags == (1,)
            total_leakage(np.linspace(0.1, 0.2, 1000), chain.backward_side(), chain.forward_side(), lags)

        one, decided = seconds(lambda f=leakage: f(False), 5), seconds(lambda f=leakage: f(True), 5)
        print(f"\n{name}: lags decided and used in {decided / one:.2f}x the time of lag 1 (wanted 2x)")
