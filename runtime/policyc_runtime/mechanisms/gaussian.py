"""Gaussian noise on every value of the stream: exact discrete noise, calibrated by the exact curve (BW18)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Self

import numpy as np

from policyc_check.mechanisms import gaussian as checked
from policyc_check.rounding import rounded_down
from policyc_runtime.calibration import least_noise, raised
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.mechanisms.mechanism import Options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class Gaussian(checked.Gaussian, LinearMechanism):
    """`Gaussian` of the check, drawn."""

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The least noise whose whole stream is (epsilon, delta)-private; there are no options."""
        from policyc_runtime.calibration import gaussian_stddev

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        near = gaussian_stddev(nats, failing, setting.l2_sensitivity)
        return cls._of(least_noise(lambda stddev: cls._of(stddev).profile(setting).delta(nats) <= failing, near))

    @classmethod
    def _of(cls, stddev: float) -> Self:
        return cls(stddev=Decimal(repr(stddev)))

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        return self._of(raised(float(self.stddev), factor))

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        return np.full(steps, float(self.stddev) ** 2)
