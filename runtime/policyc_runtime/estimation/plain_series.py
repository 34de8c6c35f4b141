"""Estimators for plain series of noisy values: each value of a step moves on its own, as no law over cells says.

A policy writes `filter()` and `smoother()` for these as well as for counts of users who move between cells: what the
policy declares decides which is meant, and the plan names the one that is used.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from policyc_runtime.estimation.series import SMOOTHER_WAITS, SeriesEstimator
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.offset import NO_OFFSET, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]


class PlainSeries(SeriesEstimator):
    """What noisy values say of a series, one value of a step after the other, then the nearest values allowed."""

    plain: ClassVar[bool] = True

    @abstractmethod
    def expected(
        self, values: Array, variances: Array, first: int, delay: int | None, offset: Offset = NO_OFFSET
    ) -> Array:
        """What is expected of series from step `first` on, (T - first, series), whatever the constraints.

        Args:
            values: (T, series) noisy ones, NaN where a step has none.
            variances: (T,) of the noise; not read without a value.
            first: 0-based.
            delay: how many later steps a value may wait for; None for all.
            offset: what noisy values are off by together.
        """

    def estimate_series(
        self,
        noisy: Array,
        scales: Array,
        first: int,
        chain: Chain | None,  # noqa: ARG002
        constraints: ConstraintSet,
        previous: Array | None,
        delay: int | None,
        *,
        balanced: bool = False,  # noqa: ARG002
        processes: Sequence[str] | None = None,  # noqa: ARG002
        offset: Offset = NO_OFFSET,
    ) -> Array:
        """Values of the steps from `first` on, as `Estimator.estimate_series` says; noise counts by its variance."""
        variances = np.where(scales > 0, 2 * scales**2, np.inf)
        series = np.where((scales > 0)[:, None], noisy, np.nan)
        expected = self.expected(series, variances, first, delay, offset)
        return self.allowed(expected, constraints, previous, delay)


class SeriesFilter(PlainSeries):
    """Posterior mean of a series given the noisy values so far; under `within(d)` given those of d more steps.

    The series is an AR(1) process, with a season on top where the policy names its period, or of any law that is
    declared whole. What the policy does not declare is learned, by likelihood, from the noisy values that may be used,
    whose noise is known; of the mean nothing is assumed. A season or residual that chance explains is left out. Until
    eight values are there, they are published as they are. What all values of a period are off by is found beside a
    process that is declared, and noise of each value's own beside one that is learned.

    Source: KAL60, SOL19, EM73
    """

    name: Literal["series_filter"] = "series_filter"
    signal: SignalModel

    @property
    def told(self) -> tuple[str, ...]:
        """What a page says of it beside its first sentence: what is declared here is not learned."""
        season = "" if self.signal.period is None else f", with a season of {self.signal.period:,} steps on top"
        process = f"The series is taken as {self.signal.kind}{season}"
        mean = "" if self.signal.mean is not None else "; of the mean nothing is assumed"
        if self.signal.complete:
            return (f"{process}, with the numbers that the policy declares: none is learned{mean}.",)
        return (
            f"{process}; what the policy does not declare is learned, by likelihood, from the noisy values that may be "
            f"used, whose noise is known{mean}. A season or residual that chance explains is left out. Until eight "
            "values are there, they are published as they are.",
        )

    def described(self) -> str:
        """As a policy would write it."""
        return f"filter() of {self.signal.described()}"

    def reason_against_delay(self, delay: int | None) -> str | None:
        """Not where values may wait for all others."""
        return "values may wait for all later steps, which `smoother` uses" if delay is None else None

    def expected(
        self, values: Array, variances: Array, first: int, delay: int | None, offset: Offset = NO_OFFSET
    ) -> Array:
        """Kalman's recursion, as `causal_means` says."""
        from policyc_runtime.estimation.series_filter import causal_means

        wait = len(values) if delay is None else delay
        return causal_means(self.signal, values, variances, first, wait, offset)


class SeriesSmoother(PlainSeries):
    """Posterior mean of a series given all noisy values, earlier and later, as a Gaussian process in the cosine basis.

    Its spectrum is that of an integrated random walk or of an AR(1) process, whichever is likelier, beside rhythms of
    any frequency, a slope and steps unlike all others, where they stand out; all of it is learned from the noisy
    values, whose noise is known. Of the mean nothing is assumed. With `observation_noise` true values are taken to have
    noise of their own, which is smoothed away too. With a `signal` that the policy declares, nothing is learned: the
    posterior mean of that process.

    Source: RW06, MZ93, SCH78, DJ89
    """

    offline: ClassVar[str | None] = SMOOTHER_WAITS
    name: Literal["series_smoother"] = "series_smoother"
    observation_noise: bool = False
    signal: SignalModel | None = None

    @model_validator(mode="after")
    def _declared_whole(self) -> SeriesSmoother:
        if self.signal is not None and (self.observation_noise or not self.signal.complete):
            raise ValueError("a smoother of a declared signal has all its numbers from there")
        return self

    def described(self) -> str:
        """As a policy would write it."""
        if self.signal is not None:
            return f"smoother() of {self.signal.described()}"
        return "smoother(observation_noise = true)" if self.observation_noise else "smoother()"

    def expected(
        self,
        values: Array,
        variances: Array,
        first: int,
        delay: int | None,  # noqa: ARG002
        offset: Offset = NO_OFFSET,
    ) -> Array:
        """Cosine coefficients, each believed as far as the spectrum says; of a declared process its own recursion."""
        from policyc_runtime.estimation.series_filter import smoothed_means
        from policyc_runtime.estimation.spectrum import smoothed
        from policyc_runtime.estimation.whittle import learned_process

        def alone(one: Array) -> Array:
            if self.signal is None:
                return smoothed(one, variances, offset, observation_noise=self.observation_noise)[first:]
            process = learned_process(self.signal, one, variances)
            assert process is not None, "its numbers are declared"
            return smoothed_means(process, one, variances, offset)[first:]

        return np.column_stack([alone(one) for one in values.T])
