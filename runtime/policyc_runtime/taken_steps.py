"""What each step counted that earlier runs took in: a private file beside the history, to which steps are added.

No step is ever changed, so the history says what the file holds by a digest that goes on with each, and by what the
system tells of the file: its steps are read again only where somebody may have changed them. Steps beyond those that
the history knows of are what a killed run left, and go.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.file_identity import Identity, settled
from policyc_runtime.files import PRIVATE_MODE
from policyc_runtime.ledger_file import BUSY_SECONDS
from policyc_runtime.ledger_private import history_file, steps_file
from policyc_runtime.ledger_seal import file_identity

if TYPE_CHECKING:
    from policyc_runtime.sources.stored_counts import Counts

SCHEMA = "CREATE TABLE step (step INTEGER PRIMARY KEY, counts TEXT NOT NULL, digest TEXT NOT NULL, rows TEXT NOT NULL)"
PIECE = 1024  # steps whose digest is taken together
AT_ONCE = 4096  # steps that are written or read at a time
TAKEN = "taken"  # what `meta` of a history calls it


class Taken(NamedTuple):
    """What a history says of the file.

    Args:
        steps: how many it has: 0, 1, ... without gaps.
        pieces: the SHA-256 of each whole piece of steps, with this of those before it; empty without any.
        sha256: the same of what is left after them, which is all of the steps.
        identity: what the system tells of the file; empty where that may leave out a change.
    """

    steps: int = 0
    pieces: str = ""
    sha256: str = ""
    identity: str = ""

    @classmethod
    def of_text(cls, text: str) -> Taken:
        """What `text` says."""
        return cls(*json.loads(text))

    @property
    def text(self) -> str:
        """The same for a history."""
        return json.dumps(self)


class TakenSteps:
    """The file, open until it is closed; what is added is there once it is kept."""

    def __init__(self, ledger: str | Path, taken: Taken) -> None:
        """Open the file of a ledger, begun where there is none.

        Args:
            ledger: the ledger's file.
            taken: what the history says of it.
        """
        self.path = steps_file(ledger)
        self.steps = taken.steps
        os.close(os.open(self.path, os.O_CREAT | os.O_RDONLY, PRIVATE_MODE))
        self.file = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        self._taken = taken
        self._left: Identity | None = None

    def close(self) -> None:
        """Let it go, without what was not kept."""
        self.file.close()

    def are_taken(self) -> bool:
        """Whether the first steps are those that the history tells; not read where nobody can have changed them."""
        identity = file_identity(self.file, self.path)
        tables = [sql for (sql,) in self.file.execute("SELECT sql FROM sqlite_master")]
        if not self.steps:
            self.file.execute(SCHEMA.replace("TABLE", "TABLE IF NOT EXISTS"))
            return tables in ([], [SCHEMA])
        if identity is not None and identity.text == self._taken.identity:
            return True
        self._taken = self._taken._replace(identity="")
        return tables == [SCHEMA] and _digests(self.file, self.steps) == self._taken[1:3]

    def add(self, counts: Mapping[str, Counts], digests: Sequence[str], rows: Mapping[int, str] | None) -> None:
        """Write the steps after those that are there.

        Args:
            counts: by release, (steps, cells) of all steps.
            digests: one for each of these.
            rows: what tells the rows of each step that has any; None for its digest.
        """
        if len(digests) <= self.steps:
            return
        if not self.file.in_transaction:
            self.file.execute("BEGIN IMMEDIATE")
            self.file.execute("DELETE FROM step WHERE step >= ?", (self.steps,))
        names = list(map(json.dumps, counts))
        for begin in range(self.steps, len(digests), AT_ONCE):
            piece = slice(begin, min(begin + AT_ONCE, len(digests)))
            columns = zip(*(values[piece].tolist() for values in counts.values()), strict=True)
            # of lists of numbers Python's text is JSON's
            told = (f"{{{', '.join(map('{}: {}'.format, names, row))}}}" for row in columns)
            taken = zip(range(begin, piece.stop), told, digests[piece], strict=True)
            steps = ((*step, step[2] if rows is None else rows.get(step[0], "")) for step in taken)
            self.file.executemany("INSERT INTO step VALUES (?, ?, ?, ?)", steps)
        self.steps = len(digests)

    def counted(self, cells: Mapping[str, int], since: int, until: int) -> tuple[dict[str, Counts], tuple[str, ...]]:
        """Counts before `until`, (until, cells) by release, and digests; of steps before `since` 0 and empty."""
        counts = {name: np.zeros((until, width), np.int64) for name, width in cells.items()}
        digests = [""] * since
        asked = "SELECT counts, digest FROM step WHERE step >= ? AND step < ? ORDER BY step"
        found = self.file.execute(asked, (since, until))
        while piece := found.fetchmany(AT_ONCE):
            parts = [json.loads(counted) for counted, _ in piece]
            here = slice(len(digests), len(digests) + len(piece))
            digests += [digest for _, digest in piece]
            for name, known in counts.items():
                known[here] = [part[name] for part in parts]
        return dict(counts), tuple(digests)

    def rows_of(self, step: int) -> str:
        """What tells the rows of a step that was taken in."""
        ((told,),) = self.file.execute("SELECT rows FROM step WHERE step = ?", (step,)).fetchall()
        return str(told)

    def with_rows(self) -> list[int]:
        """The steps that have rows."""
        asked = "SELECT step FROM step WHERE rows <> '' AND step < ?"
        return [int(step) for (step,) in self.file.execute(asked, (self.steps,))]

    def keep(self) -> Taken:
        """Put on disk what was added; what the history is to say of the file then."""
        added = self.file.in_transaction
        if added:
            pieces, sha256 = _digests(self.file, self.steps, self._taken)
            self._taken = Taken(self.steps, pieces, sha256)
            self.file.execute("COMMIT")
        self._left = file_identity(self.file, self.path)
        if not self._taken.identity and self._left is not None and settled({self.path: self._left}):
            self._taken = self._taken._replace(identity=self._left.text)
        return self._taken

    def are_kept(self) -> bool:
        """Whether nobody wrote to the file since `keep`."""
        return file_identity(self.file, self.path) == self._left


def _digests(file: sqlite3.Connection, steps: int, taken: Taken | None = None) -> tuple[str, str]:
    """`pieces` and `sha256` of the first so many steps; of whole pieces that were taken they are known."""
    taken = taken or Taken()
    pieces = taken.pieces
    for begin in range(taken.steps // PIECE * PIECE, steps + 1, PIECE):
        rows = file.execute(
            "SELECT step || ' ' || quote(counts) || ' ' || quote(digest) || ' ' || quote(rows) FROM step "
            "WHERE step >= ? AND step < ? ORDER BY step",
            (begin, min(begin + PIECE, steps)),
        )
        told = "\n".join(text for (text,) in rows)
        digest = hashlib.sha256(f"{pieces}\n{told}".encode()).hexdigest()
        if begin + PIECE > steps:
            break
        pieces = digest
    return pieces, digest


def taken_in(ledger: str | Path) -> Taken:
    """What the history of a ledger says of its steps; nothing where there is none, or none that can be read."""
    path = history_file(ledger)
    if not path.exists():
        return Taken()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            found = file.execute("SELECT value FROM meta WHERE name = ?", (TAKEN,)).fetchone()
            return Taken.of_text(found[0]) if found else Taken()
    except (sqlite3.Error, ValueError, TypeError):
        return Taken()


def steps_are_whole(ledger: str | Path) -> bool:
    """Whether the steps of a ledger are those that its history tells, all of them read again.

    Raises:
        OSError: they cannot be read.
    """
    taken = taken_in(ledger)
    if not taken.steps or not steps_file(ledger).exists():
        return not taken.steps
    try:
        with closing(sqlite3.connect(f"{steps_file(ledger).absolute().as_uri()}?mode=ro", uri=True)) as file:
            return _digests(file, taken.steps) == taken[1:3]
    except sqlite3.OperationalError as error:
        if "no such" in str(error):  # table: the file was emptied, or is of something else
            return False
        raise OSError from None  # a killed run's are to be undone, by who may write
    except sqlite3.Error:
        return False
