"""The AR(1) likelihood against the joint normal law, and what maximum likelihood finds of simulated processes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from policyc_runtime.estimation.ar1 import ar1_log_likelihood, fit_ar1


def simulated(mean: float, stddev: float, rho: float, steps: int, noise: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.empty(steps)
    x[0] = stddev * rng.standard_normal()
    for t in range(1, steps):
        x[t] = rho * x[t - 1] + stddev * math.sqrt(1 - rho**2) * rng.standard_normal()
    return mean + x + np.sqrt(noise) * rng.standard_normal(steps)


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.5, 0.97])
def test_the_likelihood_is_that_of_the_joint_normal_law(rho):
    """Differences between parameters equal those of the dense law with a nearly flat mean, gaps included."""
    rng = np.random.default_rng(1)
    steps, flat = 12, 1e9
    values, variances = rng.normal(50, 10, steps), rng.uniform(5, 90, steps)
    values[3], variances[7] = np.nan, np.inf
    given = np.isfinite(values) & np.isfinite(variances)

    def dense(stddev: float, rho: float) -> float:
        lag = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
        joint = stddev**2 * np.where(lag == 0, 1.0, rho**lag) + flat + np.diag(np.where(given, variances, 1.0))
        kept = joint[np.ix_(given, given)]
        _, size = np.linalg.slogdet(kept)
        return -0.5 * (size + values[given] @ np.linalg.solve(kept, values[given]))

    ours = ar1_log_likelihood(values, variances, 9.0, rho)[0] - ar1_log_likelihood(values, variances, 4.0, 0.3)[0]
    assert ours == pytest.approx(dense(9.0, rho) - dense(4.0, 0.3), abs=1e-5)


def test_the_mean_is_the_generalised_least_squares_one():
    """The likeliest mean weighs values by the inverse of their joint covariance."""
    rng = np.random.default_rng(2)
    values, variances = rng.normal(7, 3, 9), rng.uniform(1, 4, 9)
    lag = np.abs(np.subtract.outer(np.arange(9), np.arange(9)))
    weights = np.linalg.solve(4 * 0.8**lag + np.diag(variances), np.ones(9))
    assert ar1_log_likelihood(values, variances, 2.0, 0.8)[1] == pytest.approx(weights @ values / weights.sum())


@pytest.mark.parametrize(("stddev", "rho"), [(100.0, 0.9), (60.0, 0.4), (30.0, 0.98)])
def test_maximum_likelihood_recovers_the_parameters(stddev, rho):
    """From 4,000 noisy values, a tenth of them missing, mean, spread and autocorrelation come back."""
    noise = np.full(4000, 50.0**2)
    values = simulated(500.0, stddev, rho, 4000, noise, seed=3)
    values[::10] = np.nan
    found = fit_ar1(values, noise)
    assert found.mean == pytest.approx(500, abs=20)
    assert found.stddev == pytest.approx(stddev, rel=0.2)
    assert found.autocorrelation == pytest.approx(rho, abs=0.06)


def test_noise_alone_is_found_to_be_noise():
    """A series that is all noise is given nearly no spread of its own."""
    noise = np.full(2000, 400.0)
    found = fit_ar1(simulated(10.0, 0.0, 0.0, 2000, noise, seed=4), noise)
    assert found.stddev < 6
    assert found.mean == pytest.approx(10, abs=2)


def test_no_parameters_do_better():
    """Around what was found, the likelihood is nowhere greater."""
    noise = np.full(300, 900.0)
    values = simulated(100.0, 40.0, 0.8, 300, noise, seed=5)
    found = fit_ar1(values, noise)
    best = ar1_log_likelihood(values, noise, found.stddev, found.autocorrelation)[0]
    for stddev in found.stddev * np.array([0.7, 0.95, 1.05, 1.4]):
        for rho in np.clip(found.autocorrelation + np.array([-0.1, -0.02, 0.02, 0.1]), -0.99, 0.99):
            assert ar1_log_likelihood(values, noise, stddev, rho)[0] <= best + 1e-3


def test_three_values_are_too_few():
    """Three values say nothing of three parameters."""
    with pytest.raises(ValueError, match="fewer than 4"):
        fit_ar1(np.arange(3.0), np.ones(3))
