"""Places as editors count them, a line and so many units of it, and as a policy's text does, so many characters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@dataclass(frozen=True)
class Places:
    """Of one text.

    Args:
        text: with line feeds as line ends.
        encoding: in whose units a line is counted.
    """

    text: str
    encoding: Literal["utf-8", "utf-16", "utf-32"] = "utf-16"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(place + 1 for place, character in enumerate(self.text) if character == "\n")]

    def offset(self, line: int, unit: int) -> int:
        """The character at a line and unit, both from 0; behind the end of either, its end."""
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] - 1 if line + 1 < len(self._starts) else len(self.text)
        place = start
        while place < end and unit > 0:
            unit -= self._units(self.text[place])
            place += 1
        return place

    def line_and_unit(self, offset: int) -> tuple[int, int]:
        """The line and unit of a character, both from 0."""
        from bisect import bisect_right

        line = bisect_right(self._starts, offset) - 1
        return line, self._units(self.text[self._starts[line] : offset])

    def _units(self, text: str) -> int:
        size = UNITS[self.encoding]
        name = self.encoding if size == 1 else f"{self.encoding}-le"
        return len(text.encode(name, "surrogatepass")) // size
