"""Each step mixes a prediction from what was published before with a noisy part of the truth."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.goals import AtDelta, Goal, Noise
from policyc.offers.offer import Option, Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism

COIN_BITS = 8  # binomial noise is 2^8 to 2^9 steps of its grid wide: at most a million coins a value
WEIGHTS = [Decimal(n) / 20 for n in range(1, 21)]
CLOSE = 0.02  # by more than this the error of binomial noise is not beside that of continuous noise
DECLARED = ("mean", "sd", "autocorrelation")


class LmmseOffer(StreamOffer):
    """For processes that can be predicted (ZKL22)."""

    name = "lmmse"
    predicts = True
    says = "a prediction from what was published, mixed with a noisy part of the truth"
    options = (
        Option("weight", "fraction", "weight = 0.5"),
        Option("decay", "fraction", "decay = 0.99"),
        Option("noise", ("gaussian", "binomial"), "noise = binomial"),
    )

    def noise(self, options: Options) -> Noise:
        """Gaussian, if nothing else is said."""
        return "coins" if options.get("noise") == "binomial" else "gaussian"

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """See `least`."""
        return self.least(setting, AtDelta(epsilon, delta), options)

    def least(self, setting: Setting, goal: Goal, options: Options) -> StreamMechanism:
        """The least noise; beside the statement's options, mean, sd and autocorrelation of a declared AR(1) process.

        Or `process`, the fields of another declared law.

        Without a weight it is the one with the least expected error for a declared process, else 0.5.
        """
        from policyc_runtime.plan import STRETCH  # start-up: `policyc check` calculates nothing

        given = options.get("process") or {name: options[name] for name in DECLARED if name in options}
        plain: Any = self.record().model_validate(
            {
                "stddev": Decimal(3),
                "weight": options.get("weight", Decimal("0.5")),
                "decay": options.get("decay", Decimal(1)),
                "grid": 1,
                "signal": given or None,
                "noise": options.get("noise", "gaussian"),
            }
        )
        if "weight" in options or plain.signal is None:
            return _least(plain, setting, goal)

        def error(one: Any) -> float:
            return float(one.variances(setting, setting.horizon or STRETCH).mean())

        weighed = [plain.model_copy(update={"weight": weight}) for weight in WEIGHTS]
        if isinstance(goal, AtDelta):  # what coins tell takes long to add up: only those that may be best are looked at
            near = [error(_about(one, setting, goal)) for one in weighed]
            weighed = [one for one, about in zip(weighed, near, strict=True) if about <= min(near) * (1 + CLOSE)]
        return min((_least(one, setting, goal) for one in weighed), key=error)


def _least(plain: Any, setting: Setting, goal: Goal) -> StreamMechanism:
    """The least noise of these weights, on a grid that suits it."""
    if isinstance(goal, AtDelta):
        return _least_at_delta(plain, setting, goal)
    from policyc.offers.calibration import fine_grid  # start-up: `policyc check` calculates nothing

    grid = fine_grid(float(goal.size(plain.model_copy(update={"grid": 1 << 20}), setting)))
    found: StreamMechanism = goal.fitted(plain.model_copy(update={"grid": grid}), setting)
    return found


def _about(plain: Any, setting: Setting, goal: AtDelta) -> Any:
    """With the noise that would do if it were continuous and normal, on a grid that suits it."""
    from policyc.offers.calibration import fine_grid, gaussian_stddev  # start-up, as above
    from policyc_check.rounding import rounded_down

    nats, failing = rounded_down(goal.epsilon), rounded_down(goal.delta)
    near = gaussian_stddev(nats, failing, math.sqrt(plain.l2_square(setting)))
    grid = fine_grid(near, COIN_BITS if plain.noise == "binomial" else 20)
    return plain.model_copy(update={"grid": grid}).of_size(near)


def _least_at_delta(plain: Any, setting: Setting, goal: AtDelta) -> StreamMechanism:
    from policyc.offers.calibration import least_noise  # start-up, as above
    from policyc_check.rounding import rounded_down

    nats, failing = rounded_down(goal.epsilon), rounded_down(goal.delta)
    made = _about(plain, setting, goal)
    known: dict[int, bool] = {}

    def holds(stddev: float) -> bool:
        tried = made.of_size(stddev)
        if tried.noise == "gaussian":
            return bool(tried.profile(setting).delta(nats) <= failing)
        if tried.half not in known:  # whole coins: many deviations have as many
            known[tried.half] = bool(tried.profile(setting).delta(nats) <= failing)
        return known[tried.half]

    found: StreamMechanism = made.of_size(least_noise(holds, made.noise_size))
    return found
