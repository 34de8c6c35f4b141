"""The Laplace mechanism on counts: exact discrete noise (Dwork et al. 2006; discrete as in CKS20)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.errors import KernelError
from policyc_check.mechanisms import laplace as checked
from policyc_runtime.mechanisms.mechanism import StepMechanism
from policyc_runtime.samplers import LARGEST_SCALE, balanced_laplace, discrete_laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.randomness import Randomness

COARSE = 64.0  # a scale from which the discrete law is as good as continuous


class Laplace(checked.Laplace, StepMechanism):
    """`Laplace` of the check, drawn."""

    def described(self) -> str:
        """The mechanism as tables name it."""
        return self.name if self.balanced_cells is None else "balanced laplace"

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

    def variance(self, scale: Decimal) -> float:
        """The variance of the noise in one cell: 2 r / (1 - r)^2 with r = exp(-1 / scale), stable for every scale."""
        if self.balanced_cells is not None:
            return _balanced_moments(float(scale), self.balanced_cells)[1]
        exponent = 1.0 / float(scale)
        return 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2

    def absolute_error(self, scale: Decimal) -> float:
        """The mean absolute value of the noise in one cell: 2 r / (1 - r^2); of balanced noise, from its own law."""
        if self.balanced_cells is not None:
            return _balanced_moments(float(scale), self.balanced_cells)[0]
        return 1.0 / math.sinh(1.0 / float(scale)) if float(scale) > 2e-3 else 0.0

    def add_noise(self, raw: NDArray[np.int64], scales: list[Decimal], randomness: Randomness) -> NDArray[np.int64]:
        """Raw counts (steps, cells) plus fresh independent noise, step t with scales[t]."""
        noisy = raw.astype(np.int64)
        steps_of: dict[Decimal, list[int]] = {}
        for step, scale in enumerate(scales):
            steps_of.setdefault(scale, []).append(step)
        cells = noisy.shape[1]
        for scale, steps in steps_of.items():
            if self.balanced_cells is not None:
                noisy[steps] += balanced_laplace(Fraction(scale), cells, len(steps), randomness)
            else:
                noisy[steps] += discrete_laplace(Fraction(scale), len(steps) * cells, randomness).reshape(-1, cells)
        return noisy

    def log_likelihood(self, noise: NDArray[np.int64], scale: Decimal) -> NDArray[np.float64]:
        """- sum |x| / scale over the cells; balanced noise has the same form where it adds up to zero."""
        return np.asarray(np.abs(noise).sum(axis=-1) / -float(scale))


@lru_cache(maxsize=4096)
def _balanced_moments(scale: float, cells: int) -> tuple[float, float]:
    """Mean absolute value and variance of one of several discrete Laplace draws that add up to zero.

    Beyond `COARSE` they grow as scale and scale^2.
    """
    stated, scale = scale, min(scale, COARSE)
    weights = balanced_sizes(scale, cells)
    x = np.arange(len(weights))
    return float(weights @ x) * (stated / scale), float(weights @ (x * x)) * (stated / scale) ** 2


def balanced_sizes(scale: float, cells: int) -> NDArray[np.float64]:
    """Pr(|x| = 0, 1, ...) of one of several discrete Laplace draws that add up to zero, each within 1e-15 or so.

    Pr(x) is proportional to Pr(one is x) Pr(the others add up to -x), the latter by Fourier inversion.
    """
    ratio = math.exp(-1.0 / scale)
    size = 2 ** math.ceil(math.log2(64 + 16 * scale * (4 + math.sqrt(cells))))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    factor = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angles) + ratio**2)
    others = np.maximum(np.fft.irfft(factor ** (cells - 1), size)[: size // 2], 0.0)
    x = np.arange(size // 2)
    weights = others * np.exp(-x / scale) * np.where(x > 0, 2.0, 1.0)
    return np.asarray(weights / weights.sum())
