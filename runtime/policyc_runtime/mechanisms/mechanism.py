"""What every mechanism must be able to do."""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, SerializeAsAny

from policyc_runtime.kinds import find_kinds, load_kind
from policyc_runtime.records import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from policyc_runtime.randomness import Randomness


class Mechanism(Record):
    """A way to add noise to one step's values; its fields are what the plan says of it."""

    name: str

    @abstractmethod
    def calibrate(self, epsilon: Decimal) -> Decimal:
        """The smallest scale, rounded up, whose loss is at most epsilon (nats, > 0)."""

    @abstractmethod
    def privacy_loss(self, scale: Decimal) -> Fraction:
        """The exact loss in nats of one step released with this scale (> 0)."""

    @abstractmethod
    def variance(self, scale: Decimal) -> float:
        """The variance of the noise in one cell."""

    @abstractmethod
    def add_noise(self, raw: NDArray[np.int64], scales: list[Decimal], randomness: Randomness) -> NDArray[np.int64]:
        """Raw counts (steps, cells) plus fresh independent noise, step t with scales[t]."""


@cache
def mechanism_kinds() -> dict[str, type[Mechanism]]:
    """All mechanisms by name."""
    return find_kinds("policyc_runtime.mechanisms", Mechanism)  # type: ignore[type-abstract]


AnyMechanism = SerializeAsAny[Annotated[Mechanism, BeforeValidator(load_kind(mechanism_kinds))]]
