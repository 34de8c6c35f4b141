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
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from policyc_runtime.file_identity import Identity, settled
from policyc_runtime.files import PRIVATE_MODE
from policyc_runtime.ledger_file import BUSY_SECONDS
from policyc_runtime.ledger_private import history_file, steps_file
from policyc_runtime.ledger_seal import file_identity

SCHEMA = "CREATE TABLE step (step INTEGER PRIMARY KEY, counts TEXT NOT NULL, digest TEXT NOT NULL, rows TEXT NOT NULL)"
PIECE = 1024  # steps whose digest is taken together
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

    def add(self, steps: Iterable[tuple[int, str, str, str]]) -> None:
        """Write more steps, by number, with what they counted, a digest of it, and one of their rows."""
        if not self.file.in_transaction:
            self.file.execute("BEGIN IMMEDIATE")
            self.file.execute("DELETE FROM step WHERE step >= ?", (self.steps,))
        self.file.executemany("INSERT INTO step VALUES (?, ?, ?, ?)", steps)
        self.steps = int(self.file.execute("SELECT coalesce(max(step) + 1, 0) FROM step").fetchone()[0])

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
