"""Subsampling in time against sums over every choice of steps, and against published noise levels."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from policyc.offers.calibration import gaussian_stddev, sample_delta, sample_stddev
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteGaussian
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.subsampling import (
    SampledGaussianLoss,
    StepSample,
    fixed_size_sample,
    poisson_sample,
    stratified_sample,
)

REFERENCE = json.loads((Path(__file__).parent / "accounting.json").read_text())


@pytest.mark.parametrize("row", REFERENCE["subsampled_stddev"], ids=str)
def test_reference_stddevs(row: dict[str, str]) -> None:
    """The exact mixture's noise comes out to ten digits."""
    sample = poisson_sample(int(row["participation_bound"]), float(row["rate"]))
    stddev = sample_stddev(sample, float(row["epsilon"]), float(row["delta"]), 1.0)
    assert stddev == pytest.approx(float(row["stddev"]), rel=1e-9)


@pytest.mark.parametrize("sample", [poisson_sample(20, 0.3), stratified_sample(20, 40, 4)])
def test_wide_noise_is_mixed_by_its_closed_bound(sample: StepSample) -> None:
    """Never less than the mixture of exact curves, nor than 3e-5 of the variance less would tell."""
    noise = Fraction(320) ** 2
    loss = SampledGaussianLoss(sample, noise, 100)
    for epsilon in (0.1, 1.0, 2.5):
        curve = [DiscreteGaussian(noise).alike(m, 100).delta(epsilon) if m else 0.0 for m in range(sample.law.size)]
        exact = sample.mean(curve.__getitem__)
        less = sample_delta(sample, epsilon, 100 / 320 * (1 + 1.6e-5))
        assert exact <= loss.delta(epsilon) <= less
        assert PrivacyProfile(losses=(loss,)).compose(PrivacyProfile(0.01)).delta(epsilon) >= min(exact, curve[-1])


@pytest.mark.parametrize(
    ("epsilon", "delta", "bound", "stddev"),
    [(0.5, 1e-4, 50, 14.9), (0.5, 1e-5, 200, 33.2), (1, 1e-5, 200, 17.7), (2, 1e-5, 350, 12.3)],
)
def test_promised_stddevs(epsilon: float, delta: float, bound: int, stddev: float) -> None:
    """At rate 0.1 the noise is that of the exact mixture; a relative 1e-6 less exceeds delta."""
    sample = poisson_sample(bound, 0.1)
    found = sample_stddev(sample, epsilon, delta, 1.0)
    assert round(found, 1) == stddev
    assert sample_delta(sample, epsilon, 1 / found) <= delta < sample_delta(sample, epsilon, 1 / (found * (1 - 1e-6)))
    exact = sum(binom.pmf(m, bound, 0.1) * gaussian_delta(epsilon, math.sqrt(m) / found) for m in range(bound + 1))
    assert exact <= delta * (1 + 1e-12)
    assert exact == pytest.approx(delta, rel=1e-6)


def test_everything_chosen_is_no_subsampling() -> None:
    """Rate 1, a fixed size of all steps and blocks of one step give the Gaussian mechanism's noise."""
    plain = gaussian_stddev(1.0, 1e-5, 3 * math.sqrt(20))
    for sample in (poisson_sample(20, 1.0), fixed_size_sample(20, 50, 50), stratified_sample(20, 50, 1)):
        assert sample_stddev(sample, 1.0, 1e-5, 3.0) == pytest.approx(plain, rel=1e-8)


def test_fixed_size_is_the_hypergeometric_mixture() -> None:
    """Weights are those of drawing without replacement."""
    sample = fixed_size_sample(30, 100, 12)
    law = hypergeom.pmf(np.arange(31), 100, 30, 12)
    np.testing.assert_allclose(sample.law, law, rtol=1e-9, atol=1e-300)
    crowded = fixed_size_sample(8, 10, 7)
    np.testing.assert_allclose(crowded.law, hypergeom.pmf(np.arange(9), 10, 8, 7), rtol=1e-9, atol=1e-300)


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("horizon", "block"), [(6, 2), (6, 3), (7, 3), (8, 3), (5, 4)])
@pytest.mark.parametrize("bound", [1, 2, 3, 5])
@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.2), (1.0, 0.5), (1.0, 3.0)])
def test_stratified_bound_covers_every_placement(
    horizon: int, block: int, bound: int, epsilon: float, mu: float
) -> None:
    """Wherever a user takes part, delta over all choices of one step a block is within the bound."""
    blocks = [range(start, min(start + block, horizon)) for start in range(0, horizon, block)]
    choices = [set(choice) for choice in product(*blocks)]
    worst = 0.0
    for steps in combinations(range(horizon), min(bound, horizon)):
        shown = [len(choice & set(steps)) for choice in choices]
        worst = max(worst, sum(gaussian_delta(epsilon, math.sqrt(m) * mu) for m in shown) / len(shown))
    found = sample_delta(stratified_sample(bound, horizon, block), epsilon, mu)
    assert worst <= found * (1 + 1e-12)


def test_stratified_bound_is_attained_where_there_is_room() -> None:
    """With more blocks than participations the worst placement is one a block, and the bound is its binomial law."""
    assert sample_stddev(stratified_sample(20, 400, 10), 1.0, 1e-5, 1.0) == pytest.approx(
        sample_stddev(poisson_sample(20, 0.1), 1.0, 1e-5, 1.0), rel=1e-8
    )
    crowded = sample_stddev(stratified_sample(200, 1000, 10), 1.0, 1e-5, 1.0)
    assert crowded < sample_stddev(poisson_sample(200, 0.1), 1.0, 1e-5, 1.0)


@pytest.mark.law
def test_samples_compose_with_other_releases() -> None:
    """Alone the profile is the mixture; beside another release it loses more, and less than if nothing were sampled."""
    loss = SampledGaussianLoss(poisson_sample(20, 0.2), Fraction(8 * 10**4) ** 2, 10**4)
    profile = PrivacyProfile(losses=(loss,))
    assert profile.delta(0.7) == pytest.approx(sample_delta(poisson_sample(20, 0.2), 0.7, 1 / 8), rel=1e-6)
    both = profile.compose(PrivacyProfile(mu=0.1)).delta(0.7)
    exact = sum(binom.pmf(m, 20, 0.2) * gaussian_delta(0.7, math.sqrt(m / 64 + 0.01)) for m in range(21))
    assert exact <= both <= exact * (1 + 1e-4)


def test_nonsense_is_refused() -> None:
    """Rates outside (0, 1] and sizes that do not fit raise; a sample that shows too rarely asks for no noise."""
    for make in (
        lambda: poisson_sample(3, 0.0),
        lambda: fixed_size_sample(3, 2, 1),
        lambda: stratified_sample(3, 10, 11),
        lambda: sample_stddev(poisson_sample(1, 1e-6), 1.0, 1e-5, 1.0),
    ):
        with pytest.raises(ValueError):
            make()
