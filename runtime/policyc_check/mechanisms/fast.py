"""Noisy samples of the stream, corrected by a filter, and sampled more often the more it moves (FX14).

Which steps are sampled depends on earlier noisy values alone, and a user takes part in at most min(k, samples) of them:
under any such rule, the curve is that of so many changed values.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import PositiveDecimal, Steps
from policyc_check.users.noise import DiscreteLaplace, Law
from policyc_check.users.setting import Moves, Setting


class Fast(StreamMechanism):
    """Adds discrete Laplace noise to at most `samples` steps (None: to all), and publishes what a filter makes of them.

    The filter is Kalman's for a random walk whose steps have standard deviation `process_sd`. Between samples its
    prediction is published; a PID controller samples the sooner the further the last samples corrected it.
    """

    name: Literal["fast"] = "fast"
    scale: PositiveDecimal
    samples: Steps | None
    process_sd: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    def changes(self, setting: Setting) -> int:
        """How many of the sampled values one user can change, of one series."""
        if setting.cells > 1:
            raise ValueError("it follows one series, not cells")
        return min(setting.changes, self.samples or setting.changes)

    def noises(self, setting: Setting) -> list[tuple[Law, Moves]]:
        """Discrete Laplace noise on every sampled value that one user changes: whatever is sampled, no more of them."""
        return [(DiscreteLaplace(Fraction(self.scale)), Moves.of_values(self.changes(setting), setting.shift))]
