"""Laplace noise of one scale on every value of the stream, accounted for all of one user's steps together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_check.mechanisms import values as checked
from policyc_check.users.noise import MOST_LOSSES
from policyc_runtime.mechanisms.linear import LinearMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class StreamLaplace(checked.StreamLaplace, LinearMechanism):
    """`StreamLaplace` of the check, drawn.

    The noise of all steps together hides all that the promise is about. What k steps lose adds up to at most
    k times the loss of one, which is what counts at delta 0; with delta above it, their exact distribution counts.

    Source: CKS20
    """

    @classmethod
    def reason_not_composed(cls, setting: Setting) -> str | None:
        """Losses with more values than can be composed."""
        steps = setting.horizon or 16 * setting.participation.steps
        if setting.shift * steps > MOST_LOSSES:
            return "one user can change values by more units than the losses of its noise can be composed for"
        return None

    noise_field: ClassVar[str] = "scale"
    of_one_step: ClassVar[bool] = True

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        exponent = 1.0 / float(self.scale)
        return np.full(steps, 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2)

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Those of the two-sided geometric distribution, (steps,)."""
        return np.full(steps, 1.0 / math.sinh(1.0 / float(self.scale)))
