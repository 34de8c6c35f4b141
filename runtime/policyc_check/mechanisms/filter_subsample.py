"""Filtering before subsampling: weighted means around few steps are measured, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from policyc_check.mechanisms.linear import GridMechanism, NonNegative, Numbers
from policyc_check.runs import Whole
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_check.users.strategies import general_l2_square, largest_sum, row_bounds

SHORT = 256  # steps, whose matrix is looked at as a whole


@dataclass(frozen=True)
class Means(NonNegative):
    """Weighted sums around every `block`-th step, whole numbers of the grid that add up to about one unit."""

    horizon: int
    block: int
    grid: int
    filter: str = "triangle"

    @property
    def places(self) -> Whole:
        """The measured steps, at least one."""
        return np.arange(min(self.block // 2, self.horizon - 1), self.horizon, self.block)

    def weights(self, near: Whole | int) -> Whole:
        """Of steps so far from a place: falling to none at the next place, or alike of all that are nearest to it."""
        away = np.maximum(self.block - np.abs(near), 0)
        if self.filter == "average":
            away = np.where((near >= -(self.block // 2)) & (near < (self.block + 1) // 2), self.block, 0)
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
        columns, block = np.arange(1 - self.block, 2 * self.block), self.block
        rows = (sum(self.weights(t - p) * self.weights(columns - p) for p in (0, block)) for t in range(block))
        found = np.array([row_bounds(np.atleast_2d(row), participation)[0] for row in rows])
        between = (np.arange(self.horizon) - self.places[0]) % block
        return largest_sum(found[between], participation)


class FilterSubsample(GridMechanism):
    """Measures weighted means of the steps around every (1 / rate)-th step, under discrete Gaussian noise.

    Weights, whole numbers of a grid, fall in a line to zero at the measured steps beside, or are alike around each.
    """

    name: Literal["filter_subsample"] = "filter_subsample"
    grid: ClassVar[int] = 2**12
    rate: Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]
    filter: Literal["triangle", "average"] = Field(default="triangle", exclude_if=lambda value: value == "triangle")

    @property
    def _block(self) -> int:
        return max(1, round(1 / self.rate))

    def strategy(self, setting: Setting) -> Means:
        """Of all steps, once all are there."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return Means(setting.horizon, self._block, self.grid, self.filter)
