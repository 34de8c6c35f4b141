"""Text that somebody else wrote, and the refusal of it: one message, with the file, the place and the remedy."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from policyc_check.errors import KernelError
from policyc_check.files import read_ordinary

LARGEST_FILE = 256 * 2**20  # a million users of four states have half of it
DEEPEST = 20  # lists in lists of JSON
NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
LONGEST_NUMBER = 400  # characters
_SHOWN = 40


class ForeignFileError(KernelError):
    """A file of budgets or chains that cannot be taken for one."""


class Foreign:
    """A file that somebody else wrote, as text.

    Args:
        path: the file.
        code: of the refusal.
        remedy: what such a file holds.

    Raises:
        ForeignFileError: it cannot be read, or is no text.
    """

    def __init__(self, path: Path, code: str, remedy: str) -> None:
        self.name, self._code, self._remedy = str(path), code, remedy
        try:
            content = read_ordinary(path, LARGEST_FILE)
        except FileNotFoundError:
            raise self.refused("there is no such file", help="check the name") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "the path is not valid"
            raise self.refused(f"the file cannot be read: {reason.lower()}", help="name a file of text") from None
        try:
            self.text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise self.refused("the file is not UTF-8 text", f"line {line}") from None
        if "\0" in self.text:
            raise self.refused("the file is not text: it has a NUL character")
        if not self.text.strip():
            raise self.refused("the file is empty")

    def refused(self, message: str, place: str = "", *, help: str | None = None) -> ForeignFileError:
        """The refusal, to be raised."""
        where = f"{self.name}: {place}" if place else self.name
        return ForeignFileError(self._code, message, where=where, help=help or self._remedy)

    @property
    def is_json(self) -> bool:
        """Whether the text begins as JSON does."""
        return self.text.lstrip()[:1] in {"[", "{"}

    def json(self) -> Any:
        """What the text says as JSON, numbers as decimals, each name at most once."""
        depth = most = 0
        for found in re.finditer(r'[\[{\]}]|"(?:[^"\\]|\\.)*"?', self.text, re.DOTALL):  # a text may not end
            sign = found.group()
            depth += (sign in "[{") - (sign in "]}")
            most = max(most, depth)
        if most > DEEPEST:
            raise self.refused(f"the file has lists in lists, {most:,} deep")
        try:
            return json.loads(
                self.text, parse_float=self.number, parse_int=self.number, parse_constant=self.number,
                object_pairs_hook=self._once,
            )  # fmt: skip
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            raise self.refused(f"the file is not JSON: {error.msg.lower()}", place) from None

    def _once(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise self.refused(f"`{shortened(twice)}` stands there twice")
        return found

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows of the text as CSV, without spaces around values, each with its line; empty ones are left out."""
        reader, empty = csv.reader(self.text.splitlines(keepends=True), strict=True), True
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    empty = False
                    yield reader.line_num, cells
        except csv.Error as error:
            raise self.refused(f"the file is not CSV: {error}", f"line {reader.line_num}") from None
        if empty:
            raise self.refused("the file is empty")

    def number(self, text: str, place: str = "") -> Decimal:
        """An exact decimal of a sensible number of digits."""
        if len(text) <= LONGEST_NUMBER and NUMBER.fullmatch(text):
            try:
                return Context(prec=LONGEST_NUMBER).create_decimal(text)
            except InvalidOperation:
                pass
        raise self.refused(f"`{shortened(text)}` is not a number", place)


def shortened(text: str) -> str:
    """A word of the file for a message."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def listed(words: Iterable[str], most: int = 8) -> str:
    """`a`, `b`, ... for a message."""
    names = [f"`{shortened(word)}`" for word in words]
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
