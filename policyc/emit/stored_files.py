"""Files of a plan directory as they are read, and their hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from policyc.emit.signatures import CERTIFICATE
from policyc_runtime.files import read_inside
from policyc_runtime.json_text import read_json


def sha256(content: bytes) -> str:
    """The SHA-256 of a file's bytes, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def content_of(directory: Path, name: str) -> bytes | None:
    """A file of a directory; None when it is missing, cannot be read, is no ordinary file or leads out of it."""
    try:
        return read_inside(directory / name, directory)
    except OSError:
        return None


def recorded(directory: Path, block: str, name: str) -> Any:
    """What the certificate that lies there says in a block; None when there is none, or it says nothing."""
    try:
        return read_json(content_of(directory, CERTIFICATE) or b"")[block][name]
    except (ValueError, KeyError, TypeError):
        return None
