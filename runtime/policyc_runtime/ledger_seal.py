"""The seal of a ledger's file: its SHA-256 as the last run left it, beside it in `<ledger>.seal`.

The chain of entries finds every altered row; a database file also has bytes that no row uses, and the seal finds those.
It is written after the entries are on disk, so a run that is killed between leaves the seal of an earlier state. Such a
seal still names the entry it ends at, with its hash, so that it can be told from one that was altered.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from policyc_runtime.claims import Claim
from policyc_runtime.files import write_text
from policyc_runtime.ledger_file import key_file


class Seal(NamedTuple):
    """What a run left: so many entries, the hash of the last one, and the SHA-256 of the file (empty: none yet)."""

    entries: int
    hash: str
    sha256: str

    @classmethod
    def of(cls, hashes: Sequence[str], sha256: str) -> Seal:
        """The seal of a file whose entries have these hashes."""
        return cls(len(hashes), hashes[-1] if hashes else "", sha256)

    @property
    def text(self) -> str:
        """The seal as its file has it, the same to the byte."""
        return json.dumps(self._asdict(), sort_keys=True) + "\n"


UNSEALED = Seal(0, "", "")


def seal_file(path: str | Path) -> Path:
    """Where the seal of a ledger lives."""
    return Path(f"{path}.seal")


def file_sha256(connection: sqlite3.Connection, path: Path) -> str:
    """The SHA-256 of a ledger's file, read under the lock of its connection; empty when the file has a loose end."""
    content = connection.serialize()
    return hashlib.sha256(content).hexdigest() if path.stat().st_size == len(content) else ""


def write_seal(path: Path, seal: Seal) -> None:
    """Put a seal beside a ledger, whole or not at all."""
    write_text(seal_file(path), seal.text)


def read_seal(path: Path) -> Seal | None:
    """The seal beside a ledger; None when there is none that was written as seals are."""
    try:
        text = seal_file(path).read_text(encoding="utf-8")
        seal = Seal(**json.loads(text))
        return seal if seal.text == text else None
    except (OSError, ValueError, TypeError):
        return None


def left_of_entries(path: str | Path) -> Path | None:
    """What lies beside a ledger only when it had entries: its key, made with the first of them, or a seal of some."""
    key, seal = key_file(path), seal_file(path)
    if key.exists():
        return key
    counted = read_seal(Path(path))
    return seal if seal.exists() and (counted is None or counted.entries > 0) else None


def seal_claim(path: Path, hashes: Sequence[str], sha256: str) -> Claim:
    """Whether a ledger's file is what its seal says.

    Args:
        path: of the ledger.
        hashes: of all entries, in order.
        sha256: of the file, as `file_sha256` gives it.
    """
    file = seal_file(path)
    name = "the ledger's file is to the byte as its last run left it"
    seal = read_seal(path)
    holds: bool | None = False
    if seal is None:
        detail = "its seal is missing or was altered: copy it along with the ledger, or run the plan again"
    elif seal[:2] != Seal.of(hashes[: seal.entries], "")[:2]:
        detail = "its seal was altered, or is that of another ledger"
    elif seal.entries < len(hashes) or not seal.sha256:
        holds, detail = None, "the last run ended before it could seal the file; run the plan again"
    elif seal.sha256 != sha256:
        detail = "bytes that no entry uses were altered, or the seal was"
    else:
        holds, detail = True, f"sha256 {sha256[:16]}…"
    return Claim(name, holds, detail, str(file), "E0823")
