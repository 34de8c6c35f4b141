"""Measures the frequencies of a whole series, or of blocks of it, instead of its values (RN10)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from policyc_check.mechanisms.linear import GridMechanism, Numbers, Strategy
from policyc_check.records import Steps
from policyc_check.rounding import Floats
from policyc_check.runs import Whole
from policyc_check.users.noise import DiscreteLaplace, Law
from policyc_check.users.setting import Moves, Setting

ROWS = 256  # of a transform at a time


@dataclass(frozen=True)
class Frequencies(Strategy):
    """The lowest coefficients of the real Fourier transform of every block, rounded to the grid; None: all.

    The transform is orthonormal but for rounding, by 1/2 an entry.
    """

    length: int
    horizon: int | None
    coefficients: int | None
    grid: int

    def blocks(self, steps: int) -> Iterator[tuple[int, int]]:
        """First step and size of every block of the first steps; the last of the stream may be shorter."""
        for start in range(0, steps, self.length):
            yield start, self.length if self.horizon is None else min(self.length, self.horizon - start)

    def count(self, size: int) -> int:
        """Coefficients that are measured of a block of this size."""
        return min(size, self.coefficients or size)

    def measured(self, raw: Whole, first: int) -> Numbers:
        """One coefficient a step, of the blocks that begin at `first` or later; none above those measured."""
        sums: list[Whole] = []
        numbers = np.zeros(len(raw) - first, dtype=np.int64)
        for start, size in self.blocks(len(raw)):
            if start < first:
                continue
            block = raw[start : start + size]
            large = int(np.abs(block).max(initial=0)) * size >= 2**35  # the sums might not fit 64 bits
            for part in basis(size, self.count(size)):
                rows = np.rint(part * self.grid).astype(np.int64)
                sums.append(rows.astype(object) @ block.astype(object) if large else rows @ block)
            numbers[start - first : start - first + self.count(size)] = 1
        return np.concatenate([np.zeros((0, raw.shape[1]), dtype=np.int64), *sums]), numbers

    def moves(self, setting: Setting) -> Moves:
        """At most the largest of all ratios of lengths times what one user moves, and in L1 by columns.

        A user in k steps of a block moves it also by at most k times its longest column. In L1, n numbers move by at
        most sqrt(n) times what they move in L2, every cell having its own.
        """
        sizes = {self.length, (setting.horizon or self.length) % self.length or self.length}
        most = min(setting.changes, self.length * (2 if setting.replaced and setting.cells > 1 else 1))
        l2_square = setting.changes * setting.shift**2 * max(self._longest_square(size, most) for size in sizes)
        cells = setting.changes * setting.numbers_changed  # of blocks, in which neighbors differ
        if setting.horizon is not None:
            cells = min(cells, -(-setting.horizon // self.length) * setting.cells)
        whole = math.isqrt(cells * self.count(self.length) * l2_square) + 1
        blocks = self.blocks(self.horizon or self.length)  # one, where there is no end
        columns = np.concatenate([_column_norms(size, self.count(size), self.grid) for _, size in blocks])
        return Moves(l2_square, max(1, min(setting.moved_l1(columns), whole)))

    def _longest_square(self, size: int, most: int) -> int:
        """Of one change in a block of this size with at most so many, squared, in grid units."""
        rows = self.count(size)
        column = self.grid * math.sqrt(min(1.0, (rows + 1) / size)) + math.sqrt(rows)
        whole = self.grid + math.sqrt(rows * size)
        return math.ceil(min(whole**2, most * column**2) * (1 + 1e-12))


class Dft(GridMechanism):
    """Adds noise to the lowest `coefficients` of the real Fourier transform of every block; None: to all.

    Noise is Gaussian, or Laplace as in the source, both of standard deviation `stddev`. Laplace noise hides what a user
    moves in L1, which grows faster with steps and coefficients, but for every delta, 0 included.

    A block is the whole series offline, and d + 1 steps where values may wait for d (online DFT). With `choose`, the
    frequencies above which noise is more than signal are left out, chosen from the noisy coefficients alone.
    """

    name: Literal["dft"] = "dft"
    grid: ClassVar[int] = 2**26
    coefficients: Steps | None
    choose: bool
    noise: Literal["gaussian", "laplace"] = "gaussian"

    def strategy(self, setting: Setting) -> Frequencies:
        """Of blocks."""
        return Frequencies(block_of(setting), setting.horizon, self.coefficients, self.grid)

    @property
    def law(self) -> Law:
        """Of this standard deviation."""
        if self.noise == "gaussian":
            return super().law
        return DiscreteLaplace(Fraction(self.stddev * self.grid) * Fraction("0.7071067811865475"))


def block_of(setting: Setting) -> int:
    """Steps of a block."""
    if setting.wait is None:
        assert setting.horizon is not None, "an endless stream is never published offline"
        return setting.horizon
    return setting.wait + 1 if setting.horizon is None else min(setting.wait + 1, setting.horizon)


@lru_cache(maxsize=64)
def _column_norms(size: int, count: int, grid: int) -> Whole:
    """The L1 norm of what each step adds to the coefficients, in units of the grid, (size,): they are whole numbers."""
    sums = np.zeros(size, dtype=np.int64)
    for rows in basis(size, count):
        sums += np.abs(np.rint(rows * grid).astype(np.int64)).sum(axis=0)
    return sums


def basis(size: int, count: int) -> Iterator[Floats]:
    """The lowest `count` rows of the orthonormal real Fourier basis over `size` steps, some at a time, (rows, size)."""
    for first in range(0, count, ROWS):
        yield _rows(size, first, min(first + ROWS, count))


@lru_cache(maxsize=4)
def _rows(size: int, first: int, stop: int) -> Floats:
    """Some rows: row 0 is constant; rows 2 f - 1 and 2 f are the cosine and sine of frequency f."""
    row = np.arange(first, stop)[:, None]
    turn = 2 * math.pi / size * ((row + 1) // 2 * np.arange(size) % size)
    waves = np.where(row % 2 == 1, np.cos(turn), np.where(row == 0, 1.0, np.sin(turn)))
    alone = (row == 0) | (row == size - 1) & (size % 2 == 0)  # the constant, and the fastest cosine
    return np.asarray(waves * np.sqrt(np.where(alone, 1.0, 2.0) / size))
