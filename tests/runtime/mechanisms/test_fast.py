"""Sampling that follows the stream spends on at most so many steps."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from stream_settings import one_setting, run, simulated

from policyc.offers import calibrate
from policyc_check.users.noise import DiscreteLaplace
from policyc_check.users.participation import Participation
from policyc_runtime.mechanisms.fast import Fast

PROMISE = (Decimal(1), Decimal("1e-6"))


def test_no_more_steps_are_sampled_than_were_accounted_for() -> None:
    """Of 200 steps of a stream that jumps about, at most 12 records hold a value where 12 samples are allowed."""
    setting = one_setting(Fast, steps=200, bound=200)
    mechanism = calibrate(Fast, setting, *PROMISE, {"samples": 12})
    for seed in range(5):
        raw = np.random.default_rng(seed).integers(0, 100_000, (200, 1))
        records = run(mechanism, setting, raw, simulated(seed))
        assert sum(len(record) for record in records) <= 12
        assert records == run(mechanism, setting, raw, simulated(seed), every=7)
        assert np.isfinite(mechanism.values(setting, records)).all()


def test_noise_is_for_the_sampled_steps_that_one_user_can_meet() -> None:
    """The curve is that of min(k, samples) values, and noise for half as many would not keep the promise."""
    setting = one_setting(Fast, steps=200, bound=50)
    mechanism = calibrate(Fast, setting, *PROMISE, {"samples": 12})
    exact = DiscreteLaplace(float(mechanism.scale)).alike(12)
    assert mechanism.profile(setting).delta(1.0) == exact.delta(1.0) <= 1e-6
    few = replace(setting, participation=Participation(5, 200))
    assert mechanism.profile(few).delta(1.0) == DiscreteLaplace(float(mechanism.scale)).alike(5).delta(1.0)
    assert (
        calibrate(Fast, setting, *PROMISE, {"samples": 6}).profile(setting).delta(1.0)
        <= 1e-6
        < mechanism.with_noise(0.5).profile(setting).delta(1.0)
    )


def test_still_streams_are_sampled_less_often_than_moving_ones() -> None:
    """The controller waits longer while samples confirm the prediction."""
    setting = one_setting(Fast, steps=300, bound=3)
    mechanism = calibrate(Fast, setting, *PROMISE, {"samples": 300, "process_sd": Decimal(5)})
    still = run(mechanism, setting, np.full((300, 1), 5000), simulated(1))
    moving = run(mechanism, setting, np.random.default_rng(2).integers(0, 5000, (300, 1)), simulated(1))
    assert 2 * sum(map(len, still)) < sum(map(len, moving))


def test_records_with_a_sample_that_was_not_due_are_refused() -> None:
    """Records that the rule does not give are none of this mechanism's."""
    setting = one_setting(Fast, steps=30)
    mechanism = calibrate(Fast, setting, *PROMISE, {"samples": 3})
    with pytest.raises(ValueError, match="due"):
        mechanism.values(setting, [(), (4,)])


@pytest.mark.law
def test_sampled_values_have_the_noise_that_is_stated() -> None:
    """The mean size of the noise on thousands of samples is the stated one, and not that of 5 % less or more."""
    steps = 8000
    setting = one_setting(Fast, steps=steps, bound=3)
    mechanism = calibrate(Fast, setting, *PROMISE, {"samples": steps, "process_sd": Decimal(1000)})
    raw = np.random.default_rng(3).integers(0, 100_000, (steps, 1))  # moves so much that most steps are sampled
    records = run(mechanism, setting, raw, simulated(7))
    noise = np.array([record[0] - value for record, value in zip(records, raw[:, 0].tolist(), strict=True) if record])
    ratio = np.exp(-1 / float(mechanism.scale))
    assert noise.size > steps / 4
    assert abs(np.abs(noise).mean() / (2 * ratio / (1 - ratio**2)) - 1) < 0.045
