"""What curves say in other words, against the laws of the losses themselves."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from policyc.emit.odds import group_delta, group_epsilon, probability_beyond
from policyc.offers.calibration import least_epsilon
from policyc_check.users.noise import DiscreteGaussian, DiscreteLaplace
from policyc_check.users.profile import PrivacyProfile, pure_profile

FAR = 80  # whole numbers on either side of 0 at which laws are added up


def gaussian_tails(epsilon: float, mu: float) -> float:
    """Pr(|loss| > epsilon) of normal noise: the loss is normal with mean mu^2 / 2 and standard deviation mu."""
    return float(norm.sf((epsilon - mu * mu / 2) / mu) + norm.cdf((-epsilon - mu * mu / 2) / mu))


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 8.0])
def test_odds_change_by_more_at_most_as_often_as_said(epsilon: float, mu: float) -> None:
    """The bound holds for normal noise, is never far above the truth, and delta is no such bound."""
    true = gaussian_tails(epsilon, mu)
    profile = PrivacyProfile(mu)
    found = probability_beyond(profile, epsilon)
    assert true <= found <= 1
    if 1e-200 < true < 0.01:
        assert found <= 6 * true
        assert profile.delta(epsilon) < true


def laplace(scale: float) -> np.ndarray:
    """The law of discrete Laplace noise on the whole numbers around 0."""
    law = np.exp(-np.abs(np.arange(-FAR, FAR + 1)) / scale)
    return law / law.sum()


def test_odds_of_discrete_noise() -> None:
    """Of discrete Laplace noise on two steps, every result is looked at: the bound is above what they add up to."""
    scale = 5.0
    law = laplace(scale)
    loss = np.log(law) - np.log(np.roll(law, 1))
    pair = np.add.outer(loss[1:-1], loss[1:-1])
    weight = np.multiply.outer(law[1:-1], law[1:-1])
    profile = DiscreteLaplace(scale).alike(2)
    for epsilon in (0.1, 0.19, 0.3, 0.39):
        true = weight[np.abs(pair) > epsilon].sum()
        assert true <= probability_beyond(profile, epsilon) * (1 + 1e-9)


def test_odds_of_a_pure_promise_never_change_by_more() -> None:
    """What never loses more than epsilon is said never to; just below it, to do so as often as its largest loss."""
    assert probability_beyond(pure_profile(1.0), 1.0) == 0
    often = 1 / (1 + math.exp(-1))
    assert often <= probability_beyond(pure_profile(1.0), 0.99) <= 1


@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_several_users_of_normal_noise_are_one_who_counts_several_times(mu: float, size: int) -> None:
    """Users who act together in the same steps move them by the sum: the exact curve at mu times their number."""
    for delta in (1e-3, 1e-6, 1e-9):
        exact = least_epsilon(PrivacyProfile(mu * size), delta)
        assert group_epsilon(PrivacyProfile(mu), delta, size) == pytest.approx(exact, rel=1e-9)
        assert group_delta(PrivacyProfile(mu), exact, size) == pytest.approx(delta, rel=1e-6)


def hockey_stick(epsilon: float, scale: float, shifts: tuple[int, ...]) -> float:
    """Delta at `epsilon` of discrete Laplace noise on as many values as there are shifts, every result added up."""
    laws, others = np.ones(1), np.ones(1)
    law = laplace(scale)
    for shift in shifts:
        laws = np.multiply.outer(laws, law[4:-4]).ravel()
        others = np.multiply.outer(others, np.roll(law, shift)[4:-4]).ravel()
    return float(np.maximum(laws - math.exp(epsilon) * others, 0).sum())


def test_names_in_the_same_steps_or_in_others_are_covered() -> None:
    """Two names that count once in at most two of three steps each: every pair of choices stays within the bound."""
    scale, steps = 4.0, 3
    one = DiscreteLaplace(scale).alike(2)
    choices = [places for size in (1, 2) for places in itertools.combinations(range(steps), size)]
    moved = {
        tuple(sorted((first.count(step) + second.count(step) for step in range(steps)), reverse=True))
        for first, second in itertools.product(choices, repeat=2)
    }
    worst = {}
    for epsilon in (0.3, 0.6, 0.9):
        bound = group_delta(one, epsilon, 2)
        for shifts in moved:
            found = hockey_stick(epsilon, scale, tuple(shift for shift in shifts if shift))
            worst[shifts] = max(worst.get(shifts, 0.0), found)
            assert found <= bound * (1 + 1e-9)
    assert worst[2, 2, 0] > worst[1, 1, 0], "the same steps twice tell more than once"


def test_names_with_discrete_normal_noise() -> None:
    """Two names in the same steps, by the exact curve of noise that hides twice as much."""
    one, two = DiscreteGaussian(30.0).alike(3), DiscreteGaussian(30.0).alike(3, 2)
    for delta in (1e-4, 1e-6):
        assert group_epsilon(one, delta, 2) >= least_epsilon(two, delta)
        assert group_epsilon(one, delta, 2) <= least_epsilon(two, delta) * 1.01


def test_names_beyond_any_bound() -> None:
    """What a release loses for certain with some probability, several lose: no epsilon is made up."""
    assert group_epsilon(pure_profile(0.5, delta=1e-3), 1e-4, 2) == math.inf
