"""Noisy samples of the stream, corrected by a filter, and sampled more often the more it moves (FX14)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import PositiveDecimal, Steps

if TYPE_CHECKING:
    from policyc_check.users.profile import PrivacyProfile
    from policyc_check.users.setting import Setting


class Fast(StreamMechanism):
    """Adds discrete Laplace noise to at most `samples` steps (None: to all), and publishes what a filter makes of them.

    The filter is Kalman's for a random walk whose steps have standard deviation `process_sd`. Between samples its
    prediction is published; a PID controller samples the sooner the further the last samples corrected it.

    What differs from the source: a user takes part in at most min(k, samples) of the sampled steps, whose exact
    composition makes the noise; which steps are sampled depends on earlier noisy values alone. `process_sd` is
    declared, or the noise's own, never tuned on the protected series.

    Source: FX14, CKS20
    """

    name: Literal["fast"] = "fast"
    scale: PositiveDecimal
    samples: Steps | None
    process_sd: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It follows one series."""
        return super().reason_against(setting) or ("it follows one series, not cells" if setting.cells > 1 else None)

    def described(self) -> str:
        """With the number of samples, if it samples."""
        return "fast()" if self.samples is None else f"fast({self.samples} samples)"

    def changes(self, setting: Setting) -> int:
        """How many of the sampled values one user can change."""
        return min(setting.changes, self.samples or setting.changes)

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact curve of discrete Laplace noise on every sampled value that one user changes."""
        from policyc_check.users.noise import DiscreteLaplace

        return DiscreteLaplace(Fraction(self.scale)).alike(self.changes(setting), setting.shift)
