"""The entries of a ledger's file, read in pieces, each tied to the one before it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from policyc_runtime.ledger_entry import Entry, chained
from policyc_runtime.ledger_file import altered, guarded
from policyc_runtime.ledger_seal import State

PIECE = 4096  # entries that are read at a time
LAST = 2**63 - 1  # number that an entry can have


def checked_entries(
    connection: sqlite3.Connection, path: Path, begun: State, trusted: int, until: int = LAST
) -> Iterator[tuple[list[Entry], State]]:
    """The entries after a state, and the state after each piece; nothing is left open where a reader stops.

    Args:
        connection: of the file.
        path: how messages name it.
        begun: how many entries stand before, and what the first one that is read is tied to.
        trusted: so many entries need no check of their hashes.
        until: the number of the last one that is read; default the last there is.

    Raises:
        LedgerError: E0823, altered; damaged.
    """
    last, digest = begun
    while True:
        with guarded(path):
            rows = connection.execute(
                "SELECT * FROM entry WHERE number > ? AND number <= ? ORDER BY number LIMIT ?", (last, until, PIECE)
            ).fetchall()
        if not rows:
            return
        entries = []
        for number, *fields, stored in rows:
            entry = Entry(*fields)
            if number != last + 1 or (number > trusted and chained(digest, number, entry) != stored):
                raise altered(path, f"entry {number}, step {entry.step} of `{entry.release}`")
            entries.append(entry)
            last, digest = number, stored
        yield entries, State(last, digest)
