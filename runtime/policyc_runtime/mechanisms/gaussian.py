"""Gaussian noise on every value of the stream: exact discrete noise, calibrated by the exact curve (BW18)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from policyc_runtime.errors import KernelError
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism
from policyc_runtime.records import PositiveDecimal
from policyc_runtime.rounding import rounded_down, rounded_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.curves import PrivacyCurve
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

        stddev = gaussian_stddev(rounded_down(epsilon), rounded_down(delta), setting.l2_sensitivity)
        return cls._of(stddev)

    @classmethod
    def _of(cls, stddev: float) -> Self:
        from policyc_runtime.randomness import LARGEST_SCALE

        if stddev * 64 > LARGEST_SCALE:
            raise KernelError(
                "E0831",
                "the noise scale is out of range",
                because="so small an epsilon for so much that one user can change needs noise beyond 64-bit integers",
                help="a larger epsilon, fewer steps or a coarser grid needs less noise",
            )
        return cls(stddev=Decimal(repr(stddev)))

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        return type(self)._of(math.nextafter(float(self.stddev) * factor, math.inf))

    def curve(self, setting: Setting) -> PrivacyCurve:
        """The exact curve of Gaussian noise for everything that one user changes."""
        from policyc_runtime.privacy.curves import GaussianCurve

        return GaussianCurve(rounded_up(Fraction(setting.l2_sensitivity) / Fraction(self.stddev)))

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
