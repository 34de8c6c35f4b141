"""The exact discrete Laplace, Gaussian and binomial distributions, drawn from a source of random bits.

Why the noise is exact: for a rational scale s, X = G1 - G2 with G1, G2 independent geometric, Pr(G >= k) = r^k and
r = exp(-1/s), has Pr(X = x) = (1 - r) / (1 + r) r^|x|, the discrete Laplace distribution (CKS20). The probability
(1 - r) r^g of g = sum_i d_i 2^i factors over its binary digits, so the digits are independent, digit i being 1 with
probability r^(2^i) / (1 + r^(2^i)) = 1 / (1 + exp(2^i / s)); what is left above digit I is geometric with ratio
r^(2^I). Every one of these probabilities is irrational, and each is a `Coin`.

The discrete Gaussian, Pr(x) proportional to exp(-x^2 / (2 v)) with rational variance parameter v, is drawn by rejection
(CKS20, Algorithm 3): Y discrete Laplace of scale t = floor(sqrt(v)) + 1, kept with probability
exp(-(|Y| - v / t)^2 / (2 v)). Floating point only sorts out draws that are clear: its error is far below `UNCLEAR`,
and a uniform number closer than that to the probability is compared with its binary digits by a `Coin`.

Source: CKS20
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.errors import KernelError
from policyc_check.records import MOST_COINS
from policyc_runtime.randomness import LONGEST_RUN, WORD_BITS, Coin, broken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.randomness import Randomness

LARGEST_SCALE = 2**55  # noise of this scale still fits 64-bit integers together with any count
BATCH = 2**16  # draws at a time, so that memory stays small and warm
UNCLEAR = 2.0**-40  # distance of a uniform number to a probability below which floating point does not decide


class _Geometric:
    """Exact draws of G with Pr(G >= k) = exp(-k / scale)."""

    def __init__(self, scale: Fraction) -> None:
        self.low_digits = 0
        while 2**self.low_digits < scale:
            self.low_digits += 1
        self.digits = [Coin(2**i / scale, logistic=True) for i in range(self.low_digits)]
        self.high = Coin(2**self.low_digits / scale, logistic=False)

    def draw(self, count: int, randomness: Randomness) -> NDArray[np.int64]:
        drawn = np.zeros(count, dtype=np.int64)
        for place, coin in enumerate(self.digits):
            drawn |= coin.flip(count, randomness).astype(np.int64) << place
        going = np.arange(count)
        for _ in range(LONGEST_RUN):
            going = going[self.high.flip(going.size, randomness)]
            if going.size == 0:
                return drawn
            drawn[going] += 1 << self.low_digits
        raise broken()


def _out_of_range() -> KernelError:
    return KernelError(
        "E0831",
        "the noise scale is out of range",
        because="scales are positive and at most 2^55, so that noise fits 64-bit integers",
        help="a larger budget needs less noise",
    )


@lru_cache(maxsize=4096)  # a schedule has few scales, and the digits of a probability cost a millisecond
def _geometric(scale: Fraction) -> _Geometric:
    return _Geometric(scale)


def discrete_laplace(scale: Fraction, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` independent draws X with Pr(X = x) proportional to exp(-|x| / scale), exactly.

    Args:
        scale: in units of the values, > 0, at most 2^55.
        count: how many, >= 0.
        randomness: where the bits come from.

    Raises:
        KernelError: the scale is not positive or too large for 64-bit integers; the generator is broken.

    Source: CKS20
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise _out_of_range()
    exact = Fraction(scale)
    return randomness.noise(("laplace", exact, count), lambda source: _laplace(exact, count, source))


def _laplace(scale: Fraction, count: int, randomness: Randomness) -> NDArray[np.int64]:
    geometric = _geometric(scale)
    noise = np.empty(count, dtype=np.int64)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        noise[start : start + size] = geometric.draw(size, randomness) - geometric.draw(size, randomness)
    return noise


def balanced_laplace(scale: Fraction, cells: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` independent rows of draws, Pr(row) proportional to exp(-sum |x| / scale) where sum x = 0, exactly.

    All cells but one are discrete Laplace and the last is minus their sum, kept with probability exp(-|last| / scale):
    the probability that a geometric draw is at least |last|.

    Args:
        scale: as of `discrete_laplace`.
        cells: >= 2.
        count: rows, >= 0.
        randomness: where the bits come from.

    Raises:
        KernelError: as `discrete_laplace`.

    Source: HT10
    """
    law = ("balanced laplace", Fraction(scale), cells, count)
    return randomness.noise(law, lambda source: _balanced(scale, cells, count, source))


def _balanced(scale: Fraction, cells: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    kept: list[NDArray[np.int64]] = []
    missing = count
    for _ in range(LONGEST_RUN + count + 16 * math.isqrt(cells)):  # of many cells few are proposed at a time
        if missing <= 0:
            break
        # of about sqrt(pi cells) proposals one is kept: C(2k, k) / 4^k of wide noise, k = cells - 1
        size = max(16, min(BATCH // cells, math.isqrt(4 * cells * missing**2)))
        free = discrete_laplace(scale, size * (cells - 1), randomness).reshape(size, cells - 1)
        last = -free.sum(axis=1)
        likely = _geometric(Fraction(scale)).draw(size, randomness) >= np.abs(last)
        kept.append(np.column_stack([free, last])[likely][:missing])
        missing -= len(kept[-1])
    if missing > 0:
        raise broken()
    return np.concatenate([np.empty((0, cells), dtype=np.int64), *kept])


def symmetric_binomial(half: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` independent draws of (heads of `2 half` fair coins) - half, exactly: every coin is one random bit.

    Args:
        half: half of the number of coins, 1 to MOST_COINS / 2; the variance is half / 2.
        count: how many, >= 0.
        randomness: where the bits come from.

    Raises:
        KernelError: too many coins.

    Source: DKMMN06
    """
    if not 1 <= 2 * half <= MOST_COINS:
        raise _out_of_range()
    return randomness.noise(("binomial", half, count), lambda source: _binomial(half, count, source))


def _binomial(half: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    full, rest = divmod(2 * half, WORD_BITS)
    words = full + (rest > 0)
    heads = np.empty(count, dtype=np.int64)
    at_once = max(1, BATCH // words)
    for start in range(0, count, at_once):
        size = min(at_once, count - start)
        drawn = randomness.words(size * words).reshape(size, words).copy()
        if rest:
            drawn[:, -1] >>= np.uint64(WORD_BITS - rest)
        heads[start : start + size] = np.bitwise_count(drawn).sum(axis=1, dtype=np.int64)
    return heads - half


def discrete_gaussian(variance: Fraction, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` independent draws X with Pr(X = x) proportional to exp(-x^2 / (2 variance)), exactly.

    Args:
        variance: the square of the stddev promised, in squared units of the values, > 0, its root below 2^55. (The
            variance of X is never above it.)
        count: how many, >= 0.
        randomness: where the bits come from.

    Raises:
        KernelError: the variance is not positive or too large for 64-bit integers; the generator is broken.

    Source: CKS20
    """
    if not 0 < variance < LARGEST_SCALE**2:
        raise _out_of_range()
    exact = Fraction(variance)
    return randomness.noise(("gaussian", exact, count), lambda source: _gaussian(exact, count, source))


def _gaussian(variance: Fraction, count: int, randomness: Randomness) -> NDArray[np.int64]:
    proposal_scale = math.isqrt(math.floor(variance)) + 1
    kept: list[NDArray[np.int64]] = []
    missing = count
    for _ in range(LONGEST_RUN + 2 * count // BATCH):
        if missing <= 0:
            break
        size = min(BATCH, missing * 3 // 2 + 16)  # about 2 of 3 proposals are kept
        proposed = discrete_laplace(Fraction(proposal_scale), size, randomness)
        kept.append(proposed[_keep(proposed, variance, proposal_scale, randomness)][:missing])
        missing -= kept[-1].size
    if missing > 0:
        raise broken()
    return np.concatenate([*kept, np.empty(0, dtype=np.int64)])


def discrete_gaussian_around(centre: Fraction, variance: Fraction, randomness: Randomness) -> int:
    """One draw X with Pr(X = x) proportional to exp(-(x - centre)^2 / (2 variance)), exactly.

    From the whole number next to the centre, f away from it, Y is discrete Laplace of scale t = floor(sqrt(v)) + 1, and
    kept with probability exp(-((Y - f)^2 / (2 v) - |Y| / t + v / (2 t^2) + |f| / t)). The exponent is never above 0:
    |Y| <= |Y - f| + |f|, and (|Y - f| - v / t)^2 >= 0.

    Args:
        centre: anywhere within 64-bit integers.
        variance: as of `discrete_gaussian`, and at least 1/16: below, hardly any proposal would be kept.
        randomness: where the bits come from.

    Raises:
        KernelError: the variance or the centre is out of range; the generator is broken.

    Source: CKS20
    """
    if not (Fraction(1, 16) <= variance < LARGEST_SCALE**2 and abs(centre) < 2**62):
        raise _out_of_range()
    nearest = round(centre)
    f, t = centre - nearest, math.isqrt(math.floor(variance)) + 1
    for _ in range(LONGEST_RUN):
        for proposed in discrete_laplace(Fraction(t), 16, randomness).tolist():
            exponent = (proposed - f) ** 2 / (2 * variance) - Fraction(abs(proposed), t)
            exponent += variance / (2 * t * t) + abs(f) / t
            if exponent == 0 or Coin(exponent, logistic=False).flip(1, randomness)[0]:
                return nearest + int(proposed)
    raise broken()


def _keep(
    proposed: NDArray[np.int64], variance: Fraction, proposal_scale: int, randomness: Randomness
) -> NDArray[np.bool_]:
    """Which proposals y to keep: each independently with probability exp(-(|y| - v / t)^2 / (2 v))."""
    center = variance / proposal_scale
    stddev = max(math.sqrt(variance), 1e-150)  # below that, 0 is kept and all else rejected but for the exact test
    away = (np.abs(proposed).astype(np.float64) - float(center)) / stddev
    drawn = randomness.words(proposed.size)
    margin = drawn.astype(np.float64) * 2.0**-WORD_BITS - np.exp(-away * away / 2)
    keep = margin < 0
    for unclear in np.flatnonzero(np.abs(margin) < UNCLEAR):
        exponent = (abs(int(proposed[unclear])) - center) ** 2 / (2 * variance)
        # at exponent 0 the probability is 1, the only one that is rational
        keep[unclear] = exponent == 0 or Coin(exponent, logistic=False).decide(int(drawn[unclear]), randomness)
    return keep
