"""Subsampling in time: steps chosen at random, without looking at the data, are measured, and all others are not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_check.mechanisms import subsample as checked
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness


class Subsample(checked.Subsample, StreamMechanism):
    """`Subsample` of the check, drawn.

    Source: KOGA22, BW18, CKS20
    """

    leaves_gaps: ClassVar[bool] = True

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
        if (setting.period or 1) < 1:
            return "several periods of one user lie in a step, and chance may show one of them or all at once"
        if setting.spread > 1:
            return "whoever is in several cells of a step is shown in all of them at once, which is not accounted for"
        return super().reason_against(setting)

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:
        """As in the check, with what to write."""
        if super().reason_against_promise(setting, delta) is None:
            return None
        shown = self.shown(setting)
        return (
            f"one user is shown at all with a probability of {shown:.2g}, and delta {delta} says that the promise may "
            "fail as often: it would be kept by publishing such a user's values all but as they are; write "
            f"`delta = {shown / 100:.0e}` or less, a larger rate, or `mechanism gaussian()`"
        )

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
        from policyc_runtime.samplers import discrete_gaussian

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
            size = self.size(steps)
            for place in range(size):  # the first places of a uniform shuffle
                other = place + int(uniform_integers(steps - place, 1, randomness)[0])
                order[[place, other]] = order[[other, place]]
            return np.sort(order[:size])
        starts = range(0, steps, self.block)
        ends = [min(start + self.block, steps) for start in starts]
        picked = [s + int(uniform_integers(e - s, 1, randomness)[0]) for s, e in zip(starts, ends, strict=True)]
        return np.array(picked, dtype=np.int64)
