"""Binomial noise on every value of the stream: fair coins, counted exactly, and accounted for by their exact curve."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Self

import numpy as np

from policyc_check.mechanisms import binomial as checked
from policyc_check.rounding import rounded_down
from policyc_runtime.calibration import require_coins
from policyc_runtime.mechanisms.linear import LinearMechanism
from policyc_runtime.mechanisms.mechanism import Options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting


class Binomial(checked.Binomial, LinearMechanism):
    """`Binomial` of the check, drawn."""

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:  # noqa: ARG003
        """The fewest coins whose whole stream is (epsilon, delta)-private; there are no options."""
        from policyc_runtime.calibration import gaussian_stddev

        nats, failing = rounded_down(epsilon), rounded_down(delta)

        def holds(half: int) -> bool:
            return cls._of(half).profile(setting).delta(nats) <= failing

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

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, (steps,)."""
        return np.full(steps, self.coins / 4)
