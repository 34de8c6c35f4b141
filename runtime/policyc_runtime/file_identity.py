"""Whether a file is as it was left, by what the system tells of it, without reading it.

The system says which file it is and when it was changed last. No program can set that moment, so a file that was
written to, replaced, or put back from a copy is told otherwise. That holds where the system tells every write, also one
through memory, and where its clock has gone on since the moment that was noted: both are tried on a file of ours.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from policyc_runtime.files import PRIVATE_MODE, draft

DESCRIPTORS = Path("/dev/fd")
WAITS = (0, 0.001, 0.002, 0.004, 0.008, 0.016)  # seconds; clocks of systems go on a hundred times a second, or more


class Identity(NamedTuple):
    """What is told of a file; nanoseconds since 1970. `changed` is when anything of it was, its times too."""

    device: int
    number: int
    size: int
    written: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Identity:
        """That of a file that the system was asked for."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @classmethod
    def of_text(cls, text: str) -> Identity:
        """What `text` says."""
        return cls(*map(int, text.split()))

    @property
    def text(self) -> str:
        """The same for a note."""
        return " ".join(map(str, self))


def tells_changes(file: Path, device: int, since: int = 0) -> bool:
    """Whether from now on whatever changes a file is told by a later moment than `since`.

    Args:
        file: it, or another one of the same file system, beside which a draft is written to.
        device: the file system.
        since: nanoseconds since 1970.

    Raises:
        OSError: the system refused.
    """
    with draft(file, PRIVATE_MODE) as new, new.open("rb+") as probe:
        probe.write(bytes(len(WAITS) * mmap.PAGESIZE))  # a page that a full disk has no room for would end the process
        probe.flush()
        with mmap.mmap(probe.fileno(), 0) as memory:
            for page, wait in enumerate(WAITS):
                time.sleep(wait)
                at = page * mmap.PAGESIZE
                read = memory[at]  # what was only read may be written to without being told
                before = os.fstat(probe.fileno())
                memory[at] = read + 1
                told = os.fstat(probe.fileno()).st_ctime_ns
                if before.st_dev == device and told > max(since, before.st_ctime_ns):
                    return True
    return False


def settled(left: Mapping[Path, Identity]) -> set[Path]:
    """Those of some files that are as they were left, and of which every change from now on is told.

    Raises:
        OSError: the system refused.
    """
    found = set()
    for device in {identity.device for identity in left.values()}:
        here = {file: identity for file, identity in left.items() if identity.device == device}
        if tells_changes(next(iter(here)), device, max(identity.changed for identity in here.values())):
            found |= {file for file, identity in here.items() if _is_on_disk(file) == identity}
    return found


def _is_on_disk(file: Path) -> Identity:
    """What is told of a file once all of it is on disk: a page that is not may be written to again unseen."""
    opened = open_descriptor(file.stat())
    if opened is not None:
        os.fsync(opened)
        return Identity.of(file.stat())
    with file.open("rb") as content:
        os.fsync(content.fileno())
        return Identity.of(os.fstat(content.fileno()))


def open_descriptor(file: os.stat_result) -> int | None:
    """One by which this process has a file open; None where it has none, or the system does not list them.

    Another one would take the locks of the process away when it is closed.
    """
    for entry in DESCRIPTORS.iterdir() if hasattr(os, "pread") and DESCRIPTORS.is_dir() else ():
        with suppress(OSError):
            if os.path.samestat(os.fstat(int(entry.name)), file):
                return int(entry.name)
    return None
