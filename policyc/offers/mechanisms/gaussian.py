"""Gaussian noise on every value."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.linear import least_by_profile
from policyc.offers.offer import Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism


class GaussianOffer(StreamOffer):
    """Calibrated by the exact curve (BW18)."""

    name = "gaussian"
    says = "Gaussian noise on every value"
    usual = True

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:  # noqa: ARG002
        """The least noise whose whole stream is private; there are no options."""
        from policyc.offers.calibration import (  # start-up: `policyc check` calculates nothing
            gaussian_stddev,
            l2_sensitivity,
        )

        near = lambda nats, failing: gaussian_stddev(nats, failing, l2_sensitivity(setting))  # noqa: E731
        plain: Any = self.record().model_validate({"stddev": Decimal(1)})
        return least_by_profile(plain, setting, epsilon, delta, near)
