"""How the least noise of a linear mechanism is found: its strategy says how far one user moves what is measured."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from policyc.offers.offer import Options, StreamOffer

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.mechanisms import StreamMechanism


class GridOffer(StreamOffer):
    """Discrete Gaussian noise on a fine grid: one L2 sensitivity is all that counts."""

    def calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> StreamMechanism:
        """The least noise for what one user moves."""
        return self.least_on_grid(setting, epsilon, delta, self.fixed(setting, options))

    def least_on_grid(
        self, setting: Setting, epsilon: Decimal, delta: Decimal, fixed: dict[str, Any]
    ) -> StreamMechanism:
        """The least noise that keeps a promise, the other parameters being fixed."""
        from fractions import Fraction  # start-up: `policyc check` calculates nothing

        from policyc.offers.calibration import gaussian_stddev, least_noise
        from policyc_check.rounding import rounded_down
        from policyc_check.users.noise import DiscreteGaussian

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        plain: Any = self.record().model_validate({"stddev": Decimal(1), **fixed})
        grid, moves = plain.grid, plain.strategy(setting).moves(setting)

        def holds(stddev: float) -> bool:
            variance = Fraction(Decimal(repr(stddev)) * grid) ** 2
            return variance > 9 and DiscreteGaussian(variance).any_way(moves).delta(nats) <= failing

        made: StreamMechanism = plain.of_size(
            least_noise(holds, gaussian_stddev(nats, failing, moves.l2_square**0.5) / grid)
        )
        return made


def least_by_profile(
    made: StreamMechanism, setting: Setting, epsilon: Decimal, delta: Decimal, near: Callable[[float, float], float]
) -> StreamMechanism:
    """The mechanism with the least noise whose own curve keeps a promise.

    Args:
        made: with any noise.
        setting: what one user can change.
        epsilon: nats, > 0.
        delta: in (0, 1).
        near: from both as floats, where to look first.
    """
    from policyc.offers.calibration import least_noise  # start-up: `policyc check` calculates nothing
    from policyc_check.rounding import rounded_down

    nats, failing = rounded_down(epsilon), rounded_down(delta)
    holds = lambda size: made.of_size(size).profile(setting).delta(nats) <= failing  # noqa: E731
    return made.of_size(least_noise(holds, near(nats, failing)))


def require_promise(made: StreamMechanism, setting: Setting, delta: Decimal) -> None:
    """Nothing.

    Raises:
        KernelError: with these parameters the promise would be none.
    """
    from policyc_check.errors import KernelError  # start-up

    reason = made.reason_against_promise(setting, delta)
    if reason is not None:
        raise KernelError("E0838", "so low a rate is no protection", because=reason, help="raise the rate")
