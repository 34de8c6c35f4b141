"""Noisy samples, corrected by a filter, more often the more the stream moves."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.goals import Goal, Noise
from policyc.offers.offer import Option, Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism


class FastOffer(StreamOffer):
    """For streams that move little between samples (FX14)."""

    name = "fast"
    says = "noisy samples of the stream, corrected by a filter"
    options = (
        Option("samples", "whole", "samples = 60"),
        Option("process_sd", "number", "process_sd = 40"),
    )

    def noise(self, options: Options) -> Noise:  # noqa: ARG002
        """Laplace."""
        return "laplace"

    def fixed(self, setting: Setting, options: Options) -> dict[str, Any]:  # noqa: ARG002
        """Without `samples` all steps are, without `process_sd` (units) it follows from the noise."""
        return {"samples": options.get("samples"), "process_sd": options.get("process_sd", Decimal(1))}

    def least(self, setting: Setting, goal: Goal, options: Options) -> StreamMechanism:
        """The least noise; without `process_sd` it is the noise's stddev."""
        made: Any = super().least(setting, goal, options)
        if "process_sd" not in options:
            made = made.model_copy(update={"process_sd": Decimal(repr(round(math.sqrt(made.noise_variance), 6)))})
        found: StreamMechanism = made
        return found

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The least noise by the exact distribution of what all samples lose."""
        from policyc.offers.calibration import discrete_laplace_scale  # start-up: `policyc check` calculates nothing
        from policyc_check.rounding import rounded_down

        plain: Any = self.plain(setting, options)
        changes = plain.changes(setting)
        scale = discrete_laplace_scale(rounded_down(epsilon), rounded_down(delta), changes, setting.shift)
        made: StreamMechanism = plain.of_size(float(scale)).model_copy(update={"scale": scale})
        return made
