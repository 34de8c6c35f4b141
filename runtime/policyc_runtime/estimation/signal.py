"""How the values of a plain series move: what a policy declares of it, and what noisy values say of the rest.

x_t = mean + season_t + residual_t: an AR(1) residual, and a season whose every phase comes back a period later, a
little changed; or a residual of any declared law (`arma`), without a season. The noise on top has known variances;
where the policy says so, values have some of their own as well. What is not declared is learned (`whittle`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from policyc_check.records import NOTHING, PositiveDecimal, Record, Steps
from policyc_runtime.estimation.arma import (
    MOST_NUMBERS,
    SAME,
    Arma,
    autoregressive,
    least_density,
    moving_average,
    stationary,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SHOWN = 3  # of a list's numbers, where a page names a signal
STEADY = 0.999  # correlation of a declared season with that of a period later


class SignalModel(Record):
    """What a policy declares of a series; None for what is learned from noisy values. In units of the release.

    Args:
        period: steps of a season; None for an AR(1) process alone.
        mean: of the values.
        seasonal_stddev: of the season around the mean.
        residual_stddev: of the values around mean and season.
        autocorrelation: of neighboring residuals, in [0, 1).
        observation_noise: whether values have noise of their own, which is learned, and which is not to be published.
        coefficients: of the values before, in place of `autocorrelation`: an AR(p) process.
        covariances: at lags 0, 1, ..., in place of deviation and autocorrelation; 0 beyond.
    """

    period: Steps | None = None
    mean: Annotated[Decimal, Field(allow_inf_nan=False)] | None = None
    seasonal_stddev: PositiveDecimal | None = None
    residual_stddev: PositiveDecimal | None = None
    autocorrelation: Annotated[Decimal, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None
    observation_noise: bool = False
    coefficients: Annotated[tuple[Decimal, ...], Field(max_length=MOST_NUMBERS)] = NOTHING
    covariances: Annotated[tuple[Decimal, ...], Field(max_length=MOST_NUMBERS)] = NOTHING

    @model_validator(mode="after")
    def _lawful(self) -> Self:
        others = (self.period, self.seasonal_stddev, self.autocorrelation, self.observation_noise or None)
        if self.coefficients:
            known = self.residual_stddev is not None and not self.covariances and others == (None,) * 4
            if not known or not stationary([float(number) for number in self.coefficients]):
                raise ValueError(
                    "coefficients are those of a stationary process of a known deviation, and nothing else"
                )
        if self.covariances:
            listed = [float(number) for number in self.covariances]
            alone = self.residual_stddev is None and others == (None,) * 4
            if not alone or listed[0] <= 0 or least_density(listed)[0] < -SAME * listed[0]:
                raise ValueError("covariances are those of a series, and nothing else")
        return self

    @property
    def arma(self) -> Arma | None:
        """The law of values around their mean where it is none of AR(1)."""
        if self.coefficients:
            return autoregressive(tuple(map(float, self.coefficients)), float(self.residual_stddev or 0))
        return moving_average(tuple(map(float, self.covariances))) if self.covariances else None

    @property
    def kind(self) -> str:
        """As a sentence names it."""
        if self.covariances:
            return "a series of the declared autocovariances"
        return "an AR(1) process" if len(self.coefficients) < 2 else f"an AR({len(self.coefficients)}) process"

    @property
    def complete(self) -> bool:
        """Whether nothing but the mean is left to learn."""
        if self.coefficients or self.covariances:
            return True
        sizes = [self.residual_stddev, self.autocorrelation]
        known = None not in (sizes if self.period is None else [*sizes, self.seasonal_stddev])
        return known and not self.observation_noise

    def in_units(self, unit: Decimal) -> dict[str, object]:
        """The fields of a declared law whose values are counted in units of this size."""
        told: dict[str, object] = {"mean": None if self.mean is None else self.mean / unit}
        if self.coefficients:
            return {**told, "coefficients": self.coefficients, "residual_stddev": (self.residual_stddev or 0) / unit}
        return {**told, "covariances": tuple(number / unit**2 for number in self.covariances)}

    def described(self) -> str:
        """As a policy would write it."""
        if self.coefficients or self.covariances:
            return self._listed()
        told = self.model_dump(exclude={"observation_noise"}).items()
        given = [f"{name} = {value}" for name, value in told if value is not None]
        given += ["observation_noise = true"] * self.observation_noise
        return f"{'ar1' if self.period is None else 'seasonal_ar1'}({', '.join(given)})"

    def _listed(self) -> str:
        numbers = self.coefficients or self.covariances
        shown = ", ".join([*map(str, numbers[:SHOWN]), *(["..."] if len(numbers) > SHOWN else [])])
        given = {"coefficients": f"[{shown}]", "sd": self.residual_stddev, "mean": self.mean}
        if self.covariances:
            given = {"lags": f"[{shown}]", "mean": self.mean}
        told = ", ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
        return f"{'autocovariance' if self.covariances else 'ar'}({told})"


@dataclass(frozen=True)
class SeriesProcess:
    """A process with all parameters known but the mean, where that is None.

    Args:
        residual_stddev: of the residual, >= 0.
        autocorrelation: of neighboring residuals, which are an AR(1) process unless `arma` says more.
        seasonal_stddev: of the season, >= 0; 0 for none.
        seasonal_autocorrelation: of the season with that of a period later.
        period: in steps; 0 for no season.
        mean: None when nothing is known of it.
        observation_stddev: of noise that belongs to the values themselves, beside that of the release.
        arma: the law of the residual where it is none of AR(1).
    """

    residual_stddev: float
    autocorrelation: float
    seasonal_stddev: float = 0.0
    seasonal_autocorrelation: float = STEADY
    period: int = 0
    mean: float | None = None
    observation_stddev: float = 0.0
    arma: Arma | None = None

    def shown(self, step: int) -> list[int]:
        """The components of the state, mean, residual and a season value a phase, whose sum is the value of a step."""
        return [0, 1, self.season_at(step)] if self.period else [0, 1]

    def season_at(self, step: int) -> int:
        """The component of the season at a step, behind the mean and the state of the residual."""
        return 1 + self.residual_size + step % self.period

    @property
    def residual_size(self) -> int:
        """How many components say what the residual is and will be."""
        return 1 if self.arma is None else self.arma.size

    @property
    def stddev(self) -> float:
        """Of values around the mean, without the noise of observation."""
        return math.hypot(self.residual_stddev, self.seasonal_stddev)

    def covariances(self, steps: int) -> Array:
        """Of values 0, 1, ..., steps - 1 apart, (steps,), without the noise of observation."""
        if self.arma is not None:
            return self.arma.covariances(steps)
        found = self.residual_stddev**2 * self.autocorrelation ** np.arange(steps)
        if self.period:
            whole = np.arange(0, steps, self.period)
            found[whole] += self.seasonal_stddev**2 * self.seasonal_autocorrelation ** (whole // self.period)
        return np.asarray(found)


def drawn_series(process: SeriesProcess, steps: int, generator: np.random.Generator, least: float = 0.0) -> Array:
    """One course of the process, (steps,), none below `least`; its mean is known. For simulations."""
    if process.arma is not None:
        return np.asarray(np.maximum((process.mean or 0.0) + process.arma.drawn(steps, generator), least))
    fresh = generator.standard_normal(steps) * process.residual_stddev
    fresh[1:] *= math.sqrt(1 - process.autocorrelation**2)
    residual = fresh.copy()
    for t in range(1, steps):
        residual[t] += process.autocorrelation * residual[t - 1]
    season = np.zeros(steps)
    for start in range(0, steps, process.period) if process.period else ():
        now = process.seasonal_stddev * generator.standard_normal(process.period)
        if start:
            kept = process.seasonal_autocorrelation
            now = kept * season[start - process.period : start] + math.sqrt(1 - kept**2) * now
        season[start : start + process.period] = now[: steps - start]
    return np.asarray(np.maximum((process.mean or 0.0) + season + residual, least))
