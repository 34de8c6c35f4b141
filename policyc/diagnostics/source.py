"""Policy text and places in it."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Span(NamedTuple):
    """A half-open range of characters in a policy's text."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The text of one policy, with the name it is shown under.

    Args:
        name: how messages name the file, such as `traffic.policy`.
        text: the whole text, lines ending in line feeds, without byte order mark.
        sha256: of the file's bytes, hexadecimal; empty for text that is no file.
    """

    name: str
    text: str
    sha256: str = ""

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(i + 1 for i, character in enumerate(self.text) if character == "\n")]

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """The text of a 1-based line, without its newline."""
        return self.text[self._line_starts[line - 1] :].split("\n", 1)[0]
