"""Reading files that somebody else may have laid there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST_READ = 64 * 2**20


def read_ordinary(path: Path, inside: Path | None = None, most: int = LARGEST_READ) -> bytes:
    """The bytes of an ordinary file; pipes and devices, which might never end, are not opened to the end.

    Args:
        path: the file.
        inside: a directory that the file must lie in, whatever links there are on the way.
        most: bytes that are read; a larger file is refused.

    Raises:
        OSError: it cannot be read, or is no such file; its `strerror` says why.
    """
    try:
        outside = inside is not None and not path.resolve().is_relative_to(inside.resolve())
    except RuntimeError:
        raise OSError(errno.ELOOP, "it is a link to itself", str(path)) from None
    if outside:
        raise OSError(errno.EINVAL, "it is a link that leaves the directory", str(path))
    with open(path, "rb", opener=_at_once) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
        if facts.st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most // 2**20:,} MiB", str(path))
        return file.read(most + 1)


def _at_once(path: str, flags: int) -> int:
    """Opens a file without waiting for whoever writes a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
