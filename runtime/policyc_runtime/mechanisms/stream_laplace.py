"""Laplace noise of one scale on every value of the stream, accounted for all of one user's steps together."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Self

import numpy as np

from policyc_check.mechanisms import stream_laplace as checked
from policyc_check.rounding import rounded_down
from policyc_runtime.calibration import raised, require_room
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.mechanisms.mechanism import Options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class StreamLaplace(checked.StreamLaplace, LinearMechanism):
    """`StreamLaplace` of the check, drawn."""

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The least noise whose whole stream is (epsilon, delta)-private; there are no options."""
        from policyc_runtime.calibration import discrete_laplace_scale

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        scale = discrete_laplace_scale(nats, failing, setting.changes, setting.shift)
        require_room(float(scale))
        return cls(scale=scale)

    @classmethod
    def _of(cls, scale: float) -> Self:
        return cls(scale=Decimal(repr(scale)))

    def with_noise(self, factor: float) -> Self:
        """The same with a scale `factor` times as large."""
        return self._of(raised(float(self.scale), factor))

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        exponent = 1.0 / float(self.scale)
        return np.full(steps, 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2)

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Those of the two-sided geometric distribution, (steps,)."""
        return np.full(steps, 1.0 / math.sinh(1.0 / float(self.scale)))
