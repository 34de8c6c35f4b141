"""Runs `worker` in several processes until all is planned or the time is over."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

MOST_PROCESSES = 4
TICK = 0.5  # seconds
WHOLE = 1000  # of the progress
COMMAND = ("-m", "policyc.exploration.worker")
ENDED = {"code": "", "message": "the process that planned it ended before it was done", "help": "see the memory it has"}


def planned(
    texts: Sequence[str],
    name: str,
    folder: Path,
    seconds: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> list[dict[str, Any] | None]:
    """What compiling each text says, as `worker.outcome` has it; None of those for which there was no time.

    Args:
        texts: policies, the most wanted first: the first is planned however long that takes.
        name: how messages name them.
        folder: of the files that they name.
        seconds: until no more are waited for.
        progress: told how far it is and of how much, of texts or of the time, whichever is further.
    """
    found: list[dict[str, Any] | None] = [None] * len(texts)
    done, waiting = 0, iter(range(len(texts)))
    deadline = time.monotonic() + seconds
    busy: dict[int, tuple[subprocess.Popen[str], int]] = {}  # by the descriptor that answers
    with selectors.DefaultSelector() as answers:

        def give(process: subprocess.Popen[str] | None) -> None:
            """The next text to a process, a new one if there is none; with nothing left it is ended."""
            at = next(waiting, None)
            if at is None or (at and time.monotonic() >= deadline):
                _end(process)
                return
            process = process or _started()
            assert process.stdin is not None, "it is a pipe"
            assert process.stdout is not None, "it is a pipe"
            with suppress(BrokenPipeError):  # it has ended: its answer is none
                process.stdin.write(json.dumps({"text": texts[at], "name": name, "folder": str(folder)}) + "\n")
                process.stdin.flush()
            busy[process.stdout.fileno()] = process, at
            answers.register(process.stdout, selectors.EVENT_READ)

        try:
            for _ in range(min(len(texts), os.cpu_count() or 1, MOST_PROCESSES)):
                give(None)
            while busy and (found[0] is None or time.monotonic() < deadline):
                for key, _ in answers.select(TICK):
                    answers.unregister(key.fileobj)
                    process, at = busy.pop(key.fd)
                    assert process.stdout is not None, "it is a pipe"
                    line = process.stdout.readline()
                    found[at] = json.loads(line) if line else {"refused": ENDED, "releases": [], "warnings": []}
                    done += 1
                    if not line:
                        _end(process)
                    give(process if line else None)
                spent = 1 - max(0.0, deadline - time.monotonic()) / seconds if seconds else 0.0
                progress(int(WHOLE * max(spent, done / len(texts))), WHOLE)
        finally:
            for process, _ in busy.values():
                _end(process)
    return found


def _started() -> subprocess.Popen[str]:
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # processes share the machine, not threads
    return subprocess.Popen(  # noqa: S603  this program's own module
        [sys.executable, "-P", *COMMAND],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
        env={**os.environ, **alone},
    )  # fmt: skip


def _end(process: subprocess.Popen[str] | None) -> None:
    if process is None:
        return
    process.kill()
    with process:  # closes its pipes and waits
        pass
