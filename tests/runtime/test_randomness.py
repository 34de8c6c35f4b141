"""Exact discrete Laplace and Gaussian noise, and who may draw it."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from policyc_check.errors import KernelError
from policyc_runtime.randomness import Coin, Randomness, SimulationRandomness, SystemRandomness
from policyc_runtime.samplers import LARGEST_SCALE, UNCLEAR, _keep, discrete_gaussian, discrete_laplace

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


class StuckAt(Randomness):
    """A generator broken in any way."""

    is_release = False

    def __init__(self, word: int) -> None:
        self._word = word

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, self._word, dtype=np.uint64)


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


def shorts(*drawn: int) -> int:
    """One random word whose 16 bits at a time are these."""
    return int(np.array([*drawn, *[0] * (4 - len(drawn))], dtype=np.uint16).view(np.uint64)[0])


def test_bits_that_agree_are_decided_by_the_next_ones() -> None:
    """A draw equal to 16 digits of the probability looks at the next 48, at the next 64, and the next."""
    coin = Coin(Fraction(1, 2), logistic=False)
    first, second, third = (coin.word(index) for index in range(3))
    top, low = first >> 48, (first << 16) % 2**64
    assert coin.flip(4, GivenWords(shorts(top - 1, top + 1, 0, 2**16 - 1))).tolist() == [True, False, True, False]
    assert coin.flip(1, GivenWords(shorts(top), low - 2**16)).tolist() == [True]
    assert coin.flip(1, GivenWords(shorts(top), low + 2**16)).tolist() == [False]
    assert coin.flip(2, GivenWords(shorts(top, top), low + 2**16, low - 1)).tolist() == [False, True]
    assert coin.flip(1, GivenWords(shorts(top), low + 9, second - 1)).tolist() == [True]
    assert coin.flip(1, GivenWords(shorts(top), low, second + 1)).tolist() == [False]
    assert coin.flip(1, GivenWords(shorts(top), low, second, third - 1)).tolist() == [True]


@pytest.mark.parametrize("logistic", [False, True])
def test_a_coin_is_as_likely_as_it_says(logistic: bool) -> None:
    """Every 16 bits are drawn, and of each as many go on as its next bits say: the share is the first 64 digits."""
    coin = Coin(Fraction(7, 3), logistic=logistic)
    below = coin.flip(2**16, GivenWords(*np.arange(2**16, dtype=np.uint16).view(np.uint64).tolist(), 0))
    top = coin.word(0) >> 48
    assert below.sum() == top + 1  # the one that agrees is decided by what follows, here zeros
    assert below[: top + 1].all()


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


STDDEVS = ["0.3", "0.9", "1", "3.7", "20", "1000.5", "1000000"]


def gaussian_fit(noise: NDArray[np.int64], stddev: float) -> float:
    """P value of counts between a few edges, against Pr(x) proportional to exp(-x^2 / (2 stddev^2))."""
    if stddev < 500:
        support = np.arange(-int(40 * stddev) - 2, int(40 * stddev) + 3)
        weights = np.exp(-(support**2) / (2 * stddev**2))
        cumulative = np.cumsum(weights / weights.sum())
        edges = np.unique(np.rint(stddev * np.linspace(-2.5, 2.5, 21))).astype(int)
        below = cumulative[np.searchsorted(support, edges)]
    else:  # Poisson summation: the continuous law at half steps is off by less than 1e-6
        edges = np.unique(np.rint(stddev * np.linspace(-2.5, 2.5, 21)))
        below = norm.cdf((edges + 0.5) / stddev)
    shares = np.diff([0, *below, 1])
    seen = np.histogram(noise, [-np.inf, *(edges + 0.5), np.inf])[0]
    expected = shares * noise.size
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), shares.size - 1))


@pytest.mark.parametrize("stddev", STDDEVS)
def test_noise_follows_the_discrete_gaussian_law(stddev: str) -> None:
    """100,000 draws fit the law at the stddev claimed, and neither at 0.95 nor at 1.05 times it."""
    noise = discrete_gaussian(Fraction(stddev) ** 2, 100_000, SimulationRandomness(11))
    assert gaussian_fit(noise, float(stddev)) > 1e-3
    assert gaussian_fit(noise, 0.95 * float(stddev)) < 1e-4
    assert gaussian_fit(noise, 1.05 * float(stddev)) < 1e-4


@pytest.mark.parametrize("stddev", STDDEVS)
def test_gaussian_noise_of_the_wrong_stddev_is_noticed(stddev: str) -> None:
    """Draws at 0.95 and 1.05 times the stddev do not fit the claim."""
    for factor in (Fraction(95, 100), Fraction(105, 100)):
        noise = discrete_gaussian((factor * Fraction(stddev)) ** 2, 100_000, SimulationRandomness(12))
        assert gaussian_fit(noise, float(stddev)) < 1e-4


def test_unclear_proposals_are_decided_by_digits() -> None:
    """Where floating point is not sure, the binary digits of the probability decide, to the last of them."""
    variance, scale, value = Fraction(10), 4, 7
    coin = Coin((value - variance / scale) ** 2 / (2 * variance), logistic=False)
    first, second = coin.word(0), coin.word(1)
    proposed = np.array([value] * 2 + [-value], dtype=np.int64)
    kept = _keep(proposed, variance, scale, GivenWords(first - 1, first + 1, first, second - 1))
    assert kept.tolist() == [True, False, True]
    assert not _keep(proposed[:1], variance, scale, GivenWords(first, second + 1)).any()


def test_certain_proposals_are_kept() -> None:
    """A proposal at the center has probability 1, whatever was drawn."""
    assert _keep(np.array([2, -2]), Fraction(8), 4, GivenWords(2**64 - 1, 0)).all()


def test_floating_point_is_far_more_accurate_than_what_it_decides() -> None:
    """Keeping probabilities in floating point are within a thousandth of the margin that floats may not decide."""
    for variance in (Fraction(1, 100), Fraction(10), Fraction(10**12), Fraction(2**100)):
        scale = math.isqrt(math.floor(variance)) + 1
        for multiple in (0, 1, 2, 3, 5, 9, 20, 60):
            value = multiple * scale + multiple // 2
            away = (float(value) - float(variance / scale)) / math.sqrt(variance)
            exponent = (value - variance / scale) ** 2 / (2 * variance)
            exact = float(probability(exponent, logistic=False)) if exponent < 700 else 0.0
            assert abs(math.exp(-away * away / 2) - exact) < UNCLEAR / 1000


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction(LARGEST_SCALE) ** 2])
def test_variances_that_do_not_fit_are_refused(variance: Fraction) -> None:
    """Gaussian noise never wraps around 64 bits either."""
    with pytest.raises(KernelError) as refused:
        discrete_gaussian(variance, 1, SystemRandomness())
    assert refused.value.code == "E0831"


def test_extreme_variances() -> None:
    """Next to no noise is zero, the largest stays within 62 bits, no draws are an empty array, any count comes out."""
    assert not discrete_gaussian(Fraction(1, 10**800), 1000, SystemRandomness()).any()
    largest = discrete_gaussian(Fraction(LARGEST_SCALE - 1) ** 2, 1000, SystemRandomness())
    assert np.abs(largest.astype(float)).max() < 2**62
    assert discrete_gaussian(Fraction(5), 0, SystemRandomness()).shape == (0,)
    assert discrete_gaussian(Fraction(5), 70_001, SystemRandomness()).shape == (70_001,)


def test_gaussian_noise_notices_a_broken_generator() -> None:
    """A generator stuck at one answer stops the run."""
    for word in (0, 2**64 - 1):
        with pytest.raises(KernelError) as refused:
            discrete_gaussian(Fraction(9), 5, StuckAt(word))
        assert refused.value.code == "E0832"
