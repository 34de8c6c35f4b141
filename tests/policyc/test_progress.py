"""Long work shows how far it is and how long it takes, on a terminal alone."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

COUNTED = """
import time
from policyc.progress import shown_progress
with shown_progress("counting") as told:
    for number in range(12):
        told(number, 12)
        time.sleep(0.1)
"""
SEARCH = """
import time
from policyc.progress import shown_progress
with shown_progress("searching"):
    time.sleep(1.3)
"""


def on_a_terminal(*words: str, cwd: Path | None = None, **more: str) -> tuple[str, str]:
    """What a process says on a terminal that is its standard error, and on standard output."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        cwd=cwd,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "100", **more},
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said.decode(), output


def test_what_is_counted_says_how_long_the_rest_takes():
    said, output = on_a_terminal(sys.executable, "-c", COUNTED)
    assert re.search(r"counting.*[1-9][0-9]? %, 0:0[0-9] left", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said))
    assert output == ""
    assert "\x1b[38;" in said or re.search(r"\x1b\[[0-9;]*3[0-9]", said)


def test_what_nobody_can_count_says_how_long_it_took():
    said, _ = on_a_terminal(sys.executable, "-c", SEARCH)
    assert re.search(r"searching.* 0:01", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said))
    assert "left" not in said
    assert "%" not in said


def test_without_colour_there_is_none():
    said, _ = on_a_terminal(sys.executable, "-c", COUNTED, NO_COLOR="1")
    assert "left" in said
    assert not re.search(r"\x1b\[(?:[0-9]+;)*(?:3[0-9]|38;[0-9;]+|9[0-7])m", said)


POLICY = """
policy there "people"
stream seen { user person time at step 1h horizon 24 steps start "2026-01-01" }
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, assumed = "shifts")
mechanism gaussian()
estimate none()
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_commands_show_it_unless_they_are_told_to_be_quiet(tmp_path, quiet):
    """It is gone when the command ends, and standard output has nothing of it."""
    (tmp_path / "there.policy").write_text(POLICY)
    command = (sys.executable, "-m", "policyc", "compile", "there.policy", *(["--quiet"] if quiet else []))
    said, output = on_a_terminal(*command, cwd=tmp_path)
    assert ("compiling" in said) is not quiet
    assert "compiling" not in output
    assert bool(output) is not quiet
