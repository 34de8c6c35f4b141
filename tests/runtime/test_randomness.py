"""Exact discrete Laplace noise, and who may draw it."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from policyc_runtime.errors import KernelError
from policyc_runtime.randomness import (
    LARGEST_SCALE,
    Coin,
    Randomness,
    SimulationRandomness,
    SystemRandomness,
    discrete_laplace,
)

SCALES = ["0.3", "1", "2.5", "20.000000000000004", "1000"]


class GivenWords(Randomness):
    """Hands out words that were written down, in order."""

    is_release = False

    def __init__(self, *words: int) -> None:
        self._left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self._left = self._left[:count], self._left[count:]
        return np.array(taken, dtype=np.uint64)


class OneAnswer(Randomness):
    """A broken generator."""

    is_release = False

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)


def probability(exponent: Fraction, *, logistic: bool) -> Fraction:
    """To 300 decimal digits, by another road than the sampler's: the Taylor series of exp."""
    term, total = Fraction(1), Fraction(1)
    halvings = max(0, int(exponent).bit_length())
    small = -exponent / 2**halvings
    for index in range(1, 90):
        term = term * small / index
        total += term
    with localcontext(prec=320):
        value = (Decimal(total.numerator) / Decimal(total.denominator)) ** (2**halvings)
    ratio = Fraction(value)
    return ratio / (1 + ratio) if logistic else ratio


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("exponent", [Fraction(1, 10**6), Fraction(1, 3), Fraction(1), Fraction(19, 10), Fraction(40)])
def test_digits_are_those_of_the_probability(exponent: Fraction, logistic: bool) -> None:
    """The first 192 binary digits of every probability are right."""
    coin = Coin(exponent, logistic=logistic)
    words = [coin.word(index) for index in range(3)]
    expected = int(probability(exponent, logistic=logistic) * 2**192)
    assert (words[0] << 128) + (words[1] << 64) + words[2] == expected


def test_words_that_agree_are_decided_by_the_next_ones() -> None:
    """A draw equal to 64 digits of the probability looks at the next 64, and the next."""
    coin = Coin(Fraction(1, 2), logistic=False)
    first, second, third = (coin.word(index) for index in range(3))
    assert coin.flip(2, GivenWords(first - 1, first + 1)).tolist() == [True, False]
    assert coin.flip(1, GivenWords(first, second - 1)).tolist() == [True]
    assert coin.flip(1, GivenWords(first, second + 1)).tolist() == [False]
    assert coin.flip(1, GivenWords(first, second, third - 1)).tolist() == [True]


def test_tiny_probabilities_need_no_large_exponential() -> None:
    """A probability below 2^-64 has 64 zero digits first, whatever its exponent."""
    assert Coin(Fraction(10**40), logistic=False).word(0) == 0
    assert Coin(Fraction(50), logistic=False).word(0) == 0
    assert Coin(Fraction(50), logistic=False).word(1) > 0


def test_digits_of_a_geometric_number_are_independent() -> None:
    """The digits' probabilities multiply to (1 - r) r^g, which is what makes drawing them one by one exact."""
    scale, places = Fraction(7, 2), 2
    ratio = float(probability(1 / scale, logistic=False))
    ones = [float(probability(2**place / scale, logistic=True)) for place in range(places)]
    high = float(probability(2**places / scale, logistic=False))
    for number in range(16):
        product = (1 - high) * high ** (number >> places)
        for place, one in enumerate(ones):
            product *= one if number >> place & 1 else 1 - one
        assert product == pytest.approx((1 - ratio) * ratio**number, rel=1e-13)


@pytest.mark.parametrize("scale", SCALES)
def test_noise_follows_the_discrete_laplace_law(scale: str) -> None:
    """Counts of 200,000 draws fit Pr(x) proportional to exp(-|x| / scale)."""
    noise = discrete_laplace(Fraction(scale), 200_000, SimulationRandomness(7))
    edges = np.unique(np.rint(float(scale) * np.array([-3, -2, -1, -0.5, -0.2, 0, 0.2, 0.5, 1, 2, 3])))
    ratio = np.exp(-1 / float(scale))
    below = np.where(edges <= 0, ratio ** (1 - edges) / (1 + ratio), 1 - ratio**edges / (1 + ratio))
    shares = np.diff([0, *below, 1])
    seen = np.histogram(noise, [-np.inf, *edges, np.inf])[0]
    statistic = float(((seen - shares * noise.size) ** 2 / (shares * noise.size)).sum())
    assert chi2.sf(statistic, shares.size - 1) > 1e-3


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(LARGEST_SCALE) + 1])
def test_scales_that_do_not_fit_are_refused(scale: Fraction) -> None:
    """Noise never wraps around 64 bits: such scales are refused."""
    with pytest.raises(KernelError) as refused:
        discrete_laplace(scale, 1, SystemRandomness())
    assert refused.value.code == "E0831"


def test_the_largest_scale_fits() -> None:
    """At the largest scale no draw comes near the end of 64-bit integers."""
    noise = discrete_laplace(Fraction(LARGEST_SCALE), 1000, SystemRandomness())
    assert np.abs(noise.astype(float)).max() < 2**62


def test_a_broken_generator_is_noticed() -> None:
    """A generator that always gives the same word stops the run instead of looping or releasing."""
    with pytest.raises(KernelError) as refused:
        discrete_laplace(Fraction(3), 5, OneAnswer())
    assert refused.value.code == "E0832"


def test_seeds_replay_and_never_show() -> None:
    """The same seed gives the same noise; its value is in no representation."""
    one, two = SimulationRandomness(918_273_645), SimulationRandomness(918_273_645)
    one.generator.random(10)  # users are drawn from another stream
    assert (discrete_laplace(Fraction(5), 100, one) == discrete_laplace(Fraction(5), 100, two)).all()
    assert "918" not in repr(one)
    assert "918" not in str(one)


def test_only_the_system_generator_is_for_release() -> None:
    """What is seeded says of itself that it is no release."""
    assert SystemRandomness().is_release
    assert not SimulationRandomness(1).is_release


def test_system_noise_is_fresh() -> None:
    """Two draws from the system's generator differ."""
    draw = [discrete_laplace(Fraction(10**6), 50, SystemRandomness()).tolist() for _ in range(2)]
    assert draw[0] != draw[1]


def test_no_draws_are_an_empty_array() -> None:
    """Zero draws are fine."""
    assert discrete_laplace(Fraction(5), 0, SystemRandomness()).shape == (0,)
