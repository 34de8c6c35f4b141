"""Subsampling in time: steps chosen at random, without looking at the data, are measured, and all others are not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field

from policyc_runtime.mechanisms.calibration import least_noise, raised
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism
from policyc_runtime.records import PositiveDecimal
from policyc_runtime.rounding import rounded_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.privacy.subsampling import StepSample
    from policyc_runtime.randomness import Randomness

Sampling = Literal["poisson", "fixed_size", "stratified"]
USUAL_RATE = Decimal("0.5")
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

    @classmethod
    def variants(cls, setting: Setting) -> Sequence[Options]:  # noqa: ARG003
        """Rates worth comparing."""
        return tuple({"rate": Decimal(rate)} for rate in ("0.1", "0.3"))

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:
        """The least noise for this rate; `sampling` is poisson where the options do not say."""
        nats, failing = rounded_down(epsilon), rounded_down(delta)
        rate = cast(Decimal, options.get("rate", USUAL_RATE))
        sampling = cast(Sampling, options.get("sampling", "poisson"))

        unit = cls(rate=rate, sampling=sampling, stddev=Decimal(1)).require_promise(setting, delta)
        near = _sample(setting, rate, sampling).stddev(nats, failing, setting.shift)
        return unit._with(least_noise(lambda stddev: unit._with(stddev).profile(setting).delta(nats) <= failing, near))

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:
        """A user who is hardly ever shown needs no noise: chance alone protects, which delta says may fail."""
        shown = float(_sample(setting, self.rate, self.sampling).law[1:].sum())
        if shown >= LEAST_SHOWN * delta:
            return None
        return (
            f"one user is shown at all with a probability of {shown:.2g}, and delta {delta} says that the promise may "
            "fail as often: it would be kept by publishing such a user's values all but as they are; write "
            f"`delta = {shown / 100:.0e}` or less, a larger rate, or `mechanism gaussian()`"
        )

    def _with(self, stddev: float) -> Self:
        return self.model_copy(update={"stddev": Decimal(repr(stddev))})

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        return self._with(raised(float(self.stddev), factor))

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The exact mixture over how many of one user's steps are shown."""
        from policyc_runtime.privacy.profile import PrivacyProfile
        from policyc_runtime.privacy.sampled_noise import SampledGaussianLoss

        sample = _sample(setting, self.rate, self.sampling)
        return PrivacyProfile(losses=(SampledGaussianLoss(sample, float(Fraction(self.stddev) ** 2), setting.shift),))

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The variance of the noise of every step, where it is measured, (steps,)."""
        return np.full(steps, float(self.stddev) ** 2)

    def ready(self, setting: Setting, steps: int) -> int:
        """All steps, once all are there."""
        return steps if steps == setting.horizon else 0

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values of the chosen steps, empty records for all others: so the records say which were chosen."""
        from policyc_runtime.randomness import discrete_gaussian

        if len(records) == len(raw):
            return []
        shown = self._chosen(len(raw), randomness)
        noise = discrete_gaussian(Fraction(self.stddev) ** 2, shown.size * setting.cells, randomness)
        noisy = raw[shown] + noise.reshape(shown.size, setting.cells)
        made: list[StepRecord] = [()] * len(raw)
        for step, row in zip(shown.tolist(), noisy.tolist(), strict=True):
            made[step] = tuple(row)
        return made

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records themselves, NaN where a step was not chosen."""
        found = np.full((len(records), setting.cells), np.nan)
        for step, record in enumerate(records):
            if record:
                found[step] = record
        return found

    def _chosen(self, steps: int, randomness: Randomness) -> NDArray[np.int64]:
        from policyc_runtime.randomness import uniform_integers

        if self.sampling == "poisson":
            part, whole = self.rate.as_integer_ratio()
            return np.flatnonzero(uniform_integers(whole, steps, randomness) < part)
        if self.sampling == "fixed_size":
            order = np.arange(steps)
            size = _size(self.rate, steps)
            for place in range(size):  # the first places of a uniform shuffle
                other = place + int(uniform_integers(steps - place, 1, randomness)[0])
                order[[place, other]] = order[[other, place]]
            return np.sort(order[:size])
        starts = range(0, steps, _block(self.rate))
        ends = [min(start + _block(self.rate), steps) for start in starts]
        picked = [s + int(uniform_integers(e - s, 1, randomness)[0]) for s, e in zip(starts, ends, strict=True)]
        return np.array(picked, dtype=np.int64)


def _size(rate: Decimal, steps: int) -> int:
    return min(steps, max(1, round(rate * steps)))


def _block(rate: Decimal) -> int:
    return max(1, round(1 / rate))


def _sample(setting: Setting, rate: Decimal, sampling: Sampling) -> StepSample:
    """How many of the changed values are shown; each changed value is in a step of its own."""
    from policyc_runtime.privacy.subsampling import fixed_size_sample, poisson_sample, stratified_sample

    horizon = setting.horizon
    if horizon is None:
        raise ValueError("an endless stream has no sample")
    if sampling == "poisson":
        return poisson_sample(setting.changes, Fraction(rate))
    if sampling == "fixed_size":
        return fixed_size_sample(setting.changes, horizon, _size(rate, horizon))
    return stratified_sample(setting.changes, horizon, min(_block(rate), horizon))
