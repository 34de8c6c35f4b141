"""The only module that makes random bits, and what is drawn from them digit by digit: whole numbers, and coins.

A coin whose probability is irrational is exact: a draw compares a uniform real number with the probability digit by
digit, 16 random bits against its first 16 binary digits, and only when all of them agree (once in 2^16 draws) more, 64
at a time: noise waits for random bits more than for all else. The digits come from decimal interval arithmetic whose
precision grows until they are certain. So no floating-point number touches the distribution.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

WORD_BITS = 64
FIRST_BITS = 16  # of a coin's draw, which decide nearly all of them
LONGEST_RUN = 128  # successes in a row, each of probability at most 1/e: a sound generator never gets there


class Randomness(ABC):
    """A source of independent uniform bits."""

    is_release: bool
    """Whether what is drawn may protect a release."""

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` independent uniform 64-bit words."""

    def noise(self, law: Hashable, draw: Callable[[Randomness], NDArray[np.int64]]) -> NDArray[np.int64]:  # noqa: ARG002
        """Fresh noise of a law, made by `draw` from this source: now, or from one that drew it ahead."""
        return draw(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"  # never a seed or a state


class SystemRandomness(Randomness):
    """The operating system's cryptographic generator; the only one for releases."""

    is_release = True

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` independent uniform 64-bit words."""
        return np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)


class SimulationRandomness(Randomness):
    """A seeded generator, for simulations and tests. Its noise protects nobody: NOT for release.

    `generator` is a second, independent stream, for drawing simulated users.
    """

    is_release = False

    def __init__(self, seed: int) -> None:
        noise, users = np.random.SeedSequence(seed).spawn(2)
        self._noise = np.random.PCG64(noise)
        self.generator = np.random.Generator(np.random.PCG64(users))

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` pseudo-random 64-bit words."""
        return self._noise.random_raw(count)  # the words of `integers` over all 64 bits, without its overhead


def uniform_integers(bound: int, count: int, randomness: Randomness) -> NDArray[np.int64]:
    """`count` independent uniform draws from 0 to bound - 1, exactly.

    Args:
        bound: at least 1, at most 2^62.
        count: how many, >= 0.
        randomness: where the bits come from.

    Raises:
        KernelError: the generator is broken.
    """
    if not 1 <= bound <= 2**62:
        raise ValueError("a bound is between 1 and 2^62")
    fair = np.uint64(2**WORD_BITS - 1 - 2**WORD_BITS % bound)  # words up to here have every remainder equally often
    drawn = randomness.words(count).copy()
    for _ in range(LONGEST_RUN):
        again = np.flatnonzero(drawn > fair)
        if again.size == 0:
            return (drawn % np.uint64(bound)).astype(np.int64)
        drawn[again] = randomness.words(again.size)
    raise broken()


class Coin:
    """Yes with an irrational probability, exactly: exp(-x), or 1 / (1 + exp(x)) when `logistic`; x > 0 rational."""

    def __init__(self, exponent: Fraction, *, logistic: bool) -> None:
        self._exponent = exponent
        self._logistic = logistic
        self._words: list[int] = []

    def word(self, index: int) -> int:
        """Binary digits 64 index + 1 to 64 index + 64 of the probability, as one number."""
        while len(self._words) <= index:
            bits = WORD_BITS * (len(self._words) + 1)
            self._words.append(self._leading(bits) % 2**WORD_BITS)
        return self._words[index]

    def flip(self, count: int, randomness: Randomness) -> NDArray[np.bool_]:
        """`count` independent draws."""
        drawn = randomness.words(-(-count * FIRST_BITS // WORD_BITS)).view(np.uint16)[:count]
        rest = WORD_BITS - FIRST_BITS
        first = np.uint16(self.word(0) >> rest)
        yes = drawn < first
        for undecided in np.flatnonzero(drawn == first):
            more = int(randomness.words(1)[0]) >> FIRST_BITS
            yes[undecided] = self.decide((int(first) << rest) + more, randomness)
        return yes

    def decide(self, drawn: int, randomness: Randomness) -> bool:
        """One draw whose first 64 bits are `drawn`; more are asked for while they equal the probability's digits."""
        index = 0
        while drawn == self.word(index):
            index += 1
            drawn = int(randomness.words(1)[0])
        return drawn < self.word(index)

    def _leading(self, bits: int) -> int:
        """floor(probability 2^bits), certain."""
        if self._exponent >= bits:
            return 0  # the probability is below exp(-bits) < 2^-bits
        digits = bits // 3 + 10
        while True:
            low, high = (int(bound * 2**bits) for bound in self._bounds(digits))
            if low == high:
                return low
            digits *= 2  # ends, because the probability is irrational

    def _bounds(self, digits: int) -> tuple[Fraction, Fraction]:
        """Two rationals around the probability, about `digits` decimal digits apart."""
        down = Context(prec=digits, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
        up = Context(prec=digits, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
        top, bottom = Decimal(self._exponent.numerator), Decimal(self._exponent.denominator)
        # exp rounds to nearest whatever the context says: one step out is a bound; a plain minus rounds to 28 digits
        low = down.next_minus(down.exp(up.divide(top, bottom).copy_negate()))
        high = up.next_plus(up.exp(down.divide(top, bottom).copy_negate()))
        smallest, largest = Fraction(low), Fraction(high)
        if self._logistic:  # q / (1 + q) of q = exp(-x), increasing in q
            return smallest / (1 + smallest), largest / (1 + largest)
        return smallest, largest


def broken() -> KernelError:
    """What is raised where draws cannot be random."""
    return KernelError(
        "E0832",
        "the random number generator is broken",
        because=f"it gave the same answer {LONGEST_RUN} times in a row, which a sound one never does",
        help="repair the machine's random number generator; nothing was released",
    )
