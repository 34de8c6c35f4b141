"""How long steps and periods are, and the clock by which days and months are counted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from policyc.diagnostics import Span

DAY = 86_400_000  # milliseconds
MONTH: Literal["month"] = "month"
Length = int | Literal["month"]
"""Milliseconds, or a calendar month."""


@dataclass(frozen=True)
class Clock:
    """The clock whose days and months are meant.

    `changes` says from which moment on (seconds since 1970) it is how many seconds ahead of UTC, from step 0 on, as far
    as `end`, the last moment at which that is known.
    """

    zone: str
    changes: tuple[tuple[int, int], ...]
    end: int
    span: Span

    @property
    def put_back(self) -> int:
        """How many milliseconds longer than usual some stretch of days is."""
        offsets = [offset for _, offset in self.changes]
        return 1000 * max(high - offset for high, offset in zip(accumulate(offsets, max), offsets, strict=True))

    def holds_whole(self, milliseconds: int) -> bool:
        """Whether every day is made of whole pieces of a length that is shorter than a day, from its midnight on."""
        pairs = zip(self.changes, (self.changes[0], *self.changes), strict=False)
        places = [moment + shown for (moment, offset), (_, before) in pairs for shown in (before, offset)]
        return DAY % milliseconds == 0 and all(place * 1000 % milliseconds == 0 for place in places)
