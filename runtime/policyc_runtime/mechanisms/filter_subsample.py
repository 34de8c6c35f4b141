"""Filtering before subsampling: weighted means around few steps are measured, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.mechanisms import filter_subsample as checked
from policyc_runtime.mechanisms.linear import GridMechanism
from policyc_runtime.mechanisms.mechanism import StepRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting

    Array = NDArray[np.float64]


class FilterSubsample(checked.FilterSubsample, GridMechanism):
    """`FilterSubsample` of the check, drawn."""

    def variances(self, setting: Setting, steps: int) -> Array:
        """The variance of the noise of the measured steps, NaN at all others, (steps,)."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        found = np.full(setting.horizon, np.nan)
        means = self.strategy(setting)
        found[means.places] = (float(self.stddev) * self.grid / means.sums) ** 2
        return found[:steps]

    def ready(self, setting: Setting, steps: int) -> int:
        """All steps, once all are there."""
        return steps if steps == setting.horizon else 0

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> Array:
        """Noisy weighted means; NaN where a step was not measured."""
        found = np.full((len(records), setting.cells), np.nan)
        means = self.strategy(setting)
        places = means.places
        if [bool(record) for record in records] != np.isin(np.arange(len(records)), places).tolist():
            raise ValueError("these are no records of this mechanism")
        found[places] = np.array([records[place] for place in places], dtype=np.float64) / means.sums[:, None]
        return found
