"""A run that is killed at any moment and run again releases every step exactly once, with the same values."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from plans import make_counts, make_plan

from policyc_runtime.errors import LedgerError
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.release import release
from policyc_runtime.released_file import verify_release

SCRIPT = Path(__file__).parent / "run_in_pieces.py"
STEPS = 2000
PIECE = 80
MOMENTS = 50


class Runs:
    """Processes that run the plan, each started at once by a server that has imported everything."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, str(SCRIPT), "serve", str(STEPS), str(PIECE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.communicate(timeout=10)

    def _ask(self, line: str) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(line + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def run(self, ledger: Path, kill_after: float | None = None) -> bool:
        """Start one run and kill it after so many seconds, or not; whether it came to its end."""
        process = self._ask(f"{ledger} {ledger}.csv")
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(process, signal.SIGKILL)
        status = self._ask("")
        assert status in (0, signal.SIGKILL)
        return status == 0


def committed(ledger: Path) -> list[tuple[int, str, str]]:
    """What is on disk, read as sqlite reads it after a crash."""
    if not ledger.exists():
        return []
    connection = sqlite3.connect(ledger)
    try:
        return connection.execute("SELECT step, noisy, published FROM entry ORDER BY number").fetchall()
    except sqlite3.OperationalError:  # killed before the tables were there
        return []
    finally:
        connection.close()


@pytest.mark.law
def test_killed_at_fifty_moments_every_step_is_released_once(tmp_path: Path) -> None:
    """SIGKILL at 50 random moments: what was committed stays, nothing is drawn twice, the rest follows."""
    draw = random.Random(11)
    plan, counts = make_plan(horizon=4000), make_counts(STEPS)
    kept = []
    with Runs() as runs:
        begin = time.perf_counter()
        assert runs.run(tmp_path / "whole")
        whole = time.perf_counter() - begin
        while len(kept) < MOMENTS:
            ledger = tmp_path / str(len(kept))
            if runs.run(ledger, whole * draw.random()):
                whole *= 0.9  # the machine was slower before: aim earlier
            before = committed(ledger)
            output = Path(f"{ledger}.csv")
            write_release(release(plan, counts, ledger, output=output, pin=None), output)
            after = committed(ledger)
            assert after[: len(before)] == before
            assert [step for step, _, _ in after] == list(range(STEPS))
            verify_release(plan, ledger, output)
            kept.append(len(before))
    print(f"runs of {whole:.2f} s, killed after {sorted(kept)} steps")
    assert len({steps for steps in kept if 0 < steps < STEPS}) >= 10


def test_an_interrupted_transaction_leaves_no_trace(tmp_path: Path) -> None:
    """A failure between drawing and committing leaves the ledger as it was; the next run draws afresh, once."""
    plan, counts, path = make_plan(), make_counts(10), tmp_path / "ledger"
    seen = []

    def stop(done: int, total: int) -> None:
        seen.append(done)
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release(plan, counts, path, progress=stop, steps_a_transaction=2, pin=None)
    assert seen == [2, 4]
    with LedgerReader.open_read_only(path) as ledger:
        kept = list(ledger.entries)
    assert len(kept) == 4
    full = release(plan, counts, path, pin=None)
    with LedgerReader.open_read_only(path) as ledger:
        assert ledger.entries[:4] == kept
    assert np.array_equal(full.noisy, release(plan, counts, path, pin=None).noisy)


def test_a_ledger_begun_but_empty_is_taken_up(tmp_path: Path) -> None:
    """Killed before the first step, a run starts over without a refusal; the key comes with the first entries."""
    plan, path = make_plan(), tmp_path / "ledger"
    Ledger.open(path, plan).__exit__(None, None, None)
    assert not path.with_name("private").exists()
    assert len(release(plan, make_counts(3), path, pin=None).steps) == 3
    empty = tmp_path / "empty"
    empty.touch()
    assert len(release(plan, make_counts(3), empty, pin=None).steps) == 3
    empty.write_bytes(b"")
    with pytest.raises(LedgerError):
        release(plan, make_counts(3), empty, pin=None)
