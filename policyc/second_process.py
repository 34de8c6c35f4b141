"""Work that a second process does beside other work, where another core is there.

It is a fork of this one, so that it begins with all that is known here and hands over what it finds alone. Nothing
depends on it: where there is none, or it ends without a result, the same work is done here when it is asked for.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from policyc.progress import hide_progress

Found = TypeVar("Found")

SIZE = 8  # bytes that say how many follow
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of Linux
LEAST = 10  # niceness

_allowed = False


def allow_second_process() -> None:
    """From now on; for the command line alone, as threads of whoever calls from Python may hold what a fork waits for.

    The one that draws progress there holds nothing that second processes need: they draw none.
    """
    global _allowed  # noqa: PLW0603  of this process, as cores are
    _allowed = True


@dataclass
class Beside(Generic[Found]):
    """Work that a second process does, or that is done here once it is asked for.

    Attributes:
        work: what is done.
        read: all that is handed over; None where there is no second process.
    """

    work: Callable[[], Found]
    read: Callable[[], bytes] | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether there is time to do something else until it is done."""
        return self.read is not None

    def found(self) -> Found:
        """What the work finds; of a process that ended without a result, what is found here.

        Raises:
            Exception: what the work raises.
        """
        content = b"" if self.read is None else self.read()
        if len(content) < SIZE or len(content) != SIZE + int.from_bytes(content[:SIZE], "little"):
            return self.work()
        import pickle  # start-up: few commands have second processes

        found: Found = pickle.loads(content[SIZE:])  # noqa: S301  our own, by a pipe without a name
        return found


@contextmanager
def beside(work: Callable[[], Found], *, spare: bool = False) -> Iterator[Beside[Found]]:
    """Begin some work, which is given up where nobody has asked for what it finds by the end.

    Args:
        work: finds something that can be pickled, and changes nothing.
        spare: whether it takes only what others leave of the cores.
    """
    if not (_allowed and sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1):
        yield Beside(work)
        return
    parent, held = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:  # Ctrl-C waits until each process knows which one it is
        reading, writing = os.pipe()
        if not (child := _forked(reading, writing)):
            os.close(reading)
            _work(work, writing, parent, LEAST if spare else 0, held)
    except OSError:  # as many files or processes as there may be
        child = 0
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    if not child:
        yield Beside(work)
        return
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as found:
            yield Beside(work, found.read)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _forked(*pipe: int) -> int:
    """The second process, here; 0 there. A pipe is closed where there is none."""
    try:
        return os.fork()
    except OSError:
        for end in pipe:
            os.close(end)
        raise


def _work(
    work: Callable[[], object], writing: int, parent: int, niceness: int, signals: set[signal.Signals | int]
) -> None:
    """Do some work, hand over what it finds, and end, in silence whatever happens."""
    try:
        import pickle

        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        _end_with(parent)
        os.nice(niceness)
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
