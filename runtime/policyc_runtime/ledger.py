"""What was released and what it cost: an append-only, hash-chained sqlite file.

A step is released at most once. Its noise is drawn inside the transaction that stores it, and nothing is published
before that transaction is on disk; a second run finds the entry and returns it. Each entry carries the SHA-256 of the
entry before it and of its own content; the head (how many entries, the last hash) changes in the same transaction, so
altered, missing and cut-off entries are found; older copies, and bytes that no entry uses, by the seals outside of the
file (`ledger_seal.py`). Whoever rewrites all of them consistently is not found: keep the published output, or a copy.

An entry holds noisy and published values, and a fingerprint of the data behind the step, never raw data. The
fingerprint is an HMAC under a random key in a private file (`private/<ledger>.key`): counts are few enough to try them
all, so a plain hash of them would give them away to every reader of the ledger. Verification needs no key.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import accumulate, chain, islice
from pathlib import Path
from types import TracebackType

from policyc_runtime.carried import Carried, left_as_text
from policyc_runtime.errors import LedgerError
from policyc_runtime.files import clear_drafts
from policyc_runtime.ledger_checkpoint import Checkpoint
from policyc_runtime.ledger_entry import AHEAD, Entry, chained
from policyc_runtime.ledger_file import (
    APPLICATION,
    FORMAT,
    STATEMENTS,
    SYSTEM,
    VERSION,
    check_owner,
    connect,
    guarded,
    lost,
    policy_hash,
    require_files,
)
from policyc_runtime.ledger_private import check_value, checkpoint_file, load_key, private_files
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.ledger_seal import (
    LEDGER,
    OLDER,
    Seal,
    State,
    another_ledger,
    left_beside,
    left_of_entries,
    not_as_left,
    read_seal,
)
from policyc_runtime.output_place import require_beside
from policyc_runtime.plan import Plan

PIECE = 4096  # entries that are made and added at a time


class Ledger(LedgerReader):
    """A ledger that a run adds entries to; the end of its `with` statement puts a seal on the file.

    A run, whose stream may be long, keeps of entries what is in `values`, and reads the rest again where it is needed.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, pin: Path | None = None) -> None:
        super().__init__(path, connection, pin)
        self._kept = None
        self._expected: dict[str, str] = {}  # what a run wants the ledger to be of
        self._key = b""
        self._keyed: hmac.HMAC | None = None  # has taken in the key; what is marked with it continues a copy

    @classmethod
    def open(
        cls,
        path: str | Path,
        plan: Plan,
        *,
        generator: str = SYSTEM,
        outputs: Iterable[str | Path] = (),
        pin: Path | None = None,
        checkpoint: Checkpoint | None = None,
        latest: int | None = None,
    ) -> Ledger:
        """Open a ledger for a run, or begin one.

        Args:
            path: the sqlite file; its key lives in a folder `private` beside it.
            plan: the plan that is run; a ledger belongs to one plan.
            generator: where noise comes from, and for what; only the system's for real events is a release.
            outputs: releases of this plan, where there are any; one without a ledger means that the ledger was lost.
            pin: the file by which the plan's directory names its one ledger; default that of a ledger which lies in
                such a directory.
            checkpoint: what its last run noted; where the file is so to the byte, its entries need no check again.
            latest: of so many released steps, >= 1, are entries read where that holds; default all.

        Raises:
            LedgerError: lost, busy, damaged, altered, an older copy, of another plan, or the plan has another one.
        """
        file, written = Path(path), [Path(place) for place in outputs]
        require_files(file, pin)
        require_beside(written, file, pin)
        own = file if pin is None else pin.with_name(LEDGER)
        if _whole(own) != _whole(file) and (left := left_beside(own)) is not None:
            raise another_ledger(file, own) if own.exists() else lost(own, left)
        witness = left_of_entries(file, pin) or next((place for place in written if place.exists()), None)
        if witness is not None and not (file.exists() and file.stat().st_size > 0):
            raise lost(file, witness)
        with guarded(file):
            ledger = cls(file, connect(file.absolute().as_uri() + "?mode=rwc"), pin)
            with ledger._closing_on_error():
                ledger._connection.execute("PRAGMA synchronous = EXTRA")
                for place in (*ledger.seals.files, *private_files(file)):
                    clear_drafts(place)
                with ledger._writing():
                    ledger._begin_or_check(plan, generator, checkpoint, latest)
                if ledger.state.entries:
                    ledger._load_key()
        return ledger

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.seal()
            else:
                with suppress(LedgerError):  # the refusal that is under way is the one to tell
                    self.seal()
        finally:
            super().__exit__(kind, error, trace)

    def seal(self) -> None:
        """Close the seals with the SHA-256 of the file, where this run or a killed one left them open."""
        with self.transaction(), guarded(self.path):
            open_seals = [seal for seal in map(read_seal, self.seals.files) if seal is not None and not seal.sha256]
            if open_seals:
                self._look(self.path)
                self.seals.write(Seal.of(self.meta["ledger"], self.state, self.state, self.sha256))

    def checkpoint(self, first: int, left: Carried) -> Checkpoint:
        """What a run may note once it has sealed the file, and published files; what steps before the `first` left."""
        told = "" if self.identity is None else self.identity.text
        name, text = self.meta["ledger"], left_as_text(left)
        return Checkpoint(name, *self.state, self.steps, self.sha256, told, {}, first, text)

    def let_go(self, first: int, left: Carried) -> None:
        """Know of released steps those from `first` on alone, outside of a transaction; what those before them left."""
        asked = "SELECT number FROM entry WHERE number > ? AND +step >= ? ORDER BY number LIMIT 1"  # not by their index
        with guarded(self.path):
            self._skipped = self._connection.execute(asked, (self._skipped, first)).fetchone()[0] - 1
        for release, pieces in self.values.items():
            begins = accumulate((piece.steps for piece in pieces), initial=self.first)
            self.values[release] = [
                piece if begin >= first else piece.after(first - begin)
                for begin, piece in zip(begins, pieces, strict=False)
                if begin + piece.steps > first
            ]
        self.first, self.left = first, left

    def note_history(self, mark: str, coming: str) -> None:
        """Remember, inside a transaction, what mark the private history has, and which one it is about to have."""
        self._announce(self.state)
        with guarded(self.path):
            self._connection.execute("UPDATE head SET history = ?, coming_history = ?", (mark, coming))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Alone with the ledger, with every entry that others wrote read and checked; on disk when it ends."""
        with self._writing():
            with guarded(self.path):
                self._read()
            check_owner(self.path, self.meta, self._expected)  # another run may have taken it over while empty
            yield

    def append(self, entries: Iterable[Entry], start: int | None, ahead: Iterable[Entry] = ()) -> None:
        """Add entries inside a transaction; the first ones fix the start of the stream, and the key.

        Args:
            entries: of steps that are released; made as they are taken, as those of a long stream are large.
            start: the moment of step 0, microseconds since 1970.
            ahead: of steps whose noise was drawn, and whose values have to wait.
        """
        if not self.state.entries:
            if not self._key:
                self._load_key()
            self._put_meta({"start": "" if start is None else str(start), "key": check_value(self._key)})
        was, number, digest = self.state, self.state.entries, self._hash
        coming = chain(entries, (entry._replace(release=entry.release + AHEAD) for entry in ahead))
        while piece := list(islice(coming, PIECE)):
            rows = []
            for entry in piece:
                number += 1
                digest = chained(digest, number, entry)
                rows.append((number, *entry, digest))
            with guarded(self.path):
                self._connection.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            self._take(piece)
        if number > was.entries:
            self.state = State(number, digest)
        self._announce(was)
        with guarded(self.path):
            self._connection.execute("UPDATE head SET entries = ?, hash = ?", (self.state.entries, self._hash))

    def fingerprint(self, step: int, digest: str) -> str:
        """The keyed fingerprint of the data behind one step, hexadecimal; inside a transaction before any entry."""
        if self._keyed is None:
            if not self._key:
                self._load_key()
            self._keyed = hmac.new(self._key, digestmod="sha256")
        marked = self._keyed.copy()
        marked.update(f"{step}|{digest}".encode())
        return marked.hexdigest()

    def _load_key(self) -> None:
        """The key is made in the transaction of the first entries, so that a lone key means a lost ledger."""
        with guarded(self.path):
            self._key = load_key(self.path, self.meta["key"] if self.state.entries else None)

    def _announce(self, was: State) -> None:
        """Let the seals say what the transaction that is under way found, and what it will leave."""
        with guarded(self.path):
            self.seals.write(Seal.of(self.meta["ledger"], was, self.state, ""))

    def _begin_or_check(self, plan: Plan, generator: str, checkpoint: Checkpoint | None, latest: int | None) -> None:
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        self._expected = {
            "format": FORMAT,
            "version": VERSION,
            "plan": plan.digest,
            "policy": policy_hash(plan),
            "generator": generator,
        }
        if tables == 0:
            if (witness := left_of_entries(self.path, self.seals.pin)) is not None:
                raise lost(self.path, witness)
            self._begin()
            return
        self._trust(self.path, checkpoint, latest)
        self._read()
        if checkpoint is not None and checkpoint.is_of_more(self.meta["ledger"], self.state):
            raise not_as_left(self.path, f"{OLDER}, says `{checkpoint_file(self.path)}`")
        mine = all(self.meta.get(name) == value for name, value in self._expected.items())
        if self.unspent:
            if not mine:
                for table in ("entry", "head", "meta"):
                    self._connection.execute(f"DROP TABLE {table}")
                self._begin()
            else:
                self._announce(self.state)
            return
        check_owner(self.path, self.meta, self._expected)
        self.seals.require(self.meta["ledger"], self.state, self.sha256)

    def _begin(self) -> None:
        self.meta = {"ledger": secrets.token_hex(16)}
        self._announce(self.state)  # before the ledger, so that a ledger without a seal is one that lost it
        for statement in STATEMENTS:
            self._connection.execute(statement)
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self._connection.execute("INSERT INTO head VALUES (1, 0, '', '', '')")
        self._put_meta({**self._expected, **self.meta})

    def _put_meta(self, values: Mapping[str, str]) -> None:
        with guarded(self.path):
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", list(values.items()))
        self.meta.update(values)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        known, ahead = (self.state, self.steps), len(self.ahead)
        values = {release: len(pieces) for release, pieces in self.values.items()}
        with guarded(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with guarded(self.path):
                self._connection.execute("COMMIT")
        except BaseException:
            self.state, self.steps = known
            del self.ahead[ahead:]
            for release, pieces in self.values.items():
                del pieces[values.get(release, 0) :]
            with suppress(sqlite3.Error):  # where this fails, whoever opens the file next undoes what was begun
                self._connection.execute("ROLLBACK")
            raise


def _whole(file: Path) -> Path:
    """A file's own name in the one directory that a way leads to, however that is spelt."""
    return Path(os.path.realpath(file.parent), file.name)
