"""Where events come from, as a loop sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Batch(NamedTuple):
    """Lines that came, and where each part of the source goes on after them; without positions nobody can go back."""

    lines: Sequence[bytes]
    positions: Mapping[str, int]


class Source(Protocol):
    """Gives lines as they come; reads no further than it is asked to."""

    name: str
    named: bool
    """Whether a first line may name columns."""
    tells_waiting: bool
    """Whether it knows how much waits in it; else nobody does before its end."""

    def begin(self, positions: Mapping[str, int]) -> None:
        """Go on from these positions."""

    def mark(self) -> None:
        """What waits now is to be read before `caught_up` says so."""

    def read(self, seconds: float) -> Batch:
        """What comes next, a bounded part of it; empty when nothing came in this time."""

    @property
    def ended(self) -> bool:
        """Whether nothing will come any more."""

    @property
    def caught_up(self) -> bool:
        """Whether all was read that waited at the last mark, as far as that is known."""

    def close(self) -> None:
        """Let it go."""
