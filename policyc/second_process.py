"""Work that a second process does beside other work, where another core is there.

It is a fork of this one, so that it begins with all that is known here and hands over what it finds alone. Nothing
depends on it: where there is none, or it ends without a result, the same work is done here when it is asked for.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from policyc.progress import hide_progress

Found = TypeVar("Found")

SIZE = 8  # bytes that say how many follow
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of Linux

_allowed = False


def allow_second_process() -> None:
    """From now on; for the command line alone, as threads of whoever calls from Python may hold what a fork waits for.

    The one that draws progress there holds nothing that second processes need: they draw none.
    """
    global _allowed  # noqa: PLW0603  of this process, as cores are
    _allowed = True


@contextmanager
def beside(work: Callable[[], Found]) -> Iterator[Callable[[], Found]]:
    """Begin some work; calling what is given waits for what it finds. It is given up where nobody has asked by the end.

    Args:
        work: finds something that can be pickled, and changes nothing. What it raises is raised where it is asked for,
            after it was tried once more.
    """
    if not (_allowed and sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1):
        yield work
        return
    reading, writing = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # as many processes as there may be
        os.close(reading)
        os.close(writing)
        yield work
        return
    if not child:
        os.close(reading)
        _work(work, writing, parent)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as found:
            yield partial(_found, found.read, work)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _found(read: Callable[[], bytes], work: Callable[[], Found]) -> Found:
    """What was handed over; of a process that ended before, what is found here."""
    content = read()
    if len(content) < SIZE or len(content) != SIZE + int.from_bytes(content[:SIZE], "little"):
        return work()
    found: Found = pickle.loads(content[SIZE:])  # noqa: S301  our own, by a pipe without a name
    return found


def _work(work: Callable[[], object], writing: int, parent: int) -> None:
    """Do some work, hand over what it finds, and end, in silence whatever happens."""
    try:
        _end_with(parent)
        hide_progress()
        content = pickle.dumps(work())
        with os.fdopen(writing, "wb") as found:
            found.write(len(content).to_bytes(SIZE, "little") + content)
    finally:
        os._exit(0)


def _end_with(parent: int) -> None:
    """End when the process that asked for the work ends, however that ends: nobody waits for it then."""
    import ctypes

    ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)
    if os.getppid() != parent:  # it ended already
        os._exit(0)
