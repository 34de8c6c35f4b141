"""A clock and a source that a test plays: events arrive at moments, and time passes while one waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from policyc import compile_policy
from policyc_runtime.follow import follower
from policyc_runtime.follow.follower import Followed, Follower, Options
from policyc_runtime.follow.sinks import FileSink, Sink
from policyc_runtime.follow.source import Batch
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources.moments import moment_of

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = "2026-01-01T00:00:00Z"
BEGIN = moment_of(START)

VISITS = """
policy visits "visitors"
stream seen {
  user person
  time at
  step 1h
  horizon 4 steps
  start "2026-01-01T00:00:00Z"
}
release there = count(seen)
release spent = sum(seen.money, clamp = -5 .. 20)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, per_step = 2, spacing = 2 steps, enforced = keep_first)
deliver realtime
objective mean_squared_error
"""
MOVING = """
policy traffic "vehicles per segment"
stream passages {
  user vehicle
  time seen_at
  cell segment in {"A", "B"} otherwise "away"
  step 1h
  horizon 4 steps
  start "2026-01-01T00:00:00Z"
  population 200
}
release occupancy = count(passages) by segment
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "public counts")
deliver realtime
objective mean_squared_error
"""


follower.LONGEST_READ = 3600 * SECOND  # nobody sends a signal here


def planned(folder: Path, text: str = VISITS) -> Plan:
    (folder / "a.policy").write_text(text)
    return compile_policy(folder / "a.policy").plan


class Played:
    """Clock and source at once; a pipe without positions, or with them.

    Args:
        script: (moment, line) in the order of arrival.
        positions: whether lines have positions.
        now: when it begins.
    """

    name = "a script"
    named = True
    tells_waiting = False

    def __init__(self, script: Sequence[tuple[int, str]], *, positions: bool = False, now: int = BEGIN) -> None:
        self.script = list(script)
        self.positions = positions
        self.tells_waiting = positions
        self.moment = now
        self.next = 0
        self.waits: list[int] = []

    def now(self) -> int:
        return self.moment

    def wait_until(self, moment: int, stopping: Callable[[], bool]) -> bool:
        self.waits.append(moment)
        self.moment = max(self.moment, moment)
        return True

    def begin(self, positions: Mapping[str, int]) -> None:
        self.next = positions.get("script", 0) if self.positions else self.next

    def mark(self) -> None:
        pass

    def read(self, seconds: float) -> Batch:
        until = self.moment + max(round(seconds * SECOND), 1)
        if self.next < len(self.script):
            until = max(self.moment, min(until, self.script[self.next][0]))
        self.moment = until
        first = self.next
        while self.next < len(self.script) and self.script[self.next][0] <= self.moment:
            self.next += 1
        lines = [line.encode() for _, line in self.script[first : self.next]]
        return Batch(lines, {"script": self.next} if self.positions and lines else {})

    @property
    def ended(self) -> bool:
        return not self.positions and self.next == len(self.script)

    @property
    def caught_up(self) -> bool:
        return self.next == len(self.script) or self.script[self.next][0] > self.moment

    def close(self) -> None:
        pass


def follow(
    plan: Plan, folder: Path, played: Played, sinks: Sequence[Sink] | None = None, **more: Any
) -> list[Followed]:
    """Follow a plan over a script with a ledger in a folder; what was told."""
    told: list[Followed] = []
    options = Options(folder / "l", None, None, None, more.pop("lateness", 60 * SECOND), more.pop("pause", SECOND))
    Follower(
        plan,
        played,
        [FileSink(str(folder / "out.csv"))] if sinks is None else sinks,
        options,
        played,
        randomness=SimulationRandomness(3),
        told=lambda followed, *_: told.append(followed) if followed else None,
        **more,
    ).run()
    return told
