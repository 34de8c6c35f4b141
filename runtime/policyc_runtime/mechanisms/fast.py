"""Noisy samples of the stream, corrected by a filter, and sampled more often the more it moves (FX14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from policyc_check.mechanisms import fast as checked
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness

PROPORTIONAL, INTEGRAL, REMEMBERED = 0.9, 0.1, 5  # of the controller, as in the source
SET_POINT, STRIDE = 0.1, 5.0  # relative error that keeps the interval; how fast it grows
SLOWEST = 1000  # steps between samples at most


class Fast(checked.Fast, StreamMechanism):
    """`Fast` of the check, drawn.

    What differs from the source: a user takes part in at most min(k, samples) of the sampled steps, whose exact
    composition makes the noise; which steps are sampled depends on earlier noisy values alone. `process_sd` is
    declared, or the noise's own, never tuned on the protected series.

    Source: FX14, CKS20
    """

    noise_field: ClassVar[str] = "scale"
    whole_values: ClassVar[bool] = False
    estimates: ClassVar[bool] = True

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It follows one series."""
        return super().reason_against(setting) or ("it follows one series, not cells" if setting.cells > 1 else None)

    def described(self) -> str:
        """With the number of samples, if it samples."""
        return "fast()" if self.samples is None else f"fast({self.samples} samples)"

    @property
    def noise_variance(self) -> float:
        """The variance of the noise."""
        exponent = 1.0 / float(self.scale)
        return 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """Mean square errors of a still stream, (steps,); samples are taken to be evenly spread."""
        every = 1 if self.samples is None else max(1, -(-(setting.horizon or steps) // self.samples))
        follower = _Follower(self)
        found, error = np.empty(steps), 0.0
        for t in range(steps):
            gain = follower.correct(0.0) if t % every == 0 else follower.wait()
            error = (1 - gain) ** 2 * error + gain**2 * self.noise_variance
            found[t] = error
        return found

    def measure(
        self,
        setting: Setting,  # noqa: ARG002
        raw: NDArray[np.int64],
        records: Sequence[StepRecord],
        randomness: Randomness,
    ) -> list[StepRecord]:
        """Noisy values where a sample is due, nothing elsewhere."""
        from policyc_runtime.samplers import discrete_laplace

        follower = _Follower(self)
        for record in records:
            follower.follow(record)
        if self.samples is None:
            noise = discrete_laplace(Fraction(self.scale), len(raw) - len(records), randomness)
            return [(value,) for value in (raw[len(records) :, 0] + noise).tolist()]
        made: list[StepRecord] = []
        for value in raw[len(records) :, 0].tolist():
            drawn = discrete_laplace(Fraction(self.scale), int(follower.due), randomness).tolist()
            made.append(tuple(value + noise for noise in drawn))
            follower.follow(made[-1])
        return made

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:  # noqa: ARG002
        """What the filter believes after every step."""
        follower = _Follower(self)
        found = np.empty((len(records), 1))
        for t, record in enumerate(records):
            if follower.due != (len(record) == 1):
                raise ValueError("a sample is missing, or there is one that was not due")
            follower.follow(record)
            found[t] = follower.estimate
        return found


class _Follower:
    """The filter and its controller, fed with one record after the other.

    Source: FX14, KAL60
    """

    def __init__(self, mechanism: Fast) -> None:
        self.estimate = 0.0
        self.noise_variance, self._process = mechanism.noise_variance, float(mechanism.process_sd) ** 2
        self._spread = math.inf  # of the estimate: before the first sample nothing is known
        self._left, self._adaptive = mechanism.samples or 0, mechanism.samples is not None
        self._wait, self._interval, self._corrections = 0, 1.0, [0.0]

    @property
    def due(self) -> bool:
        """Whether the next step is sampled."""
        return not self._adaptive or (self._left > 0 and self._wait == 0)

    def follow(self, record: StepRecord) -> None:
        """One more step."""
        if not record:
            self.wait()
            return
        before, first = self.estimate, math.isinf(self._spread)
        self.correct(float(record[0]))
        if not self._adaptive:
            return
        if not first:
            self._corrections.append(abs(self.estimate - before) / max(abs(self.estimate), 1.0))
        recent = self._corrections[-REMEMBERED:]
        feedback = PROPORTIONAL * recent[-1] + INTEGRAL * sum(recent) / len(recent)
        growth = STRIDE * (1 - math.exp(min((feedback - SET_POINT) / SET_POINT, 50.0)))
        self._interval = min(max(1.0, self._interval + growth), SLOWEST)
        self._left -= 1
        self._wait = round(self._interval) - 1

    def wait(self) -> float:
        """A step without a sample: the gain is 0."""
        self._spread += self._process
        self._wait = max(0, self._wait - 1)
        return 0.0

    def correct(self, noisy: float) -> float:
        """A step with a sample; the gain."""
        spread = self._spread + self._process
        gain = 1.0 if math.isinf(spread) else spread / (spread + self.noise_variance)
        self.estimate += gain * (noisy - self.estimate)
        self._spread = self.noise_variance if math.isinf(spread) else (1 - gain) * spread
        return gain
