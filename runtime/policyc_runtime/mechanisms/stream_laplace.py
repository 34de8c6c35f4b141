"""Laplace noise of one scale on every value of the stream, accounted for all of one user's steps together."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Self

import numpy as np

from policyc_check.mechanisms import stream_laplace as checked
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.mechanisms.room import require_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class StreamLaplace(checked.StreamLaplace, LinearMechanism):
    """`StreamLaplace` of the check, drawn."""

    @property
    def noise_size(self) -> float:
        """Its scale."""
        return float(self.scale)

    def of_size(self, size: float) -> Self:
        """The same with this scale."""
        require_room(size)
        return self.model_copy(update={"scale": Decimal(repr(size))})

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        exponent = 1.0 / float(self.scale)
        return np.full(steps, 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2)

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Those of the two-sided geometric distribution, (steps,)."""
        return np.full(steps, 1.0 / math.sinh(1.0 / float(self.scale)))
