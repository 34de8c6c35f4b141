"""What a run notes at its end so that the next one need not read everything again: a private file of the ledger's.

It names the ledger's file, and the files that were published, and carries an HMAC under the ledger's key. A file is
told by what the system says of it (`file_identity.py`), so that it need not be read, and where that says too little, or
of a copy something else, by a digest of its bytes. A run that finds all of them as named has before it, to the byte,
what a run left that had read and checked every entry; whoever alters one of them, or the note, makes the next run read
everything, as does a run that was killed before its end. It is never needed; where it is there, it knows an older copy
of the ledger, even one that was put back with its seal and pin.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote_from_bytes

from policyc_check.plan.plan import canonical_json
from policyc_runtime.file_identity import Identity
from policyc_runtime.files import PRIVATE_MODE, followed, write_bytes
from policyc_runtime.ledger_private import checkpoint_file, key_file, make_private
from policyc_runtime.ledger_seal import State

PIECE = 2**20  # bytes


class Checkpoint(NamedTuple):
    """What was there when a run ended.

    Args:
        ledger: the ledger's name for itself.
        entries: how many it had, all read and checked.
        hash: of the last of them.
        steps: how many steps they are of.
        sha256: of the ledger's file.
        identity: of the same; empty where it says nothing.
        outputs: the `Content` of every published file, by the way to it from the ledger; all hold every released step.
        first: later values follow from the steps from this one on,
        left: and from what those before left, by release, as JSON (`carried.py`).
    """

    ledger: str
    entries: int
    hash: str
    steps: int
    sha256: str
    identity: str
    outputs: Mapping[str, Sequence[str]]
    first: int
    left: str

    @property
    def state(self) -> State:
        """That of the ledger."""
        return State(self.entries, self.hash)

    def is_of_more(self, ledger: str, state: State) -> bool:
        """Whether a ledger of this name had more entries when it was noted: what is there now is an older copy."""
        return self.ledger == ledger and self.entries > state.entries

    def mark(self, key: bytes) -> str:
        """The HMAC of all of it, hexadecimal."""
        return hmac.digest(key, b"checkpoint 2" + canonical_json(self._asdict()), "sha256").hex()


def write_checkpoint(ledger: Path, checkpoint: Checkpoint) -> None:
    """Note what is there; OSError when the system refuses."""
    mark = checkpoint.mark(key_file(ledger).read_bytes())
    content = json.dumps({**checkpoint._asdict(), "hmac": mark}, sort_keys=True)
    write_bytes(make_private(checkpoint_file(ledger)), content.encode(), PRIVATE_MODE)


def read_checkpoint(ledger: str | Path) -> Checkpoint | None:
    """What the last run noted; None when it noted nothing, or somebody else did."""
    try:
        if not (checkpoint_file(ledger).is_file() and key_file(ledger).is_file()):  # a pipe is waited for without end
            return None
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


class Content(NamedTuple):
    """What a published file holds, told so that rows can be added without reading those before them.

    Args:
        identity: what the system tells of it; empty where that may leave out a change.
        pieces: the SHA-256 of each whole piece, with this of those before it; empty without any.
        sha256: the same of what is left after them, which is all that a file holds.
    """

    identity: str
    pieces: str
    sha256: str

    @classmethod
    def of(cls, file: BinaryIO, earlier: Content | None = None, size: int = 0) -> Content:
        """That of an open file, without its identity; `earlier` is of its first `size` bytes."""
        pieces = "" if earlier is None else earlier.pieces
        file.seek(size // PIECE * PIECE)
        while True:
            content = file.read(PIECE)
            digest = hashlib.sha256(pieces.encode())
            digest.update(content)
            if len(content) < PIECE:
                return cls("", pieces, digest.hexdigest())
            pieces = digest.hexdigest()


class FoundFile:
    """A published file as a run found it, and whether it is as it was noted.

    Raises:
        OSError: it cannot be read.
    """

    def __init__(self, file: Path, noted: Sequence[str] | None) -> None:
        with followed(file).open("rb") as content:
            self.identity = Identity.of(os.fstat(content.fileno()))
            self.content = None if noted is None else Content(*noted)
            if self.content is not None and self.content.identity != self.identity.text:
                found = Content.of(content)
                self.content = found if found[1:] == self.content[1:] else None

    def is_still(self, file: Path) -> bool:
        """Whether the same file lies there, and nobody wrote to it."""
        return Identity.of(followed(file).stat()) == self.identity
