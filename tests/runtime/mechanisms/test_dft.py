"""Noise on frequencies hides a whole user, and what is published is what the kept frequencies give."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from stream_settings import one_setting, run, simulated

from policyc.offers import calibrate
from policyc_check.mechanisms.dft import basis
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.dft import Dft
from policyc_runtime.mechanisms.gaussian import Gaussian

PROMISE = (Decimal(1), Decimal("1e-7"))


@pytest.mark.parametrize("size", [1, 2, 7, 12, 365])
def test_the_basis_is_orthonormal(size: int) -> None:
    """All rows together are an orthonormal basis of real numbers, the first one constant."""
    rows = np.vstack(list(basis(size, size)))
    assert np.allclose(rows @ rows.T, np.eye(size), atol=1e-12)
    assert np.ptp(rows[0]) == 0


@pytest.mark.parametrize(
    ("coefficients", "bound", "size"), [(None, 12, 12), (3, 12, 12), (5, 2, 12), (4, 1, 11), (12, 5, 12)]
)
def test_no_user_moves_the_coefficients_further_than_is_said(coefficients: int | None, bound: int, size: int) -> None:
    """Over all sets of steps that one user can take part in, with either sign, the quantised transform moves less."""
    setting = replace(one_setting(Dft, steps=size, bound=bound), contribution=3)
    mechanism = calibrate(Dft, setting, *PROMISE, {"coefficients": coefficients} if coefficients else {})
    rows = np.rint(np.vstack(list(basis(size, coefficients or size))) * mechanism.grid)
    generator, longest = np.random.default_rng(1), 0.0
    for _ in range(3000):
        user = np.zeros(size)
        user[generator.choice(size, bound, replace=False)] = 3 * generator.choice([-1, 1], bound)
        longest = max(longest, float(((rows @ user) ** 2).sum()))
    everywhere = np.zeros(size)
    everywhere[:bound] = 3
    longest = max(longest, float(((rows @ everywhere) ** 2).sum()))
    assert longest <= mechanism.strategy(setting).moves(setting).l2_square
    if coefficients is None:
        assert mechanism.strategy(setting).moves(setting).l2_square <= longest * 1.01


def test_all_coefficients_need_the_noise_of_the_gaussian_mechanism() -> None:
    """For a user in all of 365 steps it is the plain Gaussian release in another basis; ZKL22 took sqrt(365) less."""
    setting = one_setting(Dft, steps=365, bound=365)
    plain = calibrate(Gaussian, setting, *PROMISE, {})
    assert float(calibrate(Dft, setting, *PROMISE, {}).stddev) == pytest.approx(float(plain.stddev), rel=1e-3)


def test_a_slow_series_comes_back_better_from_the_frequencies_that_noise_leaves() -> None:
    """Chosen after noise, few frequencies are kept, and the error is less than a third of that of all of them."""
    setting = one_setting(Dft, steps=200, bound=200)
    raw = np.rint(500 + 300 * np.cos(np.arange(200) / 200 * 2 * math.pi)).astype(np.int64)[:, None]
    errors = {}
    for choose in (False, True):
        mechanism = calibrate(Dft, setting, *PROMISE, {"choose": choose})
        errors[choose] = np.mean(
            [
                ((mechanism.values(setting, run(mechanism, setting, raw, simulated(s))) - raw) ** 2).mean()
                for s in range(8)
            ]
        )
    assert 3 * errors[True] < errors[False]


def test_blocks_follow_the_delay_and_the_last_may_be_shorter() -> None:
    """Where values may wait for 3 steps, 4 make a block; the rest of 10 steps comes at the horizon."""
    setting = Setting(participation=Participation(2, 10), wait=3)
    mechanism = calibrate(Dft, setting, *PROMISE, {})
    assert [mechanism.ready(setting, steps) for steps in range(11)] == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 10]
    raw = np.full((10, 1), 10**9, dtype=np.int64)
    values = mechanism.values(setting, run(mechanism, setting, raw, simulated(3), every=1))
    assert np.abs(values - raw).max() < 10 * float(mechanism.stddev)


def test_numbers_too_large_for_64_bit_sums_are_measured_exactly() -> None:
    """Sums beyond 64 bits are made with whole numbers of any size."""
    setting = one_setting(Dft, steps=8)
    mechanism = calibrate(Dft, setting, *PROMISE, {})
    raw = np.full((8, 1), 2**45, dtype=np.int64)
    values = mechanism.values(setting, run(mechanism, setting, raw, simulated(3)))
    assert np.abs(values / raw - 1).max() < 1e-6


@pytest.mark.parametrize(("coefficients", "bound"), [(None, 12), (3, 12), (5, 2), (4, 1)])
def test_no_user_moves_the_coefficients_further_in_l1_than_laplace_noise_hides(
    coefficients: int | None, bound: int
) -> None:
    """Over many sets of steps and signs, the quantised transform moves less than the noise is made for."""
    setting = replace(one_setting(Dft, steps=12, bound=bound), contribution=3)
    options = {"noise": "laplace", **({"coefficients": coefficients} if coefficients else {})}
    mechanism = calibrate(Dft, setting, Decimal(1), Decimal("1e-9"), options)
    rows = np.rint(np.vstack(list(basis(12, coefficients or 12))) * mechanism.grid)
    generator, longest = np.random.default_rng(1), 0.0
    for _ in range(3000):
        user = np.zeros(12)
        user[generator.choice(12, bound, replace=False)] = 3 * generator.choice([-1, 1], bound)
        longest = max(longest, float(np.abs(rows @ user).sum()))
    assert longest <= mechanism.strategy(setting).moves(setting).l1
    assert longest / float(mechanism.law.scale) <= 1.00001
    assert mechanism.profile(setting).delta(1.0) <= 1e-9


def test_laplace_noise_on_frequencies_has_the_law_that_is_said() -> None:
    """Of 40,000 coefficients of nothing: variance and mean size are those of a Laplace law, and of no normal one."""
    setting = one_setting(Dft, steps=400, bound=4)
    mechanism = calibrate(Dft, setting, *PROMISE, {"noise": "laplace"})
    raw = np.zeros((400, 1), dtype=np.int64)
    noise = np.concatenate([np.array(run(mechanism, setting, raw, simulated(seed)))[:, 0] for seed in range(100)])
    size = float(mechanism.stddev) * mechanism.grid
    assert np.sqrt((noise / size) ** 2).mean() == pytest.approx(1 / math.sqrt(2), rel=0.02)
    assert ((noise / size) ** 2).mean() == pytest.approx(1, rel=0.04)
