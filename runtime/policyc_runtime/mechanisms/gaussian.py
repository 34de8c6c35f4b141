"""Gaussian noise on every value of the stream: exact discrete noise, calibrated by the exact curve (BW18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_check.mechanisms import values as checked
from policyc_runtime.mechanisms.linear import LinearMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class Gaussian(checked.Gaussian, LinearMechanism):
    """`Gaussian` of the check, drawn.

    The noise of all steps together hides all that the promise is about: its L2 sensitivity is that of the series.

    Source: BW18, CKS20
    """

    of_one_step: ClassVar[bool] = True

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        return np.full(steps, float(self.stddev) ** 2)
