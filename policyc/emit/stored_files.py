"""Files of a plan directory as they are read, and their hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from policyc_runtime.files import read_inside


def sha256(content: bytes) -> str:
    """The SHA-256 of a file's bytes, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def content_of(directory: Path, name: str) -> bytes | None:
    """A file of a directory; None when it is missing, cannot be read, is no ordinary file or leads out of it."""
    try:
        return read_inside(directory / name, directory)
    except OSError:
        return None
