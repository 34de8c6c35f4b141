"""Laplace noise of one scale on every value of the stream, accounted for all of one user's steps together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from policyc_runtime.mechanisms.calibration import raised, require_room
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism
from policyc_runtime.records import PositiveDecimal
from policyc_runtime.rounding import rounded_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.randomness import Randomness


MOST_LOSSES = 4 * 10**6  # values of the loss of a whole stream, which are convolved


class StreamLaplace(StreamMechanism):
    """Adds discrete Laplace noise, Pr(x) proportional to exp(-|x| / scale), to every value of every step.

    The noise of all steps together hides one user's part in the whole stream. What k steps lose adds up to at most
    k times the loss of one, which is what counts at delta 0; with delta above it, their exact distribution counts.

    Source: CKS20
    """

    name: Literal["laplace"] = "laplace"
    scale: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """Why it does not apply: totals over steps, or losses with more values than can be composed."""
        steps = setting.horizon or 16 * setting.participation.steps
        if setting.shift * steps > MOST_LOSSES:
            return "one user can change values by more units than the losses of its noise can be composed for"
        return super().reason_against(setting)

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The least noise whose whole stream is (epsilon, delta)-private; there are no options."""
        from policyc_runtime.privacy.discrete_noise import discrete_laplace_scale

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

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact curve of discrete Laplace noise on every value that one user changes."""
        from policyc_runtime.privacy.discrete_noise import discrete_laplace_profile

        return discrete_laplace_profile(Fraction(self.scale), setting.changes, setting.shift)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        exponent = 1.0 / float(self.scale)
        return np.full(steps, 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2)

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Those of the two-sided geometric distribution, (steps,)."""
        return np.full(steps, 1.0 / math.sinh(1.0 / float(self.scale)))

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values of the steps that have no record yet."""
        from policyc_runtime.randomness import discrete_laplace

        new = raw[len(records) :]
        noise = discrete_laplace(Fraction(self.scale), new.size, randomness).reshape(len(new), setting.cells)
        return [tuple(row) for row in (new + noise).tolist()]

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records themselves."""
        return np.array(records, dtype=np.float64).reshape(len(records), setting.cells)
