"""Filtering before subsampling: weighted means around few steps are measured, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field

from policyc_runtime.mechanisms.grid_noise import GridNoise
from policyc_runtime.mechanisms.mechanism import Options, StepRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.randomness import Randomness

    Array = NDArray[np.float64]

USUAL_RATE = Decimal("0.5")


class FilterSubsample(GridNoise):
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

    @classmethod
    def variants(cls, setting: Setting) -> Sequence[Options]:  # noqa: ARG003
        """Rates worth comparing."""
        return tuple({"rate": Decimal(rate)} for rate in ("0.1", "0.3"))

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:
        """The least noise for this rate."""
        rate = cast(Decimal, options.get("rate", USUAL_RATE))
        cls(stddev=Decimal(1), rate=rate).require_promise(setting, delta)
        return cls._least(setting, epsilon, delta, rate=rate)

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:  # noqa: ARG002
        """Means are over two blocks of steps, and weights that no grid holds would need no noise."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        block, most = _block(self.rate), min(setting.horizon, self.grid)
        if block <= most:
            return None
        return f"rate {self.rate:f} means one value for {block:,} steps; write `rate = {Decimal(1) / most:.1g}` or more"

    def moved_square(self, setting: Setting) -> int:
        """How far one neighbor moves the means, L2 squared, in squared units of the grid, at most.

        All weights are nonnegative, so that k steps move them most where the k largest sums of k entries of A^T A are.
        The rows of A^T A have equal sums but at the ends, and so its largest eigenvalue bounds nothing better.
        """
        assert setting.horizon is not None, "it does not apply to endless streams"
        horizon, rate = setting.horizon, self.rate
        return setting.moved_square(lambda participation: _moved_square(horizon, rate, self.grid, participation.steps))

    def variances(self, setting: Setting, steps: int) -> Array:
        """The variance of the noise of the measured steps, NaN at all others, (steps,)."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        found = np.full(setting.horizon, np.nan)
        sums = np.asarray(_weights(setting.horizon, self.rate, self.grid).sum(axis=1)).ravel()
        found[_places(setting.horizon, self.rate)] = (float(self.stddev) * self.grid / sums) ** 2
        return found[:steps]

    def ready(self, setting: Setting, steps: int) -> int:
        """All steps, once all are there."""
        return steps if steps == setting.horizon else 0

    def measure(
        self,
        setting: Setting,  # noqa: ARG002
        raw: NDArray[np.int64],
        records: Sequence[StepRecord],
        randomness: Randomness,
    ) -> list[StepRecord]:
        """Noisy weighted sums, in units of the grid, at the measured steps; empty records at all others."""
        if len(records) == len(raw):
            return []
        sums = np.asarray(_weights(len(raw), self.rate, self.grid) @ raw)
        made: list[StepRecord] = [()] * len(raw)
        rows = (sums + self._noise(sums, randomness)).tolist()
        for step, row in zip(_places(len(raw), self.rate).tolist(), rows, strict=True):
            made[step] = tuple(row)
        return made

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> Array:
        """Noisy weighted means; NaN where a step was not measured."""
        found = np.full((len(records), setting.cells), np.nan)
        places = _places(len(records), self.rate)
        if [bool(record) for record in records] != np.isin(np.arange(len(records)), places).tolist():
            raise ValueError("these are no records of this mechanism")
        sums = np.asarray(_weights(len(records), self.rate, self.grid).sum(axis=1)).reshape(-1, 1)
        found[places] = np.array([records[place] for place in places], dtype=np.float64) / sums
        return found


def _block(rate: Decimal) -> int:
    return max(1, round(1 / rate))


def _places(steps: int, rate: Decimal) -> NDArray[np.int64]:
    """The measured steps, at least one."""
    block = _block(rate)
    return np.arange(min(block // 2, steps - 1), steps, block)


@lru_cache(maxsize=16)
def _weights(steps: int, rate: Decimal, grid: int) -> csr_matrix:
    """A: one row a measured step, whole numbers of the grid that add up to about one unit, (measured, steps)."""
    from scipy.sparse import csr_matrix

    block, places = _block(rate), _places(steps, rate)
    near = np.arange(1 - block, block)
    weights = (2 * grid * (block - np.abs(near)) + block**2) // (2 * block**2)  # to the nearest, in whole numbers
    rows, columns = np.repeat(np.arange(places.size), near.size), (places[:, None] + near).ravel()
    inside = (columns >= 0) & (columns < steps)
    entries = np.tile(weights, places.size)[inside]
    return csr_matrix((entries, (rows[inside], columns[inside])), shape=(places.size, steps), dtype=np.int64)


@lru_cache(maxsize=64)
def _moved_square(steps: int, rate: Decimal, grid: int, participations: int) -> int:
    """The sum of the k largest row bounds of A^T A, a row's bound being the sum of its k largest entries; exact."""
    weights = _weights(steps, rate, grid)
    square = (weights.T @ weights).tocsr()
    bounds = [
        int(np.sort(square.data[start:stop])[-participations:].sum())
        for start, stop in zip(square.indptr[:-1], square.indptr[1:], strict=True)
    ]
    return sum(sorted(bounds)[-participations:])
