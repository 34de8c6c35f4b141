"""Runs a plan in small transactions, as a program of its own.

`run LEDGER OUTPUT STEPS PIECE` runs once. `serve STEPS PIECE` answers every line `LEDGER OUTPUT` on standard input with
the id of a new process that runs, and the next empty line with its exit code: so runs start at once, and can be killed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from plans import make_counts, make_plan

from policyc_runtime.output import write_release
from policyc_runtime.release import release

PLAN = make_plan(horizon=4000)


def run(ledger: str, output: str, steps: str, piece: str) -> None:
    done = release(PLAN, make_counts(int(steps)), ledger, output=output, steps_a_transaction=int(piece), pin=None)
    write_release(done, output)


def serve(steps: str, piece: str) -> None:
    with tempfile.TemporaryDirectory() as directory:  # imports what is imported late
        run(f"{directory}/ledger", f"{directory}/out.csv", "2", "1")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(*line.split(), steps, piece)
            os._exit(0)
        print(child, flush=True)
        sys.stdin.readline()
        print(os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    {"run": run, "serve": serve}[sys.argv[1]](*sys.argv[2:])
