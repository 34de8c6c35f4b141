"""Every delta of the kernel is at least the true one, at 60 digits, also where floats lose many of theirs."""

from __future__ import annotations

import random

import mpmath
import pytest

from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteLaplace
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.subsampling import fixed_size_sample, poisson_sample


def exact_gaussian(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        tail = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        return tail(e / m - m / 2) - mpmath.exp(e) * tail(e / m + m / 2)


@pytest.mark.parametrize("largest", [10.0, 1e2, 1e4])
def test_gaussian_curves_of_huge_losses_stay_above_the_truth(largest: float) -> None:
    """Where epsilon / mu and mu / 2 nearly cancel, what is lost is added."""
    rng = random.Random(largest)
    for _ in range(60):
        mu = largest * rng.uniform(0.1, 1)
        epsilon = max(0.0, mu * (mu / 2 + rng.uniform(-5, 30)))
        found, truth = gaussian_delta(epsilon, mu), exact_gaussian(epsilon, mu)
        assert truth <= found <= truth * (1 + 1e-14 * largest * 100 + 5e-12)


def test_many_gaussian_releases_compose_upward() -> None:
    """The root of a sum of squares, taken a thousand times, is never below the exact one."""
    rng = random.Random(3)
    mus = [rng.uniform(0.001, 1) for _ in range(1000)]
    total = PrivacyProfile(mu=mus[0])
    for mu in mus[1:]:
        total = total.compose(PrivacyProfile(mu=mu))
    with mpmath.workdps(60):
        exact = mpmath.sqrt(mpmath.fsum(mpmath.mpf(mu) ** 2 for mu in mus))
        assert exact <= total.mu <= exact * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.parametrize(("bound", "rate"), [(3, 0.1), (1000, 0.5), (100_000, 0.3), (100_000, 0.999)])
def test_weights_of_sampled_steps_are_never_below_the_binomial_law(bound: int, rate: float) -> None:
    """At the mode, in the tails, and at the ends, up to a hundred thousand participations; tight near the mode."""
    law = poisson_sample(bound, rate).law
    middle, spread = bound * rate, (bound * rate * (1 - rate)) ** 0.5
    places = {round(middle + spread * z) for z in (-30, -9, -3, 0, 1, 5, 30)} | {0, bound}
    with mpmath.workdps(60):
        p = mpmath.mpf(rate)
        for m in places & set(range(bound + 1)):
            truth = mpmath.binomial(bound, m) * p**m * (1 - p) ** (bound - m)
            if truth > 1e-300:
                assert truth <= law[m] <= truth * (1 + mpmath.mpf("1e-8"))


@pytest.mark.parametrize(("bound", "horizon", "size"), [(4, 100, 10), (2000, 5000, 1700), (30_000, 100_000, 40_000)])
def test_weights_of_a_fixed_number_of_steps_are_never_below_the_hypergeometric_law(
    bound: int, horizon: int, size: int
) -> None:
    """The same for sets of steps of one size."""
    law = fixed_size_sample(bound, horizon, size).law
    with mpmath.workdps(60):
        every = mpmath.binomial(horizon, size)
        for m in {0, 1, bound * size // horizon, bound * size // horizon + 60, min(bound, size)}:
            if m <= bound and m <= size:
                truth = mpmath.binomial(bound, m) * mpmath.binomial(horizon - bound, size - m) / every
                if truth > 1e-300:
                    assert truth <= law[m] <= truth * (1 + mpmath.mpf("1e-8"))


@pytest.mark.parametrize(("changes", "scale"), [(1, 3.0), (50, 12.5), (3000, 400.0), (20_000, 900.0)])
def test_compositions_of_laplace_noise_stay_above_the_binomial_sum(changes: int, scale: float) -> None:
    """Counts that change by one lose one of two amounts each: a binomial law of losses, summed at 60 digits."""
    profile = DiscreteLaplace(scale).alike(changes)
    with mpmath.workdps(60):
        s = mpmath.mpf(scale)
        p = 1 / (1 + mpmath.exp(-1 / s))
        for z in (0.5, 2, 5, 9):
            epsilon = float(changes / s * (2 * p - 1) + z * mpmath.sqrt(changes) / s)
            first = int(mpmath.floor((epsilon * s + changes) / 2)) + 1
            truth, m = mpmath.mpf(0), first
            weight = mpmath.binomial(changes, m) * p**m * (1 - p) ** (changes - m) if m <= changes else 0
            while m <= changes and m < first + 4000:
                truth += weight * (1 - mpmath.exp(epsilon - (2 * m - changes) / s))
                weight *= mpmath.mpf(changes - m) / (m + 1) * p / (1 - p)
                m += 1
            assert truth <= profile.delta(epsilon) <= truth * (1 + mpmath.mpf("1e-8")) + mpmath.mpf("1e-300")
