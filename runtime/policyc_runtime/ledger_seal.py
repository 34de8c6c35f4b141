"""The seals of a ledger: what its last run left, told outside of its file.

The chain of entries finds every altered row. It cannot find an older copy of the whole file, which would draw steps
again that were published, nor bytes that no row uses. So a seal lies beside the ledger (`<ledger>.seal`), and a copy of
it, the pin (`ledger.pin`), in the directory of the plan: another ledger is not the plan's, wherever it lies.

A seal is written before every transaction that changes the ledger, and says what the ledger will be: a run that is
killed anywhere leaves a ledger in one of the two states that its seals name. At its end a run closes them with the
SHA-256 of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from policyc_check.claims import Claim
from policyc_runtime.errors import LedgerError
from policyc_runtime.file_identity import Identity, open_descriptor
from policyc_runtime.files import write_text
from policyc_runtime.ledger_private import key_file

PIN = "ledger.pin"
LEDGER = "ledger.sqlite"
PIECE = 2**20  # bytes
OLDER = "it has fewer entries than were there: it is an older copy"


class State(NamedTuple):
    """How many entries a ledger has, and the hash of the last of them, "" without any."""

    entries: int = 0
    hash: str = ""


class Seal(NamedTuple):
    """What a run left, or is about to leave.

    Args:
        ledger: the ledger's name for itself, random.
        entries: how many entries it had.
        hash: of the last of them, "" without any.
        coming: how many it has when the transaction that was begun is on disk.
        coming_hash: of the last of these.
        sha256: of the file, when a run closed the seal; "" while one is under way.
    """

    ledger: str
    entries: int
    hash: str
    coming: int
    coming_hash: str
    sha256: str

    @classmethod
    def of(cls, ledger: str, was: State, coming: State, sha256: str) -> Seal:
        """The seal of a ledger in one of two states."""
        return cls(ledger, *was, *coming, sha256)

    @property
    def text(self) -> str:
        """The seal as its file has it, the same to the byte."""
        return json.dumps(self._asdict(), sort_keys=True) + "\n"

    @property
    def spent(self) -> bool:
        """Whether entries were there, or about to be."""
        return bool(self.entries or self.coming)

    def fault(self, ledger: str, state: State, sha256: str) -> str | None:
        """Why a ledger with this name, these entries and this file is not the sealed one; None when it is."""
        if self.ledger != ledger:
            return "another ledger was there"
        if state.entries < self.entries:
            return OLDER
        was, will_be = (self.entries, self.hash), (self.coming, self.coming_hash)
        if state not in {was, will_be}:
            return "it has not the entries that were there"
        if self.sha256 and (self.sha256 != sha256 or was != will_be):
            return "bytes that no entry uses were altered, or the seal was"
        return None


def seal_file(path: str | Path) -> Path:
    """Where the seal of a ledger lies."""
    return Path(f"{path}.seal")


def pin_file(path: str | Path) -> Path | None:
    """Where the pin of a ledger lies that is in the directory of a plan; None elsewhere."""
    directory = Path(path).parent
    return directory / PIN if (directory / "plan.json").is_file() else None


def file_sha256(connection: sqlite3.Connection, path: Path) -> str:
    """The SHA-256 of a ledger's file, read under the lock of its connection; empty when the file has a loose end."""
    found = path.stat()
    if _has_loose_end(connection, found):
        return ""
    content = hashlib.sha256()
    opened = open_descriptor(found)
    pieces: Iterable[bytes] = [connection.serialize()] if opened is None else _pieces(opened, found.st_size)
    for piece in pieces:
        content.update(piece)
    return content.hexdigest()


def file_identity(connection: sqlite3.Connection, path: Path) -> Identity | None:
    """What the system tells of a ledger's file, under the same lock; None where that is not all of the ledger."""
    found = path.stat()
    return None if _has_loose_end(connection, found) or open_descriptor(found) is None else Identity.of(found)


def _has_loose_end(connection: sqlite3.Connection, file: os.stat_result) -> bool:
    """Whether sqlite reads something else than the file: it is cut, or longer, or covered by a log that lies beside."""
    size = math.prod(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return file.st_size != size or connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def _pieces(descriptor: int, size: int) -> Iterator[bytes]:
    """So many bytes of a file, from its first one on; where they are read does not move."""
    at = 0
    while at < size and (piece := os.pread(descriptor, min(PIECE, size - at), at)):
        at += len(piece)
        yield piece


def read_seal(file: Path) -> Seal | None:
    """What a seal or pin says; None when there is none that was written as seals are."""
    try:
        text = file.read_text(encoding="utf-8")
        seal = Seal(**json.loads(text))
        return seal if seal.text == text else None
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def left_of_entries(path: str | Path, pin: Path | None = None) -> Path | None:
    """What is there only when a ledger had entries, or was about to: its key, its pin, a seal of some."""
    pin = pin or pin_file(path)
    return left_beside(path) or (pin if pin is not None and pin.exists() else None)


def left_beside(path: str | Path) -> Path | None:
    """The same without the pin, which may be of a ledger that lies elsewhere."""
    seal = seal_file(path)
    left = (key_file(path), seal if _counts(seal) else None)
    return next((file for file in left if file is not None and file.exists()), None)


def _counts(file: Path) -> bool:
    seal = read_seal(file)
    return seal is None or seal.spent


class Seals:
    """Seal and pin of one ledger."""

    def __init__(self, path: Path, pin: Path | None) -> None:
        self.path = path
        self.pin = pin or pin_file(path)
        self.files = [file for file in (self.pin, seal_file(path)) if file is not None]

    def write(self, seal: Seal) -> None:
        """Put a seal in its places, each whole or not at all; a pin is there from the first entries on.

        Two first runs may begin two ledgers at once: whoever pins the plan first has it, and only that ledger goes on.

        Raises:
            LedgerError: E0809, the plan has another ledger by now.
        """
        for file in self.files:
            if file == self.pin and not seal.spent:
                continue
            first = file == self.pin and not file.exists()
            if file == self.pin and not first:
                pinned = read_seal(file)
                if pinned is None or pinned.ledger != seal.ledger:
                    raise another_ledger(self.path, file)
            try:
                write_text(file, seal.text, first=first)
            except FileExistsError:
                raise another_ledger(self.path, file) from None

    def require(self, ledger: str, state: State, sha256: str) -> None:
        """Nothing when a ledger is as its seals say.

        Raises:
            LedgerError: E0809, the plan has another ledger; E0848, it is an older copy, or altered, or a seal is.
        """
        for file, seal, fault in self._faults(ledger, state, sha256):
            if file == self.pin and seal is not None and seal.ledger != ledger:
                raise another_ledger(self.path, file)
            if fault is not None:
                raise not_as_left(self.path, fault if seal is None else f"{fault}, says `{file}`")

    def claims(self, ledger: str, state: State, sha256: str) -> Iterator[Claim]:
        """Whether a ledger's file is what its seal says, and the one that its plan's directory names."""
        for file, seal, fault in self._faults(ledger, state, sha256):
            name = "the ledger's file is to the byte as its last run left it"
            if file == self.pin:
                name = "the ledger is the one that the plan's directory names, no older copy and no second one"
            if fault is not None:
                second = file == self.pin and seal is not None and seal.ledger != ledger
                yield Claim(name, False, fault, str(file), "E0809" if second else "E0848")
            elif seal is not None and not seal.sha256:
                detail = "the last run ended before it could seal the file; run the plan again"
                yield Claim(name, None, detail, str(file), "E0848")
            else:
                yield Claim(name, True, f"sha256 {sha256[:16]}…", str(file))

    def _faults(self, ledger: str, state: State, sha256: str) -> Iterator[tuple[Path, Seal | None, str | None]]:
        for file in self.files:
            seal = read_seal(file)
            if seal is not None:
                yield file, seal, seal.fault(ledger, state, sha256)
            elif file != self.pin or state.entries or file.exists():
                yield file, None, _unreadable(file)


def _unreadable(file: Path) -> str:
    """Why a seal or pin says nothing, and what to do."""
    if file.exists() and not os.access(file, os.R_OK):
        return f"`{file.name}` may not be read by whoever runs this: give leave to"
    return f"`{file.name}` {'was emptied or altered' if file.exists() else 'is missing'}: copy it along with the ledger"


def not_as_left(path: Path, fault: str, nothing: str = "drawn") -> LedgerError:
    """The refusal of a ledger that has a fault, as another file shows; and what was not done."""
    return LedgerError(
        "E0848",
        "the ledger is not as its last run left it",
        where=str(path),
        because=f"{fault}; drawing noise again for steps that were published would give them away",
        help=f"restore the newest copy of the ledger, byte for byte, with its `.seal` and the plan's `{PIN}`; nothing "
        f"was {nothing}",
    )


def another_ledger(path: Path, pin: Path) -> LedgerError:
    """The refusal of a second ledger for the same plan."""
    return LedgerError(
        "E0809",
        "this plan has another ledger",
        where=str(path),
        because=f"`{pin}` names the one that its first run began; a second one would draw fresh noise for the same "
        "steps, and both together tell more than promised",
        help="name the ledger of the first run with `--ledger`, or leave `--ledger` out if it was not named then",
    )
