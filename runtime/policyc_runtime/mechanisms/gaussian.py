"""Gaussian noise on every value of the stream: exact discrete noise, calibrated by the exact curve (BW18)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from policyc_runtime.mechanisms.calibration import least_noise, raised
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism
from policyc_runtime.records import PositiveDecimal
from policyc_runtime.rounding import rounded_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.randomness import Randomness


class Gaussian(StreamMechanism):
    """Adds discrete Gaussian noise, Pr(x) proportional to exp(-x^2 / (2 stddev^2)), to every value of every step.

    The noise of all steps together hides one user's part in the whole stream: its L2 sensitivity is that of the series.

    Source: BW18, CKS20
    """

    name: Literal["gaussian"] = "gaussian"
    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The least noise whose whole stream is (epsilon, delta)-private; there are no options."""
        from policyc_runtime.privacy.gaussian import gaussian_stddev

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        near = gaussian_stddev(nats, failing, setting.l2_sensitivity)
        return cls._of(least_noise(lambda stddev: cls._of(stddev).profile(setting).delta(nats) <= failing, near))

    @classmethod
    def _of(cls, stddev: float) -> Self:
        return cls(stddev=Decimal(repr(stddev)))

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        return self._of(raised(float(self.stddev), factor))

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact curve of discrete Gaussian noise on every value that one user changes."""
        from policyc_runtime.privacy.discrete_noise import discrete_gaussian_profile

        return discrete_gaussian_profile(Fraction(self.stddev) ** 2, setting.changes, setting.shift)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        return np.full(steps, float(self.stddev) ** 2)

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values of the steps that have no record yet."""
        from policyc_runtime.randomness import discrete_gaussian

        new = raw[len(records) :]
        noise = discrete_gaussian(Fraction(self.stddev) ** 2, new.size, randomness).reshape(len(new), setting.cells)
        return [tuple(row) for row in (new + noise).tolist()]

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records themselves."""
        return np.array(records, dtype=np.float64).reshape(len(records), setting.cells)
