"""The lowest frequencies of the series, or of blocks of it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.goals import Goal, Noise
from policyc.offers.linear import GridOffer, least_by_profile
from policyc.offers.offer import Option, Options

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism


class DftOffer(GridOffer):
    """For series that move slowly, or in few periods (RN10)."""

    name = "dft"
    says = "noise on the lowest frequencies of the series"
    options = (
        Option("coefficients", "whole", "coefficients = 20"),
        Option("choose", "truth", "choose = true"),
        Option("noise", ("gaussian", "laplace"), "noise = laplace"),
    )
    whole_stream = "the whole series is transformed"
    blocks = True

    def noise(self, options: Options) -> Noise:
        """Gaussian, if nothing else is said."""
        return "laplace" if options.get("noise") == "laplace" else "gaussian"

    def keeping(self, goal: Goal, options: Options) -> Options | None:
        """Of noise that is not named, the kind that keeps the goal."""
        able = super().keeping(goal, options)
        return {**options, "noise": "laplace"} if able is None and "noise" not in options else able

    def fixed(self, setting: Setting, options: Options) -> dict[str, Any]:  # noqa: ARG002
        """How many coefficients of a block are measured (None: all), whether few are kept afterwards, and the law."""
        return {
            "coefficients": options.get("coefficients"),
            "choose": options.get("choose", False),
            "noise": options.get("noise", "gaussian"),
        }

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The least noise: Laplace noise by its own curve."""
        fixed = self.fixed(setting, options)
        if fixed["noise"] == "gaussian":
            return self.least_on_grid(setting, epsilon, delta, fixed)
        made: Any = self.record().model_validate({"stddev": Decimal(1), **fixed})
        moved = made.strategy(setting).moves(setting).l1 / made.grid
        return least_by_profile(made, setting, epsilon, delta, lambda *_: moved / float(epsilon) * math.sqrt(2))
