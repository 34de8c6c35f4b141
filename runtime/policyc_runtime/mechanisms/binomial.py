"""Binomial noise on every value of the stream: fair coins, counted exactly, and accounted for by their exact curve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from policyc_check.mechanisms import values as checked
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.mechanisms.room import require_coins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class Binomial(checked.Binomial, LinearMechanism):
    """`Binomial` of the check, drawn.

    What differs from the source: the loss of all steps together is that of the exact noise, composed exactly, where
    Lemma A.2 and the composition after it are loose; and a whole number moves by whole numbers: weighted by w < 1 and
    rounded, a count that one user moves by c moves by ceil(w c), not by w c as in Theorem A.5, which is unsound.

    Source: ZKL22, DKMMN06
    """

    of_one_step: ClassVar[bool] = True

    @property
    def noise_size(self) -> float:
        """Its standard deviation."""
        return math.sqrt(self.coins / 4)

    def of_size(self, size: float) -> Self:
        """As many coins as this standard deviation needs at least."""
        return self.of_half(math.ceil(2 * size**2))

    def of_half(self, half: int) -> Self:
        """Twice so many coins.

        Raises:
            KernelError: they cannot be thrown.
        """
        require_coins(half)
        return self.model_copy(update={"coins": 2 * half})

    def with_noise(self, factor: float) -> Self:
        """The same with about factor^2 times as many coins: at least that many for more noise, at most for less."""
        half = self.coins // 2 * factor**2
        return self.of_half(math.ceil(half) if factor >= 1 else max(1, math.floor(half)))

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        return np.full(steps, self.coins / 4)
