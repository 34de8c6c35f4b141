"""What a CSV file has, seen byte by byte: a second opinion on how many rows there are to be read.

A reader for tables may pass over what it cannot hold. Here nothing is held: bytes are counted in pieces, so that a
longest possible row costs no more than others.
"""

from __future__ import annotations

import codecs
import gzip
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

PIECE = 2**22
QUOTE, LINE_FEED, RETURN = 34, 10, 13
MARK = b"\xef\xbb\xbf"


class NotTextError(ValueError):
    """A file with bytes that no text has."""


class CsvRows(NamedTuple):
    """How many rows a file has, the first one with the names included, and how many empty lines stand before them.

    Where quotes stand inside of values that are not quoted, there may be more rows, never fewer.
    """

    rows: int
    blank: int


FAULTS = {  # by what duckdb says of a file
    "unterminated quote": "a quoted value does not end",
    "Expected Number of Columns": "a row has another number of columns than the first row",
    "Maximum line size": "a row is longer than two million bytes",
    "GZIP": "it is not gzip to its end, or something stands behind that",
    "invalid state": "a quote stands inside a value, or some rows end in CR LF and some in LF",
}


def look_through(file: Path, *, zipped: bool, pieces: int | None = None) -> CsvRows:
    """Count the rows of a file, to its end or in its first pieces.

    Raises:
        NotTextError: it has a zero byte.
        OSError, EOFError, zlib.error: it cannot be read to its end.
    """
    rows = blank = 0
    quoted, fresh, last = False, True, 0  # inside quotes; at the beginning of a row; the byte before
    with cast(BinaryIO, gzip.open(file) if zipped else file.open("rb")) as handle:
        begun = False
        while (pieces is None or pieces > 0) and (piece := handle.read(PIECE)):
            pieces = None if pieces is None else pieces - 1
            content = np.frombuffer(piece.removeprefix(MARK) if not begun else piece, dtype=np.uint8)
            begun = True
            if not content.size:
                continue
            if not content.all():
                raise NotTextError
            ends = (content == LINE_FEED) | (content == RETURN)
            quotes = content == QUOTE
            if quoted or quotes.any():
                inside = (np.cumsum(quotes) + quoted) % 2 == 1
                quoted = bool(inside[-1])
                ends &= ~inside
            begins = ~ends & np.append(fresh, ends[:-1])
            if not rows:
                first = int(np.argmax(begins)) if begins.any() else len(content)
                blank += _lines(content[:first], last)
            rows += int(begins.sum())
            fresh, last = bool(ends[-1]), int(content[-1])
    return CsvRows(rows, blank)


def first_no_text(file: Path, *, zipped: bool) -> tuple[int, bool] | None:
    """The first line that is not UTF-8 text or has a NUL character, and whether it is that; None where none is.

    Lines are counted by line feeds.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read so far.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with cast(BinaryIO, gzip.open(file) if zipped else file.open("rb")) as handle:
        while piece := handle.readline(PIECE):
            try:
                if "\0" in decoder.decode(piece):
                    return line, True
            except UnicodeDecodeError:
                return line, False
            line += piece.endswith(b"\n")
    return (line, False) if decoder.getstate()[0] else None


def _lines(ends: np.ndarray[tuple[int], np.dtype[np.uint8]], before: int) -> int:
    """How many lines end in bytes that are nothing but ends of lines; `before` stands before them."""
    earlier = np.append(np.uint8(before), ends[:-1]) if ends.size else ends
    return int(((ends == RETURN) | ((ends == LINE_FEED) & (earlier != RETURN))).sum())
