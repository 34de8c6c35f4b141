"""Filtering before subsampling: weighted means around few steps are measured, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_check.mechanisms import filter_subsample as checked
from policyc_runtime.mechanisms.linear import GridMechanism
from policyc_runtime.mechanisms.mechanism import StepRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting

    Array = NDArray[np.float64]


class FilterSubsample(checked.FilterSubsample, GridMechanism):
    """`FilterSubsample` of the check, drawn.

    KOGA22 draws the measured steps at random and bounds what they show of one user before they are drawn, which may
    fail. Here noise is made for the steps that are measured, exactly, with nothing that may fail; chance then protects
    nobody, so that the steps are evenly spaced and public. Its filter is a bell ten steps wide whatever the rate; here
    it is a triangle as wide as the steps are apart, or their plain average. The estimator fills the rest.

    Source: KOGA22, BW18, CKS20
    """

    leaves_gaps: ClassVar[bool] = True

    @property
    def errs_by_variances(self) -> bool:
        """A mean over several steps misses the step that it stands for."""
        return False

    def described(self) -> str:
        """With what it was told."""
        said = "" if self.filter == "triangle" else f", filter = {self.filter}"
        return f"filter_subsample(rate = {self.rate}{said})"

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
        block, most = self._block, min(setting.horizon, self.grid)
        if block <= most:
            return None
        return f"rate {self.rate:f} means one value for {block:,} steps; write `rate = {Decimal(1) / most:.1g}` or more"

    def variances(self, setting: Setting, steps: int) -> Array:
        """The variance of the noise of the measured steps, NaN at all others, (steps,)."""
        assert setting.horizon is not None, "it does not apply to endless streams"
        found = np.full(setting.horizon, np.nan)
        means = self.strategy(setting)
        found[means.places] = (float(self.stddev) * self.grid / self._sums(means)) ** 2
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
        found[places] = np.array([records[place] for place in places], dtype=np.float64) / self._sums(means)[:, None]
        return found

    def _sums(self, means: checked.Means) -> NDArray[np.int64]:
        """What the weights around each place add up to."""
        return np.asarray(means.measured(np.ones((means.horizon, 1), dtype=np.int64), 0)[0][:, 0])
