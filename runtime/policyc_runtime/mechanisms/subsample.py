"""Subsampling in time: steps chosen at random, without looking at the data, are measured, and all others are not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Self

import numpy as np

from policyc_check.mechanisms import subsample as checked
from policyc_check.mechanisms.subsample import _block, _size
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism
from policyc_runtime.mechanisms.room import require_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness


class Subsample(checked.Subsample, StreamMechanism):
    """`Subsample` of the check, drawn."""

    @property
    def noise_size(self) -> float:
        """Its standard deviation."""
        return float(self.stddev)

    def of_size(self, size: float) -> Self:
        """The same with this standard deviation."""
        require_room(size)
        return self.model_copy(update={"stddev": Decimal(repr(size))})

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, where it is measured, (steps,)."""
        return np.full(steps, float(self.stddev) ** 2)

    def ready(self, setting: Setting, steps: int) -> int:
        """All steps, once all are there."""
        return steps if steps == setting.horizon else 0

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values of the chosen steps, empty records for all others: so the records say which were chosen."""
        from policyc_runtime.randomness import discrete_gaussian

        if len(records) == len(raw):
            return []
        shown = self._chosen(len(raw), randomness)
        noise = discrete_gaussian(Fraction(self.stddev) ** 2, shown.size * setting.cells, randomness)
        noisy = raw[shown] + noise.reshape(shown.size, setting.cells)
        made: list[StepRecord] = [()] * len(raw)
        for step, row in zip(shown.tolist(), noisy.tolist(), strict=True):
            made[step] = tuple(row)
        return made

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records themselves, NaN where a step was not chosen."""
        found = np.full((len(records), setting.cells), np.nan)
        for step, record in enumerate(records):
            if record:
                found[step] = record
        return found

    def _chosen(self, steps: int, randomness: Randomness) -> NDArray[np.int64]:
        from policyc_runtime.randomness import uniform_integers

        if self.sampling == "poisson":
            part, whole = self.rate.as_integer_ratio()
            return np.flatnonzero(uniform_integers(whole, steps, randomness) < part)
        if self.sampling == "fixed_size":
            order = np.arange(steps)
            size = _size(self.rate, steps)
            for place in range(size):  # the first places of a uniform shuffle
                other = place + int(uniform_integers(steps - place, 1, randomness)[0])
                order[[place, other]] = order[[other, place]]
            return np.sort(order[:size])
        starts = range(0, steps, _block(self.rate))
        ends = [min(start + _block(self.rate), steps) for start in starts]
        picked = [s + int(uniform_integers(e - s, 1, randomness)[0]) for s, e in zip(starts, ends, strict=True)]
        return np.array(picked, dtype=np.int64)
