"""Predicts a value from the last published ones, as a series of a declared law."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import model_validator

from policyc_runtime.estimation.arma import Arma, carry, predictions
from policyc_runtime.estimation.signal import SignalModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_BEFORE = 20  # published values that a prediction is made of
SETTLED = 4000  # steps of one weight, after which errors stay as they are


class DeclaredProcess(SignalModel):
    """A declared law with a mean, in units: its values are predicted from as many as it remembers, 20 at most.

    The source predicts by an AR(1) process from the last value. As there, what was published is taken as the truth and
    independent noise.

    Source: ZKL22
    """

    @model_validator(mode="after")
    def _told_whole(self) -> Self:
        if self.mean is None or not (self.coefficients or self.covariances):
            raise ValueError("a process that predicts has a mean, and coefficients or covariances")
        return self

    @property
    def known_covariances(self) -> Floats:
        """At lags 0, 1, ..., as many as predictions are made of."""
        before = max(len(self.coefficients), len(self.covariances) - 1)
        return self._law.covariances(min(before, MOST_BEFORE) + 1)

    @property
    def _law(self) -> Arma:
        found = self.arma
        assert found is not None, "it is checked"
        return found

    def predicted(self, before: Floats, noise: float) -> Floats:
        """The least-squares prediction of the next values, (cells,), from (t, cells) published before, t > 0."""
        mean, gains = float(self.mean or 0), _gains(self, noise)
        known = gains[min(len(before), len(gains) - 1)]
        return np.asarray(mean + known @ (before[: -len(known) - 1 : -1] - mean))

    def errors(self, weights: Sequence[float], noise: float) -> Floats:
        """Mean square errors of x_t = (1 - w_t) prediction + w_t z_t + noise, exactly, shape (weights,).

        The covariance of the last published values and of the state of the series is carried along. Where the weight is
        0 nothing is measured, and there is no noise.
        """
        law, gains, found = self._law, _gains(self, noise), np.empty(len(weights))
        kept, factors, fresh = len(gains) - 1, np.array(self._law.coefficients), self._law.fresh()
        spread = np.zeros((kept + law.size, kept + law.size))  # the last published value is the first
        spread[kept:, kept:] = law.spread()
        same = 0
        for t, weight in enumerate(weights):
            same = same + 1 if t and weight == weights[t - 1] else 0
            if same > SETTLED:
                found[t] = found[t - 1]
                continue
            if t:
                carry(spread, kept, factors)
                carry(spread.T, kept, factors)
                spread[kept:, kept:] += fresh
            known = gains[min(t, kept)]
            along = weight * spread[kept] + (1 - weight) * known @ spread[: len(known)]
            size = weight * along[kept] + (1 - weight) * float(known @ along[: len(known)])
            size += noise if weight > 0 else 0.0
            found[t] = size - 2 * along[kept] + spread[kept, kept]
            if kept:
                spread[1:kept] = spread[: kept - 1]
                spread[:, 1:kept] = spread[:, : kept - 1]
                moved = np.concatenate([[size], along[: kept - 1], along[kept:]])
                spread[0], spread[:, 0] = moved, moved
        return found


@lru_cache(maxsize=64)
def _gains(process: DeclaredProcess, noise: float) -> list[Floats]:
    return predictions(process.known_covariances, noise)
