"""Discrete Gaussian noise on a fine grid against the exact curve of discrete noise."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from policyc_runtime.privacy.discrete_noise import discrete_gaussian_profile
from policyc_runtime.privacy.fine_noise import FINE, fine_gaussian_profile
from policyc_runtime.privacy.gaussian import gaussian_delta


@pytest.mark.parametrize("changes", [1, 7, 60])
@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_the_bound_is_above_the_exact_curve_and_close(changes: int, mu: float, epsilon: float) -> None:
    """Equal changes, whose exact curve is known, lose no more than the bound, and hardly less."""
    stddev = 1.2e4
    shift = max(1, round(mu * stddev / math.sqrt(changes)))
    moved = shift * math.sqrt(changes) / stddev
    exact = discrete_gaussian_profile(Fraction(stddev) ** 2, changes, shift).delta(epsilon)
    bound = fine_gaussian_profile(moved, stddev, changes)
    assert bound.delta(epsilon) >= exact * (1 - 1e-9)
    assert bound.mu == pytest.approx(moved, rel=1e-4)


def test_the_bound_is_never_below_the_gaussian_curve() -> None:
    """Its mu only grows: with more values, and with a coarser grid."""
    assert fine_gaussian_profile(0.3, 1e9, 1).mu > 0.3
    assert fine_gaussian_profile(0.3, 1e5, 10**6).mu > fine_gaussian_profile(0.3, 1e5, 10).mu
    assert fine_gaussian_profile(0.3, 1e5, 10).mu > fine_gaussian_profile(0.3, 1e6, 10).mu
    assert fine_gaussian_profile(0.3, 1e6, 10).delta(1.0) > gaussian_delta(1.0, 0.3)


def test_a_coarse_grid_promises_nothing() -> None:
    """Below 10,000 steps of the grid the proof does not hold, so nothing is promised."""
    assert fine_gaussian_profile(0.3, FINE * 0.99, 1).delta(10.0) == 1.0
