"""Measures the frequencies of a whole series, or of blocks of it, instead of its values (RN10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_check.mechanisms import dft as checked
from policyc_check.mechanisms.dft import basis, block_of
from policyc_runtime.mechanisms.linear import GridMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms.mechanism import StepRecord

LONGEST = 20_000  # steps of a block: its transform takes the square of that


class Dft(checked.Dft, GridMechanism):
    """`Dft` of the check, drawn.

    What differs from the source: noise is made for what one user in all of a user's steps can move, which the source's
    comparison in ZKL22 takes sqrt(T) too small; and how many coefficients count is stated, or chosen after noise,
    while the source picks the number by the error on the protected series itself.

    Source: RN10, BW18, CKS20
    """

    estimates: ClassVar[bool] = True

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It waits for blocks of steps."""
        if setting.workload != "identity":
            return "it measures the steps themselves, not totals over them"
        if setting.wait == 0:
            return "it transforms blocks of steps, so values have to wait for later ones"
        if setting.wait is None and setting.horizon is None:
            return "it transforms the whole stream, and this one has no end"
        if block_of(setting) > LONGEST:
            return f"it transforms at most {LONGEST:,} steps at once"
        return None

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """The variance of the noise of every step, (steps,), where no frequency is left out after noise."""
        found = np.zeros(steps)
        for start, size in self.strategy(setting).blocks(steps):
            squares = sum((rows**2).sum(axis=0) for rows in basis(size, self.strategy(setting).count(size)))
            found[start : start + size] = squares[: steps - start]
        return found * float(self.stddev) ** 2

    def ready(self, setting: Setting, steps: int) -> int:
        """Whole blocks; at the horizon all."""
        return steps if steps == setting.horizon else steps - steps % block_of(setting)

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The inverse transform of the coefficients that are kept."""
        found = np.zeros((len(records), setting.cells))
        for start, size in self.strategy(setting).blocks(len(records)):
            count = self.strategy(setting).count(size)
            noisy = np.array(records[start : start + count], dtype=np.float64).reshape(count, setting.cells) / self.grid
            if self.choose:
                cost = np.cumsum(
                    2 * float(self.stddev) ** 2 - noisy**2, axis=0
                )  # of keeping so many: error, but for a constant
                noisy[np.arange(count)[:, None] > np.argmin(cost, axis=0)] = 0.0
            first = 0
            for rows in basis(size, count):
                found[start : start + size] += rows.T @ noisy[first : first + len(rows)]
                first += len(rows)
        return found
