"""Noise on what a strategy measures: drawn in one place for every linear mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import singledispatch
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from policyc_check.mechanisms import linear as checked
from policyc_check.users.noise import Coins, DiscreteGaussian, DiscreteLaplace, Law
from policyc_runtime import samplers
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism
from policyc_runtime.mechanisms.room import require_room

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness

Whole = NDArray[np.int64]
WIDE = 3  # steps of a grid that noise is wide at least


@singledispatch
def drawn(law: Law, size: int, randomness: Randomness) -> Whole:  # noqa: ARG001
    """Independent noise of a law, (size,)."""
    raise TypeError(f"no noise of this law can be drawn: {type(law).__name__}")


@drawn.register(DiscreteGaussian)
def _(law: DiscreteGaussian, size: int, randomness: Randomness) -> Whole:
    return samplers.discrete_gaussian(law.variance, size, randomness)


@drawn.register(DiscreteLaplace)
def _(law: DiscreteLaplace, size: int, randomness: Randomness) -> Whole:
    return samplers.discrete_laplace(law.scale, size, randomness)


@drawn.register(Coins)
def _(law: Coins, size: int, randomness: Randomness) -> Whole:
    return samplers.symmetric_binomial(law.half, size, randomness)


class LinearMechanism(checked.LinearMechanism, StreamMechanism):
    """The linear mechanism of the check, drawn."""

    def measure(
        self, setting: Setting, raw: Whole, records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """What the strategy measures at the steps that have no record yet, with fresh noise: a record a step."""
        numbers, counts = self.strategy(setting).measured(raw, len(records))
        noisy = numbers + drawn(self.law, numbers.size, randomness).reshape(numbers.shape)
        if (counts == 1).all():
            return [tuple(row) for row in noisy.tolist()]
        ends = np.cumsum(counts)
        return [tuple(part.ravel().tolist()) for part in np.split(noisy, ends[:-1])] if len(counts) else []

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records themselves."""
        return np.array(records, dtype=np.float64).reshape(len(records), setting.cells)


class GridMechanism(checked.GridMechanism, LinearMechanism):
    """The same on a fine grid."""

    whole_values: ClassVar[bool] = False

    @model_validator(mode="after")
    def _noise_is_wide(self) -> Self:
        if self.stddev * self.grid < WIDE:
            raise ValueError("the noise is too small for its grid")
        return self

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It needs to know how many steps there are."""
        return "it needs a horizon, and this stream has no end" if setting.horizon is None else None

    @property
    def least_size(self) -> float:
        """Three steps of its grid."""
        return WIDE / self.grid

    def of_size(self, size: float) -> Self:
        """The same with this standard deviation."""
        require_room(size * self.grid)
        return type(self).model_validate({**self.model_dump(), "stddev": Decimal(repr(size))})
