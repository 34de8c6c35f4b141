"""Arrays that come back, each kept once: vectors and covariances by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEAST = 1e-290  # below, nothing is told apart
SAME = 1e-9  # covariances that differ by less, relative to the largest, are one


class Interned:
    """Arrays by number, vectors or covariances; those that are the `same`, relative to the largest, have one number."""

    def __init__(self, same: float = SAME) -> None:
        self.arrays: list[Array] = []
        self._same = same
        self._known: dict[bytes, list[int]] = {}

    def number(self, array: Array) -> int:
        """Of an array, a new one if it was not seen before."""
        told = array.diagonal() if array.ndim == 2 else array  # of a covariance, of which nothing is larger
        size = float(np.abs(told).max()) if told.size else 0.0
        power = np.exp2(np.ceil(np.log2(size))) if size > LEAST else 1.0
        rounded = np.rint(told / (power * self._same)).astype(np.int64)
        alike = self._known.setdefault(rounded.tobytes() + np.float64(power).tobytes(), [])
        for number in alike:
            if array.ndim == 1 or np.abs(self.arrays[number] - array).max(initial=0.0) <= power * self._same:
                return number
        alike.append(len(self.arrays))
        self.arrays.append(array)
        return alike[-1]
