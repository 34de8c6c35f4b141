"""65,306 cells in 3,142 counties and a million events: seconds of CPU to compile, run and verify, by the command line.

OPENBLAS_NUM_THREADS=1 pytest --full -s tests/benchmarks/test_cells_benchmark.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.law

CELLS, COUNTIES, EVENTS, USERS, DAYS = 65_306, 3_142, 1_000_000, 200_000, 7
POLICY = f"""policy zips "Devices by ZIP code and county, daily"
stream seen {{
  user device
  time at
  cell zip in file("zips.csv") levels(county)
  step 1d
  horizon {DAYS} steps
  start "2026-01-01"
}}
release zips = count(seen) by zip
release counties = count(seen) by county
target user_level(epsilon = 1, delta = 1e-6, neighbors = add_remove, per = 1d)
participation at_most(1 steps, per = 1d, enforced = keep_first)
mechanism gaussian()
estimate none()
deliver realtime
postprocess zips {{
  zips >= 0
}}
"""


def spent(*words: object, cwd: Path) -> float:
    """Seconds of CPU of one command that succeeds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "policyc", *map(str, words)], cwd=cwd, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_tens_of_thousands_of_cells(tmp_path: Path, full: bool) -> None:
    """Compiled in 10 s and run in 20 s was asked for."""
    if not full:
        pytest.skip("takes a minute: with --full")
    generator = np.random.default_rng(1)
    (tmp_path / "zips.csv").write_text(
        "zip,county\n" + "".join(f"z{cell:05},c{cell % COUNTIES:04}\n" for cell in range(CELLS))
    )
    (tmp_path / "zips.policy").write_text(POLICY)
    minutes = generator.integers(0, DAYS * 1440, EVENTS).astype("timedelta64[m]")
    moments = np.datetime_as_string(np.datetime64("2026-01-01", "s") + minutes)
    users, cells = generator.integers(0, USERS, EVENTS).tolist(), generator.integers(0, CELLS, EVENTS).tolist()
    with (tmp_path / "e.csv").open("w") as file:
        file.write("device,at,zip\n")
        file.writelines(
            f"d{user},{moment},z{cell:05}\n" for user, moment, cell in zip(users, moments, cells, strict=True)
        )
    run = "run", "zips.plan", "--input", "e.csv", "--output", "o.csv", "--steps", DAYS
    seconds = [
        spent(*words, cwd=tmp_path)
        for words in (("compile", "zips.policy"), run, ("verify", "zips.plan", "--release", "o.csv"))
    ]
    print(f"\ncompile {seconds[0]:.1f} s, run {seconds[1]:.1f} s, verify {seconds[2]:.1f} s of CPU")
