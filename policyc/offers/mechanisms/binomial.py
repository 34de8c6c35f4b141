"""Binomial noise on every value: heads of fair coins."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.goals import Noise
from policyc.offers.offer import Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism


class BinomialOffer(StreamOffer):
    """The fewest coins by their exact curve (DKMMN06)."""

    name = "binomial"
    says = "heads of fair coins on every value"

    def noise(self, options: Options) -> Noise:  # noqa: ARG002
        """Coins."""
        return "coins"

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:  # noqa: ARG002
        """The fewest coins whose whole stream is private; there are no options."""
        from policyc.offers.calibration import (  # start-up: `policyc check` calculates nothing
            gaussian_stddev,
            l2_sensitivity,
        )
        from policyc_check.rounding import rounded_down

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        plain: Any = self.record().model_validate({"coins": 2})

        def holds(half: int) -> bool:
            return bool(plain.of_half(half).profile(setting).delta(nats) <= failing)

        near = max(1, math.ceil(2 * gaussian_stddev(nats, failing, l2_sensitivity(setting)) ** 2))
        low, high, width = near, near, max(1, near // 1000)
        while not holds(high):
            low, high, width = high, high + width, 2 * width
        while low >= 1 and (low == high or holds(low)):
            high, low, width = low, low - width, 2 * width
        low = max(low, 0)  # none are never enough
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        made: StreamMechanism = plain.of_half(high)
        return made
