"""Series of declared autocovariances: their states say what dense algebra says, whatever is missing or waits."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.linalg import toeplitz

from policyc_runtime.estimation.arma import (
    autoregressive,
    largest_root,
    least_density,
    moving_average,
    predictions,
    stationary,
)
from policyc_runtime.estimation.series_filter import fixed_lag_means, fixed_lag_variances, smoothed_means
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel, drawn_series
from policyc_runtime.estimation.whittle import learned_process
from policyc_runtime.offset import NO_OFFSET, Offset

STEPS = 40
MODELS = {
    "AR(1)": {"residual_stddev": 40, "coefficients": ["0.8"]},
    "AR(2) that swings": {"residual_stddev": 40, "coefficients": ["1.2", "-0.7"]},
    "AR(5)": {"residual_stddev": 40, "coefficients": ["0.4", "0.1", "-0.2", "0.1", "0.3"]},
    "near a unit root": {"residual_stddev": 40, "coefficients": ["1.5", "-0.505"]},
    "white": {"covariances": ["1600"]},
    "triangle, 0 at some frequency": {"covariances": ["1600", "1200", "800", "400"]},
    "negative neighbors": {"covariances": ["1600", "-800"]},
    "a week of days": {"covariances": ["2000", *["100"] * 6, "900", *["0"] * 3]},
}


def covariances(name: str, steps: int) -> np.ndarray:
    """By the definition: Yule and Walker's equations, solved for as many lags, or the list."""
    told = MODELS[name]
    if "covariances" in told:
        return np.resize(np.append(np.array(told["covariances"], float), np.zeros(steps)), steps)
    phi = np.array(told["coefficients"], float)
    size = len(phi) + 1
    rows = np.zeros((size, size))
    for lag in range(size):
        rows[lag, lag] += 1
        for place, coefficient in enumerate(phi, start=1):
            rows[lag, abs(lag - place)] -= coefficient
    found = list(np.linalg.solve(rows, np.eye(size)[0]))
    while len(found) < steps:
        found.append(float(phi @ np.array(found[:-size:-1])))
    return np.array(found[:steps]) / found[0] * 40**2


def process_of(name: str, mean: Decimal | None) -> SeriesProcess:
    found = learned_process(SignalModel.model_validate({**MODELS[name], "mean": mean}), np.empty(0), np.empty(0))
    assert found is not None
    return found


def dense(name: str, values, variances, delay: int | None, mean: float | None, offset: Offset = NO_OFFSET):
    """Answers and the variance of what they miss, by conditioning a normal vector."""
    own = toeplitz(covariances(name, STEPS))
    away = 0.0 if mean is None else mean
    truth = own + (1e9 if mean is None else 0.0)
    period = np.zeros(STEPS) if offset.steps is None else np.arange(STEPS) // offset.steps
    noise = np.diag(variances) + offset.stddev**2 * (period[:, None] == period)
    means, left = np.empty(STEPS), np.empty(STEPS)
    for t in range(STEPS):
        end = STEPS if delay is None else min(t + delay + 1, STEPS)
        used = np.flatnonzero(np.isfinite(values[:end]))
        gain = np.linalg.solve((truth + noise)[np.ix_(used, used)], truth[used, t])
        means[t] = away + gain @ (values[used] - away)
        left[t] = truth[t, t] - gain @ truth[used, t]
    return means, left


@pytest.mark.parametrize("name", MODELS)
def test_covariances_are_those_of_the_definition(name: str) -> None:
    """Of the process and of 4,000 courses of it."""
    process = process_of(name, Decimal(0))
    found = covariances(name, 30)
    assert np.allclose(process.covariances(30), found, atol=1e-6 * found[0])
    rng = np.random.default_rng(1)
    runs = np.array([drawn_series(process, 30, rng, -np.inf) for _ in range(4000)])
    empirical = runs.T @ runs / len(runs)
    assert np.abs(empirical - toeplitz(found)).max() < 6 * 2**0.5 * found[0] / len(runs) ** 0.5


@pytest.mark.parametrize("mean", [Decimal(900), None])
@pytest.mark.parametrize("delay", [0, 3, None])
@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_dense_algebra(name: str, delay: int | None, mean: Decimal | None) -> None:
    """Filter, filter that waits and smoother, with missing values and noise of many sizes."""
    rng = np.random.default_rng(3)
    process = process_of(name, mean)
    variances = rng.uniform(100, 4000, STEPS)
    values = 900 + 40 * rng.standard_normal(STEPS) + np.sqrt(variances) * rng.standard_normal(STEPS)
    values[rng.permutation(STEPS)[:8]] = np.nan
    values[0] = 880.0  # where the start of an unknown mean is
    missing = np.where(np.isfinite(values), variances, np.inf)
    if delay is None:
        found = smoothed_means(process, values, missing)
    else:
        found = fixed_lag_means(process, values, missing, delay)
    means, left = dense(name, values, variances, delay, None if mean is None else float(mean))
    close = 1e-4 if mean is not None else 0.05  # of a mean of which next to nothing is known, not nothing at all
    assert np.abs(found - means).max() < close
    assert np.abs(fixed_lag_variances(process, missing, delay) - left).max() < (1e-3 if mean is not None else 1.0)


@pytest.mark.parametrize("steps", [None, 10])
def test_what_all_values_are_off_by_is_found_beside_a_declared_law(steps: int | None) -> None:
    """As it is beside AR(1)."""
    rng = np.random.default_rng(5)
    offset, variances = Offset(30.0, steps), np.full(STEPS, 400.0)
    values = 900 + 50 * rng.standard_normal(STEPS)
    for name in ("AR(2) that swings", "triangle, 0 at some frequency"):
        process = process_of(name, Decimal(900))
        for delay in (0, 3, None):
            means, left = dense(name, values, variances, delay, 900.0, offset)
            found = (
                smoothed_means(process, values, variances, offset)
                if delay is None
                else fixed_lag_means(process, values, variances, delay, offset)
            )
            assert np.abs(found - means).max() < 1e-4
            assert np.abs(fixed_lag_variances(process, variances, delay, offset) - left).max() < 1e-3


def test_a_coefficient_alone_is_ar1() -> None:
    """The same answers, to rounding."""
    values, variances = np.arange(30.0), np.full(30, 9.0)
    plain = SeriesProcess(40.0, 0.8, mean=5.0)
    for delay in (0, 2):
        assert np.allclose(
            fixed_lag_means(plain, values, variances, delay),
            fixed_lag_means(process_of("AR(1)", Decimal(5)), values, variances, delay),
        )


@pytest.mark.parametrize("order", range(1, 7))
def test_stationary_is_what_roots_say(order: int) -> None:
    """Of random coefficients, by the roots of the companion matrix."""
    rng = np.random.default_rng(order)
    seen = set()
    for _ in range(300):
        coefficients = rng.normal(0, 1.2 / order, order).tolist()
        assert stationary(coefficients) == (largest_root(coefficients) < 1)
        seen.add(stationary(coefficients))
    assert seen == {False, True}


def test_a_list_is_an_autocovariance_where_its_matrices_have_no_negative_eigenvalue() -> None:
    """The least density is where those of ever larger Toeplitz matrices go."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        listed = np.append(1.0, rng.uniform(-0.4, 0.4, 4))
        eigenvalue = np.linalg.eigvalsh(toeplitz(np.append(listed, np.zeros(595))))[0]
        density, place = least_density(listed.tolist())
        assert density <= eigenvalue + 1e-12
        assert density == pytest.approx(eigenvalue, abs=1e-3)
        assert 0 <= place <= np.pi


def test_moving_averages_of_long_lists() -> None:
    """A list of 200 numbers comes back, and a coefficient before 1 is the innovation's."""
    listed = 900 * np.convolve(np.ones(200), np.ones(200))[199:] / 200
    found = moving_average(tuple(listed.tolist()))
    assert np.allclose(found.covariances(200), listed, atol=1e-6 * listed[0])
    assert found.weights[0] == 1
    assert autoregressive((0.5, 0.2), 3.0).covariances(1)[0] == pytest.approx(9)


def test_predictions_are_the_best() -> None:
    """Of the values before, with noise on top: by the normal equations."""
    listed = covariances("AR(2) that swings", 5)
    for count, weights in enumerate(predictions(listed, 100.0)):
        if count:
            normal = toeplitz(listed[:count]) + 100 * np.eye(count)
            assert np.allclose(normal @ weights, listed[1 : count + 1])


@pytest.mark.parametrize(
    "told",
    [
        {"coefficients": ["1"], "residual_stddev": 1},
        {"coefficients": ["0.5", "0.5"], "residual_stddev": 1},
        {"coefficients": ["0.5"]},
        {"coefficients": ["0.5"], "residual_stddev": 1, "period": 7},
        {"covariances": ["1", "0.6"]},
        {"covariances": ["0"]},
        {"covariances": ["1", "0.2"], "autocorrelation": "0.2"},
    ],
)
def test_what_is_no_law_is_refused(told: dict[str, object]) -> None:
    """Whoever writes a plan by hand."""
    with pytest.raises(ValueError, match="are those of"):
        SignalModel.model_validate(told)
