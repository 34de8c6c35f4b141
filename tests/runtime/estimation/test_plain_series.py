"""Filter and smoother of plain series: against dense conditioning, causal, resumable, better than noisy values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from demands import at_least_zero, change_at_most, demands

from policyc_runtime.estimation import series_filter
from policyc_runtime.estimation.plain_series import SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.series_filter import fixed_lag_means, surprising
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel
from policyc_runtime.estimation.spectrum import Spectrum, posterior_means, smoothed
from policyc_runtime.estimation.whittle import learned_process


def causal_means(model, values, *others):
    """Of one series."""
    return series_filter.causal_means(model, values[:, None], *others)[:, 0]


def gaps(steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    values, variances = rng.normal(40, 12, steps), rng.uniform(10, 200, steps)
    values[rng.random(steps) < 0.2] = np.nan
    return values, variances


def seasonal(steps: int, period: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """True and noisy values: a season, an AR(1) residual, and noise."""
    rng = np.random.default_rng(seed)
    residual = np.zeros(steps)
    for t in range(1, steps):
        residual[t] = 0.8 * residual[t - 1] + 20 * rng.standard_normal()
    truth = 500 + 80 * np.tile(rng.standard_normal(period), steps // period + 1)[:steps] + residual
    return truth, truth + noise * rng.standard_normal(steps)


@pytest.mark.parametrize("delay", [0, 1, 4, 30])
@pytest.mark.parametrize("mean", [None, 35.0])
def test_the_recursion_equals_conditioning_the_joint_normal_law(delay, mean):
    """Fixed-lag means are those of the dense law of all values, with a season, gaps and uneven noise."""
    process = SeriesProcess(9.0, 0.7, 6.0, 0.9, 4, mean)
    values, variances = gaps(21, 1)
    lag = np.abs(np.subtract.outer(np.arange(21), np.arange(21)))
    joint = process.covariances(21)[lag] + (0.0 if mean is not None else 1e7)
    centre = values[np.isfinite(values)][0] if mean is None else mean
    found = fixed_lag_means(process, values, variances, delay)
    for t in range(21):
        used = np.flatnonzero(np.isfinite(values) & (np.arange(21) <= t + delay))
        if not used.size:
            continue
        seen = joint[np.ix_(used, used)] + np.diag(variances[used])
        expected = centre + joint[t, used] @ np.linalg.solve(seen, values[used] - centre)
        assert found[t] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("shape", ["ar1", "integrated random walk"])
def test_the_smoother_equals_dense_regression(shape):
    """Expectations with gaps and uneven noise are those of the written-out Gaussian process."""
    steps = 40
    values, variances = gaps(steps, 2)
    spectrum = Spectrum(shape, 3.0, 1.5).variances(steps)
    k = np.arange(1, steps)
    basis = np.sqrt(2 / steps) * np.cos(np.pi * np.outer(np.arange(steps) + 0.5, k) / steps)
    joint = basis @ np.diag(spectrum) @ basis.T + 1e7
    used = np.isfinite(values)
    centre = values[used].mean()
    weights = np.linalg.solve(joint[np.ix_(used, used)] + np.diag(variances[used]), values[used] - centre)
    assert posterior_means(values, variances, spectrum) == pytest.approx(centre + joint[:, used] @ weights, abs=1e-2)


def test_gaps_that_say_nothing_change_nothing():
    """One value of next to no weight more, and the two ways to compute agree."""
    truth, noisy = seasonal(200, 200, 30.0, 3)
    even = np.full(200, 900.0)
    uneven = even.copy()
    uneven[100] *= 1 + 1e-6
    assert (
        np.abs(smoothed(noisy, even) - smoothed(noisy, uneven)).max() < 3 * np.abs(smoothed(noisy, even) - truth).mean()
    )


@pytest.mark.parametrize("period", [None, 7])
def test_learning_recovers_the_parameters(period):
    """From 5,000 noisy values with gaps, spread and autocorrelation of the process come back."""
    rng = np.random.default_rng(4)
    lag, season, values = 0.0, np.zeros(7), np.empty(5000)
    for t in range(5000):
        lag = 0.9 * lag + 40 * np.sqrt(1 - 0.9**2) * rng.standard_normal()
        season[t % 7] = 0.95 * season[t % 7] + 60 * np.sqrt(1 - 0.95**2) * rng.standard_normal()
        values[t] = 100 + lag + 30 * rng.standard_normal() + (season[t % 7] if period else 0)
    values[::9] = np.nan
    found = learned_process(SignalModel(period=period), values, np.full(5000, 900.0))
    assert found is not None
    assert found.residual_stddev == pytest.approx(40, rel=0.15)
    assert found.autocorrelation == pytest.approx(0.9, abs=0.03)
    if period:
        assert found.seasonal_stddev == pytest.approx(60, rel=0.15)
        assert found.seasonal_autocorrelation == pytest.approx(0.95, abs=0.03)


def test_what_is_declared_is_not_learned():
    """Declared parameters stand; others are learned beside them; with all declared nothing is needed of the values."""
    declared = SignalModel(mean=Decimal(9), residual_stddev=Decimal(3), autocorrelation=Decimal("0.5"))
    assert learned_process(declared, np.empty(0), np.empty(0)) == SeriesProcess(3.0, 0.5, mean=9.0)
    _, noisy = seasonal(300, 300, 30.0, 6)
    found = learned_process(SignalModel(autocorrelation=Decimal("0.25")), noisy, np.full(300, 900.0))
    assert found is not None
    assert found.autocorrelation == 0.25
    assert found.residual_stddev > 10


def test_a_season_of_chance_is_left_out():
    """Where there is no season, none is believed."""
    _, noisy = seasonal(300, 300, 30.0, 7)
    found = learned_process(SignalModel(period=7), noisy, np.full(300, 900.0))
    assert found is not None
    assert found.period == 0


@pytest.mark.parametrize("delay", [0, 3])
def test_what_is_published_uses_nothing_later(delay):
    """A longer series leaves the values of earlier steps as they were, also in pieces, while parameters are learned."""
    _, noisy = seasonal(70, 7, 40.0, 8)
    variances = np.full(70, 1600.0)
    model = SignalModel(period=7)
    whole = causal_means(model, noisy, variances, 0, delay)
    for steps in (5, 8, 30, 55):
        part = causal_means(model, noisy[:steps], variances[:steps], 0, delay)
        assert np.array_equal(part[: max(steps - delay, 0)], whole[: max(steps - delay, 0)])
    assert np.array_equal(causal_means(model, noisy, variances, 41, delay), whole[41:])


def test_estimates_are_better_than_noise_and_season_helps():
    """Mean absolute errors: smoother, and filter with a season, below filter without, below the noisy values."""
    errors = np.zeros(4)
    for seed in range(2):
        truth, noisy = seasonal(364, 7, 120.0, seed)
        variances = np.full(364, 120.0**2)
        tried = (
            smoothed(noisy, variances),
            causal_means(SignalModel(period=7), noisy, variances, 0, 0),
            causal_means(SignalModel(), noisy, variances, 0, 0),
            noisy,
        )
        errors += [np.abs(values - truth).mean() for values in tried]
    assert errors[:2].max() < 0.9 * errors[2] < 0.9 * 0.7 * errors[3]


def test_observation_noise_is_smoothed_away_where_asked():
    """Values with noise of their own come nearer to the trend under it."""
    rng = np.random.default_rng(9)
    trend = 300 + 100 * np.sin(np.arange(400) / 30)
    noisy = trend + 15 * rng.standard_normal(400) + 40 * rng.standard_normal(400)
    variances = np.full(400, 225.0)
    plain, asked = (smoothed(noisy, variances, observation_noise=asked) for asked in (False, True))
    assert np.abs(asked - trend).mean() < 0.8 * np.abs(plain - trend).mean()


def test_a_filter_told_of_observation_noise_learns_how_much_there_is():
    """Of 3,000 values its spread comes back, and what is published is a fifth nearer to the signal under it."""
    rng = np.random.default_rng(13)
    signal = np.zeros(3000)
    for t in range(1, 3000):
        signal[t] = 0.95 * signal[t - 1] + 10 * rng.standard_normal()
    noisy, variances = signal + 40 * rng.standard_normal(3000) + 15 * rng.standard_normal(3000), np.full(3000, 225.0)
    told = SignalModel(observation_noise=True)
    process = learned_process(told, noisy, variances)
    assert process is not None
    assert process.observation_stddev == pytest.approx(40, rel=0.1)
    assert process.residual_stddev == pytest.approx(32, rel=0.2)
    plain, asked = (causal_means(model, noisy[:600], variances[:600], 0, 0) for model in (SignalModel(), told))
    assert np.abs(asked - signal[:600]).mean() < 0.8 * np.abs(plain - signal[:600]).mean()


def test_published_values_keep_the_constraints():
    """Non-negative, whole, and limited in how much they change from step to step, also under realtime."""
    rng = np.random.default_rng(10)
    noisy = rng.normal(3, 30, (40, 1))
    scales = np.full(40, 20.0)
    constraints = demands(*at_least_zero(1), *change_at_most(1, 5), cells=1, integer=True)
    for estimator, delay in ((SeriesFilter(signal=SignalModel()), 0), (SeriesSmoother(), None)):
        values = estimator.estimate_series(noisy, scales, 0, None, constraints, None, delay)
        assert (values >= 0).all()
        assert (values == np.rint(values)).all()
        assert (np.diff(values[:, 0]) <= 5 + 1e-9).all()


@pytest.mark.law
def test_where_nothing_moves_the_filter_averages():
    """Under much noise on a still series its error is at most 1.5 times that of the mean of all values so far."""
    errors = np.zeros(2)
    for seed in range(5):
        noisy = 500 + 90 * np.random.default_rng(seed).standard_normal(300)
        mean = np.cumsum(noisy) / np.arange(1, 301)
        found = causal_means(SignalModel(period=7), noisy, np.full(300, 8100.0), 0, 0)
        errors += [np.abs(values - 500)[8:].mean() for values in (found, mean)]
    assert errors[0] < 1.5 * errors[1]


def test_surprises_that_chance_explains_are_none():
    """A mean of 20 squares up to 1.3 times too large or small changes nothing; ten times too large is believed."""
    assert surprising(20 * 1.3, 20) == surprising(20 / 1.3, 20) == surprising(20.0, 20.0) == 1.0
    assert 9 < surprising(200.0, 20.0) < 10
    assert 0.1 < surprising(2.0, 20.0) < 0.11


def test_a_learned_filter_follows_how_surprising_values_are():
    """A series quiet in its first half and wild in its second: 5 % nearer than what was learned from all of it says."""
    rng = np.random.default_rng(12)
    truth = 500 + np.cumsum(rng.standard_normal(400) * np.where(np.arange(400) < 200, 1.0, 40.0))
    noisy, variances = truth + 20 * rng.standard_normal(400), np.full(400, 400.0)
    process = learned_process(SignalModel(), noisy, variances)
    assert process is not None
    plain, corrected = (
        np.abs(fixed_lag_means(process, noisy, variances, 0, learned=learned) - truth).mean()
        for learned in (False, True)
    )
    assert corrected < 0.95 * plain
    assert corrected < 0.9 * np.abs(noisy - truth).mean()


def test_steps_without_a_value_are_filled():
    """Nine of ten values missing: what is published is near the truth everywhere."""
    trend = 300 + 100 * np.sin(np.arange(400) / 30)
    noisy = trend + 5 * np.random.default_rng(11).standard_normal(400)
    sampled = np.where(np.arange(400) % 10 == 4, noisy, np.nan)
    assert np.abs(smoothed(sampled, np.full(400, 25.0)) - trend).max() < 20
    assert np.abs(causal_means(SignalModel(), sampled, np.full(400, 25.0), 50, 0) - trend[50:]).max() < 80


def test_plain_series_estimators_read_back():
    """In a plan, they are what was written."""
    for estimator in (SeriesFilter(signal=SignalModel(period=7, mean=Decimal(3))), SeriesSmoother()):
        assert type(estimator).model_validate_json(estimator.model_dump_json()) == estimator
    assert SeriesSmoother().described() == "smoother()"
    assert SeriesFilter(signal=SignalModel(period=7)).described() == "filter() of seasonal_ar1(period = 7)"


def test_a_season_of_which_only_the_size_is_not_said_needs_no_search() -> None:
    """All else is declared, so that without a season nothing is left to be searched for."""
    declared = SignalModel(residual_stddev=Decimal(3), autocorrelation=Decimal("0.5"), period=7)
    values = 100 + np.random.default_rng(1).normal(0, 3, 70)
    found = learned_process(declared, values, np.full(70, 4.0))
    assert found is not None
    assert (found.residual_stddev, found.autocorrelation) == (3, 0.5)
