"""What compile, run and verify of the gallery take in two installations, in turns on one machine: CPU seconds.

`python tests/benchmarks/gallery_times.py BEFORE/bin/policyc AFTER/bin/policyc [RUNS] [NAME...]` prints a table of
medians. Policies are those beside this file; each runs on events that the first program draws as it declares.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

POLICIES = Path(__file__).parents[2] / "policies"
NAMES = ("fleet", "traffic", "wards", "departures", "bikeshare", "checkins", "speeds")
COMMANDS = ("compile", "run", "verify")
STEPS = {"wards": ["--steps", "168"]}
"""Streams without end run for a week."""
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
"""One thread, and bytecode that the first turn writes, as an installation has it."""


def seconds(*arguments: str) -> float:
    """CPU seconds, user and system, of one process and those that it waited for; what fails ends the program."""
    before = getrusage(RUSAGE_CHILDREN)
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    after = getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Side:
    """One installation in one folder of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder
        folder.mkdir()

    def compile(self, name: str) -> float:
        """CPU seconds of compiling into a new directory."""
        shutil.rmtree(self.folder / f"{name}.plan", ignore_errors=True)
        return seconds(self.program, "compile", f"{POLICIES / name}.policy", "-o", str(self.folder / f"{name}.plan"))

    def events(self, name: str) -> str:
        """Events that the plan draws."""
        path = str(self.folder / f"{name}.events.csv")
        seconds(self.program, "simulate", str(self.folder / f"{name}.plan"), "--events", path, *STEPS.get(name, []))
        return path

    def run(self, name: str, events: str) -> float:
        """CPU seconds of a first run: the directory is as compiled."""
        plan, released = self.folder / f"{name}.plan", self.folder / "released"
        for old in plan.glob("ledger*"):
            old.unlink()
        shutil.rmtree(released, ignore_errors=True)
        released.mkdir()
        paths = ["--input", events, "--output", str(released / "released.csv")]
        return seconds(self.program, "run", str(plan), *paths, *STEPS.get(name, []))

    def verify(self, name: str) -> float:
        """CPU seconds of verifying the plan with what the run left beside it."""
        return seconds(self.program, "verify", str(self.folder / f"{name}.plan"))


def main(before: str, after: str, runs: int = 9, names: tuple[str, ...] = NAMES) -> None:
    """Prints the table."""
    print("| policy | " + " | ".join(f"{command}: before | after | ratio" for command in COMMANDS) + " |")
    print("| --- |" + " --- |" * 9, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        sides = [Side(before, Path(folder) / "before"), Side(after, Path(folder) / "after")]
        for name in names:
            for side in sides:
                side.compile(name)
            events = sides[0].events(name)
            times: dict[str, list[list[float]]] = {command: [[], []] for command in COMMANDS}
            for turn in range(runs + 1):
                for command in COMMANDS:
                    for index, side in enumerate(sides):
                        arguments = (name, events) if command == "run" else (name,)
                        taken = getattr(side, command)(*arguments)
                        if turn:  # the first warms the files
                            times[command][index].append(taken)
            cells = []
            for command in COMMANDS:
                old, new = (statistics.median(values) for values in times[command])
                ratios = [b / a for a, b in zip(*times[command], strict=True)]
                cells += [f"{old:.2f}", f"{new:.2f}", f"{statistics.median(ratios):.2f}"]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3], *(int(runs) for runs in sys.argv[3:4]), *((tuple(sys.argv[4:]),) if sys.argv[4:] else ()))
