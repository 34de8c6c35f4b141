"""Lines on standard input: anything can be piped there. It has no positions: what is read stays with this process."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping

from policyc_runtime.follow.lines import LONGEST_LINE
from policyc_runtime.follow.source import Batch

PIECE = 2**20  # bytes read at a time, and all that is ever held of the input


class StandardInput:
    """Lines of an open file, by default standard input; whoever writes there waits while nothing is read."""

    name = "standard input"
    named = True
    tells_waiting = False

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._skipping = False  # the rest of a line that is too long
        self._ended = False

    def begin(self, positions: Mapping[str, int]) -> None:
        """Nothing: a pipe goes on where it is."""

    def mark(self) -> None:
        """Nothing: nobody can tell how much waits in a pipe."""

    def read(self, seconds: float) -> Batch:
        """The lines that came, at most some 1 MB of them."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        if not ready:
            return Batch((), {})
        piece = os.read(self._descriptor, PIECE)
        self._ended = not piece
        *lines, rest = (self._rest + piece).split(b"\n")
        if lines and self._skipping:
            lines, self._skipping = lines[1:], False
        if len(rest) > LONGEST_LINE:
            lines += [] if self._skipping else [rest]  # counted as one that cannot be used
            rest, self._skipping = b"", True
        if self._ended and rest and not self._skipping:
            lines, rest = [*lines, rest], b""
        self._rest = rest
        return Batch(lines, {})

    @property
    def ended(self) -> bool:
        """Whether the other side is closed."""
        return self._ended

    @property
    def caught_up(self) -> bool:
        """When it ended: nobody can tell how much waits in a pipe."""
        return self._ended

    def close(self) -> None:
        """Nothing: it is not ours."""
