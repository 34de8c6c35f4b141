"""Reading files that somebody else may have laid there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST_READ = 64 * 2**20
MOST_VALUES = 5_000_000  # of a text that is read whole


def read_ordinary(path: Path, most: int = LARGEST_READ) -> bytes:
    """The bytes of an ordinary file; pipes and devices, which might never end, are not opened to the end.

    Raises:
        OSError: it cannot be read, is no such file, or has more than `most` bytes; its `strerror` says why.
    """
    at_once = getattr(os, "O_NONBLOCK", 0)  # without waiting for whoever writes a pipe
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
        if facts.st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {most // 2**20:,} MiB", str(path))
        return file.read(most + 1)
