"""Counts, drops and fingerprints are the same to the bit on every engine, on random events."""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.sources import StepCounts, read_events
from policyc_runtime.sources.engines.remote import remote_table

pytestmark = pytest.mark.law

STREAM = """policy visits "Visitors"
stream seen {{
  user person
  time at
  cell place in file("places.csv") levels(zone){otherwise}
  step {step}
  horizon {horizon} steps
  start "2026-03-27"{clock}
}}
{releases}
target user_level({target}{per})
participation at_most({bound} steps{per}, {most}{spacing}, enforced = {kept})
mechanism gaussian()
estimate none()
deliver offline
"""
SPACED = """policy visits "Visitors"
stream seen {
  user person
  time at
  cell place in {"A", "b"} otherwise "elsewhere"
  step 4h
  horizon 24 steps
  population 20
  start "2026-03-27"
}
release there = count(seen) by place
target alpha_dpt(alpha = 1.0)
correlation markov(
  forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "a test")
deliver offline
objective mean_squared_error
budget sparse(every = 3 steps)
postprocess there { sum(there) == population, there >= 0 }
"""
EVERY = """release there = count(seen) by place
release anywhere = count(seen)
release zones = count(seen) by zone
release spent = sum(seen.money, clamp = -5.5 .. 20) by place
release in_zones = sum(seen.money, clamp = -5.5 .. 20) by zone
release gone = sum(seen.price, clamp = 0 .. 0.3)
release wide = sum(seen.money, clamp = -1_000_000_000 .. 1_000_000_000)"""
ONCE = """release there = count(seen) by place
release anywhere = count(seen)"""
FIRST = """release there = count(seen) by place
release first = count(seen, cells_per_step = 1) by zone
release spent = sum(seen.money, clamp = -5.5 .. 20) by zone"""
BERLIN = '\n  clock "Europe/Berlin"'
CASES = {  # step, horizon, clock, releases, period, bound, per step, spacing, kept
    "latest": ("1h", 96, "", ONCE, "", 3, "per_step = 1", 1, "keep_first"),
    "several": ("1h", 96, "", EVERY, "", 4, "per_step = 2", 3, "keep_first"),
    "sampled": ("1h", 96, "", EVERY, "", 4, "per_step = 2", 3, "keep_sample"),
    "sampled once": ("1h", 96, "", ONCE, "", 2, "per_step = 1", 1, "keep_sample"),
    "days": ("1h", 96, "", EVERY, ", per = 1d", 3, "per_step = 3", 2, "keep_first"),
    "cells": ("1h", 96, "", FIRST, "", 3, "cells_per_step = 2", 2, "keep_first"),
    "days of a clock": ("1h", 96, BERLIN, ONCE, ", per = 1d", 2, "per_step = 1", 1, "keep_first"),
    "steps of days": ("1d", 4, BERLIN, EVERY, "", 2, "per_step = 2", 1, "keep_first"),
    "steps of many periods": ("4h", 24, "", EVERY, ", per = 60min", 1, "per_step = 2", 1, "keep_first"),
}
NAMES = [
    "ana",
    "Ana",
    "Zoë",
    "Zoe\u0308",
    "李",
    "😀",
    "o'neil",
    'a"b',
    "a\\b",
    "back`tick",
    "$1",
    "%s",
    "ß",
    "SS",
    "12",
    "-3",
    "x y",
    "007",
    " pad\u3000",
    "\u200bzero\v",
]
PLACES = ["A", "b", "Ä'", "北\\", "e%"]
HOUR = 3_600_000_000
BEGIN = np.datetime64("2026-03-27", "us").astype(np.int64)  # the clock of Berlin is put forward two days later


def planned(folder: Path, case: str, *, otherwise: bool = True) -> Plan:
    step, horizon, clock, releases, per, bound, most, spacing, kept = CASES[case]
    zones = ["place,zone", *(f'"{place}",Z{index % 2}' for index, place in enumerate(PLACES))]
    (folder / "places.csv").write_text("\n".join(zones) + "\n")
    (folder / "visits.policy").write_text(
        STREAM.format(
            step=step, horizon=horizon, clock=clock, releases=releases, per=per, bound=bound, most=most, kept=kept,
            spacing="" if spacing == 1 else f", spacing = {spacing} steps", otherwise="",
            target="epsilon = 5.0, delta = 1e-6, neighbors = add_remove",
        )
    )  # fmt: skip
    return compile_policy(folder / "visits.policy").plan


def drawn(seed: int, *, berlin: bool, events: int = 900) -> list[tuple[object, ...]]:
    """Events with ties, at the edges of steps, with values at the edges of the grid and beyond the clamp."""
    rng = np.random.default_rng(seed)
    first = BEGIN - HOUR * berlin
    moments = first + rng.integers(0, 95 * HOUR, events)
    edges = rng.random(events) < 0.5
    moments[edges] = first + rng.integers(0, 95, edges.sum()) * HOUR + rng.choice([0, 0, 1, HOUR - 1], edges.sum())
    users = rng.choice(len(NAMES), events)
    places = rng.choice(len(PLACES), events)
    money = np.round(rng.normal(5, 12, events), rng.integers(0, 4))
    some = rng.random(events) < 0.3
    odd = [0.005, -0.005, 0.015, 0.125, 20.0, -5.5, 1e300, -1e300, 5e-324, -5e-324, 0.1 + 0.2]
    money[some] = rng.choice(odd, some.sum())
    price = [f"0.{''.join(map(str, digits))}" for digits in rng.integers(0, 10, (events, 20))]
    return [
        (NAMES[user], int(at), PLACES[place], float(value), price_of)
        for user, at, place, value, price_of in zip(users, moments, places, money, price, strict=True)
    ]


def parquet(folder: Path, rows: list[tuple[object, ...]], name: str = "events.parquet", *, zone: str = "") -> Path:
    """A Parquet file of these events, with a column of decimals of 25 digits."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute('CREATE TABLE e (person VARCHAR, "at" BIGINT, place VARCHAR, money DOUBLE, price VARCHAR)')
    connection.executemany("INSERT INTO e VALUES (?, ?, ?, ?, ?)", rows)
    moment = 'make_timestamptz("at")' if zone else 'make_timestamp("at")'
    connection.execute(
        f'COPY (SELECT person, {moment} AS "at", place, money, price::DECIMAL(28, 20) AS price FROM e) '
        f"TO '{folder / name}'"
    )
    return folder / name


def load(server, file: Path, table: str) -> None:
    """The rows of a Parquet file in a table of Postgres, in another order."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    rows = connection.execute(f"SELECT person, \"at\"::VARCHAR, place, money, price::VARCHAR FROM '{file}'").fetchall()
    kind = connection.execute(f"DESCRIBE SELECT \"at\" FROM '{file}'").fetchall()[0][1]
    with server.connect() as held, held.cursor() as cursor:
        cursor.execute(f'DROP TABLE IF EXISTS "{table}"')
        cursor.execute(
            f'CREATE TABLE "{table}" (person text, at {kind}, place varchar(9), money double precision, price numeric)'
        )
        with cursor.copy(f'COPY "{table}" FROM STDIN') as copy:
            for row in rows[::-1]:
                copy.write_row(row)


def same(found: StepCounts, known: StepCounts) -> None:
    assert found.digests == known.digests
    assert found.dropped == known.dropped
    assert found.counts.keys() == known.counts.keys()
    for name, values in known.counts.items():
        assert values.dtype == found.counts[name].dtype
        assert np.array_equal(values, found.counts[name]), name


@pytest.mark.sampled(0, laws=8)
@pytest.mark.parametrize("zone", ["", "UTC"])
@pytest.mark.parametrize("case", CASES)
def test_postgres_counts_the_same(case, zone, server, tmp_path):
    plan = planned(tmp_path, case)
    for seed in range(3):
        file = parquet(tmp_path, drawn(seed, berlin=bool(CASES[case][2] and zone)), zone=zone)
        load(server, file, "Events of all")
        known = read_events(file, plan, steps=plan.stream.horizon)
        found = read_events(remote_table("postgres", server.url("Events of all")), plan, steps=plan.stream.horizon)
        assert sum(known.dropped.values()) > 0
        same(found, known)


@pytest.mark.sampled(0, laws=4)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # py4j's
@pytest.mark.parametrize(("zone", "case"), list(zip(itertools.cycle(["", "UTC"]), CASES, strict=False)))
def test_spark_counts_the_same(case, zone, spark, tmp_path):
    plan = planned(tmp_path, case)
    file = parquet(tmp_path, drawn(3, berlin=bool(CASES[case][2] and zone)), zone=zone)
    known = read_events(file, plan, steps=plan.stream.horizon)
    assert sum(known.dropped.values()) > 0
    same(read_events(remote_table("spark", str(file)), plan, steps=plan.stream.horizon), known)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # py4j's
def test_a_plan_that_releases_every_third_step_is_the_same_on_spark(spark, tmp_path):
    """Counts and fingerprints of all steps; with the same noise the same file, which has none at the others."""
    (tmp_path / "visits.policy").write_text(SPACED)
    plan = compile_policy(tmp_path / "visits.policy").plan
    file = parquet(tmp_path, drawn(4, berlin=False))
    same(read_events(remote_table("spark", str(file)), plan, steps=24), read_events(file, plan, steps=24))
    written = []
    for engine in ("duckdb", "spark"):
        given = {"engine": engine, "steps": 24, "pin": None, "randomness": SimulationRandomness(3)}
        done = release(plan, str(file), tmp_path / engine, **given)
        skipped = done.series["there"].skipped
        assert 0 < np.count_nonzero(~skipped) < 24 // 2
        write_release(done, tmp_path / f"{engine}.csv")
        written.append((tmp_path / f"{engine}.csv").read_bytes())
    assert written[0] == written[1]
