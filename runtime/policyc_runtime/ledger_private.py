"""The folder `private/` beside a ledger: what only the owner of the data may see, and no auditor needs.

The key of the ledger's fingerprints, what runs on new rows keep of earlier ones (`sources/history.py`), and what a
participation bound cut. The ledger knows the key and the history by a check value each, so a changed one is found.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from policyc_runtime.errors import LedgerError
from policyc_runtime.files import PRIVATE_MODE, scratch, sync_directory, write_bytes

PRIVATE = "private"
KEY_BYTES = 32


def private_file(ledger: str | Path, kind: str) -> Path:
    """Where a private file of a ledger lies."""
    path = Path(ledger)
    return path.parent / PRIVATE / f"{path.name}.{kind}"


def key_file(ledger: str | Path) -> Path:
    """Where the key of a ledger lies."""
    return private_file(ledger, "key")


def history_file(ledger: str | Path) -> Path:
    """Where the data of a ledger's steps is kept for runs on new rows."""
    return private_file(ledger, "history")


def steps_file(ledger: str | Path) -> Path:
    """Where that data is of each step that was taken in (`taken_steps.py`)."""
    return private_file(ledger, "steps")


def dropped_file(ledger: str | Path) -> Path:
    """Where a run notes what a participation bound cut from its data."""
    return private_file(ledger, "private.json")


def checkpoint_file(ledger: str | Path) -> Path:
    """Where a run notes what it left (`ledger_checkpoint.py`)."""
    return private_file(ledger, "checkpoint")


def private_files(ledger: str | Path) -> tuple[Path, ...]:
    """Where all of them lie."""
    kinds = (key_file, history_file, steps_file, dropped_file, checkpoint_file)
    return tuple(file(ledger) for file in kinds)


def make_private(file: Path) -> Path:
    """A private file's path, whose folder is there for its owner alone."""
    if not file.parent.is_dir():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        sync_directory(file.parent.parent)
    return file


@contextmanager
def spill_folder(ledger: str | Path) -> Iterator[Path]:
    """A folder for data of a run that does not fit into memory, gone when the run is."""
    with scratch(make_private(private_file(ledger, "data"))) as folder:
        yield folder


def write_dropped(ledger: Path, steps: int, dropped: Mapping[str, int]) -> None:
    """Note what a participation bound cut from the data, anew in every run.

    Args:
        ledger: the ledger's file.
        steps: over how many steps.
        dropped: how many users, participations and events.
    """
    note = {"note": "protected data: never publish", "steps": steps, "dropped": dict(dropped)}
    file = make_private(dropped_file(ledger))
    write_bytes(file, json.dumps(note, indent=1).encode(), PRIVATE_MODE)


def load_key(ledger: Path, check: str | None) -> bytes:
    """The key of a ledger; made once, whole or not at all, readable by the owner only.

    Args:
        ledger: the ledger's file.
        check: its check value in the ledger; None before the first entry, when a missing key is made.

    Raises:
        LedgerError: E0822, the key is missing; E0847, it is another one.
    """
    file = key_file(ledger)
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        if check is not None:
            raise LedgerError(
                "E0822",
                "the key of this ledger is missing",
                where=str(file),
                because="without it nobody can tell whether the data of a released step changed",
                help="restore the file from a copy; it was written beside the ledger at the first run",
            ) from None
        key = secrets.token_bytes(KEY_BYTES)
        write_bytes(make_private(file), key, PRIVATE_MODE)
    if len(key) != KEY_BYTES or (check is not None and not hmac.compare_digest(check_value(key), check)):
        raise LedgerError(
            "E0847",
            "the key of this ledger was changed",
            where=str(file),
            because="it is not the one whose check value the ledger has; without that one nobody can tell whether the "
            "data of a released step changed",
            help="restore the file from a copy; nothing was drawn",
        )
    return key


def check_value(key: bytes) -> str:
    """What the ledger says of its key: it shows a changed one, and tells nothing of it."""
    return hmac.new(key, b"the key of a policyc ledger", hashlib.sha256).hexdigest()


def file_mark(file: Path) -> str:
    """What the ledger says of a private file that holds a random key itself; empty where there is none."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
