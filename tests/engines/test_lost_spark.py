"""Spark's Java is killed while it counts: one message, nothing drawn, and the next run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.law

RUN = """
import json, os, signal, subprocess, sys, time
from plans import make_plan
from policyc_runtime.errors import DataError
from policyc_runtime.release import release
from policyc_runtime.sources.engines.spark import SparkSessionOfOneRun

events, book, victim = sys.argv[1:]

def below(parent):
    listed = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        number, said = line.split(None, 1)
        yield int(number), said
        yield from below(number)

def killing(session, query):
    if victim:
        named = [process for process, said in below(os.getpid()) if victim in said]
        killed.extend(named[:1])  # others are what it is about to start, by its own name still
        os.kill(killed[0], signal.SIGKILL)
    SparkSessionOfOneRun.rows = rows
    return rows(session, query)

killed, found = [], []
rows, SparkSessionOfOneRun.rows = SparkSessionOfOneRun.rows, killing
for turn in range(2):
    try:
        done = release(make_plan(start="2013-01-01"), events, book, engine="spark", pin=None, steps=1)
        found.append([done.before, len(done.times)])
    except DataError as error:
        found.append([error.code, error.message, error.because])
print(json.dumps([len(killed), *found]))
"""


def run(tmp_path: Path, victim: str) -> tuple[list, str]:
    """What two runs in one process came to, the first one with a victim; and what was written to the screen."""
    import duckdb

    events = tmp_path / "events.parquet"
    if not events.exists():
        row = "'a' AS tailnum, TIMESTAMP '2013-01-01 08:00:00' AS departed_at, 'EWR' AS origin"
        duckdb.sql(f"SELECT {row}").write_parquet(str(events))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent / "runtime"), *sys.path]),
    }
    command = [sys.executable, "-W", "ignore", "-c", RUN, str(events), str(tmp_path / "book"), victim]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr


def test_java_that_is_killed_in_the_middle(spark, tmp_path):
    """One message and no traceback; the same process is told to begin anew, and a new one releases."""
    (killed, first, second), said = run(tmp_path, "SparkSubmit")
    assert killed == 1
    assert (first[0], "nothing was drawn" in first[2]) == ("E0869", True)
    assert (second[0], second[1]) == ("E0869", "the Spark of this process has ended")
    assert said == ""
    assert run(tmp_path, "") == ([0, [0, 1], [1, 1]], "")
