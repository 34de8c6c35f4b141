"""Weighted means around few steps, evenly spread."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.linear import GridOffer, require_promise
from policyc.offers.offer import Option, Options

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism

USUAL_RATE = Decimal("0.5")


class FilterSubsampleOffer(GridOffer):
    """For series that move slowly (KOGA22)."""

    name = "filter_subsample"
    says = "noise on weighted means around few steps"
    options = (
        Option("rate", "fraction", "rate = 0.1", required=True),
        Option("filter", ("triangle", "average"), "filter = average"),
    )
    whole_stream = "the series is filtered from both sides"
    leaves_gaps = True

    def variants(self, setting: Setting) -> Sequence[Options]:  # noqa: ARG002
        """Rates worth comparing."""
        return tuple({"rate": Decimal(rate)} for rate in ("0.1", "0.3"))

    def fixed(self, setting: Setting, options: Options) -> dict[str, Any]:  # noqa: ARG002
        """The rate, and a filter that is not the usual triangle."""
        average = {"filter": "average"} if options.get("filter") == "average" else {}
        return {"rate": options.get("rate", USUAL_RATE), **average}

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The least noise for this rate."""
        require_promise(self.plain(setting, options), setting, delta)
        return self.least_on_grid(setting, epsilon, delta, self.fixed(setting, options))
