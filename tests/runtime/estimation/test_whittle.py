"""Many series at once: each is searched as scipy would, and learned and filtered as if it were alone."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.optimize import minimize

from policyc_runtime.estimation.series_filter import causal_means
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.estimation.simplex import least_by_simplex
from policyc_runtime.estimation.whittle import learned_process, learned_processes


@pytest.mark.parametrize("unknowns", [1, 2, 4])
def test_every_search_is_that_of_scipy(unknowns):
    """Bit by bit: of bowls, of valleys, of costs with walls; each ends by itself."""
    generator = np.random.default_rng(unknowns)
    middles, begin = generator.normal(0, 3, (2, 40, unknowns))
    begin[0, 0] = 0.0

    def cost(points, which):
        away = points - middles[which]
        bent = (away**2 * np.arange(1, unknowns + 1)).sum(axis=-1) + np.abs(away).max(axis=-1) ** 1.5
        return np.where(away[..., 0] < -4, 1e6, bent + np.sin(3 * points[..., 0]))

    found, least = least_by_simplex(cost, begin, 0.01, 0.01, 1_000)
    options = {"maxfev": 1_000, "xatol": 0.01, "fatol": 0.01}
    for search in range(40):
        one = np.array([search])
        wanted = minimize(
            lambda point, one=one: cost(point[None], one)[0], begin[search], method="Nelder-Mead", options=options
        )
        assert found[search].tolist() == wanted.x.tolist()
        assert least[search] == wanted.fun


def drawn(series, steps):
    """Counts of different sizes, some with weeks, under noise of a standard deviation of 4."""
    generator = np.random.default_rng(7)
    weeks = 1 + 0.5 * np.sin(np.arange(steps) * 2 * np.pi / 7)[:, None] * (np.arange(series) % 2)
    true = generator.poisson(np.exp(generator.normal(3, 1, series)) * weeks)
    return true + generator.normal(0, 4, (steps, series)), np.full(steps, 16.0)


@pytest.mark.parametrize("model", [SignalModel(), SignalModel(period=7), SignalModel(observation_noise=True)], ids=str)
def test_each_series_is_learned_and_filtered_as_if_alone(model):
    """To the last bit, also where steps have no value."""
    values, variances = drawn(8, 40)
    values[[9, 30]] = np.nan
    every = learned_processes(model, values, variances)
    assert every == [learned_process(model, one, variances) for one in values.T]
    assert len({process.period for process in every}) == (2 if model.period else 1)
    means = causal_means(model, values, variances, 0, 0)
    for place in range(8):
        assert np.array_equal(means[:, [place]], causal_means(model, values[:, [place]], variances, 0, 0))


def test_thousands_of_series_are_learned_in_seconds():
    """Four weeks of 1,200: one by one they took half a minute and more."""
    values, variances = drawn(1_200, 28)
    begun = time.process_time()
    means = causal_means(SignalModel(period=7), values, variances, 0, 0)
    assert time.process_time() - begun < 12
    assert np.isfinite(means).all()
