"""Filtering before subsampling: weighted means around few steps are measured, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from policyc_check.mechanisms.linear import GridMechanism, NonNegative
from policyc_check.users.strategies import largest_sum, row_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.participation import Participation
    from policyc_check.users.setting import Setting

    Whole = NDArray[np.int64]

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

    @property
    def weights(self) -> Whole:
        """Of the steps from block - 1 before a place to block - 1 after it, (2 block - 1,)."""
        b = self.block
        near = np.arange(1 - b, b)
        return (2 * self.grid * (b - np.abs(near)) + b**2) // (2 * b**2)  # to the nearest, in whole numbers

    @property
    def sums(self) -> Whole:
        """What the weights around each place add up to."""
        ones = np.ones((self.horizon, 1), dtype=np.int64)
        return np.asarray(self.measured(ones, 0)[0][:, 0])

    def measured(self, raw: Whole, first: int) -> tuple[Whole, Whole]:
        """One number at every place."""
        if first or len(raw) != self.horizon:
            return np.zeros((0, raw.shape[1]), dtype=np.int64), np.zeros(len(raw) - first, dtype=np.int64)
        places, sums = self.places, np.zeros((self.places.size, raw.shape[1]), dtype=np.int64)
        for near, weight in zip(range(1 - self.block, self.block), self.weights.tolist(), strict=True):
            inside = (places + near >= 0) & (places + near < self.horizon)
            sums[inside] += weight * raw[places[inside] + near]
        return sums, np.bincount(places, minlength=self.horizon)

    def l2_square(self, participation: Participation) -> int:
        """The general bound; rows of A' A are alike between all places but the first and last."""
        bounds, inner = np.empty(self.horizon, dtype=np.int64), None
        for low in range(int(self.places[0]) - self.block, self.horizon, self.block):
            steps = slice(max(low, 0), min(low + self.block, self.horizon))
            if steps.stop <= steps.start:
                continue
            whole = low > self.block and low + 3 * self.block <= self.horizon
            found = inner if whole else None
            if found is None:
                found = self._row_bounds(low, np.arange(steps.start, steps.stop), participation)
                inner = found if whole else inner
            bounds[steps] = found
        return largest_sum(bounds, participation)

    def _row_bounds(self, low: int, steps: Whole, participation: Participation) -> Whole:
        """Of the rows of steps from a place `low` to the next, each of which two places share."""
        b, w, last = self.block, self.weights, int(self.places[-1])
        columns = np.arange(low - b + 1, low + 2 * b)
        outside, found = (columns < 0) | (columns >= self.horizon), []
        for some in np.array_split(steps - low, -(-len(steps) * len(columns) // ROOM)):
            rows = np.zeros((len(some), len(columns)), dtype=np.int64)
            if low >= 0:
                rows[:, : 2 * b - 1] += w[some + b - 1][:, None] * w
            if low + b <= last:
                rows[:, b:] += np.where(some > 0, w[some - 1], 0)[:, None] * w
            rows[:, outside] = 0
            found.append(row_bounds(rows, participation))
        return np.concatenate(found)

    def column_sums(self) -> Whole:
        """What the places around each step count it for."""
        sums = np.zeros(self.horizon + 2 * self.block, dtype=np.int64)
        for place in self.places.tolist():
            sums[place + 1 : place + 2 * self.block] += self.weights
        return sums[self.block : -self.block]


class FilterSubsample(GridMechanism):
    """Measures weighted means of the steps around every (1 / rate)-th step, under discrete Gaussian noise.

    Weights fall in a straight line to zero at the measured steps before and after; they are whole numbers of a grid.
    KOGA22 draws the measured steps at random and bounds what they show of one user before they are drawn, which may
    fail. Here noise is made for the steps that are measured, exactly, with nothing that may fail; chance then protects
    nobody, so that the steps are evenly spaced and public. The estimator fills the rest.

    Source: KOGA22, BW18, CKS20
    """

    name: Literal["filter_subsample"] = "filter_subsample"
    leaves_gaps: ClassVar[bool] = True
    grid: ClassVar[int] = 2**12
    rate: Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]

    def described(self) -> str:
        """With what it was told."""
        return f"filter_subsample(rate = {self.rate})"

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It needs the steps on both sides."""
        if setting.wait is not None:
            return "it averages steps on both sides: it needs `deliver offline`"
        if setting.workload != "identity":
            return "it measures the steps themselves, not totals over them"
        return super().reason_against(setting)

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:  # noqa: ARG002
        """Means are over two blocks of steps, and weights that no grid holds would need no noise."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        block, most = _block(self.rate), min(setting.horizon, self.grid)
        if block <= most:
            return None
        return f"rate {self.rate:f} means one value for {block:,} steps; write `rate = {Decimal(1) / most:.1g}` or more"

    def strategy(self, setting: Setting) -> Means:
        """Of all steps, once all are there."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        return Means(setting.horizon, _block(self.rate), self.grid)


def _block(rate: Decimal) -> int:
    return max(1, round(1 / rate))
