"""Filtering before subsampling: weighted means around few steps are measured, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from policyc_check.mechanisms.linear import GridMechanism, NonNegative, Numbers
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_check.users.strategies import Whole, general_l2_square, largest_sum, row_bounds

SHORT = 256  # steps, whose matrix is looked at as a whole
ROOM = 2**22  # numbers that are worked on at a time


@dataclass(frozen=True)
class Means(NonNegative):
    """Weighted sums around every `block`-th step, whole numbers of the grid that add up to about one unit."""

    horizon: int
    block: int
    grid: int

    @property
    def places(self) -> Whole:
        """The measured steps, at least one."""
        return np.arange(min(self.block // 2, self.horizon - 1), self.horizon, self.block)

    def weights(self, near: Whole) -> Whole:
        """Of steps so far from a place: none from the next place on."""
        away = np.maximum(self.block - np.abs(near), 0)
        return np.asarray((2 * self.grid * away + self.block**2) // (2 * self.block**2))  # to the nearest

    def measured(self, raw: Whole, first: int) -> Numbers:
        """One number at every place."""
        if first or len(raw) != self.horizon:
            return np.zeros((0, raw.shape[1]), dtype=np.int64), np.zeros(len(raw) - first, dtype=np.int64)
        places, sums = self.places, np.zeros((self.places.size, raw.shape[1]), dtype=np.int64)
        for near in range(1 - self.block, self.block):
            inside = (places + near >= 0) & (places + near < self.horizon)
            sums[inside] += self.weights(np.array(near)) * raw[places[inside] + near]
        return sums, np.bincount(places, minlength=self.horizon)

    def l2_square(self, participation: Participation) -> int:
        """The general bound; of many steps every row of A' A is taken for one between two places: no other has more."""
        if self.horizon <= SHORT:
            return general_l2_square(self.measured(np.eye(self.horizon, dtype=np.int64), 0)[0], participation)
        columns, steps = np.arange(1 - self.block, 2 * self.block), np.arange(self.block)
        found = []
        for some in np.array_split(steps[:, None], -(-columns.size * self.block // ROOM)):
            rows = self.weights(some) * self.weights(columns)
            rows += self.weights(some - self.block) * self.weights(columns - self.block)
            found.append(row_bounds(rows, participation))
        between = (np.arange(self.horizon) - self.places[0]) % self.block
        return largest_sum(np.concatenate(found)[between], participation)


class FilterSubsample(GridMechanism):
    """Measures weighted means of the steps around every (1 / rate)-th step, under discrete Gaussian noise.

    Weights fall in a straight line to zero at the measured steps before and after; they are whole numbers of a grid.
    """

    name: Literal["filter_subsample"] = "filter_subsample"
    grid: ClassVar[int] = 2**12
    rate: Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]

    @property
    def _block(self) -> int:
        return max(1, round(1 / self.rate))

    def strategy(self, setting: Setting) -> Means:
        """Of all steps, once all are there."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return Means(setting.horizon, self._block, self.grid)
