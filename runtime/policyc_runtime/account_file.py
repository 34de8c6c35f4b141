"""The file that an account lives in: its tables, how it is opened and waited for, and what is refused about it."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from policyc_runtime.errors import AccountError
from policyc_runtime.files import is_full

FORMAT = "policyc-account"
VERSION = "1"
APPLICATION = 0x706F6C61
BUSY_SECONDS = 60.0
BUSY, UNUSABLE, ALTERED = "E0892", "E0890", "E0891"
BROKEN = "it is not a whole account: truncated, altered, or another kind of file"
REFUSED_BY_SYSTEM = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM}
RESTORE = "restore the newest copy of the account; never begin a new one for plans that have run"

STATEMENTS = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE plan (digest TEXT PRIMARY KEY, text TEXT NOT NULL)",
    "CREATE TABLE entry (number INTEGER PRIMARY KEY, what TEXT NOT NULL, plan TEXT NOT NULL, ledger TEXT NOT NULL, "
    "moment TEXT NOT NULL, hash TEXT NOT NULL)",
    *(
        f"CREATE TRIGGER {table}_{rule} BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'entries are kept'); END"
        for table in ("meta", "plan", "entry")
        for rule, change in (("kept", "DELETE"), ("fixed", "UPDATE"))
    ),
)
EARLIER = frozenset(STATEMENTS)  # the tables of an account that was begun before ledgers' states were kept
REACHED = (
    "CREATE TABLE reached (ledger TEXT PRIMARY KEY, entries INTEGER NOT NULL, hash TEXT NOT NULL)",
    "CREATE TRIGGER reached_kept BEFORE DELETE ON reached BEGIN SELECT RAISE(ABORT, 'states are kept'); END",
    "CREATE TRIGGER reached_grows BEFORE UPDATE ON reached WHEN NEW.ledger != OLD.ledger OR NEW.entries <= OLD.entries "
    "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END",
)
REACH = (
    "INSERT INTO reached VALUES (?, ?, ?) "
    "ON CONFLICT (ledger) DO UPDATE SET entries = excluded.entries, hash = excluded.hash"
)


def begin_alone(connection: sqlite3.Connection) -> None:
    """Wait for all others; sqlite's own waits grow so long that among many some would never have their turn."""
    until = time.monotonic() + BUSY_SECONDS
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")  # for those who read
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.001 + 0.002 * random.random())  # noqa: S311  a wait, and no noise


def connect(file: Path, mode: str) -> sqlite3.Connection:
    """An sqlite connection without implicit transactions; `mode` is `rw` or `ro`."""
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turns errors of sqlite and of the file system into refusals."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            because = f"another process has held it for more than {BUSY_SECONDS:.0f} seconds"
            busy = "the account is busy"
            raise AccountError(BUSY, busy, where=str(path), because=because, help="run again") from None
        if is_full(error):
            raise unusable(path, "the disk is full", "make room, then run again; nothing was entered") from None
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in REFUSED_BY_SYSTEM:
            raise unusable(path, "it cannot be opened, or written to", "check its folder and rights") from None
        raise unusable(path, BROKEN, RESTORE) from None
    except sqlite3.DatabaseError:
        raise unusable(path, BROKEN, RESTORE) from None
    except OSError as error:
        remedy = "make room, then run again" if is_full(error) else "check its folder and rights"
        raise unusable(path, error.strerror or "the system refused", remedy) from None


def unusable(path: Path, reason: str, remedy: str) -> AccountError:
    """The refusal of a file that is no account, or cannot be used."""
    return AccountError(UNUSABLE, "the account cannot be used", where=str(path), because=reason, help=remedy)


def altered(path: Path, place: str) -> AccountError:
    """The refusal of a broken chain."""
    because = "the hash there does not follow from what stands before it"
    return AccountError(ALTERED, "the account was altered", where=f"{path}: {place}", because=because, help=RESTORE)
