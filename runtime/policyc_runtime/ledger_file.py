"""The file a ledger lives in: its tables, its key, its rights, and what is refused about it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from policyc_runtime.errors import LedgerError
from policyc_runtime.plan import Plan, canonical_json

FORMAT = "policyc-ledger"
VERSION = "2"
APPLICATION = 0x706F6C79
BUSY_SECONDS = 10.0
KEY_BYTES = 32

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), entries INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE entry (
  number INTEGER PRIMARY KEY, step INTEGER NOT NULL, release TEXT NOT NULL, noisy TEXT NOT NULL,
  published TEXT NOT NULL, data TEXT NOT NULL, epsilon TEXT NOT NULL, scale TEXT NOT NULL,
  process TEXT NOT NULL, hash TEXT NOT NULL,
  UNIQUE (step, release));
CREATE TRIGGER entry_kept BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never removed'); END;
CREATE TRIGGER entry_fixed BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER meta_kept BEFORE DELETE ON meta BEGIN SELECT RAISE(ABORT, 'nothing is removed'); END;
CREATE TRIGGER meta_fixed BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'nothing is changed'); END;
"""


STATEMENTS = tuple(
    text.replace("\0", ";").strip() for text in SCHEMA.replace("; END", "\0 END").split(";\n") if text.strip()
)
RESTORE = "restore the file from a copy; never start a new ledger for steps that were published"


def key_file(path: str | Path) -> Path:
    """Where the key of a ledger lives."""
    return Path(f"{path}.key")


def connect(uri: str) -> sqlite3.Connection:
    """An sqlite connection without implicit transactions."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """The tables are those of a ledger, and the triggers that keep their rows are there; LedgerError otherwise."""
    found = {text for (text,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found != set(STATEMENTS):
        raise altered(path, "its tables, or the rules that keep their rows")


def policy_hash(plan: Plan) -> str:
    """One hash of the policy file and of all files it refers to."""
    return hashlib.sha256(
        canonical_json([plan.policy.source.sha256, *(file.sha256 for file in plan.policy.files)])
    ).hexdigest()


def write_private(ledger: Path, steps: int, dropped: Mapping[str, int]) -> Path:
    """Note beside a ledger what a participation bound cut from the data, for the owner alone: it is protected data.

    Args:
        ledger: the ledger's file; the note is `<ledger>.private.json`, written anew by every run.
        steps: over how many steps.
        dropped: how many users, participations and events.
    """
    file = Path(f"{ledger}.private.json")
    beside = file.with_name(file.name + ".new")
    beside.unlink(missing_ok=True)
    note = {"note": "protected data: never publish", "steps": steps, "dropped": dict(dropped)}
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as handle:
        json.dump(note, handle, indent=1)
    beside.replace(file)
    return file


def load_key(path: Path, create: bool) -> bytes:
    """The key of a ledger; made once, whole or not at all, readable by the owner only."""
    file = key_file(path)
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        if not create:
            raise LedgerError(
                "E0822",
                "the key of this ledger is missing",
                where=str(file),
                because="without it nobody can tell whether the data of a released step changed",
                help="restore the file from a copy; it was written beside the ledger at the first run",
            ) from None
        key = secrets.token_bytes(KEY_BYTES)
        beside = file.with_name(file.name + ".new")
        beside.unlink(missing_ok=True)
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            handle.write(key)
            handle.flush()
            os.fsync(handle.fileno())
        beside.replace(file)
    if len(key) != KEY_BYTES:
        raise damaged(file, "the key does not have its length", RESTORE)
    return key


def check_owner(path: Path, meta: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Nothing when the ledger is of this plan and kind of noise; LedgerError says what differs."""
    other = next((name for name in ("policy", "plan", "generator") if meta.get(name) != expected[name]), None)
    if other == "generator":
        raise LedgerError(
            "E0828",
            "simulated and released steps do not share a ledger",
            where=str(path),
            help="use another ledger",
        )
    if other is not None:
        raise LedgerError(
            "E0821",
            "the ledger belongs to another policy" if other == "policy" else "the ledger belongs to another plan",
            where=str(path),
            because="what it spent was spent under that one; steps released under two plans cost the sum of both",
            help="run the plan it belongs to; a new ledger is right only for a stream of which nothing was published",
        )


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turns sqlite's and the file system's errors into refusals."""
    try:
        yield
    except sqlite3.OperationalError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise LedgerError(
                "E0824",
                "the ledger is busy",
                where=str(path),
                because=f"another process has held it for more than {BUSY_SECONDS:.0f} seconds",
                help="wait until the other run is done, then run again",
            ) from None
        if "readonly" in text:
            remedy = "run the plan again, with leave to write: an interrupted run is then undone"
            raise damaged(path, "it must be written to, and may not be", remedy) from None
        raise damaged(path, "it cannot be opened, or written to", "check the directory, its rights and space") from None
    except sqlite3.DatabaseError:
        raise damaged(path, "it is not a whole ledger: truncated, or another kind of file", RESTORE) from None
    except OSError:
        raise damaged(path, "its key cannot be read or written", "check the directory, its rights and space") from None


def damaged(path: Path, reason: str, remedy: str) -> LedgerError:
    """The refusal of a file that cannot be used."""
    return LedgerError("E0820", "the ledger cannot be used", where=str(path), because=reason, help=remedy)


def altered(path: Path, place: str) -> LedgerError:
    """The refusal of a broken chain."""
    return LedgerError(
        "E0823",
        "the ledger was altered",
        where=f"{path}: {place}",
        because="the hash there does not follow from what stands before it",
        help=RESTORE,
    )


def lost(path: Path, witness: Path) -> LedgerError:
    """The refusal to begin anew where something is left of an earlier run."""
    return LedgerError(
        "E0822",
        "the ledger is lost",
        where=str(path),
        because=f"`{witness}` is left of an earlier run; drawing noise for the same steps again would give them away",
        help=f"restore the ledger from a copy; only if nothing was ever published, move `{witness}` away",
    )
