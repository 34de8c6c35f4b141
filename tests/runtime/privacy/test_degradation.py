"""What a promise is worth to a user who takes part more often than assumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import pytest

from policyc.offers.calibration import (
    discrete_gaussian_stddev,
    discrete_laplace_scale,
    gaussian_epsilon,
    gaussian_stddev,
    least_epsilon,
    sample_epsilon,
    sample_stddev,
)
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteGaussian, DiscreteLaplace
from policyc_check.users.subsampling import poisson_sample, stratified_sample

EPSILON, DELTA, BOUND = 1.0, 1e-5, 40


def families() -> dict[str, Callable[[int], float]]:
    """Epsilon of k participations at the same delta, with noise calibrated to BOUND of them."""
    stddev = gaussian_stddev(EPSILON, DELTA, math.sqrt(BOUND))
    variance = Fraction(discrete_gaussian_stddev(EPSILON, DELTA, BOUND)) ** 2
    scale = Fraction(discrete_laplace_scale(EPSILON, DELTA, BOUND))
    sampled = sample_stddev(poisson_sample(BOUND, 0.1), EPSILON, DELTA, 1.0)
    stratified = sample_stddev(stratified_sample(BOUND, 500, 10), EPSILON, DELTA, 1.0)
    return {
        "gaussian": lambda k: gaussian_epsilon(DELTA, math.sqrt(k) / stddev),
        "discrete gaussian": lambda k: least_epsilon(DiscreteGaussian(variance).alike(k), DELTA),
        "discrete laplace": lambda k: least_epsilon(DiscreteLaplace(scale).alike(k), DELTA),
        "poisson": lambda k: sample_epsilon(poisson_sample(k, 0.1), DELTA, 1 / sampled),
        "stratified": lambda k: sample_epsilon(stratified_sample(k, 500, 10), DELTA, 1 / stratified),
    }


@pytest.mark.parametrize("name", families())
def test_curve_passes_through_the_promise_and_rises(name: str) -> None:
    """At the bound epsilon is the one promised, never above it; more participations lose more, fewer less."""
    epsilon = families()[name]
    curve = [epsilon(k) for k in (1, 10, 39, 40, 41, 80, 160)]
    assert curve[3] <= EPSILON * (1 + 1e-9)
    assert curve[3] == pytest.approx(EPSILON, rel=1e-6)
    assert all(a < b for a, b in pairwise(curve))


def test_the_square_root_rule_is_no_bound() -> None:
    """Four times the participations lose more than twice epsilon: the published rule is not printed."""
    epsilon = families()["gaussian"](4 * BOUND)
    assert epsilon > 2 * EPSILON
    stddev = gaussian_stddev(EPSILON, DELTA, math.sqrt(BOUND))
    assert gaussian_delta(2 * EPSILON, 2 * math.sqrt(BOUND) / stddev) > DELTA


def test_a_coarse_lattice_is_pessimistic_and_close() -> None:
    """Figures that are not promised come from fewer points: never a smaller delta, and an epsilon within 5e-4."""
    mixed = DiscreteLaplace(Fraction(20)).alike(40).compose(DiscreteGaussian(Fraction(900)).alike(30))
    fine, coarse = least_epsilon(mixed, 1e-6), least_epsilon(mixed.coarse, 1e-6)
    assert fine <= coarse <= fine * (1 + 5e-4)
    assert mixed.coarse.delta(fine) >= mixed.delta(fine)
