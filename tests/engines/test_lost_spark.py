"""Spark's Java or its executors are killed while it counts: the same counts, or one message and nothing drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.law

CLUSTER = "local-cluster[2,1,1024]"  # two workers of one core and a gigabyte each, in processes of their own
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


def script(text: str, *arguments: str) -> tuple[list, str]:
    """What a process of its own printed, and what was written to the screen."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent / "runtime"), *sys.path]),
    }
    command = [sys.executable, "-W", "ignore", "-c", text, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr


def events_of(folder: Path) -> Path:
    """Events of twelve users in one step."""
    import duckdb

    events = folder / "events.parquet"
    if not events.exists():
        row = "'a' || i AS tailnum, TIMESTAMP '2013-01-01 08:00:00' AS departed_at, 'EWR' AS origin"
        duckdb.sql(f"SELECT {row} FROM range(12) t(i)").write_parquet(str(events))
    return events


def run(tmp_path: Path, victim: str) -> tuple[list, str]:
    """What two runs in one process came to, the first one with a victim; and what was written to the screen."""
    return script(RUN, str(events_of(tmp_path)), str(tmp_path / "book"), victim)


def test_java_that_is_killed_in_the_middle(spark, tmp_path):
    """One message and no traceback; the same process is told to begin anew, and a new one releases."""
    (killed, first, second), said = run(tmp_path, "SparkSubmit")
    assert killed == 1
    assert (first[0], "nothing was drawn" in first[2]) == ("E0869", True)
    assert (second[0], second[1]) == ("E0869", "the Spark of this process has ended")
    assert said == ""
    assert run(tmp_path, "") == ([0, [0, 1], [1, 1]], "")


EXECUTORS = """
import json, os, signal, subprocess, sys, threading, time
from plans import make_plan
from policyc_runtime.errors import DataError
from policyc_runtime.release import release
from policyc_runtime.sources.engines.spark import SparkSessionOfOneRun as Session

events, book = sys.argv[1:]
create, rows = Session.create, Session.rows

def executors(parent):
    listed = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        number, said = line.split(None, 1)
        if "CoarseGrainedExecutorBackend" in said:
            yield int(number)
        yield from executors(int(number))

def kill(most):
    for process in list(executors(os.getpid()))[:most]:
        os.kill(process, signal.SIGKILL)
        killed.append(process)

def kill_at_work(session):
    tracker = session._spark.sparkContext.statusTracker()
    while not killed:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        if any(stage and stage.numActiveTasks for stage in stages):
            kill(1)
        time.sleep(0.02)

def creating(session, name, query):
    if turn == 0 and not killed:
        threading.Thread(target=kill_at_work, args=[session], daemon=True).start()
    create(session, name, query)

def asking(session, query):
    if turn == 1 and not killed:
        kill(2)  # with the rows that only they have
    return rows(session, query)

Session.create, Session.rows, found = creating, asking, []
for turn, (name, engine) in enumerate([("a", "spark"), ("b", "spark"), ("b", "spark"), ("a", "duckdb")]):
    killed = []
    try:
        done = release(make_plan(start="2013-01-01"), events, book + name, engine=engine, pin=None, steps=1)
        found.append([len(killed), done.before, len(done.times)])
    except DataError as error:
        found.append([len(killed), error.code, error.because])
print(json.dumps(found))
"""


def test_executors_that_are_killed_in_the_middle(spark, tmp_path, monkeypatch):
    """One of two at work: its part is counted again, to the bit. Both, with rows that only they had: one message."""
    import pyspark

    home = tmp_path / "spark"  # below which workers write
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", os.environ["PYSPARK_SUBMIT_ARGS"].replace("local[2]", CLUSTER))
    first, second, third, fourth = script(EXECUTORS, str(events_of(tmp_path)), str(tmp_path / "book"))[0]
    assert first == [1, 0, 1]
    assert (second[0], second[1], "nothing was drawn" in second[2]) == (2, "E0869", True)
    assert third == [0, 0, 1]
    assert fourth == [0, 1, 1], "DuckDB finds the step released, with the fingerprint of its rows"
