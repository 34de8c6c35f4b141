"""Subsampling in time: steps chosen at random, without looking at the data, are measured, and all others are not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from policyc_check.mechanisms import subsample as checked
from policyc_check.mechanisms.subsample import Sampling, _block, _sample, _size
from policyc_check.rounding import rounded_down
from policyc_runtime.calibration import least_noise, raised, sample_stddev
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness

USUAL_RATE = Decimal("0.5")


class Subsample(checked.Subsample, StreamMechanism):
    """`Subsample` of the check, drawn."""

    @classmethod
    def variants(cls, setting: Setting) -> Sequence[Options]:  # noqa: ARG003
        """Rates worth comparing."""
        return tuple({"rate": Decimal(rate)} for rate in ("0.1", "0.3"))

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:
        """The least noise for this rate; `sampling` is poisson where the options do not say."""
        nats, failing = rounded_down(epsilon), rounded_down(delta)
        rate = cast(Decimal, options.get("rate", USUAL_RATE))
        sampling = cast(Sampling, options.get("sampling", "poisson"))

        unit = cls(rate=rate, sampling=sampling, stddev=Decimal(1)).require_promise(setting, delta)
        near = sample_stddev(_sample(setting, rate, sampling), nats, failing, setting.shift)
        return unit._with(least_noise(lambda stddev: unit._with(stddev).profile(setting).delta(nats) <= failing, near))

    def _with(self, stddev: float) -> Self:
        return self.model_copy(update={"stddev": Decimal(repr(stddev))})

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        return self._with(raised(float(self.stddev), factor))

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
