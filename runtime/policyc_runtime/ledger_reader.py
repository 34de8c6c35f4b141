"""A ledger that is looked at: opened, its chain and head checked, and its entries read.

Whoever only reads one opens it here, needs no key, and changes nothing. What a run writes is in `ledger.py`, by which
everything that is read before an entry is added is read here, too.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from policyc_runtime.carried import Carried, left_of_text
from policyc_runtime.errors import LedgerError
from policyc_runtime.file_identity import Identity
from policyc_runtime.ledger_chain import checked_entries
from policyc_runtime.ledger_checkpoint import Checkpoint
from policyc_runtime.ledger_entry import AHEAD, Entry, StoredValues, genesis
from policyc_runtime.ledger_file import (
    APPLICATION,
    FORMAT,
    RESTORE,
    VERSION,
    altered,
    check_tables,
    connect,
    damaged,
    guarded,
    lost,
    recovered,
    require_files,
)
from policyc_runtime.ledger_seal import Seals, State, file_identity, file_sha256, left_of_entries


class LedgerReader:
    """A ledger open for reading; use it in a `with` statement.

    `entries` are those of released steps from `first` on, in order, checked. `ahead` has those of steps whose noise was
    drawn because earlier ones were to see it, before their own values could be published. `state` is that of all of
    them; `sha256` is that of the file when it was last looked at.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, pin: Path | None = None) -> None:
        self.path = path
        self.seals = Seals(path, pin)
        self.steps = 0  # how many were released
        self.values: dict[str, list[StoredValues]] = {}  # by release, what `entries` say of its steps, in pieces
        self._kept: list[Entry] | None = []
        self.ahead: list[Entry] = []
        self.meta: dict[str, str] = {}
        self._connection = connection
        self.state = State()
        self.first = 0
        self.left: Carried = {}  # what the steps before the first left, where they were not read
        self.sha256 = ""
        self.identity: Identity | None = None  # of the file that has it
        self._skipped = 0  # so many entries were not read, as nothing needs them
        self._trusted = 0  # so many entries are as a run left them that had checked them
        self._history = ("", "")

    @staticmethod
    def open_read_only(
        path: str | Path,
        pin: Path | None = None,
        *,
        checkpoint: Checkpoint | None = None,
        latest: int | None = None,
    ) -> LedgerReader:
        """Open a ledger to look at it; nothing is created or changed, and no key is needed.

        Its `meta` is empty where a run was killed before it could begin one.

        Raises:
            LedgerError: missing, damaged or altered.
        """
        file = Path(path)
        require_files(file, pin)
        if not file.is_file():
            if (witness := left_of_entries(file, pin)) is not None:
                raise lost(file, witness)
            raise LedgerError("E0820", "there is no ledger here", where=str(file), help="name the ledger of the run")
        with guarded(file), tempfile.TemporaryDirectory() as folder:
            try:
                return LedgerReader._looked_at(file, file, pin, checkpoint, latest)
            except sqlite3.OperationalError as error:  # what a killed run began has to be undone, by who may write
                if "locked" in str(error):
                    raise
                return LedgerReader._looked_at(file, recovered(file, folder), pin, None, None)

    @staticmethod
    def _looked_at(
        path: Path, file: Path, pin: Path | None, checkpoint: Checkpoint | None, latest: int | None
    ) -> LedgerReader:
        """A ledger as a file has it, which may be a copy of the one at a path."""
        ledger = LedgerReader(path, connect(file.absolute().as_uri() + "?mode=ro"), pin)
        with ledger._closing_on_error():
            ledger._connection.execute("BEGIN")
            tables = ledger._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables or left_of_entries(path, pin) is not None:
                ledger._trust(file, checkpoint, latest)
                ledger._read()
            ledger._connection.execute("COMMIT")
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def _hash(self) -> str:
        """Of the last entry, or of what is told before the first."""
        return self.state.hash or genesis(self.meta)

    @property
    def start(self) -> int | None:
        """The moment of step 0, microseconds since 1970, fixed by the first run; None when not known."""
        return int(self.meta["start"]) if self.meta.get("start") else None

    @property
    def entries(self) -> list[Entry]:
        """All at once of `released`."""
        return list(self.released()) if self._kept is None else self._kept

    def released(self, after: int = 0) -> Iterator[Entry]:
        """Entries of released steps, those after the first `after` of all; a run reads and checks them again.

        Raises:
            LedgerError: altered since they were read first.
        """
        if self._kept is not None:
            yield from self._kept
            return
        end = begun = State(max(after, self._skipped), genesis(self.meta))
        if begun.entries:
            with guarded(self.path):
                found = self._connection.execute("SELECT hash FROM entry WHERE number = ?", begun[:1]).fetchone()
            end = begun = begun._replace(hash=found[0] if found else "")
        for entries, state in checked_entries(self._connection, self.path, begun, self._trusted, self.state.entries):
            yield from (entry for entry in entries if not entry.release.endswith(AHEAD))
            end = state
        if end != (self.state.entries, self._hash):
            raise altered(self.path, f"the end of the chain, after entry {end.entries}")

    @property
    def unspent(self) -> bool:
        """Whether nothing was ever drawn: such a ledger protects nothing, and the plan that runs next takes it."""
        return not self.state.entries and left_of_entries(self.path, self.seals.pin) is None

    @property
    def history(self) -> tuple[str, str]:
        """The marks that a private history of this ledger may have: as it was, and as it was about to be."""
        return self._history

    def holds(self, state: State) -> bool:
        """Whether this ledger was in a state once: it has the last entry of it, which is tied to all before."""
        with guarded(self.path):
            asked = "SELECT hash FROM entry WHERE number = ?"
            found = self._connection.execute(asked, (state.entries,)).fetchone()
        return (found[0] if found else "") == state.hash

    def drawn(self, release: str) -> list[Entry]:
        """What was drawn for one release, by step: with its released steps those that still wait."""
        released = [entry for entry in self.released() if entry.release == release]
        return released + [entry for entry in self.ahead if entry.release == release and entry.step >= len(released)]

    def _take(self, entries: Iterable[Entry]) -> None:
        """Know the next entries, which were checked or are right."""
        by_release: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.release.endswith(AHEAD):
                self.ahead.append(entry._replace(release=entry.release.removesuffix(AHEAD)))
                continue
            by_release.setdefault(entry.release, []).append(entry)
            self.steps = entry.step + 1
            if self._kept is not None:
                self._kept.append(entry)
        for release, taken in by_release.items():
            self.values.setdefault(release, []).append(StoredValues.of(taken))

    def _trust(self, file: Path, checkpoint: Checkpoint | None, latest: int | None) -> None:
        """Check no entry again where the file is as a run noted it; of so many last steps, or some more, are they read.

        All of them are where the note does not say what those before left.
        """
        self._look(file, checkpoint)
        if checkpoint is None or not self.sha256 or checkpoint.sha256 != self.sha256:
            return
        self._trusted = checkpoint.entries
        if latest is None or not checkpoint.entries:
            return
        first = int(self._connection.execute("SELECT max(step) FROM entry").fetchone()[0]) + 1 - latest
        left = left_of_text(checkpoint.left)
        if left and checkpoint.first > first:
            return
        first = checkpoint.first if left else min(first, checkpoint.first)
        asked = "SELECT * FROM entry WHERE step >= ? ORDER BY +number"  # by the index of steps, not all in order
        rows = self._connection.execute(asked, (first,)).fetchall()
        self.state, self.steps = checkpoint.state, int(rows[-1][1]) + 1
        self._skipped, self.first, self.left = int(rows[0][0]) - 1, int(rows[0][1]), left
        self._take(Entry(*fields) for _, *fields, _ in rows)

    def _look(self, file: Path, checkpoint: Checkpoint | None = None) -> None:
        """Know the file as it is; one of which the system tells what a run noted is not read."""
        before = file_identity(self._connection, file)
        if before is not None and checkpoint is not None and checkpoint.identity == before.text:
            self.sha256, self.identity = checkpoint.sha256, before
            return
        self.sha256 = file_sha256(self._connection, file)
        self.identity = before if before == file_identity(self._connection, file) else None

    def _read(self) -> None:
        """Read what is new and check it: the file's form, the chain, the head."""
        if self._connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise damaged(self.path, "it is not a ledger", "name the ledger of the run")
        self.meta = dict(self._connection.execute("SELECT name, value FROM meta"))
        if (self.meta.get("format"), self.meta.get("version")) != (FORMAT, VERSION):
            raise damaged(
                self.path, "it was written by another version", "use the version that wrote it, or a newer one"
            )
        if not all(isinstance(said, str) for said in self.meta.values()):
            raise damaged(self.path, "it says of itself what no run writes", RESTORE)
        if not self._trusted and not self.state.entries:
            fault = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if fault != "ok":
                raise damaged(self.path, "parts of the file are damaged", RESTORE)
        begun = self.state._replace(hash=self._hash)
        for entries, state in checked_entries(self._connection, self.path, begun, self._trusted):
            self._take(entries)
            self.state = state
        head = self._connection.execute("SELECT entries, hash, history, coming_history FROM head").fetchall()
        if [row[:2] for row in head] != [self.state]:
            raise altered(self.path, f"the end of the chain, after entry {self.state.entries}")
        self._history = head[0][2:]
        check_tables(self._connection, self.path)

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._connection.close()
            raise
