"""What a run notes at its end so that the next one need not read everything again: a private file of the ledger's.

It names the ledger's file, and the files that were published, by their SHA-256, and carries an HMAC under the ledger's
key. A run that finds all of them as named has before it, to the byte, what a run left that had read and checked every
entry; whoever alters one of them, or the note, makes the next run read everything, as does a run that was killed before
its end. It is never needed: `verify` does not look at it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from policyc_check.plan.plan import canonical_json
from policyc_runtime.files import PRIVATE_MODE, followed, write_bytes
from policyc_runtime.ledger_private import checkpoint_file, key_file, make_private
from policyc_runtime.ledger_seal import State


class Checkpoint(NamedTuple):
    """What was there when a run ended.

    Args:
        ledger: the ledger's name for itself.
        entries: how many it had, all read and checked.
        hash: of the last of them.
        steps: how many steps they are of.
        sha256: of the ledger's file.
        outputs: the SHA-256 of every published file, by the way to it from the ledger; all hold every released step.
        first: of the steps from this one on,
        left: the values follow from what those before left, by release, as JSON (`carried.py`); where that is of no
            release, of any.
    """

    ledger: str
    entries: int
    hash: str
    steps: int
    sha256: str
    outputs: dict[str, str]
    first: int
    left: str

    @property
    def state(self) -> State:
        """That of the ledger."""
        return State(self.entries, self.hash)

    def mark(self, key: bytes) -> str:
        """The HMAC of all of it, hexadecimal."""
        return hmac.digest(key, b"checkpoint" + canonical_json(self._asdict()), "sha256").hex()


def write_checkpoint(ledger: Path, checkpoint: Checkpoint) -> None:
    """Note what is there; OSError when the system refuses."""
    mark = checkpoint.mark(key_file(ledger).read_bytes())
    content = json.dumps({**checkpoint._asdict(), "hmac": mark}, sort_keys=True)
    write_bytes(make_private(checkpoint_file(ledger)), content.encode(), PRIVATE_MODE)


def read_checkpoint(ledger: str | Path) -> Checkpoint | None:
    """What the last run noted; None when it noted nothing, or somebody else did."""
    try:
        said = json.loads(checkpoint_file(ledger).read_bytes())
        mark = said.pop("hmac")
        checkpoint = Checkpoint(**said)
        return checkpoint if hmac.compare_digest(mark, checkpoint.mark(key_file(ledger).read_bytes())) else None
    except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None


def way_to(file: Path, ledger: str | Path) -> str:
    """From the directory of a ledger to a file, percent-encoded since names may hold any bytes.

    It stays the same where both are moved together.
    """
    return quote_from_bytes(os.fsencode(os.path.relpath(file.absolute(), Path(ledger).absolute().parent)))


class FoundFile:
    """A published file as a run found it: what it is told by, and its SHA-256, which goes on with what is added.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, file: Path) -> None:
        with followed(file).open("rb") as content:
            self._told = _told(content.fileno())
            self._hash = hashlib.sha256()
            while piece := content.read(2**20):
                self._hash.update(piece)

    @property
    def sha256(self) -> str:
        """Of what was found, hexadecimal."""
        return self._hash.hexdigest()

    def is_still(self, file: Path) -> bool:
        """Whether the same file lies there, and nobody wrote to it."""
        with followed(file).open("rb") as content:
            return _told(content.fileno()) == self._told

    def sha256_with(self, more: bytes) -> str:
        """Of what was found and what is added to it, hexadecimal."""
        longer = self._hash.copy()
        longer.update(more)
        return longer.hexdigest()


def _told(descriptor: int) -> tuple[int, ...]:
    """What changes when somebody writes to a file, or puts another in its place."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
