"""Where released values go: files, as those of a run, and NDJSON on standard output.

Values are made ready first and published at one moment. What was published and not noted is compared with what is to be
published, not repeated: files are written whole from the ledger, and the end of a file that standard output leads to is
read. In a pipe nobody can look; there the lines of one call may come twice, the same to the byte, and none is cut.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from policyc_runtime.errors import ReleaseError
from policyc_runtime.follow.released_lines import released_lines
from policyc_runtime.output import Draft, drafted_release, put_in_place
from policyc_runtime.output_place import OUTPUT, UNWRITABLE

if TYPE_CHECKING:
    from policyc_runtime.published_values import Release


PATIENCE = 0.5  # seconds: how soon a signal is answered while nobody reads
FILE_PIECE = 2**20  # bytes


class Sink(Protocol):
    """A place for released values."""

    name: str

    def ready(self, release: Release, noted: int, pieces: ExitStack) -> None:
        """Make ready what steps from `noted` on add; `pieces` ends when it is published, or not."""

    def publish(self) -> None:
        """Let it be seen."""

    def close(self) -> None:
        """Let it go."""


class FileSink:
    """CSV or Parquet, as `policyc run` writes them."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.drafts: list[Draft] = []

    def ready(self, release: Release, noted: int, pieces: ExitStack) -> None:  # noqa: ARG002
        """Write the files beside their places."""
        self.drafts = pieces.enter_context(drafted_release(release, self.name))

    def publish(self) -> None:
        """Put them in their places."""
        self.drafts = put_in_place(self.drafts)

    def close(self) -> None:
        """Nothing is open."""


class StandardOutput:
    """NDJSON on an open file, by default standard output."""

    name = "-"

    def __init__(self, descriptor: int = 1, stopping: Callable[[], bool] = lambda: False) -> None:
        """Args: `stopping` is asked while nobody reads, whether to end without a reader."""
        self._descriptor = descriptor
        self._stopping = stopping
        self._text = b""

    def ready(self, release: Release, noted: int, pieces: ExitStack) -> None:  # noqa: ARG002
        """Make the lines, without those that stand at the end of the file already."""
        text = "".join(released_lines(release, noted, release.steps.stop)).encode()
        self._text = text[_already_there(self._descriptor, text) :]

    def publish(self) -> None:
        """Write them; ReleaseError E0826 where nobody reads them, or there is no room."""
        kind = os.fstat(self._descriptor).st_mode
        try:
            for piece in _pieces(self._text, FILE_PIECE if stat.S_ISREG(kind) else select.PIPE_BUF):
                left = memoryview(piece)
                while left:
                    if not select.select([], [self._descriptor], [], PATIENCE)[1]:
                        self._go_on()
                        continue
                    with suppress(BlockingIOError):  # whoever reads may have made it so
                        left = left[os.write(self._descriptor, left) :]
            if stat.S_ISREG(kind):
                os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritable(
                "nobody reads it any more" if isinstance(error, BrokenPipeError) else error.strerror
            ) from None

    def _go_on(self) -> None:
        if self._stopping():
            raise _unwritable("whoever reads has not taken the values yet")

    def close(self) -> None:
        """Nothing: it is not ours."""


def _unwritable(because: str | None) -> ReleaseError:
    return ReleaseError(
        OUTPUT,
        UNWRITABLE,
        where="standard output",
        because=because,
        help="start again when there is room and somebody who reads: what is missing is published then",
    )


def _pieces(text: bytes, size: int) -> Iterator[bytes]:
    """A text in pieces of whole lines, where these are no longer: as large as a pipe with room takes whole, or not."""
    begin = 0
    while begin < len(text):
        end = text.rfind(b"\n", begin, begin + size) + 1
        yield text[begin : (end := end or begin + size)]
        begin = end


def _already_there(descriptor: int, text: bytes) -> int:
    """How much of a text stands at the end of an open file, where that is an ordinary one."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return 0
    with open(f"/dev/fd/{descriptor}", "rb") as file:  # noqa: PTH123
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(text), 0))
        end = file.read()
    begins = [0, *(place + 1 for place, byte in enumerate(end) if byte == ord("\n"))]
    return next((len(end) - begin for begin in begins if text.startswith(end[begin:])), 0)


@contextmanager
def all_closed(sinks: list[Sink]) -> Iterator[None]:
    """Sinks that are let go at the end, whatever happens."""
    with ExitStack() as stack:
        for sink in sinks:
            stack.callback(sink.close)
        yield
