"""What was taken in of steps that are not released yet: private files beside the ledger, and how far each counts.

A step's rows are appended to a CSV file of its own. How long the file is and its check value, where the source goes on,
and which steps are closed stand in one sqlite file, changed in one transaction when the rows are on disk: whatever
stands behind that length was never taken in, and is cut off at the next start. So a row with a position in its source
is taken in once, and a file that was damaged since is found before it is counted.
"""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc_runtime.errors import LedgerError
from policyc_runtime.files import PRIVATE_MODE, sync_directory
from policyc_runtime.follow.lines import Fields
from policyc_runtime.ledger_file import guarded
from policyc_runtime.ledger_private import make_private, private_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

TABLES = {
    "length": "step INTEGER",
    "mark": "step INTEGER",
    "position": "source TEXT",
    "number": "name TEXT",
    "published": "sink TEXT",
}
COUNTS = {"length": "bytes", "mark": "crc32", "position": "next", "number": "value", "published": "steps"}
STATE = "state.sqlite"


class Arrivals:
    """The folder of a ledger's arrivals; in a `with` statement, by one process at a time.

    Args:
        ledger: the ledger's file.
        columns: what the rows have.
    """

    def __init__(self, ledger: Path, columns: Sequence[str]) -> None:
        self._ledger = ledger
        self._columns = tuple(columns)
        self._folder = make_private(private_file(ledger, "arrivals"))
        with self._guarded():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._require_state()
            self._state = sqlite3.connect(self._folder / STATE, isolation_level=None)
            if self._found("PRAGMA quick_check") != [("ok",)]:
                raise self._unknown()
            self._state.execute("PRAGMA synchronous = EXTRA")
            self._require_tables()
            (self._folder / STATE).chmod(PRIVATE_MODE)
            self._lengths = dict(self._found("SELECT step, bytes FROM length"))
            self._marks = dict(self._found("SELECT step, crc32 FROM mark"))
            self._cut()
            self._require_whole(self._lengths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._state.close()

    @property
    def closed(self) -> int:
        """How many steps are closed: what comes for them is too late."""
        return self.number("closed")

    @property
    def positions(self) -> dict[str, int]:
        """Where each part of the source goes on."""
        return dict(self._found("SELECT source, next FROM position"))

    def number(self, name: str) -> int:
        """A count that is kept: `closed` steps, `taken`, `late` and `unusable` rows; 0 before any."""
        return int(sum(value for (value,) in self._found("SELECT value FROM number WHERE name = ?", name)))

    def published(self, sink: str) -> int:
        """How many steps are noted as published there."""
        return int(sum(steps for (steps,) in self._found("SELECT steps FROM published WHERE sink = ?", sink)))

    def note_published(self, sink: str, steps: int) -> None:
        """Note how many steps are published there."""
        with self._guarded():
            self._state.execute("INSERT OR REPLACE INTO published VALUES (?, ?)", (sink, steps))

    def take(self, rows: Mapping[int, Sequence[Fields]], unusable: int, positions: Mapping[str, int]) -> None:
        """Take rows in, by step, and where the source goes on; rows of closed steps are counted, and dropped."""
        closed = self.closed
        open_rows = {step: part for step, part in rows.items() if step >= closed}
        late = sum(len(part) for step, part in rows.items() if step < closed)
        with self._guarded():
            known = {step: self._append(step, part) for step, part in open_rows.items()}
            lengths, marks = ({step: told[kind] for step, told in known.items()} for kind in (0, 1))
            with self._alone():
                self._state.executemany("INSERT OR REPLACE INTO length VALUES (?, ?)", list(lengths.items()))
                self._state.executemany("INSERT OR REPLACE INTO mark VALUES (?, ?)", list(marks.items()))
                self._state.executemany("INSERT OR REPLACE INTO position VALUES (?, ?)", list(positions.items()))
                taken = sum(map(len, open_rows.values()))
                for name, more in (("taken", taken), ("late", late), ("unusable", unusable)):
                    if more:
                        self._set(name, self.number(name) + more)
        self._lengths |= lengths
        self._marks |= marks

    def close_steps(self, steps: int) -> None:
        """The first so many steps are closed from now on."""
        with self._guarded(), self._alone():
            self._set("closed", max(steps, self.closed))

    def rows(self, steps: int) -> Path:
        """A CSV file of all rows of the first so many steps that are not forgotten."""
        known = sorted(step for step in self._lengths if step < steps)
        with self._guarded():
            self._require_whole(known)
        if len(known) == 1:
            return self._file(known[0])
        together = self._folder / "rows.csv"
        with self._guarded(), os.fdopen(_private(together, os.O_TRUNC), "wb") as out:
            out.write(self._header)
            for step in known:
                with self._file(step).open("rb") as rows:
                    rows.seek(len(self._header))
                    while piece := rows.read(2**22):
                        out.write(piece)
        return together

    def forget(self, steps: int) -> None:
        """Rows of the first so many steps are released, and go; those of steps that are not closed here came too late.

        Such a step was released by another run, from its own rows.
        """
        closed = self.closed
        late = sum(self._count(step) for step in self._lengths if closed <= step < steps)
        with self._guarded():
            with self._alone():
                for name, more in (("taken", -late), ("late", late)) if late else ():
                    self._set(name, self.number(name) + more)
                for name in ("length", "mark"):
                    self._state.execute(f"DELETE FROM {name} WHERE step < ?", (steps,))  # noqa: S608  as they stand here
            for step in [step for step in self._lengths if step < steps]:
                self._file(step).unlink(missing_ok=True)
                del self._lengths[step], self._marks[step]
            (self._folder / "rows.csv").unlink(missing_ok=True)

    def _append(self, step: int, rows: Sequence[Fields]) -> tuple[int, int]:
        """Append rows on disk; the length of the file, and its check value."""
        file = self._file(step)
        new = step not in self._lengths
        added = b"" if not new else self._header
        added += _written(rows)
        with os.fdopen(_private(file, os.O_APPEND), "ab") as out:
            out.write(added)
            out.flush()
            os.fsync(out.fileno())
            length = out.tell()
        if new:
            sync_directory(self._folder)
        return length, zlib.crc32(added, self._marks.get(step, 0))

    def _count(self, step: int) -> int:
        with self._file(step).open(encoding="utf-8", newline="") as rows:
            return sum(1 for _ in csv.reader(rows)) - 1

    @property
    def _header(self) -> bytes:
        return _written([self._columns])

    @property
    def _rows(self) -> bool:
        """Whether there are rows of any step."""
        return any(file.stem.isdecimal() for file in self._folder.glob("*.csv"))

    def _require_state(self) -> None:
        """Refuses rows of which nothing says that they were taken in: the state comes before any of them."""
        state = self._folder / STATE
        held = state.read_bytes()[:16] if state.is_file() else b""
        gone = self._rows if not held else not held.startswith(b"SQLite format 3")
        if gone:
            raise self._unknown()

    def _require_tables(self) -> None:
        """The tables, made together in a new state; refuses one of which some are gone, or hold no whole numbers."""
        tables = {name for (name,) in self._found("SELECT name FROM sqlite_master WHERE type = 'table'")}
        missing, held = TABLES.keys() - tables, TABLES.keys() & tables
        known = missing - {"mark"}  # which earlier builds did not keep
        if known and (self._rows or any(self._found(f"SELECT 1 FROM {name} LIMIT 1") for name in held)):  # noqa: S608
            raise self._unknown()  # else a start was killed
        with self._alone() if missing else nullcontext():
            for name in missing:
                self._state.execute(
                    f"CREATE TABLE {name} ({TABLES[name]} PRIMARY KEY, {COUNTS[name]} INTEGER NOT NULL)"
                )
        for name, key in TABLES.items():
            column, kind = key.lower().split()
            wrong = f"typeof({COUNTS[name]}) != 'integer' OR {COUNTS[name]} < 0 OR typeof({column}) != '{kind}'"
            if self._found(f"SELECT 1 FROM {name} WHERE {wrong} LIMIT 1"):  # noqa: S608  names that stand above
                raise self._unknown()

    def _unknown(self) -> LedgerError:
        """The refusal of rows of which nobody knows which were taken in."""
        reason = "the file is gone or damaged, which says how much of the rows beside it counts and where their source "
        return _unusable(self._folder / STATE, f"{reason}goes on")

    def _cut(self) -> None:
        """Whatever a killed run wrote and did not take in goes."""
        for file in self._folder.glob("*.csv"):
            length = self._lengths.get(int(file.stem)) if file.stem.isdecimal() else None
            if length is None:
                file.unlink()
            elif file.stat().st_size > length:
                os.truncate(file, length)
        missing = [self._file(step) for step, length in self._lengths.items() if not _holds(self._file(step), length)]
        if missing:
            reason = "the file is gone or shorter than it was; its step would be released without these rows"
            raise _unusable(missing[0], reason)

    def _require_whole(self, steps: Iterable[int]) -> None:
        """Refuses rows that are not as they were taken in; those of an earlier build are taken as they are."""
        for step in steps:
            with self._file(step).open("rb") as rows:
                mark, left = 0, self._lengths[step]
                while left and (piece := rows.read(min(left, 2**22))):
                    mark, left = zlib.crc32(piece, mark), left - len(piece)
            if self._marks.setdefault(step, mark) != mark:
                reason = "the file was altered or damaged since; its step would be released with other rows than came"
                raise _unusable(self._file(step), reason)

    def _file(self, step: int) -> Path:
        return self._folder / f"{step}.csv"

    def _set(self, name: str, value: int) -> None:
        self._state.execute("INSERT OR REPLACE INTO number VALUES (?, ?)", (name, value))

    def _found(self, query: str, *given: str) -> list[Any]:
        with self._guarded():
            return self._state.execute(query, given).fetchall()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turns errors of the state and of the file system into refusals."""
        with guarded(self._ledger):
            try:
                yield
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                raise self._unknown() from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._state.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._state.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # sqlite may have done so, and the error that is under way is the one to tell
                self._state.execute("ROLLBACK")
            raise


def _unusable(where: Path, because: str) -> LedgerError:
    return LedgerError(
        "E0840",
        "what was taken in before cannot be used",
        where=str(where),
        because=because,
        help="restore the whole folder from a copy; or move it away, if these rows may be left out",
    )


def _written(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows as lines of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _holds(file: Path, length: int) -> bool:
    return file.is_file() and file.stat().st_size >= length


def _private(path: Path, flags: int) -> int:
    """A file that is made for its owner alone, open to be written."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | flags, PRIVATE_MODE)
