"""Vectorised exact noise beside the sampler of the literature in plain Python, in one run."""

from __future__ import annotations

import math
import secrets
import time
from fractions import Fraction

import numpy as np
import pytest

from policyc_runtime.randomness import SystemRandomness
from policyc_runtime.samplers import discrete_gaussian, discrete_laplace

pytestmark = pytest.mark.law


def bernoulli(probability: Fraction) -> bool:
    return secrets.randbelow(probability.denominator) < probability.numerator


def bernoulli_exp(exponent: Fraction) -> bool:
    """Yes with probability exp(-exponent), CKS20 Algorithm 1."""
    while exponent > 1:
        if not bernoulli_exp(Fraction(1)):
            return False
        exponent -= 1
    turn = 1
    while bernoulli(exponent / turn):
        turn += 1
    return turn % 2 == 1


def literal_discrete_laplace(scale: Fraction) -> int:
    """CKS20 Algorithm 2, as it is written."""
    while True:
        remainder = secrets.randbelow(scale.numerator)
        if not bernoulli_exp(Fraction(remainder, scale.numerator)):
            continue
        quotient = 0
        while bernoulli_exp(Fraction(1)):
            quotient += 1
        size = (remainder + scale.numerator * quotient) // scale.denominator
        negative = bool(secrets.randbits(1))
        if not (negative and size == 0):
            return -size if negative else size


@pytest.mark.parametrize("scale", ["2", "20.000000000000004", "1000000"])
def test_noise_is_drawn_many_times_faster_than_one_by_one(scale: str) -> None:
    """A million exact draws cost less than a tenth of the same number from the literal sampler, and look alike."""
    exact = Fraction(scale)
    few, many = 3000, 10**6
    start = time.perf_counter()
    literal = [literal_discrete_laplace(exact) for _ in range(few)]
    one_by_one = (time.perf_counter() - start) / few
    start = time.perf_counter()
    drawn = discrete_laplace(exact, many, SystemRandomness())
    together = (time.perf_counter() - start) / many
    print(
        f"\nscale {scale}: literal CKS20 {1e6 * one_by_one:.1f} us, ours {1e6 * together:.2f} us a draw "
        f"({together * many:.2f} s a million), ratio {one_by_one / together:.0f}"
    )
    assert np.mean(np.abs(literal)) == pytest.approx(np.mean(np.abs(drawn)), rel=0.15)
    assert one_by_one / together > 10


def literal_discrete_gaussian(variance: Fraction) -> int:
    """CKS20 Algorithm 3, as it is written."""
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        proposed = literal_discrete_laplace(Fraction(scale))
        if bernoulli_exp((abs(proposed) - variance / scale) ** 2 / (2 * variance)):
            return proposed


@pytest.mark.parametrize("stddev", ["0.1", "17.7", "1000000"])
def test_gaussian_noise_is_drawn_many_times_faster_than_one_by_one(stddev: str) -> None:
    """A million exact draws cost less than a tenth of the same number from the literal sampler, and look alike."""
    variance = Fraction(stddev) ** 2
    few, many = 2000, 10**6
    start = time.process_time()
    literal = [literal_discrete_gaussian(variance) for _ in range(few)]
    one_by_one = (time.process_time() - start) / few
    start = time.process_time()
    drawn = discrete_gaussian(variance, many, SystemRandomness())
    together = (time.process_time() - start) / many
    print(
        f"\nstddev {stddev}: literal CKS20 {1e6 * one_by_one:.1f} us, ours {1e6 * together:.2f} us a draw "
        f"({together * many:.2f} s a million), ratio {one_by_one / together:.0f}"
    )
    assert np.mean(np.abs(literal)) == pytest.approx(np.mean(np.abs(drawn)), rel=0.15, abs=0.01)
    assert one_by_one / together > 10
