"""Regular rhythms of a series, its slope and steps unlike all others: what stands out of its spectrum, one by one.

A line is a sine of one frequency, any frequency, the slope of the whole series, or one step alone, as a holiday is:
what the spectrum would smooth away of it is then published, and what it would make the spectrum believe is not. How
large it is in the values is read from their cosine coefficients, weighted by what noise and spectrum let expect of
each. The line that explains most comes first; one is kept only where it explains more than its numbers take to write
down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SLOPE = 0.0  # in place of a frequency
ALONE = 1.0  # more than any frequency: this and its number are written for a step alone
SLOWEST = 0.75  # cycles in the whole series: below, the slope and the spectrum say more
FINE = 4  # frequencies that are looked at, relative to the steps
STEPS_A_LINE = 10
NEARLY = 1.5  # times as much as at the best frequency looked at, an exact one might explain at most
EXACT = 0.02  # cycles in the whole series, to which the frequency of a line is found


@dataclass
class Lines:
    """Those found so far in one series.

    Args:
        coefficients: (T - 1,) cosine coefficients 1 to T - 1 of the series, orthonormal.
        variances: (T - 1,) what is expected of their squares without lines.
        frequencies: of the lines, in cycles a step, or `SLOPE`, or `ALONE` and the number of a step.
        alone: whether to look for steps alone.
    """

    coefficients: Array
    variances: Array
    frequencies: list[float] = field(default_factory=list)
    alone: bool = False

    def __post_init__(self) -> None:
        self.steps = self.coefficients.size + 1
        self._columns = np.hstack([np.empty((self.steps - 1, 0)), *map(self._made, self.frequencies)])
        self.weigh(self.variances)

    def weigh(self, variances: Array) -> None:
        """Fits the same lines where other squares are expected of coefficients without them."""
        self.variances = variances
        self._weights = 1.0 / variances
        self._fit()

    @property
    def cost(self) -> float:
        """What all lines take to write down, in nats: half the logarithm of T a number (Schwarz)."""
        return sum(map(self._cost, self.frequencies))

    def _cost(self, frequency: float) -> float:
        numbers = 1 if frequency == SLOPE else 3  # which step it is, one of all of them, is told like two numbers
        return numbers * math.log(self.steps) / 2

    def search(self, most: int) -> None:
        """Finds all lines that pay, up to so many, then drops what no longer pays beside the others.

        Of a few steps nothing is said: they would find a line in every noise.

        Source: MZ93, SCH78
        """
        most = min(most, self.steps // STEPS_A_LINE)
        while len(self.frequencies) < most:
            gain, frequency = max((self._gain(one) - self._cost(one), one) for one in self._promising())
            if gain <= 0:
                break
            self._add(frequency)
        while self.frequencies:
            worth = [self._worth(index) - self._cost(one) for index, one in enumerate(self.frequencies)]
            if min(worth) >= 0:
                break
            self._drop(int(np.argmin(worth)))

    def _promising(self) -> Iterable[float]:
        """The slope, the step and the frequency at which what is left has most power for its weight, made exact."""
        from scipy.fft import idct
        from scipy.optimize import minimize_scalar

        yield SLOPE
        size = 1 << math.ceil(math.log2(FINE * self.steps))
        whitened = idct(np.append(0.0, self.left * self._weights), norm="ortho")
        if self.alone:
            yield ALONE + int(np.argmax(whitened**2 / self._weights_of_steps()))
        power = np.abs(np.fft.rfft(whitened, size)) ** 2
        places = np.arange(power.size) * (2 * self.steps / size)
        power /= np.interp(places, np.arange(1, self.steps), self._weights)
        first = math.ceil(SLOWEST * size / self.steps)
        within_ends = power[first:-first]
        if not within_ends.size or NEARLY * within_ends.max() / self.steps < self._cost(1.0):
            return
        best = (first + int(np.argmax(within_ends))) / size
        ends, within = (best - 1 / size, best + 1 / size), {"xatol": EXACT / self.steps}
        found = minimize_scalar(lambda one: -self._gain(one), bounds=ends, method="bounded", options=within)
        yield float(found.x)

    def _weights_of_steps(self) -> Array:
        """Of each step alone, (T,): the weights of coefficients by the squares of their cosines there."""
        # cos^2 = (1 + cos of twice as much) / 2, and the sum of these cosines is a Fourier sum
        half = np.exp(1j * math.pi * np.arange(self.steps) / self.steps) * np.append(0.0, self._weights)
        return np.asarray(self._weights.sum() / self.steps + np.fft.ifft(half).real)

    def _made(self, frequency: float) -> Array:
        """Cosine coefficients of a line, (T - 1, numbers)."""
        from scipy.fft import dct

        steps = np.arange(self.steps)
        turn = 2 * math.pi * frequency * steps
        if frequency == SLOPE:
            shapes = [steps / self.steps]
        elif frequency >= ALONE:
            shapes = [(steps == frequency - ALONE).astype(np.float64)]
        else:
            shapes = [np.cos(turn), np.sin(turn)]
        return np.asarray(dct(np.column_stack(shapes), axis=0, norm="ortho")[1:])

    def _gain(self, frequency: float) -> float:
        """Nats that one more line explains of what is left, the others as they are."""
        columns = self._made(frequency)
        pull = columns.T @ (self._weights * self.left)
        return float(pull @ np.linalg.lstsq(columns.T @ (columns * self._weights[:, None]), pull, rcond=None)[0]) / 2

    def _worth(self, index: int) -> float:
        """Nats that would be left unexplained without one of the lines."""
        mine = [column for column, owner in enumerate(self._owners()) if owner == index]
        return (
            float(
                self._sizes[mine] @ np.linalg.lstsq(self._spread[np.ix_(mine, mine)], self._sizes[mine], rcond=None)[0]
            )
            / 2
        )

    def _owners(self) -> list[int]:
        return [n for n, one in enumerate(self.frequencies) for _ in range(2 if SLOPE < one < ALONE else 1)]

    def _add(self, frequency: float) -> None:
        self._columns = np.hstack([self._columns, self._made(frequency)])
        self.frequencies.append(frequency)
        self._fit()

    def _drop(self, index: int) -> None:
        self._columns = self._columns[:, [owner != index for owner in self._owners()]]
        del self.frequencies[index]
        self._fit()

    def _fit(self) -> None:
        """Weighted least squares of all lines together; `left` is what they leave of the coefficients."""
        weighted = self._columns * self._weights[:, None]
        self._spread = np.linalg.pinv(self._columns.T @ weighted, hermitian=True)
        self._sizes = self._spread @ (weighted.T @ self.coefficients)
        self.left = self.coefficients - self._columns @ self._sizes
