"""The Laplace mechanism on counts: exact discrete noise (Dwork et al. 2006; discrete as in CKS20)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc_runtime.errors import KernelError
from policyc_runtime.mechanisms.mechanism import StepMechanism
from policyc_runtime.randomness import LARGEST_SCALE, discrete_laplace
from policyc_runtime.records import PositiveDecimal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.randomness import Randomness


class Laplace(StepMechanism):
    """Adds discrete Laplace noise, Pr(x) proportional to exp(-|x| / scale), to every cell.

    Two data sets whose counts differ by at most `l1_sensitivity` in L1 norm give any output with probabilities within
    a factor exp(l1_sensitivity / scale): exactly so for the discrete distribution, since counts are integers.

    Source: CKS20
    """

    name: Literal["laplace"] = "laplace"
    l1_sensitivity: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    def calibrate(self, epsilon: Decimal) -> Decimal:
        """The float above l1_sensitivity / epsilon whose loss is at most epsilon (nats, > 0), as a decimal.

        Raises:
            KernelError: the budget is so small that noise would not fit 64-bit integers.
        """
        wanted = Fraction(self.l1_sensitivity) / Fraction(epsilon)
        if 2 * wanted > LARGEST_SCALE:
            raise KernelError(
                "E0831",
                "the noise scale is out of range",
                because=f"a budget of `{epsilon:.3g}` nats a step needs noise that does not fit 64-bit integers",
                help="a larger budget needs less noise",
            )
        scale = float(wanted)
        while True:
            scale = math.nextafter(scale, math.inf)  # up, and once more where the decimal form is below
            exact = Decimal(repr(scale))
            if self.privacy_loss(exact) <= Fraction(epsilon):
                return exact

    def privacy_loss(self, scale: Decimal) -> Fraction:
        """The exact loss in nats of one step released with this scale (> 0)."""
        return Fraction(self.l1_sensitivity) / Fraction(scale)

    def variance(self, scale: Decimal) -> float:
        """The variance of the noise in one cell: 2 r / (1 - r)^2 with r = exp(-1 / scale), stable for every scale."""
        exponent = 1.0 / float(scale)
        return 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2

    def add_noise(self, raw: NDArray[np.int64], scales: list[Decimal], randomness: Randomness) -> NDArray[np.int64]:
        """Raw counts (steps, cells) plus fresh independent noise, step t with scales[t]."""
        noisy = raw.astype(np.int64)
        steps_of: dict[Decimal, list[int]] = {}
        for step, scale in enumerate(scales):
            steps_of.setdefault(scale, []).append(step)
        for scale, steps in steps_of.items():
            noise = discrete_laplace(Fraction(scale), len(steps) * noisy.shape[1], randomness)
            noisy[steps] += noise.reshape(len(steps), noisy.shape[1])
        return noisy
