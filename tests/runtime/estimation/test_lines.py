"""Lines of a spectrum: rhythms of any frequency, slopes and steps alone come back, chance gives none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import dct

from policyc_runtime.estimation.lines import ALONE, SLOPE, Lines
from policyc_runtime.estimation.spectrum import smoothed


def noise(steps: int, seed: int) -> np.ndarray:
    return 30.0 * np.random.default_rng(seed).standard_normal(steps)


def searched(values: np.ndarray, *, alone: bool = False) -> Lines:
    lines = Lines(dct(values, norm="ortho")[1:], np.full(values.size - 1, 900.0), alone=alone)
    lines.search(10)
    return lines


@pytest.mark.parametrize("period", [6.3, 24.0, 124.9])
def test_a_rhythm_of_any_frequency_comes_back(period):
    """Beside a slope, in noise twice as large: to 0.15 cycles over the series, and nothing else is found."""
    steps = np.arange(600)
    found = searched(0.3 * steps + 15 * np.sqrt(2) * np.sin(2 * np.pi * steps / period + 1) + noise(600, 1))
    frequencies = sorted(found.frequencies)
    assert frequencies[0] == SLOPE
    assert frequencies[1:] == [pytest.approx(1 / period, abs=0.15 / 600)]


def test_a_step_unlike_all_others_comes_back():
    """Beside a rhythm: both are found at their places, and nothing else is."""
    values = 60 * np.sin(np.arange(300) / 4) + noise(300, 5)
    values[[0, 170]] -= 250
    found = sorted(searched(values, alone=True).frequencies)
    assert found[1:] == [ALONE, ALONE + 170]
    assert found[0] == pytest.approx(1 / (8 * np.pi), abs=0.15 / 300)


def test_steps_alone_are_weighted_like_written_out_columns():
    """Their weights are the sums of squares that coefficients with unequal variances give."""
    variances = np.geomspace(100, 9000, 49)
    lines = Lines(np.zeros(49), variances, alone=True)
    columns = dct(np.eye(50), axis=0, norm="ortho")[1:]
    assert lines._weights_of_steps() == pytest.approx((columns**2 / variances[:, None]).sum(axis=0))


def test_chance_gives_no_lines():
    """In 100 series of noise alone at most 5 have a line; few steps never have one."""
    assert sum(bool(searched(noise(300, seed)).frequencies) for seed in range(100)) <= 5
    assert not searched(1e6 * np.arange(9.0)).frequencies


def test_chance_makes_no_step_unlike_all_others():
    """In 300 series of noise alone at most 2 % have one, as often as its price lets chance have it."""
    found = [searched(noise(300, seed), alone=True).frequencies for seed in range(300)]
    assert sum(max(one, default=SLOPE) >= ALONE for one in found) <= 6


def test_lines_are_fitted_by_their_weights():
    """What is left of the coefficients is what weighted least squares on written-out sines leaves."""
    steps = np.arange(50)
    values = 40 * np.cos(steps / 3) + noise(50, 2)
    variances = np.linspace(400, 4000, 49)
    lines = Lines(dct(values, norm="ortho")[1:], variances, [SLOPE, 0.05])
    shapes = np.column_stack([steps, np.cos(0.1 * np.pi * steps), np.sin(0.1 * np.pi * steps)])
    columns = dct(shapes, axis=0, norm="ortho")[1:]
    root = np.sqrt(variances)
    fitted = columns @ np.linalg.lstsq(columns / root[:, None], lines.coefficients / root, rcond=None)[0]
    assert lines.left == pytest.approx(lines.coefficients - fitted)


def test_what_does_not_pay_is_dropped():
    """Of two lines given, the one that is not in the series goes."""
    steps = np.arange(300)
    values = 60 * np.sin(2 * np.pi * steps / 12.5) + noise(300, 3)
    lines = Lines(dct(values, norm="ortho")[1:], np.full(299, 900.0), [1 / 12.5, 0.31])
    lines.search(0)
    assert lines.frequencies == [1 / 12.5]


def test_the_smoother_knows_a_sine_and_a_slope_nearly_as_well_as_whoever_was_told():
    """Twice the error of least squares with the right shapes at most, in noise that hides the sine, even or uneven."""
    steps = np.arange(800)
    shapes = np.column_stack([np.ones(800), steps, np.sin(steps / 20), np.cos(steps / 20)])
    truth = shapes @ np.array([400, 0.2, 60, 30])
    for spread in (np.full(800, 60.0), np.where(steps % 2, 40.0, 75.0)):
        noisy = truth + spread * np.random.default_rng(4).standard_normal(800)
        weighted = shapes / spread[:, None]
        told = shapes @ np.linalg.lstsq(weighted, noisy / spread, rcond=None)[0]
        errors = [np.abs(values - truth).mean() for values in (smoothed(noisy, spread**2), told)]
        assert errors[0] < 2 * errors[1]


@pytest.mark.law
def test_a_holiday_is_published_and_makes_no_other_day_rough():
    """Its error is that of the noise, and all others have that of the series without holidays; as noise it goes."""
    rng = np.random.default_rng(6)
    days = np.array([40, 41, 200, 290])
    errors, others, plain, smooth = [], [], [], []
    for _ in range(10):
        truth = 500 + 8 * np.cumsum(rng.standard_normal(365)) + 60 * np.sin(2 * np.pi * np.arange(365) / 7)
        noisy, spread = truth + 30 * rng.standard_normal(365), np.full(365, 900.0)
        plain.append(np.abs(smoothed(noisy, spread) - truth).mean())
        noisy[days] -= 400
        found = smoothed(noisy, spread) - truth
        errors.append(np.abs(found[days] + 400).mean())
        others.append(np.abs(np.delete(found, days)).mean())
        smooth.append(np.abs(smoothed(noisy, spread, observation_noise=True) - truth)[days].mean())
    assert np.mean(errors) < 40
    assert np.mean(others) < 1.1 * np.mean(plain)
    assert np.mean(smooth) < 200
