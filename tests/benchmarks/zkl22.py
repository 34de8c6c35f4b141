"""ZKL22's sequences, and what its methods publish of a series beside ours, for the figures that free data allow.

Methods are the kernel's own, so that figures show the product. Noise is by the paper's Corollary 5.2 where a name says
so, else by exact accounting of the same promise; every user takes part in every step, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from policyc.offers import calibrate
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.estimation.plain_series import SeriesFilter
from policyc_runtime.estimation.signal import SignalModel
from policyc_runtime.mechanisms import StreamMechanism, stream_mechanism_kinds
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]
Publisher = Callable[[int], Array]
"""From a seed to what is published, (T,)."""

DELTA = "1e-7"
VARIANCE = 10.0  # of what moves the paper's sequences


def moved_by(autocorrelation: float, steps: int, seed: int, drift: float = 0.0) -> Array:
    """Z of steps 1 to T: the last one, shrunk, and N(0, 10), and the drift times the step; Z of step 0 is 0."""
    moves = np.random.default_rng(seed).normal(0, math.sqrt(VARIANCE), steps) + drift * np.arange(1, steps + 1)
    values, last = np.empty(steps), 0.0
    for step, move in enumerate(moves):
        values[step] = last = autocorrelation * last + move
    return values


def published_variance(epsilon: float, delta: float, squares: float) -> float:
    """The noise of ZKL22's Corollary 5.2 for a sensitivity of 1, given the sum of the squares of all weights."""
    log = math.log(1 / delta)
    return squares / (2 * epsilon + 4 * log - 4 * math.sqrt(log**2 + epsilon * log))


def relative_error(shown: Array, truth: Array, largest: float | None = None) -> float:
    """ZKL22's RE: the L2 norm of errors over steps and the largest true value."""
    return float(np.linalg.norm(shown - truth) / truth.size / (largest or np.abs(truth).max()))


@dataclass(frozen=True)
class Stage:
    """One series and a promise about it.

    Args:
        truth: (T,) values.
        epsilon: nats for the whole series; delta is the paper's.
        moved: what one user adds to a step at most.
        unit: of the whole numbers that are protected.
        wait: how many later steps a value waits for, None for all.
    """

    truth: Array
    epsilon: float
    moved: float = 1.0
    unit: float = 1.0
    wait: int | None = 0

    @property
    def setting(self) -> Setting:
        """As the kernel has it: users in every step."""
        steps = self.truth.size
        return Setting(Participation(steps, steps), contribution=math.ceil(self.moved / self.unit), wait=self.wait)

    @cached_property
    def raw(self) -> NDArray[np.int64]:
        """(T, 1) whole units."""
        return np.rint(self.truth / self.unit).astype(np.int64)[:, None]

    def made(self, name: str, **options: object) -> StreamMechanism:
        """A mechanism with the least noise for the promise."""
        kind = stream_mechanism_kinds()[name]
        return calibrate(kind, self.setting, Decimal(repr(self.epsilon)), Decimal(DELTA), options)

    def as_published(self, mechanism: StreamMechanism, squares: float) -> StreamMechanism:
        """The mechanism with noise by Corollary 5.2."""
        wanted = math.sqrt(published_variance(self.epsilon, float(DELTA), squares)) * self.setting.contribution
        return mechanism.with_noise(wanted / float(mechanism.stddev))  # type: ignore[attr-defined]

    def published_lmmse(self, weights: Array, **options: object) -> StreamMechanism:
        """`lmmse` with the paper's noise; its first two steps have the weight 1."""
        return self.as_published(self.made("lmmse", **options), float(2 + (weights[2:] ** 2).sum()))

    def laplace(self) -> StreamMechanism:
        """The paper's baseline-Laplace: T times the sensitivity over epsilon."""
        scale = Decimal(repr(self.setting.changes * self.setting.shift / self.epsilon))
        return stream_mechanism_kinds()["laplace"].model_validate({"scale": scale})

    def publisher(self, mechanism: StreamMechanism, signal: SignalModel | None = None) -> Publisher:
        """What a mechanism publishes, through our filter where a signal is given."""
        setting, variances = self.setting, mechanism.variances(self.setting, self.truth.size)

        def publish(seed: int) -> Array:
            records = mechanism.measure(setting, self.raw, [], SimulationRandomness(seed))
            values = mechanism.values(setting, records)[:, 0]
            if signal is not None:
                values = SeriesFilter(signal=signal).expected(values[:, None], variances, 0, self.wait)[:, 0]
            return np.asarray(values * self.unit)

        return publish

    def error(self, mechanism: StreamMechanism, runs: int, signal: SignalModel | None = None) -> float:
        """The mean RE of so many runs."""
        publish = self.publisher(mechanism, signal)
        return float(np.mean([relative_error(publish(seed), self.truth) for seed in range(runs)]))

    def fast(self, like: StreamMechanism) -> StreamMechanism:
        """FAST without sampling on this Laplace noise, its process tuned on the truth as in the paper."""
        moves = max(1.0, float(np.std(np.diff(self.raw[:, 0]))))
        scale = like.scale  # type: ignore[attr-defined]
        tried = [
            stream_mechanism_kinds()["fast"].model_validate(
                {"scale": scale, "samples": None, "process_sd": Decimal(f"{moves * size:.3g}")}
            )
            for size in (0.03, 0.1, 0.3, 1, 3)
        ]
        return min(tried, key=lambda one: self.error(one, 3))


def error_of_courses(
    stages: Sequence[Stage], mechanism: StreamMechanism, signal: SignalModel | None = None, largest: float | None = None
) -> float:
    """The mean RE over series of one kind, one run each."""
    return float(
        np.mean(
            [
                relative_error(stage.publisher(mechanism, signal)(seed), stage.truth, largest)
                for seed, stage in enumerate(stages)
            ]
        )
    )


def weighted(stage: Stage, weights: Sequence[str], **told: object) -> dict[str, StreamMechanism]:
    """`lmmse` with the paper's noise, by weight."""
    return {
        weight: stage.published_lmmse(np.full(stage.truth.size, float(weight)), weight=Decimal(weight), **told)
        for weight in weights
    }


def in_units(stage: Stage, mean: float, stddev: float, autocorrelation: float) -> Mapping[str, Decimal]:
    """A declared AR(1) process, as `lmmse` is told it."""
    size = {"mean": mean / stage.unit, "sd": stddev / stage.unit, "autocorrelation": autocorrelation}
    return {name: Decimal(f"{value:.9g}") for name, value in size.items()}


def as_signal(told: Mapping[str, Decimal]) -> SignalModel:
    """The same process, as the filter is told it, in units."""
    return SignalModel(mean=told["mean"], residual_stddev=told["sd"], autocorrelation=told["autocorrelation"])


@dataclass(frozen=True)
class Band:
    """Several runs of one method on one series: the paper's pictures, as numbers."""

    mean: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, publish: Publisher, runs: int) -> Band:
        """The mean of the runs, and their lowest and highest values at every step."""
        shown = np.array([publish(seed) for seed in range(runs)])
        return cls(shown.mean(axis=0), shown.min(axis=0), shown.max(axis=0))

    def row(self, truth: Array) -> list[object]:
        """How far the mean is from the truth, how wide the band is, how often it holds the truth, and a sketch."""
        inside = float(np.mean((self.low <= truth) & (truth <= self.high)))
        away, wide = float(np.abs(self.mean - truth).mean()), float((self.high - self.low).mean())
        return [away, wide, f"{inside:.0%}", sketch(self.mean, truth)]


def sketch(values: Array, like: Array, width: int = 40) -> str:
    """A line of characters as high as values are, on the scale of another series."""
    marks = "▁▂▃▄▅▆▇█"
    means = [part.mean() for part in np.array_split(values, min(width, values.size))]
    low, high = float(like.min()), float(like.max())
    heights = np.clip((np.array(means) - low) / max(high - low, 1e-12) * len(marks), 0, len(marks) - 1)
    return "".join(marks[int(height)] for height in heights)
