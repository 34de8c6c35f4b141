"""Binomial noise on every value of the stream: fair coins, counted exactly, and accounted for by their exact curve."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field

from policyc_runtime.mechanisms.calibration import require_coins
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism
from policyc_runtime.randomness import MOST_COINS
from policyc_runtime.rounding import rounded_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.randomness import Randomness


class Binomial(StreamMechanism):
    """Adds (heads of `coins` fair coins) - coins / 2 to every value of every step; its variance is coins / 4.

    What differs from the source: the loss of all steps together is that of the exact noise, composed exactly, where
    Lemma A.2 and the composition after it are loose; and a whole number moves by whole numbers: weighted by w < 1 and
    rounded, a count that one user moves by c moves by ceil(w c), not by w c as in Theorem A.5, which is unsound.

    Source: ZKL22, DKMMN06
    """

    name: Literal["binomial"] = "binomial"
    coins: Annotated[int, Field(ge=2, le=MOST_COINS, multiple_of=2)]
    sampler: Literal["exact"] = "exact"

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The fewest coins whose whole stream is (epsilon, delta)-private; there are no options."""
        from policyc_runtime.privacy.binomial_noise import binomial_profile
        from policyc_runtime.privacy.gaussian import gaussian_stddev

        nats, failing = rounded_down(epsilon), rounded_down(delta)

        def holds(half: int) -> bool:
            cls._of(half)
            return binomial_profile(half, setting.changes, setting.shift).delta(nats) <= failing

        near = max(1, math.ceil(2 * gaussian_stddev(nats, failing, setting.l2_sensitivity) ** 2))
        low, high, width = near, near, max(1, near // 1000)
        while not holds(high):
            low, high, width = high, high + width, 2 * width
        while low >= 1 and (low == high or holds(low)):
            high, low, width = low, low - width, 2 * width
        low = max(low, 0)  # none are never enough
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return cls._of(high)

    @classmethod
    def _of(cls, half: int) -> Self:
        require_coins(half)
        return cls(coins=2 * half)

    def with_noise(self, factor: float) -> Self:
        """The same with about factor^2 times as many coins: at least that many for more noise, at most for less."""
        half = self.coins // 2 * factor**2
        return self._of(math.ceil(half) if factor >= 1 else max(1, math.floor(half)))

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact curve of binomial noise on every value that one user changes."""
        from policyc_runtime.privacy.binomial_noise import binomial_profile

        return binomial_profile(self.coins // 2, setting.changes, setting.shift)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        return np.full(steps, self.coins / 4)

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values of the steps that have no record yet."""
        from policyc_runtime.randomness import symmetric_binomial

        new = raw[len(records) :]
        noise = symmetric_binomial(self.coins // 2, new.size, randomness).reshape(len(new), setting.cells)
        return [tuple(row) for row in (new + noise).tolist()]

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records themselves."""
        return np.array(records, dtype=np.float64).reshape(len(records), setting.cells)
