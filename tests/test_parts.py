"""The two parts of the tests: what the README's command runs, and the laws."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.law

ROOT = Path(__file__).parent.parent
LAWS_ALONE = (  # servers, processes for minutes, this file; what they try is tried beside them without
    "tests/benchmarks",
    "tests/browser",
    "tests/engines/test_guide_commands.py",
    "tests/engines/test_lost_spark.py",
    "tests/engines/test_same_counts.py",
    "tests/engines/test_spark_folders.py",
    "tests/policyc/follow/test_follow_command.py",
    "tests/policyc/follow/test_soak.py",
    "tests/test_parts.py",
)


def collected(*words: str) -> set[str]:
    """The tests that a command line takes."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_every_test_is_in_one_part():
    """By default those that are no law, with `-m law` the others, with `--full` and with `--bless` all of them."""
    module = "tests/policyc/syntax/test_misspellings.py"
    always, laws, everything = collected(module), collected(module, "-m", "law"), collected(module, "--full")
    assert always & laws == set()
    assert always | laws == everything == collected(module, "--bless")
    spelt = {test for test in everything if "::test_misspellings[" in test}
    assert len(spelt & always) == 3 < len(spelt)  # `sampled(3)`


def test_every_module_has_tests_that_are_no_laws():
    """What is tested at all is tested by the README's command, at least by a few."""
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    tried = {test.partition("::")[0] for test in collected()}
    assert {module for module in modules - tried if not module.startswith(LAWS_ALONE)} == set()
