"""Measures the frequencies of a whole series, or of blocks of it, instead of its values (RN10)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from policyc_runtime.mechanisms.calibration import least_noise, require_room
from policyc_runtime.mechanisms.grid_noise import GridNoise
from policyc_runtime.records import Steps
from policyc_runtime.rounding import rounded_down, rounded_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.mechanism import Options, StepRecord
    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.randomness import Randomness

LONGEST = 20_000  # steps of a block: its transform takes the square of that
ROWS = 256  # of a transform at a time


class Dft(GridNoise):
    """Adds noise to the lowest `coefficients` of the real Fourier transform of every block; None: to all.

    Noise is Gaussian, or Laplace as in the source, both of standard deviation `stddev`. Laplace noise hides what a user
    moves in L1, which grows faster with steps and coefficients, but for every delta, 0 included.

    A block is the whole series offline, and d + 1 steps where values may wait for d (online DFT). With `choose`, the
    frequencies above which noise is more than signal are left out, chosen from the noisy coefficients alone.

    What differs from the source: noise is made for what one user in all of a user's steps can move, which the source's
    comparison in ZKL22 takes sqrt(T) too small; and how many coefficients count is stated, or chosen after noise,
    while the source picks the number by the error on the protected series itself.

    Source: RN10, BW18, CKS20
    """

    name: Literal["dft"] = "dft"
    grid: ClassVar[int] = 2**26
    estimates: ClassVar[bool] = True
    coefficients: Steps | None
    choose: bool
    noise: Literal["gaussian", "laplace"] = "gaussian"

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It waits for blocks of steps."""
        if setting.workload != "identity":
            return "it measures the steps themselves, not totals over them"
        if setting.wait == 0:
            return "it transforms blocks of steps, so values have to wait for later ones"
        if setting.wait is None and setting.horizon is None:
            return "it transforms the whole stream, and this one has no end"
        if _block(setting) > LONGEST:
            return f"it transforms at most {LONGEST:,} steps at once"
        return None

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:
        """The least noise; options: coefficients of a block that are measured (else all), choose and noise."""
        fixed = {
            "coefficients": options.get("coefficients"),
            "choose": options.get("choose", False),
            "noise": options.get("noise", "gaussian"),
        }
        if fixed["noise"] == "gaussian":
            return cls._least(setting, epsilon, delta, **fixed)
        made = cls(stddev=Decimal(1), **fixed)  # type: ignore[arg-type]  # checked by its fields
        nats, failing = rounded_down(epsilon), rounded_down(delta)
        near = made._moved(setting) / made.grid / float(epsilon) * math.sqrt(2)
        holds = lambda stddev: made._of(stddev).profile(setting).delta(nats) <= failing  # noqa: E731
        return made._of(least_noise(holds, near))

    def _of(self, stddev: float) -> Self:
        require_room(stddev * self.grid)
        return self.model_copy(update={"stddev": Decimal(repr(stddev))})

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The curve of discrete noise on everything that is measured, an upper bound.

        Laplace noise of scale b on whole numbers that move by so much in L1 loses at most that over b, whatever moves.
        """
        if self.noise == "gaussian":
            return super().profile(setting)
        from policyc_runtime.privacy.profile import pure_profile

        return pure_profile(rounded_up(self._moved(setting) / self._scale))

    @property
    def _scale(self) -> Fraction:
        """Of Laplace noise, in units of the grid, with this deviation."""
        return Fraction(self.stddev * self.grid) * Fraction("0.7071067811865475")

    def _moved(self, setting: Setting) -> int:
        """How far one neighbor moves the numbers measured at most, L1, in units of the grid, rounded up.

        By its columns; and n numbers move by at most sqrt(n) times what they move in L2, every cell having its own.
        """
        length = _block(setting)
        blocks = None if setting.horizon is None else -(-setting.horizon // length)
        numbers = setting.cells_moved(blocks) * self._measured(length)
        whole = math.isqrt(numbers * self.moved_square(setting)) + 1
        return max(1, min(setting.moved_l1(self._columns(setting)), whole))

    def _columns(self, setting: Setting) -> NDArray[np.int64]:
        """By how much one unit of every step moves the coefficients, L1, in grid units; of one block, if endless."""
        sizes = [size for _, size in _blocks(setting, setting.horizon or _block(setting))]
        return np.concatenate([_column_norms(size, self._measured(size), self.grid) for size in sizes])

    def _noise(self, numbers: NDArray[np.int64], randomness: Randomness) -> NDArray[np.int64]:
        if self.noise == "gaussian":
            return super()._noise(numbers, randomness)
        from policyc_runtime.randomness import discrete_laplace

        return discrete_laplace(self._scale, numbers.size, randomness).reshape(numbers.shape)

    def moved_square(self, setting: Setting) -> int:
        """At most the largest of all ratios of lengths, squared, times what one user moves.

        The transform is orthonormal but for rounding to the grid, by 1/2 an entry; a user in k steps of a block moves
        it also by at most k times its longest column.
        """
        length = _block(setting)
        sizes = {length, (setting.horizon or length) % length or length}
        most = min(setting.changes, length * (2 if setting.replaced and setting.cells > 1 else 1))
        square = max(self._longest_square(size, most) for size in sizes)
        return setting.changes * setting.shift**2 * square

    def _longest_square(self, size: int, most: int) -> int:
        """Of one change in a block of this size with at most so many, squared, in grid units."""
        rows = self._measured(size)
        column = self.grid * math.sqrt(min(1.0, (rows + 1) / size)) + math.sqrt(rows)
        whole = self.grid + math.sqrt(rows * size)
        return math.ceil(min(whole**2, most * column**2) * (1 + 1e-12))

    def _measured(self, size: int) -> int:
        return min(size, self.coefficients or size)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """The variance of the noise of every step, (steps,), where no frequency is left out after noise."""
        found = np.zeros(steps)
        for start, size in _blocks(setting, steps):
            squares = sum((rows**2).sum(axis=0) for rows in _basis(size, self._measured(size)))
            found[start : start + size] = squares[: steps - start]
        return found * float(self.stddev) ** 2

    def ready(self, setting: Setting, steps: int) -> int:
        """Whole blocks; at the horizon all."""
        return steps if steps == setting.horizon else steps - steps % _block(setting)

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """The noisy coefficients of the blocks that have no records yet, one a step; none above those measured."""
        made: list[StepRecord] = []
        for start, size in _blocks(setting, len(raw)):
            if start < len(records):
                continue
            block = raw[start : start + size]
            large = int(np.abs(block).max(initial=0)) * size >= 2**35  # the sums might not fit 64 bits
            exact = block.astype(object) if large else block
            rows = [np.rint(part * self.grid).astype(np.int64) for part in _basis(size, self._measured(size))]
            sums = [row for part in rows for row in ((part.astype(object) if large else part) @ exact).tolist()]
            noise = self._noise(np.zeros((len(sums), setting.cells), dtype=np.int64), randomness).tolist()
            made += [
                tuple(a + b for a, b in zip(row, more, strict=True)) for row, more in zip(sums, noise, strict=True)
            ]
            made += [()] * (size - len(sums))
        return made

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The inverse transform of the coefficients that are kept."""
        found = np.zeros((len(records), setting.cells))
        for start, size in _blocks(setting, len(records)):
            count = self._measured(size)
            noisy = np.array(records[start : start + count], dtype=np.float64).reshape(count, setting.cells) / self.grid
            if self.choose:
                cost = np.cumsum(
                    2 * float(self.stddev) ** 2 - noisy**2, axis=0
                )  # of keeping so many: error, but for a constant
                noisy[np.arange(count)[:, None] > np.argmin(cost, axis=0)] = 0.0
            first = 0
            for rows in _basis(size, count):
                found[start : start + size] += rows.T @ noisy[first : first + len(rows)]
                first += len(rows)
        return found


def _block(setting: Setting) -> int:
    """Steps of a block."""
    if setting.wait is None:
        assert setting.horizon is not None, "an endless stream is never published offline"
        return setting.horizon
    return setting.wait + 1 if setting.horizon is None else min(setting.wait + 1, setting.horizon)


def _blocks(setting: Setting, steps: int) -> Iterator[tuple[int, int]]:
    """First step and size of every block of the first steps; the last of the stream may be shorter."""
    length = _block(setting)
    for start in range(0, steps, length):
        yield start, length if setting.horizon is None else min(length, setting.horizon - start)


def _basis(size: int, count: int) -> Iterable[NDArray[np.float64]]:
    """As `_rows`; kept where it is small."""
    return _kept_basis(size, count) if size * count <= 2**20 else _rows(size, count)


@lru_cache(maxsize=64)
def _column_norms(size: int, count: int, grid: int) -> NDArray[np.int64]:
    """The L1 norm of what each step adds to the coefficients, in units of the grid, (size,): they are whole numbers."""
    sums = np.zeros(size, dtype=np.int64)
    for rows in _basis(size, count):
        sums += np.abs(np.rint(rows * grid).astype(np.int64)).sum(axis=0)
    return sums


@lru_cache(maxsize=4)
def _kept_basis(size: int, count: int) -> tuple[NDArray[np.float64], ...]:
    return tuple(_rows(size, count))


def _rows(size: int, count: int) -> Iterator[NDArray[np.float64]]:
    """The lowest `count` rows of the orthonormal real Fourier basis over `size` steps, some at a time, (rows, size).

    Row 0 is constant; rows 2 f - 1 and 2 f are the cosine and sine of frequency f.
    """
    steps = np.arange(size)
    for first in range(0, count, ROWS):
        row = np.arange(first, min(first + ROWS, count))[:, None]
        turn = 2 * math.pi / size * ((row + 1) // 2 * steps % size)
        alone = (row == 0) | (row == size - 1) & (size % 2 == 0)  # the constant, and the fastest cosine
        yield np.where(row % 2 == 1, np.cos(turn), np.where(row == 0, 1.0, np.sin(turn))) * np.sqrt(
            np.where(alone, 1.0, 2.0) / size
        )
