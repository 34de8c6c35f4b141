"""How long the commands that people type all day take to start, beside importing numpy, in one run.

`pytest -m law -s -k start_benchmark` prints the table: medians of ten runs in turn, in seconds, and ratios to numpy.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUNS = 10


@pytest.mark.law
def test_start_up(gallery):
    """`--help` and `check` start without arrays and solvers: their medians are printed beside `import numpy`."""
    program = shutil.which("policyc", path=str(Path(sys.executable).parent))
    assert program is not None
    commands = {
        "import numpy": [sys.executable, "-c", "import numpy"],
        "policyc --help": [program, "--help"],
        "policyc check traffic.policy": [program, "check", str(gallery / "traffic.policy")],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:<30} {median:6.3f} s   {median / medians['import numpy']:5.2f} of numpy")


def test_commands_import_only_what_they_use(gallery, tmp_path):
    """Help and `check` load no arrays, databases, solvers or plans, help not even the grammar; `leakage` arrays."""
    (tmp_path / "spent.csv").write_text("0.1\n0.2\n")
    leakage = ["leakage", "--budgets", str(tmp_path / "spent.csv"), "--policy", str(gallery / "traffic.policy")]
    heavy = {"numpy", "scipy", "duckdb", "pyomo", "highspy", "pydantic", "jinja2", "pygls", "lsprotocol"}
    script = (
        "import sys; from policyc.cli import app\n"
        "try: app(sys.argv[1:], standalone_mode=True)\n"
        "except SystemExit: pass\n"
        "print(','.join(sys.modules), file=sys.stderr)"
    )
    for arguments, banned in (
        (["--help"], {*heavy, "lark"}),
        (["check", str(gallery / "traffic.policy")], heavy),
        (["leakage", "--help"], {*heavy, "lark"}),
        (leakage, heavy - {"numpy", "pydantic", "scipy"}),  # what solves for pairs of states
    ):
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in done.stderr.strip().splitlines()[-1].split(",")}
        assert not loaded & banned
