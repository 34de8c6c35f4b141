"""The curve of binomial noise against brute force, the Gaussian limit, and the lemma that it replaces."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from policyc.offers.calibration import least_epsilon
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import Coins


def law(half: int) -> dict[int, float]:
    return {x: math.comb(2 * half, half + x) / 4**half for x in range(-half, half + 1)}


def brute_delta(half: int, signs: tuple[int, ...], epsilon: float) -> float:
    """Delta of changes by these numbers, summed over all outputs."""
    noise, found = law(half), 0.0
    for outputs in product(noise, repeat=len(signs)):
        mine = math.prod(noise[x] for x in outputs)
        other = math.prod(noise.get(x + change, 0.0) for x, change in zip(outputs, signs, strict=True))
        found += max(0.0, mine - math.exp(epsilon) * other)
    return found


@pytest.mark.parametrize(("half", "changes", "shift"), [(3, 1, 1), (10, 1, 3), (10, 2, 1), (6, 3, 2), (30, 2, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_the_curve_is_that_of_all_outputs(half: int, changes: int, shift: int, epsilon: float) -> None:
    """It is never below brute force, and within 1e-4 of it; changes of either sign, or smaller ones, lose no more."""
    bound = Coins(half).alike(changes, shift).delta(epsilon)
    exact = brute_delta(half, (shift,) * changes, epsilon)
    assert exact <= bound * (1 + 1e-9)
    assert bound <= exact * (1 + 1e-4) + 1e-12
    for signs in product([-shift, shift, shift - 1], repeat=changes):
        assert brute_delta(half, signs, epsilon) <= bound * (1 + 1e-9)


def test_many_coins_come_close_to_the_gaussian_curve() -> None:
    """With 2m = 80,000 coins and 100 changes delta is within 2 % of that of Gaussian noise of the same variance."""
    found = Coins(40_000).alike(100).delta(0.2)
    assert found == pytest.approx(gaussian_delta(0.2, 10 / math.sqrt(20_000)), rel=0.02)


@pytest.mark.parametrize("shift", [1, 4])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_lemma_a2_holds_and_is_loose(epsilon: float, shift: int) -> None:
    """The lemma's delta is above the exact one, by a factor of more than 2 where it says anything."""
    half = math.ceil(60 * (shift / epsilon) ** 2)
    away = half - shift + 1 - (2 * half + 1) / (math.exp(epsilon / shift) + 1)
    lemma = math.exp(-(away**2) / half)
    assert lemma < 0.1
    assert 2 * Coins(half).alike(1, shift).delta(epsilon) < lemma


def test_weighting_whole_numbers_by_less_than_1_gives_no_credit() -> None:
    """Theorem A.5 takes a sensitivity of w; a rounded count still moves by 1, which loses 7 times as much or more."""
    half, weight, delta = 500, 0.1, 1e-6
    claimed = weight * math.log((2 * half + 1) / (half - weight + 1 - math.sqrt(half * math.log(1 / delta))) - 1)
    assert least_epsilon(Coins(half).alike(1, math.ceil(weight)), delta) > 7 * claimed


def test_a_change_beyond_all_noise_is_told_for_certain() -> None:
    """Where the noise cannot reach, delta is 1."""
    assert Coins(3).alike(1, 7).delta(5.0) == pytest.approx(1.0)
    assert np.isclose(Coins(3).alike(2, 4).delta(50.0), 1.0)
