"""What noisy values are off by together, beside noise of their own: one draw, or one for every period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Offset:
    """Independent draws, each of which all noisy values of a period share.

    Args:
        stddev: of each draw, in units of the values, >= 0; 0 for none.
        steps: of a period, from step 0 on; None where all steps share one draw.
    """

    stddev: float = 0.0
    steps: int | None = None

    def begins(self, step: int) -> bool:
        """Whether a draw is new at this step."""
        return step % self.steps == 0 if self.steps else step == 0

    def periods(self, steps: int) -> NDArray[np.int64]:
        """The number of each step's draw, (steps,)."""
        return np.arange(steps) // (self.steps or max(steps, 1))

    def scaled(self, factor: float) -> Offset:
        """The same in a unit of which so many (> 0) are one."""
        return Offset(self.stddev * factor, self.steps)

    def of_totals(self, total: Callable[[Array], Array], steps: int) -> Array:
        """The standard deviation of what totals are off by through all draws together, (steps,).

        Args:
            total: running totals or windows, (steps, 1), of the values of steps, or totals of these.
            steps: how many there are.
        """
        length = min(self.steps or steps, steps)
        first = np.zeros((steps, 1))
        first[:length] = self.stddev
        squares = np.zeros(-(-steps // max(length, 1)) * length)
        squares[:steps] = total(first)[:, 0] ** 2
        # of the draw of a later period a total has as much, as many steps later
        return np.asarray(np.sqrt(squares.reshape(-1, max(length, 1)).cumsum(axis=0).ravel()[:steps]))


NO_OFFSET = Offset()
