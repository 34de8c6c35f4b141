"""Steps chosen at random are measured, and all others are not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.goals import Noise
from policyc.offers.linear import least_by_profile, require_promise
from policyc.offers.offer import Option, Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism

USUAL_RATE = Decimal("0.5")


class SubsampleOffer(StreamOffer):
    """For series that move slowly, and users who are in few steps (KOGA22)."""

    name = "subsample"
    says = "noise on steps that were chosen at random"
    options = (
        Option("rate", "fraction", "rate = 0.1", required=True),
        Option("sampling", ("poisson", "fixed_size", "stratified"), "sampling = stratified"),
    )
    whole_stream = "the gaps are filled from both sides"
    leaves_gaps = True

    def noise(self, options: Options) -> Noise:  # noqa: ARG002
        """Of some steps."""
        return "sampled"

    def variants(self, setting: Setting) -> Sequence[Options]:  # noqa: ARG002
        """Rates worth comparing."""
        return tuple({"rate": Decimal(rate)} for rate in ("0.1", "0.3"))

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The least noise for this rate; `sampling` is poisson where the options do not say."""
        from policyc.offers.calibration import sample_stddev  # start-up: `policyc check` calculates nothing

        fixed = {"rate": options.get("rate", USUAL_RATE), "sampling": options.get("sampling", "poisson")}
        plain: Any = self.record().model_validate({"stddev": Decimal(1), **fixed})
        require_promise(plain, setting, delta)
        sample = plain.sample(setting)
        near = lambda nats, failing: sample_stddev(sample, nats, failing, setting.shift)  # noqa: E731
        return least_by_profile(plain, setting, epsilon, delta, near)
