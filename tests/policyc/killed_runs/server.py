"""Runs `policyc` with arguments as often as it is asked to, each time in a new process that begins at once.

Every line on standard input is a JSON record; the answer is one line, too. What a process writes may be disturbed by
the library of faults that was preloaded (`faults.c`).
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from policyc import cli


def run(arguments: list[str]) -> int:
    sys.argv = ["policyc", *arguments]
    try:
        cli.main()
    except SystemExit as leaving:
        return int(leaving.code or 0)
    return 0


def child(asked: dict[str, Any], out: int, err: int) -> int:
    os.chdir(asked["folder"])
    if asked["fed"]:
        os.dup2(os.open(asked["fed"], os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.stdout, sys.stderr = io.TextIOWrapper(io.FileIO(1, "w")), io.TextIOWrapper(io.FileIO(2, "w"))
    if asked["long"]:  # what a run does of more than some ten thousand steps
        release: Any = import_module("policyc_runtime.release")
        release.LONGEST_KNOWN = 1
        release.release.__kwdefaults__["steps_a_transaction"] = 1
    faults = ctypes.CDLL(None)
    faults.faults_begin(
        os.fsencode(asked["folder"]), ctypes.c_long(asked["at"]), asked["what"], os.fsencode(asked["calls"])
    )
    code = run(asked["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if asked.get("warm"):  # imports what is imported late
            os.chdir(asked["folder"])
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                codes = [run(arguments) for arguments in asked["warm"]]
            print(json.dumps(codes), flush=True)
            continue
        said = [os.memfd_create("said") for _ in range(2)]
        process = os.fork()
        if process == 0:
            code = 99
            try:
                code = child(asked, *said)
            finally:
                os._exit(code)
        status = os.waitpid(process, 0)[1]
        texts = [os.pread(file, 2**20, 0).decode() for file in said]
        for file in said:
            os.close(file)
        calls = Path(asked["calls"]).read_text().splitlines()
        Path(asked["calls"]).unlink()
        print(json.dumps([os.waitstatus_to_exitcode(status), *texts, calls]), flush=True)


if __name__ == "__main__":
    serve()
