"""Reading files that somebody else may have laid there, and writing files whole.

What is written goes beside the target first and is then renamed, so that a reader sees the old file or the new one.
"""

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


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file's content at once, keeping its permissions.

    Raises:
        OSError: the system refused; the old file is as it was.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode("utf-8"))
