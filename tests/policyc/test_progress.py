"""Long work shows how far it is and how long it takes, on a terminal alone."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from policyc.progress import counted, time_left

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


STAGES = """
import time
from policyc.progress import counted, shown_progress
with shown_progress("compiling"):
    for schedule in counted("schedules", iter("abcd"), 4):
        for trial in counted("trials", range(3), 3):
            time.sleep(0.2)
        time.sleep(0.3)
    time.sleep(0.3)
"""


@pytest.mark.law
def test_a_stage_says_how_many_are_done_and_how_long_the_rest_takes():
    """Nothing is said of the time that is left before something of it was done; a stage in a stage is seen instead."""
    said, _ = on_a_terminal(sys.executable, "-c", STAGES)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said)
    shown = re.findall(r"compiling: (\w+)\W+(\d) of [34], (0:0\d(?: left of these)?)", plain)
    seen = [(stage, int(done), left) for stage, done, left in shown]
    assert {(stage, done) for stage, done, _ in seen} == {
        *(("schedules", done) for done in range(4)),
        *(("trials", done) for done in range(3)),
    }
    assert all(("left" in left) == (done > 0) for _, done, left in seen)
    first = next(left for stage, done, left in seen if (stage, done) == ("schedules", 1))
    assert "0:02" <= first[:4] <= "0:09"  # one took 0.9 s at least, and three are left
    assert re.search(r"compiling [^:\w]+0:0\d", plain)  # after its last stage, how long it took


def test_one_thing_that_takes_long_makes_the_rest_longer():
    """Nothing is promised that the pace so far does not bear out."""
    assert time_left(0, 4, 9.0) is None
    assert time_left(1, 4, 1.0) == 3.0
    assert time_left(1, 4, 5.0) == 15.0
    assert time_left(4, 4, 5.0) == 0.0


def test_a_stage_that_ends_in_an_error_leaves_nothing_behind():
    """And where nothing is shown, things are counted out as they are."""
    assert list(counted("things", "abc", 3)) == ["a", "b", "c"]
    failed = """
from policyc.progress import counted, shown_progress
for _ in range(2):
    try:
        with shown_progress("planning"):
            for thing in counted("things", range(2), 2):
                raise ValueError
    except ValueError:
        pass
with shown_progress("again") as told:
    told(1, 2)
"""
    said, output = on_a_terminal(sys.executable, "-c", failed)
    assert "Traceback" not in said
    assert "ignored" not in said
    assert output == ""


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


def test_signing_shows_how_far_its_verification_is(tmp_path):
    """All claims are recomputed before anybody is asked, as `verify` does; a key made here signs."""
    from policyc import compile_policy

    (tmp_path / "there.policy").write_text(POLICY)
    compile_policy(tmp_path / "there.policy").save(tmp_path / "there.plan")
    words = ("sign", "there.plan", "--new-key", "officer.pem", "--name", "Ada Bell", "--yes")
    said, output = on_a_terminal(sys.executable, "-m", "policyc", *words, cwd=tmp_path)
    assert "planning again" in said
    assert "signed by Ada Bell" in output


SLOW = """policy long "visitors by place"
stream visits {
  user person
  time at
  cell place in {"a", "b", "c"} otherwise "away"
  step 1min
  horizon 20000 steps
  start "2013-01-01"
  population 4_037
}
release there = count(visits) by place
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.97, 0.01, 0.01, 0.01], [0.02, 0.96, 0.01, 0.01], [0.01, 0.03, 0.95, 0.01], [0.01, 0.01, 0.02, 0.96]],
  initial = stationary, evidence = "x")
deliver offline
postprocess there { sum(there) == population, there >= 0 }
"""


@pytest.mark.law
@pytest.mark.parametrize("cores", [1, 2])
def test_compiling_names_its_stages(cores, tmp_path):
    """Schedules are counted, with what the rest of them takes; what a second process does is not shown."""
    (tmp_path / "long.policy").write_text(SLOW)
    program = f"""
import os, sys
os.sched_getaffinity = lambda _: set(range({cores}))
from policyc.cli import main
sys.argv = ["policyc", "compile", "long.policy"]
main()
"""
    said, _ = on_a_terminal(sys.executable, "-c", program, cwd=tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said)
    assert re.search(r"compiling: sparse schedules, at most\W+[1-9]\d* of \d+, 0:\d\d left of these", plain)
    every = re.search(r"compiling: schedules\W+[1-3] of 4, 0:0\d left of these", plain)
    assert (every is not None) == (cores == 1 or sys.platform != "linux")
