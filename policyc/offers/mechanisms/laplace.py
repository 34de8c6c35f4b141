"""Laplace noise on every value: for the budget of every step, or for all events of a user."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.goals import Noise
from policyc.offers.offer import Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism


class LaplaceOffer(StreamOffer):
    """The least scale by the exact distribution of what all steps lose (CKS20)."""

    name = "laplace"
    says = "Laplace noise on every value"
    promises = frozenset({"steps", "windows", "user_level"})

    def noise(self, options: Options) -> Noise:  # noqa: ARG002
        """Laplace."""
        return "laplace"

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:  # noqa: ARG002
        """The least noise whose whole stream is private; there are no options."""
        from policyc.offers.calibration import discrete_laplace_scale  # start-up: `policyc check` calculates nothing
        from policyc_check.rounding import rounded_down

        scale = discrete_laplace_scale(rounded_down(epsilon), rounded_down(delta), setting.changes, setting.shift)
        plain: Any = self.record().model_validate({"scale": scale})
        made: StreamMechanism = plain.of_size(float(scale)).model_copy(update={"scale": scale})
        return made
