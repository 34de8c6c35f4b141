"""Predictions by declared laws in lmmse: their errors are those of dense algebra and of runs."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.linalg import toeplitz

from policyc_runtime.estimation.signal import SeriesProcess, drawn_series
from policyc_runtime.mechanisms.ar1_prediction import DeclaredAR1
from policyc_runtime.mechanisms.process_prediction import MOST_BEFORE, DeclaredProcess

LAWS = {
    "AR(2)": DeclaredProcess(mean=5, residual_stddev=3, coefficients=("1.2", "-0.5")),
    "triangle": DeclaredProcess(mean=5, covariances=("9", "6", "3")),
    "white": DeclaredProcess(mean=5, covariances=("9",)),
    "a long list": DeclaredProcess(mean=5, covariances=tuple(str(9 - n / 4) for n in range(36))),
}
NOISE = 4.0


def answers(law: DeclaredProcess, weights: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Published values around the mean as (of true values, of noises): matrices, by the definition of the mechanism."""
    steps, listed = len(weights), law.arma.covariances(len(weights) + 1)
    most = min(max(len(law.coefficients), len(law.covariances) - 1), MOST_BEFORE)
    true, noise = np.zeros((steps, steps)), np.zeros((steps, steps))
    for t, weight in enumerate(weights):
        before = min(t, most)
        used = np.arange(t - before, t)
        gains = np.linalg.solve(toeplitz(listed[:before]) + NOISE * np.eye(before), listed[t - used]) if before else []
        for place, gain in zip(used, gains, strict=True):
            true[t] += (1 - weight) * gain * true[place]
            noise[t] += (1 - weight) * gain * noise[place]
        true[t, t] += weight
        noise[t, t] += weight > 0
    return true, noise


@pytest.mark.parametrize("weights", [[1, 1] + [0.4] * 48, [1, 1] + [0.9**t for t in range(38)] + [0.0] * 10])
@pytest.mark.parametrize("name", LAWS)
def test_errors_are_those_of_dense_algebra(name: str, weights: list[float]) -> None:
    """Of every step, from the first on."""
    law = LAWS[name]
    true, noise = answers(law, weights)
    missed = true - np.eye(len(weights))
    spread = toeplitz(law.arma.covariances(len(weights)))
    dense = np.diag(missed @ spread @ missed.T) + NOISE * (noise**2).sum(axis=1)
    assert np.allclose(law.errors(weights, NOISE), dense)


@pytest.mark.parametrize("name", LAWS)
def test_runs_are_what_the_definition_says(name: str) -> None:
    """Predictions from published values, step by step."""
    law, weights = LAWS[name], [1.0, 1.0] + [0.4] * 40
    true, noise = answers(law, weights)
    rng = np.random.default_rng(1)
    course = drawn_series(SeriesProcess(3.0, 0.5, mean=5.0, arma=law.arma), 42, rng, -np.inf)
    drawn = 2 * rng.standard_normal(42)
    found = np.empty((42, 1))
    for t, weight in enumerate(weights):
        found[t] = weight * course[t] + drawn[t]
        if weight < 1:
            found[t] += (1 - weight) * law.predicted(found[:t], NOISE)
    assert np.allclose(found[:, 0], 5 + true @ (course - 5) + noise @ drawn)


def test_one_coefficient_is_what_ar1_predicts() -> None:
    """The same errors and predictions."""
    plain = DeclaredAR1(mean=Decimal(5), sd=Decimal(3), autocorrelation=Decimal("0.8"))
    one = DeclaredProcess(mean=5, residual_stddev=3, coefficients=("0.8",))
    weights = [1, 1] + [0.3] * 30
    assert np.allclose(plain.errors(weights, NOISE), one.errors(weights, NOISE))
    before = np.arange(12.0).reshape(4, 3)
    assert np.allclose(plain.predicted(before, NOISE), one.predicted(before, NOISE))


def test_long_streams_are_settled() -> None:
    """After thousands of steps of one weight an error is the one before."""
    found = LAWS["AR(2)"].errors([1.0, 1.0] + [0.5] * 20_000, NOISE)
    assert found[-1] == found[5000]
    assert found[5000] == pytest.approx(found[4000], rel=1e-12)
