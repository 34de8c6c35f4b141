"""The README's two commands are the ones that are tested."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", README, re.S)
    return [line[2:] for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def test_the_main_job_does_what_the_readme_says(tmp_path):
    """The policyc calls of the first command compile the fleet policy and run it on the shipped extract."""
    shutil.copytree(ROOT / "policies", tmp_path / "policies")
    calls = [part.strip() for part in commands()[0].split("&&") if "bin/policyc" in part]
    assert len(calls) == 2
    for call in calls:
        words = shlex.split(call)
        program = shutil.which("policyc", path=str(Path(sys.executable).parent))
        assert program is not None
        done = subprocess.run([program, *words[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "parked.csv").is_file()
    assert (tmp_path / "fleet.plan" / "certificate.html").is_file()


def test_the_gate_runs_the_readmes_test_command():
    """`.ci/run` takes its test command from the README."""
    tests = [command for command in commands() if "pytest" in command]
    assert len(tests) == 1
    assert "README.md" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
