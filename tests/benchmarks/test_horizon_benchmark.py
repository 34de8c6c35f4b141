"""Long streams and chains of hundreds of states: seconds and memory of compile, verify and run, beside a plain loop."""

from __future__ import annotations

import csv
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc.planning.leakage.loss import LossFunction
from policyc_check.plan.plan import load_plan
from policyc_check.verify import verified_claims

pytestmark = pytest.mark.law
Floats = NDArray[np.float64]

SHORT, LONG = 10_000, 1_000_000
STREAM = """policy long "visitors by place"
stream visits {{
  user person
  time at
  cell place in {{{cells}}}{otherwise}
  step 1min
  horizon {horizon} steps
  start "2013-01-01"
{population}
}}
release there = count(visits) by place
{promise}
deliver offline
objective mean_squared_error
{after}
"""
CHAIN = """target alpha_dpt(alpha = 1.0)
correlation markov(forward = file("chain.csv"), initial = stationary, evidence = "x")"""
PUBLIC = "postprocess there { sum(there) == population, there >= 0, integer(there) }"
PROMISES = {
    "alpha_dpt": (CHAIN, PUBLIC),
    "alpha_dpt, seldom": (f"{CHAIN}\nbudget sparse(every = 240 steps)", PUBLIC),
    "alpha_dpt, slowly": (CHAIN, PUBLIC),
    "alpha_dpt, a day": (CHAIN.replace("1.0)", "1.0, window = 1440 steps)"), PUBLIC),
    "alpha_dpt, a day, slowly": (CHAIN.replace("1.0)", "1.0, window = 1440 steps)"), PUBLIC),
    "user_level": (
        "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)\n"
        'participation at_most(20 steps, assumed = "x")',
        "",
    ),
    "w_event": ("target w_event(epsilon = 1.0, window = 12 steps)", ""),
}
MEASURED = """
import os, resource, sys
from pathlib import Path
from policyc.cli import main
sys.argv = ["policyc", *sys.argv[1:]]
start = sum(os.times()[:4])
try:
    main()
finally:
    lines = Path("/proc/self/status").read_text().splitlines()  # getrusage tells of whoever started this, too
    used = int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    used += resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # what both share is counted twice
    print(f"{sum(os.times()[:4]) - start} {used / 1024}", file=sys.stderr)
"""


def command(folder: Path, *arguments: str) -> tuple[float, float]:
    """CPU seconds of one command, with those of its second processes, and peak MiB of it and its largest one."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    seconds, size = map(float, done.stderr.splitlines()[-1].split())
    return seconds, size


def staying(states: int, stay: float = 0.9) -> Floats:
    """Users who stay with this probability, and else go anywhere."""
    rows = np.random.default_rng(5).random((states, states))
    return stay * np.eye(states) + (1 - stay) * rows / rows.sum(axis=1, keepdims=True)


def anywhere(states: int) -> Floats:
    """Users who go anywhere at every step."""
    return np.random.default_rng(7).gamma(2.0, size=(states, states)) + 0.3


def neighbours(states: int) -> Floats:
    """Users on a square grid, who stay more often than not, or go to a cell beside theirs."""
    side = math.isqrt(states)
    chain = np.zeros((side, side, side, side))
    for i, j in np.ndindex(side, side):
        chain[i, j, i, j] += 12
        for to, weight in (((i, j + 1), 3), ((i + 1, j), 2), ((i, j - 1), 2), ((i - 1, j), 1)):
            if 0 <= min(to) <= max(to) < side:
                chain[i, j, *to] += weight
    return chain.reshape(states, states)


def written(folder: Path, horizon: int, promise: str, cells: int = 4, moves: Callable[[int], Floats] = staying) -> None:
    """A policy and the chain it names."""
    rows = moves(cells)
    np.savetxt(folder / "chain.csv", rows / rows.sum(axis=1, keepdims=True), delimiter=",", fmt="%.17g")
    names = ", ".join(f'"c{i}"' for i in range(cells - 1))
    text, after = PROMISES[promise]
    public = {"otherwise": ' otherwise "away"', "population": "  population 4_037"} if promise != "user_level" else {}
    given = {"otherwise": "", "population": "", **public, "cells": names, "horizon": horizon}
    (folder / "long.policy").write_text(STREAM.format(**given, promise=text, after=after))


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("promise", PROMISES)
def test_a_million_steps(promise: str, full: bool, tmp_path: Path) -> None:
    """Compile and verify a million steps; by the clock, memory and the plan's size beside a hundredth of them.

    Without `--full` a tenth of both.
    """
    sizes, moves = [], partial(staying, stay=0.99) if "slowly" in promise else staying
    short, long = (steps if full or "slowly" in promise else steps // 10 for steps in (SHORT, LONG))
    for horizon in (short, long):
        folder = tmp_path / str(horizon)
        folder.mkdir()
        written(folder, horizon, promise, moves=moves)
        taken = {}
        for name, given in (("compile", "long.policy"), ("verify", "long.plan")):
            begun = time.perf_counter()
            taken[name], size = command(folder, name, given)
            wall = time.perf_counter() - begun
            print(f"{promise}, {horizon:,} steps, {name}: {taken[name]:.2f} s of CPU, {wall:.1f} s, {size:.0f} MiB")
        sizes.append((folder / "long.plan" / "plan.json").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0]
    if promise == "alpha_dpt":
        record = load_plan(tmp_path / str(long) / "long.plan").correlation.chains[0]
        loss, value = LossFunction(record.chain().backward), 0.0
        start = time.process_time()
        for _ in range(long):
            value = 0.2 + loss(value)
        looped = time.process_time() - start
        print(
            f"the recursion as a plain loop: {looped:.2f} s; compile takes {taken['compile'] / looped:.1f} times that"
        )


def counted(folder: Path, name: str, steps: Iterable[int]) -> None:
    """Ready counts of some steps, row by row: the memory of a long list would be told of the commands."""
    with (folder / f"{name}.csv").open("w") as file:
        file.write("step,place,count\n")
        file.writelines(f"{t},c0,{t % 400}\n{t},c1,9\n{t},c2,0\n{t},away,{4_028 - t % 400}\n" for t in steps)


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(
    ("promise", "deliver", "most"),
    [("w_event", "realtime", 200), ("alpha_dpt", "realtime", 300), ("alpha_dpt", "offline", 1000)],
)
def test_a_long_run(promise: str, deliver: str, most: int, full: bool, tmp_path: Path) -> None:
    """Steps that lie there as counts, beside reading the rows, and beside a tenth of them. `--full`: a million.

    Values that are published at the end are held; of others what a step needs of those before it.
    """
    long = LONG if full else LONG // 10
    used = []
    for steps in (long // 10, long):
        folder = tmp_path / str(steps)
        folder.mkdir()
        written(folder, steps, promise)
        policy = folder / "long.policy"
        policy.write_text(policy.read_text().replace("deliver offline", f"deliver {deliver}"))
        command(folder, "compile", "long.policy")
        counted(folder, "counts", range(steps))
        start = time.process_time()
        with (folder / "counts.csv").open(newline="") as file:
            assert sum(1 for _ in csv.reader(file)) == 4 * steps + 1
        read = time.process_time() - start
        begun = time.perf_counter()
        seconds, size = command(folder, "run", "long.plan", "--input", "counts.csv", "--counts", "--output", "o.csv")
        wall = time.perf_counter() - begun
        with (folder / "o.csv").open() as file:
            assert sum(1 for _ in file) == 4 * steps + 1
        print(f"{promise}, {deliver}, {steps:,} steps run: {seconds:.2f} s of CPU, {wall:.1f} s, {size:.0f} MiB")
        print(f"the rows read by csv.reader: {read:.2f} s of CPU")
        used.append(size)
    more = (used[1] - used[0]) * 2**20 / (long - long // 10)
    print(f"{promise}, {deliver}: {more:.0f} bytes a step more of memory; counts, noisy and published values take 96")
    assert more < most or not full  # a short run holds all steps


def one_event_a_step(folder: Path, steps: range) -> None:
    """Events of users who are seen once."""
    begin = datetime(2013, 1, 1, tzinfo=UTC)
    rows = (f"u{t % 4_000},{(begin + timedelta(minutes=t)).isoformat()},c{t % 3}" for t in steps)
    (folder / "events.csv").write_text("\n".join(["person,at,place", *rows]) + "\n")


TREE = "mechanism binary_tree()\nestimate none()\nrelease sofar = prefix(there)\n"


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(("promise", "more", "longest"), [("w_event", "", 100_000), ("user_level", TREE, 10_000)])
def test_one_more_step(promise: str, more: str, longest: int, full: bool, tmp_path: Path) -> None:
    """One more step of a stream that is carried on, after a thousand and after ten or a hundred times as many.

    Without `--full` a tenth of these.
    """
    needed, longest = [], longest if full else longest // 10
    for steps in (min(longest // 10, 1_000), longest):
        folder = tmp_path / str(steps)
        folder.mkdir()
        written(folder, LONG if not more else 4 * longest, promise)
        policy = folder / "long.policy"
        policy.write_text(policy.read_text().replace("deliver offline", "deliver realtime") + more)
        command(folder, "compile", "long.policy")
        for new in (range(steps), *(range(t, t + 1) for t in range(steps, steps + 3))):
            one_event_a_step(folder, new)
            given = ("--input", "events.csv", "--continued", "--output", "o.csv", "--steps", str(new.stop))
            seconds, size = command(folder, "run", "long.plan", *given)
            print(f"{steps:,} steps, {len(new):,} new: {seconds:.2f} s of CPU, {size:.0f} MiB")
        needed.append(seconds)
    print(f"one more step beyond that of a short stream: {needed[1] - needed[0]:.2f} s of CPU")
    print(f"one more step, long to short: {needed[1] / needed[0]:.2f}")
    assert needed[1] < needed[0] + 1.0


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("promise", ["w_event", "alpha_dpt"])
def test_one_more_step_of_counts(promise: str, full: bool, tmp_path: Path) -> None:
    """One more step of ready counts, after a hundred and after 20,000 in turn. `--full`: after a million."""
    turns = 5 if full else 2
    needed: dict[int, list[float]] = {100: [], (LONG if full else LONG // 50) - turns: []}

    def run(begun: int, steps: range) -> float:
        folder = tmp_path / str(begun)
        counted(folder, "counts", steps)
        given = ("--input", "counts.csv", "--counts", "--output", "o.csv", "--steps", str(steps.stop))
        return command(folder, "run", "long.plan", *given, "--continued", "--no-report")[0]

    for begun in needed:
        folder = tmp_path / str(begun)
        folder.mkdir()
        written(folder, LONG, promise)
        policy = folder / "long.policy"
        policy.write_text(policy.read_text().replace("deliver offline", "deliver realtime"))
        command(folder, "compile", "long.policy")
        print(f"{promise}, {begun:,} steps at once: {run(begun, range(begun)):.2f} s of CPU")
    for more in range(turns):
        for begun, seconds in needed.items():
            seconds.append(run(begun, range(begun + more, begun + more + 1)))
    short, long = map(median, needed.values())
    print(f"one more step after {', '.join(f'{n:,}: {median(each):.2f} s' for n, each in needed.items())} of CPU")
    print(f"one more step beyond that of a short stream: {long - short:.2f} s of CPU")
    print(f"one more step of counts, long to short: {long / short:.2f}")
    assert (tmp_path / str(max(needed)) / "o.csv").read_text().count("\n") == 4 * (max(needed) + turns) + 1


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("moves", [staying, anywhere, neighbours])
@pytest.mark.parametrize("states", [25, 100, 196, 400])
def test_many_states(states: int, moves: Callable[[int], Floats], tmp_path: Path) -> None:
    """Chains of hundreds of states over 300 steps: compile, verify, check and leakage, beside one value of the loss."""
    written(tmp_path, 300, "alpha_dpt", states, moves)
    matrix = np.loadtxt(tmp_path / "chain.csv", delimiter=",")
    start = time.process_time()
    LossFunction(matrix)(1.0)
    value, chain = time.process_time() - start, f"{states} states, {moves.__name__}"
    print(f"{chain}, one value of the loss: {value:.3f} s of CPU")
    (tmp_path / "spent.csv").write_text("step,epsilon\n" + "".join(f"{t},0.1\n" for t in range(300)))
    for name, arguments in (
        ("compile", ("compile", "long.policy")),
        ("verify", ("verify", "long.plan")),
        ("leakage", ("leakage", "--budgets", "spent.csv", "--forward", "chain.csv")),
    ):
        seconds, size = command(tmp_path, *arguments)
        print(f"{chain}, {name}: {seconds:.1f} s of CPU, {seconds / value:.0f} values of the loss, {size:.0f} MiB")
    start = time.process_time()
    assert all(claim.holds for claim in verified_claims(load_plan(tmp_path / "long.plan")))
    print(f"{chain}, the check of what is promised: {time.process_time() - start:.1f} s of CPU")


@pytest.mark.sampled(0, laws=1)
def test_some_states_and_many_steps(full: bool, tmp_path: Path) -> None:
    """36 places on a grid over 10,000 minutes, where more leaks between releases than at them. `--full`: 100,000."""
    steps = LONG // 10 if full else LONG // 100
    written(tmp_path, steps, "alpha_dpt", 36, neighbours)
    for name, given in (("compile", "long.policy"), ("verify", "long.plan")):
        begun = time.perf_counter()
        seconds, size = command(tmp_path, name, given)
        wall = time.perf_counter() - begun
        print(f"36 states, {steps:,} steps, {name}: {seconds:.1f} s of CPU, {wall:.1f} s, {size:.0f} MiB")
