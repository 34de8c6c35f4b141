"""Subsampling in time: steps chosen at random, without looking at the data, are measured, and all others are not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import PositiveDecimal

if TYPE_CHECKING:
    from policyc_check.users.profile import PrivacyProfile
    from policyc_check.users.setting import Setting
    from policyc_check.users.subsampling import StepSample


Sampling = Literal["poisson", "fixed_size", "stratified"]
LEAST_SHOWN = 5  # times delta: the least probability of being shown, below which delta itself excuses showing


class Subsample(StreamMechanism):
    """Adds discrete Gaussian noise to the values of randomly chosen steps; the others are never measured.

    Which steps are chosen is public and does not depend on the data: each on its own with probability `rate`
    (poisson), a set of that share of all steps (fixed_size), or one of every 1 / rate steps (stratified). So one user
    is shown in few of the steps in which they take part, and how many is averaged over exactly. The estimator fills
    the rest.

    Source: KOGA22, BW18, CKS20
    """

    name: Literal["subsample"] = "subsample"
    leaves_gaps: ClassVar[bool] = True
    rate: Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]
    sampling: Sampling
    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    def described(self) -> str:
        """With what it was told."""
        return f"subsample(rate = {self.rate}, sampling = {self.sampling})"

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It needs a whole stream at once, and a user who changes one value a step."""
        if setting.wait is not None or setting.horizon is None:
            return "it fills steps from later ones: it needs `deliver offline` and a horizon"
        if setting.replaced and (setting.signed or setting.cells > 1):
            return "two users in one step are accounted for with one nonnegative value a step only"
        return super().reason_against(setting)

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:
        """A user who is hardly ever shown needs no noise: chance alone protects, which delta says may fail."""
        shown = float(sample_of(setting, self.rate, self.sampling).law[1:].sum())
        if shown >= LEAST_SHOWN * delta:
            return None
        return (
            f"one user is shown at all with a probability of {shown:.2g}, and delta {delta} says that the promise may "
            "fail as often: it would be kept by publishing such a user's values all but as they are; write "
            f"`delta = {shown / 100:.0e}` or less, a larger rate, or `mechanism gaussian()`"
        )

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact mixture over how many of one user's steps are shown."""
        from policyc_check.users.profile import PrivacyProfile
        from policyc_check.users.subsampling import SampledGaussianLoss

        sample = sample_of(setting, self.rate, self.sampling)
        return PrivacyProfile(losses=(SampledGaussianLoss(sample, Fraction(self.stddev) ** 2, setting.shift),))


def _size(rate: Decimal, steps: int) -> int:
    return min(steps, max(1, round(rate * steps)))


def _block(rate: Decimal) -> int:
    return max(1, round(1 / rate))


def sample_of(setting: Setting, rate: Decimal, sampling: Sampling) -> StepSample:
    """How many of the changed values are shown; each changed value is in a step of its own."""
    from policyc_check.users.subsampling import fixed_size_sample, poisson_sample, stratified_sample

    horizon = setting.horizon
    if horizon is None:
        raise ValueError("an endless stream has no sample")
    if sampling == "poisson":
        return poisson_sample(setting.changes, Fraction(rate))
    if sampling == "fixed_size":
        return fixed_size_sample(setting.changes, horizon, _size(rate, horizon))
    return stratified_sample(setting.changes, horizon, min(_block(rate), horizon))
