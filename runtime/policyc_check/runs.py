"""Patterns that repeat, one after the other, and the steps that stand for all others of such a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from policyc_check.errors import PlanRejectedError

Whole = NDArray[np.int64]

_MOST = 1_000_000  # steps that are looked at
_ENDLESS = 2**62  # steps


class Runs:
    """Patterns of so many entries, each repeated so often; None for ever, which only the last is."""

    def __init__(self, patterns: Iterable[tuple[int, int | None]]) -> None:
        self.periods, lengths = np.array([(n, _ENDLESS if k is None else n * k) for n, k in patterns]).T
        self.ends = np.minimum(np.cumsum(lengths), _ENDLESS)

    def places(self, steps: Whole) -> Whole:
        """Where the entry of each step stands, in the patterns written once, one after the other."""
        run = np.searchsorted(self.ends, steps, side="right")
        passed, written = (np.insert(column, 0, 0) for column in (self.ends, np.cumsum(self.periods)))
        return np.asarray(written[run] + (steps - passed[run]) % self.periods[run])


def enough(columns: Sequence[Runs], reach: int, apart: float = 0) -> Whole:
    """Steps, rising, such that every `reach` steps in a row of a stream are like as many in a row of these.

    Where all columns repeat, whole common periods are left out, so many that more than `reach` and two periods stay.
    Steps in a row that begin there are like some that begin in the first period; those that go on beyond its end see
    of it what they saw. No step before `apart` is left out. PlanRejectedError E0801 where they are too many.
    """
    ends = np.unique(np.concatenate([column.ends for column in columns]))
    kept: list[tuple[int, int]] = []
    for begin, end in zip([0, *ends.tolist()], ends.tolist(), strict=False):
        period = math.lcm(*(int(c.periods[np.searchsorted(c.ends, begin, side="right")]) for c in columns))
        alike = end - int(max(begin, min(apart, end)))
        kept.append((begin, end - max(0, (alike - reach - 2 * period) // period) * period))
    if sum(end - begin for begin, end in kept) > _MOST:
        raise PlanRejectedError("E0801", f"more than {_MOST:,} steps differ, which cannot be checked", where="releases")
    return np.concatenate([np.arange(begin, end) for begin, end in kept])
