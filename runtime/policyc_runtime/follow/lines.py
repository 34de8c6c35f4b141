"""Lines of text to fields: NDJSON, one object a line, or CSV, whose first line names the columns.

A line that is none of these is one that names nobody, and is counted with those that cannot be used: what one user sent
must not stop the release of all others. So is the rest of an object that a stream begins with, as `tail` gives it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence

from policyc_runtime.errors import DataError

LONGEST_LINE = 2**16  # bytes; no event of the policy's columns is that long
UNREADABLE = re.compile("[\0\r\n\ud800-\udfff]")  # ends of text and of rows, halves of characters
Fields = tuple[str, ...]


class Lines:
    """What lines say in the columns that are wanted.

    Args:
        columns: which, in this order.
        where: what the lines came from, for messages.
        named: whether a line that is no object may be a header; else all are objects.
    """

    def __init__(self, columns: Sequence[str], where: str, *, named: bool = True) -> None:
        self._columns = tuple(columns)
        self._where = where
        self._places: list[int] | None = None  # of the columns in a CSV line; None of objects
        self._told = not named

    def fields(self, lines: Sequence[bytes]) -> tuple[list[Fields], int]:
        """Fields of those lines that can be read, and how many cannot.

        Raises:
            DataError: E0811, a first line names columns, and not the policy's.
        """
        found: list[Fields] = []
        unread = 0
        for line in lines:
            text = _text(line)
            if text is not None and not text.strip():
                continue
            if text is not None and not self._told:
                text = text.removeprefix("\ufeff")
                self._told = text.lstrip().startswith("{")
                if not self._told and _may_name(text):
                    self._places, self._told = self._header(text), True
                    continue
            fields = None if text is None else self._of_object(text) if self._places is None else self._of_row(text)
            if fields is None or not all(fields[:2]) or any(UNREADABLE.search(field) for field in fields):
                unread += 1
            else:
                found.append(fields)
        return found, unread

    def _header(self, text: str) -> list[int]:
        names = _row(text) or []
        missing = [name for name in self._columns if names.count(name) != 1]
        if missing:
            raise DataError(
                "E0811",
                f"there is no one column `{missing[0]}`",
                where=self._where,
                because="the first line of text that is no JSON object names the columns of a CSV file",
                help=f"name {', '.join(f'`{name}`' for name in self._columns)} there, or send one JSON object a line",
            )
        return [names.index(name) for name in self._columns]

    def _of_row(self, text: str) -> Fields | None:
        row, places = _row(text), self._places or []
        return None if row is None or max(places, default=0) >= len(row) else tuple(row[place] for place in places)

    def _of_object(self, text: str) -> Fields | None:
        try:
            said = json.loads(text, parse_int=str, parse_float=str)  # numbers as they are written
        except (ValueError, RecursionError):
            return None
        if not isinstance(said, dict):
            return None
        values = [said.get(name) for name in self._columns]
        return tuple(value if isinstance(value, str) else "" for value in values)


def _may_name(text: str) -> bool:
    """Whether a line that is no object may name columns: two at least, and it is not where an object ends."""
    plain = re.sub("[\ufeff\r\t]", " ", text)
    return plain.isprintable() and not plain.rstrip().endswith("}") and re.search("[,;|\t]", text) is not None


def _row(text: str) -> list[str] | None:
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        return None


def _text(line: bytes) -> str | None:
    if len(line) > LONGEST_LINE:
        return None
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        return None
