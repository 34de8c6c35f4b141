"""`policyc run`, killed or failed by the system at any call that changes a file: nothing is lost, drawn twice or half.

The calls are counted and disturbed by a preloaded library (`faults.c`), so every place between two changes on disk is
reached, in sqlite and duckdb as well as in Python.
"""

from __future__ import annotations

import csv
import errno
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from policyc import compile_policy
from policyc.planning.joint_promise import joint_promise
from policyc_runtime.account import Account

HERE = Path(__file__).parent
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
pytestmark = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"),
    reason="needs a C compiler on Linux (cc, gcc or clang) to reach every call that writes; "
    "tests/runtime/test_crash.py kills at random moments, and its kernel only",
)

COUNTED = """
policy visits "visitors, user level"
stream seen {
  user person
  time at
  step 1h
  horizon 24 steps
  start "2026-01-01"
}
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, enforced = keep_first)
deliver realtime
objective mean_squared_error
mechanism gaussian()
estimate none()
postprocess there { suppress(there, below = 6) }
"""
MOVING = """
policy traffic "vehicles per segment"
stream passages {
  user vehicle
  time seen_at
  cell segment in {"A", "B"} otherwise "away"
  step 5min
  horizon 24 steps
  start "2026-01-01"
  population 200
}
release occupancy = count(passages) by segment
release present = count(passages)
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]],
  initial = stationary, evidence = "public counts")
deliver offline
objective mean_squared_error
budget quantified()
estimate none()
postprocess occupancy { suppress(occupancy, below = 60) }
"""
TOTAL = COUNTED.replace("policy visits", "policy totals").replace("gaussian()", "binary_tree()")
TOTAL = TOTAL.replace("postprocess there { suppress(there, below = 6) }", "release sofar = prefix(there)")
AGAIN = """
policy seldom "visitors, published again until they have moved"
stream seen {
  user person
  time at
  step 1h
  horizon 24 steps
  start "2026-01-01"
}
release there = count(seen)
release spent = sum(seen.money, clamp = 0 .. 22)
target w_event(epsilon = 4.0, window = 3 steps)
participation at_most(1 steps, per_step = 2, enforced = keep_first)
deliver realtime
mechanism budget_absorption()
"""
SHARED = COUNTED.replace("policy visits", "policy shared").replace("  step 1h", "  dataset city\n  step 1h")
JOINT = "user_level(epsilon = 1.5, delta = 1e-6, neighbors = add_remove)"  # one ledger fits in, and no second one
HORIZON = 24
KILL, HALF, ONCE, STAYS = 1, 2, 1000, 2000
KILLS = {KILL: "killed before", HALF: "killed in the middle of"}
ERRORS = {
    ONCE + errno.ENOSPC: "no space for",
    STAYS + errno.ENOSPC: "no space from",
    ONCE + errno.EIO: "input/output error at",
    STAYS + errno.EIO: "input/output errors from",
    ONCE + errno.EINTR: "interrupted at",
}
FULL = re.compile("the disk is full.*make room", re.DOTALL)
CAN_BE_INTERRUPTED = ("write", "pwrite", "open", "ftruncate")


class Scenario(NamedTuple):
    """A run that is disturbed, and the runs before it."""

    plan: str
    before: tuple[tuple[str, ...], ...]
    arguments: tuple[str, ...]
    long: bool = False


def arguments(plan: str, steps: int, output: str, *more: str) -> tuple[str, ...]:
    new = "--continued" in more and steps > 3
    data = f"{plan}{'-counts' * ('--counts' in more)}{'-new' * new}.csv"
    return ("run", f"{plan}.plan", "--input", data, "--output", output, "--steps", str(steps), *more)


def followed(plan: str, output: str) -> Scenario:
    """Events on standard input, of a stream whose steps are all over: it closes them, and is at its end."""
    return Scenario(plan, (), ("follow", f"{plan}.plan", "--input", "-", "--output", output, "--pause", "1ms"))


def scenario(plan: str, steps: list[int], output: str, *more: str) -> Scenario:
    *before, last = (arguments(plan, number, output, *more) for number in steps)
    return Scenario(plan, tuple(before), last)


SCENARIOS = {
    "first run": scenario("visits", [3], "out.csv"),
    "first run, Parquet": scenario("visits", [3], "out.parquet"),
    "second run": scenario("visits", [3, 5], "out.csv"),
    "second run, Parquet": scenario("visits", [3, 5], "out.parquet"),
    "nothing new": scenario("visits", [3, 3], "out.csv"),
    "first new rows": scenario("visits", [3], "out.csv", "--continued"),
    "more new rows": scenario("visits", [3, 5], "out.csv", "--continued"),
    "latest step": scenario("visits", [3, 5], "out.csv", "--continued", "--no-report"),
    "latest step of totals": scenario("totals", [3, 5], "out.csv", "--continued", "--no-report"),
    "more new rows, Parquet": scenario("visits", [3, 5], "out.parquet", "--continued"),
    "first counts": scenario("traffic", [3], "out.csv", "--counts", "--continued"),
    "more new counts": scenario("traffic", [3, 5], "out.csv", "--counts", "--continued"),
    "two releases": scenario("traffic", [3], "out.csv"),
    "two releases, Parquet, again": scenario("traffic", [3, 5], "out.parquet"),
    "followed": followed("visits", "out.csv"),
    "followed after a run": followed("visits", "out.parquet")._replace(
        before=(arguments("visits", 3, "out.parquet", "--continued"),)
    ),
    "long run": scenario("visits", [5], "out.csv", "--no-report")._replace(long=True),
    "long run of totals, Parquet": scenario("totals", [5], "out.parquet", "--no-report")._replace(long=True),
    "long run of counts": scenario("traffic", [5], "out.csv", "--counts", "--no-report")._replace(long=True),
    "long run, goes on": scenario("totals", [2, 5], "out.csv", "--no-report")._replace(long=True),
    "published again": scenario("seldom", [3, 5], "out.csv"),
    "published again, new rows": scenario("seldom", [3, 5], "out.csv", "--continued", "--no-report"),
    "published again, followed": followed("seldom", "out.csv"),
    "in an account": scenario("shared", [3], "out.csv", "--account", "city.account"),
    "in an account, new rows": scenario("shared", [3, 5], "out.csv", "--continued", "--account", "city.account"),
    "in an account, followed": followed("shared", "out.csv")._replace(
        arguments=(*followed("shared", "out.csv").arguments, "--account", "city.account")
    ),
    "ledger elsewhere": scenario("traffic", [3], "out.csv", "--ledger", "far.sqlite"),
    "ledger elsewhere again": scenario("traffic", [3, 5], "out.csv", "--ledger", "far.sqlite"),
}


class Done(NamedTuple):
    """One process that came to an end: negative codes are signals."""

    code: int
    out: str
    err: str
    calls: list[str]


class Server:
    """Starts runs at once, in processes of their own (`server.py`)."""

    def __init__(self, folder: Path) -> None:
        library = folder / "faults.so"
        assert COMPILER is not None
        command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "faults.c"), "-ldl"]
        subprocess.run(command, check=True)
        self._calls = folder / "calls"
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1"},
        )

    def _ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def warm(self, folder: Path, *runs: tuple[str, ...]) -> None:
        assert self._ask(folder=str(folder), warm=runs) == [0] * len(runs)

    def run(self, folder: Path, command: tuple[str, ...], at: int = 0, what: int = 0, *, long: bool = False) -> Done:
        """Run a command in a folder; at its call of this number something happens to it."""
        fed = str(folder / "visits.csv") if command[0] == "follow" else ""
        asked = {
            "folder": str(folder),
            "arguments": command,
            "at": at,
            "what": what,
            "calls": str(self._calls),
            "long": long,
        }
        return Done(*self._ask(**asked, fed=fed))

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled policies and their data."""
    folder = tmp_path_factory.mktemp("made")
    account = folder / "city.account"
    Account.create(account, joint_promise("city", JOINT))
    for name, text in (
        ("visits", COUNTED),
        ("totals", TOTAL),
        ("shared", SHARED),
        ("seldom", AGAIN),
        ("traffic", MOVING),
    ):
        (folder / f"{name}.policy").write_text(text)
        compile_policy(folder / f"{name}.policy").save(folder / f"{name}.plan", account if name == "shared" else None)
    rows = [f"u{n % 9},2026-01-01T{n // 8:02}:{n % 8 * 7:02}:00,{n % 23}" for n in range(80)]
    for name in ("visits", "totals", "shared", "seldom"):
        (folder / f"{name}.csv").write_text("\n".join(["person,at,money", *rows]) + "\n")
        (folder / f"{name}-new.csv").write_text("\n".join(["person,at,money", *rows[24:]]) + "\n")
    moves = [f"v{n % 40},2026-01-01T00:{n // 10:02}:00,{'AB'[n % 3 % 2]}" for n in range(500)]
    (folder / "traffic.csv").write_text("\n".join(["vehicle,seen_at,segment", *moves]) + "\n")
    for name, steps in (("counts", range(HORIZON)), ("counts-new", range(3, HORIZON))):
        counts = [f"{n},{cell},{many}" for n in steps for cell, many in (("A", n), ("B", 9), ("away", 191 - n))]
        (folder / f"traffic-{name}.csv").write_text("\n".join(["step,segment,count", *counts]) + "\n")
    return folder


@pytest.fixture(scope="module")
def server(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    warm = Path(shutil.copytree(made, tmp_path_factory.mktemp("warm") / "made"))
    runs = [arguments("visits", 2, "a.parquet", "--continued"), arguments("traffic", 2, "b.csv")]
    with Server(tmp_path_factory.mktemp("server")) as started:
        started.warm(warm, *runs, ("verify", "visits.plan", "--release", "a.parquet"), ("verify", "traffic.plan"))
        yield started


class Prepared(NamedTuple):
    """A scenario before its last run, what that run's calls are, and which files there are after it."""

    scenario: Scenario
    folder: Path
    calls: list[str]
    files: set[str]


@pytest.fixture(scope="module")
def prepare(made: Path, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Prepared]:
    """`prepare(name)`: a scenario before its last run; made once."""

    @cache
    def once(name: str) -> Prepared:
        one = SCENARIOS[name]
        folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("prepared") / "made"))
        for command in one.before:
            assert server.run(folder, command).code == 0
        whole = copied(server, one, folder, folder.with_name("whole"))
        done = server.run(whole, one.arguments, long=one.long)
        assert done.code == 0, done.err
        return Prepared(one, folder, done.calls, listed(whole))

    return once


def copied(server: Server, one: Scenario, folder: Path, to: Path) -> Path:
    """A prepared folder, once more; of a run that goes by what the last one noted of files, with a note of these."""
    shutil.copytree(folder, to)
    if {"--no-report", "--continued"} <= {*one.arguments}:
        assert server.run(to, one.before[-1]).code == 0
    return to


def listed(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


def ledger_of(folder: Path, one: Scenario) -> Path:
    more = one.arguments
    return folder / (more[more.index("--ledger") + 1] if "--ledger" in more else f"{one.plan}.plan/ledger.sqlite")


def committed(ledger: Path) -> list[tuple[Any, ...]]:
    """What sqlite has kept, looked at in a copy."""
    if not ledger.exists():
        return []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copyfile(ledger, copy)
        if Path(f"{ledger}-journal").exists():
            shutil.copyfile(f"{ledger}-journal", f"{copy}-journal")
        connection = sqlite3.connect(copy)
        try:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'entry'").fetchall()
            return connection.execute("SELECT * FROM entry ORDER BY number").fetchall() if tables else []
        finally:
            connection.close()


def published(folder: Path, one: Scenario) -> dict[str, list[tuple[str, ...]]]:
    """The rows of every output that is there; a file that is half written is none."""
    import duckdb

    output = Path(one.arguments[one.arguments.index("--output") + 1])
    rows = {}
    for file in sorted(folder.glob(f"{output.stem}*{output.suffix}")):
        if file.suffix == ".csv":
            with file.open(newline="") as handle:
                rows[file.name] = [tuple(row) for row in csv.reader(handle)]
        else:
            found = duckdb.sql(f"SELECT step, noisy, released FROM '{file}'").fetchall()
            rows[file.name] = [("step",), *(tuple(map(str, row)) for row in found)]
    return rows


def verified(server: Server, folder: Path, one: Scenario, *more: str) -> list[str]:
    """What `verify` says is wrong."""
    named = ("--ledger", "far.sqlite") if "--ledger" in one.arguments and ledger_of(folder, one).exists() else ()
    named += ("--account", "city.account") if "--account" in one.arguments else ()
    done = server.run(folder, ("verify", f"{one.plan}.plan", "--json", *named, *more))
    assert done.code in (0, 1), done.err
    return [
        f"{claim['claim']}: {claim['detail']}"
        for claim in json.loads(done.out)["claims"]
        if not claim["holds"] and claim["holds"] is not None
    ]


def disturbed(server: Server, ready: Prepared, at: int, what: int, folder: Path) -> Done:
    """Disturb one run, and hold everything that follows against what must be true."""
    one = ready.scenario
    copied(server, one, ready.folder, folder)
    ledger, output = ledger_of(folder, one), ("--release", one.arguments[one.arguments.index("--output") + 1])
    before, shown_before = committed(ledger), published(folder, one)
    done = server.run(folder, one.arguments, at, what, long=one.long)
    entries, shown = committed(ledger), published(folder, one)
    assert entries[: len(before)] == before
    for name, rows in shown.items():
        assert rows[: len(shown_before.get(name, []))] == shown_before.get(name, [])
    every = len(shown) == len([name for name in ready.files if name.startswith("out") and ".report." not in name])
    assert verified(server, folder, one, *(output if every and entries else ())) == []
    again = server.run(folder, one.arguments)
    assert again.code == 0, again.err
    after = committed(ledger)
    assert after[: len(entries)] == entries
    steps = int(one.arguments[one.arguments.index("--steps") + 1]) if "--steps" in one.arguments else HORIZON
    assert {row[1] for row in after} == set(range(steps))
    final = published(folder, one)
    for name, rows in shown.items():
        assert final[name][: len(rows)] == rows
    assert {int(row[0]) for rows in final.values() for row in rows[1:]} == set(range(steps))
    assert verified(server, folder, one, *output) == []
    assert listed(folder) == ready.files
    shutil.rmtree(folder)
    return done


SOME = [
    pytest.param(["second run", "followed", "long run"], 6, id="some"),
    pytest.param(list(SCENARIOS), 14, id="every scenario", marks=pytest.mark.law),
    pytest.param([name for name in SCENARIOS if name.startswith("long run")], 10, id="long", marks=pytest.mark.law),
    pytest.param(["latest step", "latest step of totals"], 10, id="the latest step", marks=pytest.mark.law),
    pytest.param(
        [name for name in SCENARIOS if name.startswith("in an account")], 8, id="in an account", marks=pytest.mark.law
    ),
    pytest.param(["first counts", "more new counts"], 10, id="new counts", marks=pytest.mark.law),
    pytest.param(
        [name for name in SCENARIOS if name.startswith("published again")],
        5,
        id="published again",
        marks=pytest.mark.law,
    ),
]


def chosen(prepared: dict[str, Prepared], kinds: dict[int, str], full: bool, sample: int) -> list[tuple[str, int, int]]:
    """Every call of the scenarios with everything that can happen to it, or a sample with a fixed seed."""
    places = [
        (name, at, what)
        for name, ready in prepared.items()
        for at, call in enumerate(ready.calls, 1)
        for what in kinds
        if what != HALF or "write" in call.split()[0]
        if what != ONCE + errno.EINTR or call.startswith(CAN_BE_INTERRUPTED)
    ]
    return places if full else random.Random(20261121).sample(places, sample)


def place_of(prepared: dict[str, Prepared], name: str, at: int, what: int) -> str:
    return f"{name}: {(KILLS | ERRORS)[what]} call {at}, {prepared[name].calls[at - 1]}"


@pytest.mark.parametrize(("scenarios", "sample"), SOME)
def test_a_run_killed_at_any_change_of_a_file_is_taken_up(
    scenarios: list[str], sample: int, prepare: Callable[[str], Prepared], server: Server, tmp_path: Path, full: bool
) -> None:
    """SIGKILL before or in the middle of every such call: kept values stay, and the next run goes on by itself."""
    prepared = {name: prepare(name) for name in scenarios}
    places, faults = chosen(prepared, KILLS, full, sample), {}
    for number, place in enumerate(places):
        try:
            done = disturbed(server, prepared[place[0]], *place[1:], tmp_path / str(number))
            assert done.code == -9, done.err
        except AssertionError as error:
            faults[place_of(prepared, *place)] = str(error)[:300]
    print(f"killed at {len(places)} places: {dict(Counter(name for name, _, _ in places))}")
    assert faults == {}


@pytest.mark.parametrize(("scenarios", "sample"), SOME)
def test_an_error_of_the_system_at_any_change_of_a_file_is_one_message(
    scenarios: list[str], sample: int, prepare: Callable[[str], Prepared], server: Server, tmp_path: Path, full: bool
) -> None:
    """A full disk, a failing one, an interrupted call: exit 1 and one message or no harm, and the next run goes on.

    A disk that is full when something is written is called so.
    """
    prepared = {name: prepare(name) for name in scenarios}
    places, faults, codes = chosen(prepared, ERRORS, full, sample), {}, Counter()
    for number, place in enumerate(places):
        try:
            done = disturbed(server, prepared[place[0]], *place[1:], tmp_path / str(number))
            codes[done.code] += 1
            said = [line for line in done.err.splitlines() if line.startswith("error")]
            assert (done.code, len(said)) in {(0, 0), (1, 1)}, done.err
            assert done.code == 0 or "released" not in done.out
            filled = place[2] % 1000 == errno.ENOSPC and "write" in prepared[place[0]].calls[place[1] - 1].split()[0]
            assert done.code == 0 or not filled or FULL.search(done.err), done.err
        except AssertionError as error:
            faults[place_of(prepared, *place)] = str(error)[:300]
    print(f"failed at {len(places)} places, exit codes {dict(codes)}")
    assert faults == {}
