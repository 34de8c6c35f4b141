"""Errors of declared signals are computed; the kernel's own estimators, under its own noise, have them."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.estimation.plain_series import SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.series_filter import fixed_lag_means, fixed_lag_variances, smoothed_means
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel, drawn_series
from policyc_runtime.noisy_values import measured, noisy_values
from policyc_runtime.randomness import SimulationRandomness

POLICY = """
policy cars "cars on a road"
stream passages {{
  user plate
  time at
  step 1h
  horizon {steps} steps
  {population}
  start "2026-01-01"
}}
release there = count(passages)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = {neighbors})
participation at_most({bound} steps, assumed = "passes")
signal {signal}
mechanism {mechanism}
deliver {deliver}
"""


class Setting(NamedTuple):
    """A declared signal, how long it is, and how noise is drawn."""

    signal: str
    steps: int
    bound: int
    population: str = ""
    mechanism: str = "gaussian()"
    neighbors: str = "add_remove"


SETTINGS = {
    "binomial 600": Setting(
        'binomial_ar1(mean = 600, autocorrelation = 0.95, evidence = "e")', 60, 30, "population 4037"
    ),
    "binomial 50": Setting('binomial_ar1(mean = 50, autocorrelation = 0.8, evidence = "e")', 60, 4, "population 200"),
    "ar1 0.4": Setting('ar1(mean = 900, sd = 40, autocorrelation = 0.4, evidence = "e")', 120, 60),
    "ar1 0.99": Setting('ar1(mean = 900, sd = 100, autocorrelation = 0.99, evidence = "e")', 120, 60),
    "season of 7": Setting(
        "seasonal_ar1(period = 7 steps, mean = 900, seasonal_sd = 150, residual_sd = 40, autocorrelation = 0.4, "
        'evidence = "e")',
        120,
        60,
    ),
    "season of 24": Setting(
        "seasonal_ar1(period = 24 steps, mean = 900, seasonal_sd = 120, residual_sd = 30, autocorrelation = 0.8, "
        'evidence = "e")',
        144,
        72,
    ),
    "AR(2)": Setting('ar(coefficients = [1.2, -0.6], sd = 60, mean = 900, evidence = "e")', 60, 30),
    "autocovariances": Setting('autocovariance(lags = [2500, 1800, 1000, 400], mean = 900, evidence = "e")', 60, 30),
    "Laplace noise": Setting(
        'ar1(mean = 900, sd = 40, autocorrelation = 0.9, evidence = "e")', 30, 6, mechanism="laplace()"
    ),
}
DELIVERIES = ["realtime", "within(5 steps)", "offline"]


@pytest.fixture
def plan_of(tmp_path):
    def make(setting: Setting, deliver: str):
        path = tmp_path / "cars.policy"
        path.write_text(POLICY.format(deliver=deliver, **setting._asdict()))
        return compile_policy(path).plan

    return make


def errors_of_runs(plan, deliver: str, process: SeriesProcess, runs: int) -> np.ndarray:
    """The mean squared error of each of so many runs: exact noise, then the plan's estimator."""
    (part,), steps = plan.releases, plan.stream.horizon
    mechanism, where = measured(plan, part)
    scales = np.sqrt(mechanism.variances(where, steps) / 2)
    found = np.empty(runs)
    for run in range(runs):
        raw = np.rint(drawn_series(process, steps, np.random.default_rng([7, run]))).astype(np.int64)[:, None]
        noisy = noisy_values(plan, part, mechanism.measure(where, raw, (), SimulationRandomness(run)))
        values = part.estimator.estimate_series(noisy, scales, 0, None, part.constraint_set, None, where.wait)
        found[run] = ((values - raw) ** 2).mean()
    return found


def declared(model: SignalModel) -> SeriesProcess:
    if model.arma is not None:
        return SeriesProcess(float(model.arma.covariances(1)[0] ** 0.5), 0.0, mean=float(model.mean), arma=model.arma)
    return SeriesProcess(
        residual_stddev=float(model.residual_stddev),
        autocorrelation=float(model.autocorrelation),
        seasonal_stddev=float(model.seasonal_stddev or 0),
        period=model.period or 0,
        mean=float(model.mean),
    )


@pytest.mark.sampled(0, laws=6)
@pytest.mark.parametrize("deliver", DELIVERIES)
@pytest.mark.parametrize("name", SETTINGS)
def test_runs_have_the_error_that_was_computed(name, deliver, plan_of, full):
    """Of 27 settings the mean over runs is the stated expectation, within 2 % or three standard errors of the mean.

    By default a few runs tell an error of 15 % or so; with --full there are enough for 2 %.
    """
    plan = plan_of(SETTINGS[name], deliver)
    part = plan.releases[0]
    assert part.predicted.kind == "expected"
    assert isinstance(part.estimator, SeriesFilter | SeriesSmoother)
    found = errors_of_runs(plan, deliver, declared(part.estimator.signal), 1500 if full else 50)
    stderr = found.std(ddof=1) / np.sqrt(found.size)
    assert abs(found.mean() - part.predicted.published) < max(3 * stderr, 0.02 * part.predicted.published)
    if full:
        assert 3 * stderr < 0.12 * part.predicted.published


@pytest.mark.law
def test_the_three_numbers_of_a_slow_stream(plan_of):
    """A binomial process of 600, autocorrelation 0.95, over 60 steps, replace: 179 at once, 125.5, 119.9 offline."""
    setting = SETTINGS["binomial 600"]._replace(neighbors="replace", mechanism="auto")
    for deliver, error in zip(DELIVERIES, (179.3, 125.5, 119.9), strict=True):
        assert plan_of(setting, deliver).releases[0].predicted.published == pytest.approx(error, abs=0.1)


def test_offline_the_declared_numbers_are_used(plan_of):
    """The smoother of the declared process is a candidate beside the one that learns, which errs more by a tenth."""
    part = plan_of(SETTINGS["binomial 600"], "offline").releases[0]
    assert part.estimator.signal is not None
    learning = next(row for row in part.candidates if row.estimator == "smoother()")
    assert learning.predicted_error > 1.1 * part.predicted.published


@pytest.mark.parametrize("period", [0, 7])
@pytest.mark.parametrize("mean", [900.0, None])
def test_smoothing_and_waiting_for_all_are_one(period, mean):
    """Going back over the stream gives the means and variances of a filter that waits for every later value.

    Values that are missing are expected too; the variance is that of the difference from the truth.
    """
    process = SeriesProcess(40.0, 0.9, seasonal_stddev=30.0 if period else 0.0, period=period, mean=mean)
    generator = np.random.default_rng(3)
    noisy = 900 + 70 * generator.standard_normal(80)
    noisy[20:25] = np.nan
    variances = np.where(np.isnan(noisy), np.inf, 3600.0)
    waiting = fixed_lag_means(process, noisy, variances, 79)
    assert smoothed_means(process, noisy, variances) == pytest.approx(waiting, abs=1e-6)
    left = fixed_lag_variances(process, variances, None)
    assert left == pytest.approx(fixed_lag_variances(process, variances, 79), rel=1e-6)
    assert left[22] > left[10]
    assert (left <= fixed_lag_variances(process, variances, 0) + 1e-9).all()


def test_variances_are_those_of_exact_conditioning():
    """Against the textbook: K - K (K + R)^-1 K for all values, and for those up to d later ones."""
    process = SeriesProcess(40.0, 0.8, seasonal_stddev=25.0, period=5, mean=100.0)
    steps, noise = 24, 900.0
    lags = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    prior = process.covariances(steps)[lags]
    for delay in (0, 3, None):
        exact = np.empty(steps)
        for t in range(steps):
            seen = np.arange(steps if delay is None else min(steps, t + delay + 1))
            along = prior[t, seen]
            exact[t] = prior[t, t] - along @ np.linalg.solve(
                prior[np.ix_(seen, seen)] + noise * np.eye(seen.size), along
            )
        assert fixed_lag_variances(process, np.full(steps, noise), delay) == pytest.approx(exact, rel=1e-8)


@pytest.mark.law
def test_near_a_bound_courses_are_simulated(plan_of, tmp_path):
    """Where values of the process would meet zero nothing is computed as if they could not; the plan says so."""
    signal = 'ar1(mean = 20, sd = 12, autocorrelation = 0.9, evidence = "e")'
    part = plan_of(Setting(signal, 60, 4), "realtime").releases[0]
    assert part.predicted.kind == "simulated"
    assert part.predicted.stderr is not None
    found = errors_of_runs(
        plan_of(Setting(signal, 60, 4), "realtime"), "realtime", SeriesProcess(12.0, 0.9, mean=20.0), 60
    )
    stderr = np.hypot(found.std(ddof=1) / np.sqrt(found.size), part.predicted.stderr)
    assert abs(found.mean() - part.predicted.published) < 3 * stderr


def test_absolute_errors_of_laplace_noise_are_its_own(plan_of, tmp_path):
    """Not those of normal noise of the same variance, which are 13 % larger."""
    path = tmp_path / "cars.policy"
    setting = SETTINGS["Laplace noise"]._asdict() | {
        "deliver": "realtime\nobjective mean_absolute_error\nestimate none()"
    }
    path.write_text(POLICY.format(**setting))
    part = compile_policy(path).plan.releases[0]
    scale = float(part.mechanism.scale)
    noise = np.arange(-4000, 4001)
    law = np.exp(-np.abs(noise) / scale)
    assert part.predicted.published == pytest.approx((law / law.sum() * np.abs(noise)).sum(), rel=1e-6)
    assert Decimal(part.mechanism.scale) > 1
