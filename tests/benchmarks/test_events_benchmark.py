"""What counting bounded events costs beside DuckDB's own SQL for the same counts, whole commands in turn.

`pytest -m law -s tests/benchmarks/test_events_benchmark.py` prints medians of three runs each, for ten million events
of half a million users who are kept in their first ten days: processor seconds (user and system), the largest
resident memory, and the ratio pair by pair. `--full` adds CSV, gzipped CSV, and a hundred million events as Parquet,
once each; it writes 7 GB into the tests' temporary folder. The bare query may take what DuckDB gives it, four fifths of
the machine's memory: of the most events it took 17 to 20 GB, and held to 4 GB it filled a disk of 40. Where that is not
enough for it there is no ratio.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

MILLION = 10**6
POLICY = """
policy visits "Visitors"
stream seen {
  user person
  time moment
  cell place in {"A", "B", "C", "D", "E"}
  step 1d
  horizon 60 steps
  start "2026-01-01"
}
release there = count(seen) by place
target user_level(epsilon = 5.0, delta = 1e-6, neighbors = add_remove)
participation at_most(10 steps, per_step = 1, enforced = keep_first)
mechanism gaussian()
estimate none()
deliver offline
"""
WRITTEN = """
import duckdb, sys
name, events, users = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
written = "FORMAT parquet" if name.endswith("parquet") else "FORMAT csv"
duckdb.execute("SET preserve_insertion_order = false; SET memory_limit = '2GB'; SET enable_progress_bar = false")
duckdb.execute(f'''COPY (SELECT 'user-' || hash(i * 2) % {users} AS person,
  TIMESTAMP '2026-01-01' + to_microseconds((hash(i * 2 + 1) % 5184000)::BIGINT * 1000000) AS moment,
  ['A', 'B', 'C', 'D', 'E'][1 + (hash(i + 1234567) % 5)::INTEGER] AS place FROM range({events}) t(i))
  TO '{name}' ({written}{", COMPRESSION gzip" if name.endswith("gz") else ""})''')
"""
COUNTED = """
import duckdb, sys
duckdb.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
duckdb.execute(f"SET temp_directory = '{sys.argv[2]}'")
print(duckdb.execute(f'''
WITH part AS (SELECT person, date_diff('day', TIMESTAMP '2026-01-01', moment) AS step, arg_max(place, moment) AS place
  FROM '{sys.argv[1]}' GROUP BY ALL),
kept AS (SELECT *, row_number() OVER (PARTITION BY person ORDER BY step) AS turn FROM part),
counts AS (SELECT step, place, count(*) AS users FROM kept WHERE turn <= 10 GROUP BY ALL)
SELECT sum(users) FROM counts''').fetchone()[0])
"""


class Cost(NamedTuple):
    """Of one command: processor seconds, and bytes of the largest resident memory."""

    seconds: float
    memory: int


def cost(command: list[str], folder: Path) -> Cost:
    """Runs a command to its end in a folder, with as many threads as processors; no seconds where memory is short."""
    with (folder / "said.txt").open("w+") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        told = said.read()
    if "Out of Memory Error" in told:
        return Cost(math.nan, used.ru_maxrss * 1024)
    assert process.returncode == 0, told
    return Cost(used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)


def compared(folder: Path, name: str, events: int, runs: int) -> tuple[Cost, Cost, float]:
    """Medians of `policyc run` and of DuckDB's SQL for a file, run in turn, and of their ratio."""
    program = str(Path(sys.executable).parent / "policyc")
    subprocess.run([sys.executable, "-c", WRITTEN, name, str(events), str(events // 20)], cwd=folder, check=True)
    pairs = []
    for _ in range(runs):
        shutil.rmtree(folder / "visits.plan", ignore_errors=True)
        (folder / "out.csv").unlink(missing_ok=True)
        subprocess.run([program, "compile", "visits.policy"], cwd=folder, check=True, capture_output=True)
        run = [program, "run", "visits.plan", "--input", name, "--output", "out.csv", "--steps", "60"]
        pairs.append((cost(run, folder), cost([sys.executable, "-c", COUNTED, name, "spilled"], folder)))
    (folder / name).unlink()
    ours, theirs = (
        Cost(statistics.median(one.seconds for one in column), int(statistics.median(one.memory for one in column)))
        for column in zip(*pairs, strict=True)
    )
    return ours, theirs, statistics.median(one.seconds / other.seconds for one, other in pairs)


@pytest.mark.law
def test_counting_events(tmp_path, table, request):
    """Within 1.5 times the processor time of the bare query where rows are as they lie, and below 4 GB."""
    (tmp_path / "visits.policy").write_text(POLICY)
    full = request.config.getoption("--full")
    cases = [("events.parquet", 10 * MILLION, 3 if full else 1)]
    if full:
        cases += [(name, 10 * MILLION, 1) for name in ("events.csv", "events.csv.gz")]
        cases += [("all.parquet", 100 * MILLION, 1)]
    rows = []
    for name, events, runs in cases:
        ours, theirs, ratio = compared(tmp_path, name, events, runs)
        memory = (f"{cost.memory / 1e9:.1f}" for cost in (ours, theirs))
        rows.append((name, f"{events:,}", f"{ours.seconds:.1f}", f"{theirs.seconds:.1f}", f"{ratio:.2f}", *memory))
        assert ours.memory < 4e9
        assert ours.seconds > 0
        assert ratio < 1.5 or "csv" in name or (math.isnan(theirs.seconds) and name == "all.parquet")
    heads = ["file", "events", "run, s CPU", "DuckDB's SQL, s CPU", "ratio", "run, GB", "DuckDB's SQL, GB"]
    table("events", "Counting bounded events beside DuckDB's own SQL for the same counts.", heads, rows)
