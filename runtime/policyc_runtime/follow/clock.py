"""The clock that steps close by: this machine's. Tests bring one of their own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Protocol

from policyc_runtime.errors import DataError
from policyc_runtime.sources import moments

AWAKE = 3_000  # microseconds
BLUR = 1_000  # microseconds: far longer than what work before it moves the end of a wait by
LEAST_JUMP = 1_000_000  # microseconds; leap seconds and small corrections are none
PIECE = 0.5  # seconds: how soon a signal is answered


class FollowClock(Protocol):
    """Tells the moment, and waits for one; moments in microseconds since 1970."""

    def now(self) -> int:
        """The moment."""

    def wait_until(self, moment: int, stopping: Callable[[], bool]) -> bool:
        """True at that moment, at once where it has passed; False as soon as somebody says to stop."""


class MachineClock:
    """The clock of the machine.

    Args:
        jump: by how much it may be set forward, microseconds: steps that it passes over close at once, without events.
    """

    def __init__(self, jump: int = LEAST_JUMP) -> None:
        self._jump = max(jump, LEAST_JUMP)
        self._ahead = moments.now() - _passed()

    def now(self) -> int:
        """The moment.

        Raises:
            DataError: E0902, the clock was set forward.
        """
        moment = moments.now()
        ahead = moment - _passed()
        if ahead - self._ahead > self._jump:
            raise DataError(
                "E0902",
                f"the clock of this machine was set forward by {(ahead - self._ahead) / 1e6:,.0f} s",
                where="the clock",
                because="steps close by it: all that it passed over would be published as if nobody had been there",
                help="see that it is right, then start again: steps that are overdue by it are then published",
            )
        self._ahead = ahead
        return moment

    def wait_until(self, moment: int, stopping: Callable[[], bool]) -> bool:
        """True at a random moment within a millisecond of that one, at once where it has passed; False when stopping.

        Whoever works longer before it ends its wait a fraction of a microsecond earlier or later, which would tell.
        """
        moment += secrets.randbelow(BLUR)
        while (left := moment - self.now()) > 0:
            if stopping():
                return False
            # The last milliseconds are waited awake: how soon a sleeper wakes depends on what ran before.
            if left > AWAKE:
                time.sleep(min((left - AWAKE) / 1e6, PIECE))
        return True


def _passed() -> int:
    """Microseconds since the machine was started, those in which it slept as well: nobody sets this clock."""
    kind = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if kind is None else time.clock_gettime_ns(kind)) // 1000
