"""The clock that steps close by: this machine's. Tests bring one of their own."""

from __future__ import annotations

import time
from typing import Protocol

from policyc_runtime.sources import moments

AWAKE = 3_000  # microseconds


class FollowClock(Protocol):
    """Tells the moment, and waits for one; moments in microseconds since 1970."""

    def now(self) -> int:
        """The moment."""

    def wait_until(self, moment: int) -> None:
        """Return at that moment, at once where it has passed."""


class MachineClock:
    """The clock of the machine."""

    def now(self) -> int:
        """The moment."""
        return moments.now()

    def wait_until(self, moment: int) -> None:
        """Return at that moment, at once where it has passed."""
        while (left := moment - self.now()) > 0:
            if (
                left > AWAKE
            ):  # the last milliseconds are waited awake: how soon a sleeper wakes depends on what ran before
                time.sleep(min((left - AWAKE) / 1e6, 60.0))  # in pieces: a clock that is set is seen
