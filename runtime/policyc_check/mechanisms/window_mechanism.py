"""The base of mechanisms that publish when counts have moved: what any window of steps spends is bounded by their rule.

At each step the distance of the counts from the last published ones is measured first, with half of the window's
budget divided evenly; whether to publish, and with how much of the other half, follows from earlier *records* alone.
Otherwise the last values are published again. So budgets are adaptive, and yet no window of steps ever spends more than
epsilon, whatever the data: that is what `spent` says, and `verify` believes nothing else.

A record is (distance,) or (distance, value of each cell): whole numbers, from which everything else is recomputed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from policyc_check.kinds import find_kinds
from policyc_check.mechanisms.mechanism import Mechanism
from policyc_check.records import PositiveDecimal, Steps

if TYPE_CHECKING:
    pass


class WindowMechanism(Mechanism):
    """Measures how far counts have moved, and publishes when that exceeds the noise; see the module.

    `window` steps in a row spend at most `epsilon` nats. `l1_sensitivity`: how far one user's value at one step moves
    the counts of that step; their distance from public whole numbers moves no further. `still_error`: the mean squared
    error of published values while counts stand still, in units of (l1_sensitivity / epsilon)^2; only for prediction.

    Source: KELLARIS14
    """

    accounting: Literal["window"] = "window"
    window: Steps
    epsilon: PositiveDecimal
    l1_sensitivity: PositiveDecimal
    still_error: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"
    largest_part: ClassVar[Fraction]
    """The largest part of epsilon that one publication takes."""

    @abstractmethod
    def unit(self) -> Fraction:
        """What publications are paid in, nats."""

    @abstractmethod
    def next_units(self, paid: Sequence[int]) -> int:
        """The units that a publication at the next step may take, 0 for none, given those paid at each step so far."""

    def spent(self, width: int) -> Fraction:
        """The most nats that any `width` steps in a row spend, whatever the data."""
        steps = Fraction(width, 2 * self.window)  # for distances
        published = min(width * self.largest_part, Fraction(-(-width // self.window), 2))
        return Fraction(self.epsilon) * (steps + published)


@cache
def window_mechanism_kinds() -> dict[str, type[WindowMechanism]]:
    """All mechanisms that publish when counts have moved, by name."""
    return find_kinds("policyc_check.mechanisms", WindowMechanism)  # type: ignore[type-abstract]
