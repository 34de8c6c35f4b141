"""Subsampling in time: steps chosen at random, without looking at the data, are measured, and all others are not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import PositiveDecimal
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Setting
from policyc_check.users.subsampling import (
    SampledGaussianLoss,
    StepSample,
    fixed_size_sample,
    poisson_sample,
    stratified_sample,
)

Sampling = Literal["poisson", "fixed_size", "stratified"]
LEAST_SHOWN = 5  # times delta: the least probability of being shown, below which delta itself excuses showing


class Subsample(StreamMechanism):
    """Adds discrete Gaussian noise to the values of randomly chosen steps; the others are never measured.

    Which steps are chosen is public and does not depend on the data: each on its own with probability `rate`
    (poisson), a set of that share of all steps (fixed_size), or one of every 1 / rate steps (stratified). So one user
    is shown in few of the steps in which they take part, and how many is averaged over exactly. The estimator fills
    the rest.
    """

    name: Literal["subsample"] = "subsample"
    rate: Annotated[Decimal, Field(gt=0, le=1, allow_inf_nan=False)]
    sampling: Sampling
    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @property
    def block(self) -> int:
        """Steps of which stratified sampling chooses one."""
        return max(1, round(1 / self.rate))

    def size(self, steps: int) -> int:
        """How many of so many steps fixed_size chooses."""
        return min(steps, max(1, round(self.rate * steps)))

    def sample(self, setting: Setting) -> StepSample:
        """How many of the changed values are shown; each changed value is in a step of its own."""
        horizon = setting.horizon
        together = setting.replaced and (setting.signed or setting.cells > 1)
        if horizon is None or together or max(setting.spread, 1 / (setting.period or 1)) > 1:
            raise ValueError("a sample needs a horizon, and one value of a step that differs, nonnegative of two users")
        if self.sampling == "poisson":
            return poisson_sample(setting.changes, Fraction(self.rate))
        if self.sampling == "fixed_size":
            return fixed_size_sample(setting.changes, horizon, self.size(horizon))
        return stratified_sample(setting.changes, horizon, min(self.block, horizon))

    def shown(self, setting: Setting) -> float:
        """With which probability one user is shown at all."""
        return float(self.sample(setting).law[1:].sum())

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:
        """A user who is hardly ever shown needs no noise: chance alone protects, which delta says may fail."""
        if self.shown(setting) >= LEAST_SHOWN * delta:
            return None
        return f"delta {delta} says that the promise may fail as often as one user is shown at all"

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact mixture over how many of one user's steps are shown."""
        loss = SampledGaussianLoss(self.sample(setting), Fraction(self.stddev) ** 2, setting.shift)
        return PrivacyProfile(losses=(loss,))
