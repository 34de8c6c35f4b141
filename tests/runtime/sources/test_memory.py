"""Tables in memory, in and out, by the Arrow protocol; counts with moments; rows that are not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from policyc import compile_policy
from policyc_runtime import Plan, load_plan, release
from policyc_runtime.errors import DataError
from policyc_runtime.output import write_release
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources import read_counts, read_events
from policyc_runtime.sources.memory import HeldTable
from policyc_runtime.sources.tables import connect

POLICY = """policy trips "trips"

stream trips {
  user     rider
  time     at
  cell     town in {"A", "B"}
  step     1h
  horizon  6 steps
  start    "2026-01-01"
CLOCK}

release rides = count(trips) by town

target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(6 steps, BOUND)
"""


FINE = {"rider": ["a", "b"], "at": ["2026-01-01T00:30", "2026-01-01T01:30"], "town": ["A", "B"]}


def _with_a_fault(kind: str, name: str) -> Any:
    """A table of which one column is not handed over."""
    fine = {column: values for column, values in FINE.items() if column != name}
    pandas = pytest.importorskip("pandas")
    rows = [[*row] for row in zip(*fine.values(), [1, 2], [3, 4], strict=True)]
    return {
        "pandas": lambda: pandas.DataFrame({**fine, name: [1, "S3CRET"]}),
        "pandas, twice": lambda: pandas.DataFrame(rows, columns=[*fine, name, name]),
        "pyarrow": lambda: pa.table({**fine, name: pa.array([1, 2], pa.decimal256(60, 2))}),
        "pyarrow, a number": lambda: pa.table({**fine, name: pa.array(np.zeros(2, dtype=np.float16))}),
        "pyarrow, twice": lambda: pa.table(
            [*fine.values(), ["x", "x"], ["x", "x"], np.zeros(2, dtype=np.float16)], names=[*fine, "two", "two", name]
        ),
        "polars": lambda: pytest.importorskip("polars").DataFrame({**fine, name: [None, None]}),
    }[kind]()


FAULTS = ["pandas", "pandas, twice", "pyarrow", "pyarrow, a number", "polars"]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_column_that_cannot_be_handed_over_is_named(kind: str, tmp_path: Path) -> None:
    """Objects, names that stand there twice, types that duckdb has none for, and none at all; nothing of its rows."""
    with pytest.raises(DataError, match="the data cannot be read") as refused:
        release(plan_of(tmp_path), _with_a_fault(kind, "town"), tmp_path / "l", pin=None)
    assert "the column `town`, which is the policy's cell, is not handed over" in str(refused.value.because)
    assert "S3CRET" not in f"{refused.value} {refused.value.because} {refused.value.help}"


@pytest.mark.parametrize("kind", [*FAULTS, "pyarrow, twice"])
def test_a_column_that_cannot_be_handed_over_is_left_out(kind: str, tmp_path: Path) -> None:
    """Where the policy does not name it: as of files, no other column matters."""
    found = read_events(HeldTable(connect(), _with_a_fault(kind, "more")), plan_of(tmp_path), steps=2)
    assert found.counts["rides"].tolist() == [[1, 0], [0, 1]]


def test_what_is_missing_of_a_table_is_said_of_a_table(plan: Plan, tmp_path: Path) -> None:
    """Not of a file's first row, or of the wrong file: columns, and rows of a reader that was read already."""
    with pytest.raises(DataError, match="there is no column `rider`") as refused:
        read_events(HeldTable(connect(), pa.table({"other": [1]})), plan, steps=1)
    assert "row" not in f"{refused.value.because} {refused.value.help}"
    reader = pa.RecordBatchReader.from_batches(events().schema, events().to_batches())
    read_events(HeldTable(connect(), reader), plan, steps=1)
    with pytest.raises(DataError) as refused:
        read_events(HeldTable(connect(), reader), plan, steps=1)
    assert (refused.value.code, "hand over a new one" in str(refused.value.help)) == ("E0816", True)


@pytest.mark.parametrize("how", ["memory", "file", "folder"])
def test_names_that_differ_in_capitals_are_told_apart(how: str, tmp_path: Path) -> None:
    """Duckdb renames all but the first, to what may be another column's name."""
    table = pa.table(
        [["x", "x"], ["x", "x"], FINE["rider"], FINE["at"], ["B", "B"], ["B", "B"], FINE["town"]],
        names=["User", "user", "user_1", "at", "Town", "town", "town_1"],
    )
    plan = plan_of(tmp_path, renamed={"user     rider": "user     user_1", "town": "town_1"})
    given: Any = HeldTable(connect(), table)
    if how != "memory":
        (tmp_path / "in").mkdir()
        pq.write_table(table, tmp_path / "in" / "a.parquet")
        given = tmp_path / "in" / ("a.parquet" if how == "file" else "")
    assert read_events(given, plan, steps=2).counts["rides"].tolist() == [[1, 0], [0, 1]]
    if how == "folder":  # of files that are alike they are told by their place, too
        pq.write_table(table, tmp_path / "in" / "b.parquet")
        assert read_events(given, plan, steps=2).counts["rides"].tolist() == [[1, 0], [0, 1]]
        pq.write_table(table.select(table.column_names[::-1]), tmp_path / "in" / "c.parquet")
        with pytest.raises(DataError, match="there are several columns `user_1`"):
            read_events(given, plan, steps=2)


@pytest.mark.parametrize("columns", [3, len, ["a"], None])
def test_a_table_of_which_nothing_comes_names_no_column(columns: Any) -> None:
    """Whatever its `columns` are: an error that has nothing to do with one is blamed on none."""

    class Lost:
        def __init__(self) -> None:
            self.columns = columns

        def __getitem__(self, names: object) -> Lost:
            return self

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            raise RuntimeError("S3CRET")

    with pytest.raises(DataError, match="the data cannot be read") as refused:
        HeldTable(connect(), Lost())
    assert "by the Arrow protocol that can be read to its end" in str(refused.value.because)


class Stream:
    """A table as libraries hand it over; of a reader, once alone."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def plan_of(
    folder: Path, bound: str = 'assumed = "so many hours"', clock: str = "", renamed: dict[str, str] | None = None
) -> Plan:
    file = folder / "trips.policy"
    text = POLICY.replace("BOUND", bound).replace("CLOCK", clock)
    for name, other in (renamed or {}).items():
        text = text.replace(name, other)
    file.write_text(text)
    return load_plan(compile_policy(file).save(folder / "trips.plan"))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path)


def events(seed: int = 1, rows: int = 200) -> pa.Table:
    generator = np.random.default_rng(seed)
    minutes = generator.integers(0, 360, rows).astype("timedelta64[m]")
    return pa.table(
        {
            "rider": [f"r{number}" for number in generator.integers(0, 40, rows)],
            "at": np.datetime64("2026-01-01T00:00:00", "us") + minutes,
            "town": pa.array(generator.choice(["A", "B"], rows)).dictionary_encode(),
            "else": generator.random(rows),
        }
    )


@pytest.fixture
def held() -> Iterator[Any]:
    connections = []

    def hold(table: object) -> HeldTable:
        connections.append(connect())
        return HeldTable(connections[-1], table)  # type: ignore[arg-type]

    yield hold
    for connection in connections:
        connection.close()


def test_a_table_has_the_counts_of_its_file(plan: Plan, tmp_path: Path, held: Any) -> None:
    """Counts and fingerprints are those of the same rows in a Parquet file, whichever library hands them over."""
    table = events()
    pq.write_table(table, tmp_path / "events.parquet")
    known = read_events(tmp_path / "events.parquet", plan, steps=6)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))
    elsewhere = duckdb.connect()
    relation = elsewhere.sql(f"FROM read_parquet('{tmp_path / 'events.parquet'}')")
    for handed in (table, Stream(table), Stream(reader), relation):
        found = read_events(held(handed), plan, steps=6)
        np.testing.assert_array_equal(found.counts["rides"], known.counts["rides"])
        assert found.digests == known.digests


def test_a_run_on_a_table_is_a_run_on_its_file(plan: Plan, tmp_path: Path) -> None:
    table = events()
    pq.write_table(table, tmp_path / "events.parquet")
    first = release(plan, Stream(table), tmp_path / "l", steps=6, pin=None)
    again = release(plan, tmp_path / "events.parquet", tmp_path / "l", steps=6, pin=None)
    np.testing.assert_array_equal(first.released, again.released)
    assert again.before == 6


@pytest.mark.parametrize("name", ["town", "else"])
def test_of_columns_with_one_name_none_is_taken(plan: Plan, held: Any, name: str) -> None:
    """As of a file: neither is taken where the policy names them; other names may repeat, and are told by nothing."""
    table = events()
    more = table.append_column(name, pa.array(["A"] * len(table)))
    reader = pa.RecordBatchReader.from_batches(more.schema, more.to_batches())
    for handed in (Stream(more), Stream(reader)):
        if name == "else":
            assert read_events(held(handed), plan, steps=6).digests == read_events(held(table), plan, steps=6).digests
            continue
        with pytest.raises(DataError) as refused:
            read_events(held(handed), plan, steps=6)
        told = refused.value
        assert (told.code, told.message) == ("E0811", "there are several columns `town`, which is the policy's cell")


def test_the_same_one_shot_reader_is_read_once(plan: Plan, tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(events().schema, events().to_batches())
    assert len(release(plan, Stream(reader), tmp_path / "l", steps=6, pin=None).times) == 6


def test_carried_on_from_tables(tmp_path: Path) -> None:
    """New rows alone, handed over, are those of a file that has them."""
    plan, table = plan_of(tmp_path, "enforced = keep_first"), events()
    early = table.filter(pa.compute.less(table["at"], pa.scalar(np.datetime64("2026-01-01T03:00", "us"))))
    late = table.filter(pa.compute.greater_equal(table["at"], pa.scalar(np.datetime64("2026-01-01T03:00", "us"))))
    for name, parts in (("whole", [table]), ("pieces", [early, late])):
        for part, steps in zip(parts, (6,) if len(parts) == 1 else (3, 6), strict=True):
            done = release(plan, Stream(part), tmp_path / name, steps=steps, continued=len(parts) > 1, pin=None,
                           randomness=SimulationRandomness(3))  # fmt: skip
        assert len(done.times) == 6


class Broken:
    """What says that it speaks the protocol, and hands over something else."""

    def __init__(self, handed: Any) -> None:
        self._handed = handed

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if isinstance(self._handed, Exception):
            raise self._handed
        return self._handed


@pytest.mark.parametrize(
    "handed",
    [
        Broken(None),
        Broken(7),
        Broken(ValueError("secret-value")),
        Broken(RuntimeError("secret-value")),
        pa.chunked_array([[1, 2]]),
    ],
)
def test_what_hands_over_no_table_is_refused(plan: Plan, tmp_path: Path, handed: object) -> None:
    with pytest.raises(DataError) as refused:
        release(plan, handed, tmp_path / "l", steps=6, pin=None)  # type: ignore[arg-type]
    assert refused.value.code in {"E0810", "E0811"}
    assert "secret" not in f"{refused.value} {refused.value.because} {refused.value.help}"
    assert not (tmp_path / "l").exists() or refused.value.code == "E0811"


def test_places_in_a_table_are_rows(plan: Plan, tmp_path: Path) -> None:
    table = events(rows=5).set_column(0, "rider", pa.array(["a", "b", None, "c", "d"]))
    with pytest.raises(DataError, match="is empty") as refused:
        release(plan, Stream(table), tmp_path / "l", steps=6, pin=None)
    assert refused.value.where == "the table in memory: row 3"


def test_a_simulated_table_is_marked(plan: Plan, tmp_path: Path) -> None:
    table = events().append_column("simulated", pa.array(["yes"] * 200))
    done = release(plan, Stream(table), tmp_path / "l", steps=6, pin=None)
    assert not done.is_release
    assert "simulated" in done.table().to_arrow().column_names


@pytest.mark.parametrize("clock", ["", '  clock "Europe/Berlin"\n'])
def test_the_table_out_is_the_file(tmp_path: Path, clock: str) -> None:
    plan = plan_of(tmp_path, clock=clock)
    done = release(plan, Stream(events()), tmp_path / "l", steps=6, pin=None)
    (file,) = write_release(done, tmp_path / "out.parquet")
    assert done.table().to_arrow().equals(pq.read_table(file))
    assert done.table("rides").to_arrow().num_rows == 12
    assert pa.table(done.table()) == done.table().to_arrow()
    shown = repr(done.table()).splitlines()
    assert [cell.strip() for cell in shown[1].split("│")[1:-1]] == done.table().to_arrow().column_names
    assert sum(line.count("│ A ") + line.count("│ B ") for line in shown) == 12
    with pytest.raises(ValueError, match=r"say which release, as in `.table\(\"rides\"\)`"):
        done.table("walks")
    several = replace(done, series={**done.series, "walks": done.series["rides"]})
    for asked in (several.table, lambda: several.released, lambda: several.name):
        with pytest.raises(ValueError, match="rides, walks"):
            asked()
    assert several.table("walks").to_arrow() == done.table().to_arrow()


COUNTS = [("2026-01-01T00:00", "A", 3), ("2026-01-01T00:59:59", "B", 4), ("2026-01-01T02:30", "B", 5)]


def counted(rows: list[tuple[str, str, int]]) -> pa.Table:
    return pa.table(
        {"at": [row[0] for row in rows], "town": [row[1] for row in rows], "count": [row[2] for row in rows]}
    )


def test_counts_may_say_moments_instead_of_steps(plan: Plan, held: Any) -> None:
    found = read_counts(held(counted(COUNTS)), plan, gaps="zero")
    assert found.counts["rides"].tolist() == [[3, 4], [0, 0], [0, 5], *[[0, 0]] * 3]
    longer = read_counts(held(counted(COUNTS)), plan, steps=5, gaps="zero")
    assert longer.counts["rides"].tolist() == [[3, 4], [0, 0], [0, 5], [0, 0], [0, 0]]
    with pytest.raises(DataError, match="the count of cell `A` at step 1 is missing") as refused:
        read_counts(held(counted(COUNTS)), plan)
    assert "--gaps zero" in (refused.value.help or "")


def test_steps_and_moments_of_counts_say_the_same(plan: Plan, held: Any) -> None:
    """Where both stand in a row: a number that slipped by one would give every count to the wrong step."""
    table = counted(COUNTS)
    for numbers in ([0, 0, 2], [0, 0, None]):
        known = [number is not None for number in numbers]
        both = table.append_column("step", pa.array([n or 0 for n in numbers])).filter(pa.array(known))
        found = read_counts(held(both), plan, gaps="zero")
        assert found.counts["rides"].tolist()[0] == [3, 4]
    with pytest.raises(DataError, match="`step` and `at` say different steps") as refused:
        read_counts(held(table.append_column("step", pa.array([0, 1, 2]))), plan, gaps="zero")
    assert refused.value.code == "E0818"
    assert "leave out one of both columns" in (refused.value.help or "")
    unread = table.set_column(0, "at", pa.array([None, "soon", ""])).append_column("step", pa.array([0, 0, 2]))
    assert read_counts(held(unread), plan, gaps="zero").counts["rides"].tolist()[2] == [0, 5]


def test_moments_of_counts_are_those_of_the_clock(tmp_path: Path, held: Any) -> None:
    """Berlin is an hour ahead of UTC: what says its zone is converted, what says none is the clock's."""
    plan = plan_of(tmp_path, clock='  clock "Europe/Berlin"\n')
    rows = [("2026-01-01T00:00", "A", 1), ("2026-01-01T01:00+00:00", "A", 2)]
    found = read_counts(held(counted(rows)), plan, gaps="zero")
    assert found.counts["rides"].tolist() == [[1, 0], [0, 0], [2, 0], *[[0, 0]] * 3]
    with pytest.raises(DataError, match="come twice") as refused:
        read_counts(held(counted([*rows, ("2026-01-01T02:00", "A", 3)])), plan, gaps="zero")
    assert "with their offset" in (refused.value.help or ""), "of an hour that the clock shows twice"
    with pytest.raises(DataError, match="no column `step`, .* and none `at`, its moment"):
        read_counts(held(counted(rows).rename_columns(["time", "town", "count"])), plan)


def test_no_user_decides_how_many_steps_are_released(plan: Plan, tmp_path: Path, held: Any, clock: Any) -> None:
    """Of counts with gaps those that are over by the clock, whatever the last row is; else a number is asked for."""
    clock("2026-01-01T17:30")  # without a zone a step is over when it is so everywhere on Earth
    found = {len(read_counts(held(counted(COUNTS[:rows])), plan, gaps="zero").counts["rides"]) for rows in (1, 3)}
    assert found == {5}
    (tmp_path / "later.policy").write_text(
        POLICY.replace('start    "2026-01-01"\nCLOCK', "").replace("BOUND", 'assumed = "so many hours"')
    )
    later = compile_policy(tmp_path / "later.policy").plan
    by_step = held(pa.table({"step": [0, 2], "town": ["A", "B"], "count": [3, 1]}))
    with pytest.raises(DataError, match="nobody says how many steps") as refused:
        read_counts(by_step, later, gaps="zero")
    assert refused.value.code == "E0863"
    assert read_counts(by_step, later, steps=4, gaps="zero").counts["rides"].tolist() == [
        [3, 0],
        [0, 0],
        [0, 1],
        [0, 0],
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([*COUNTS, ("2026-01-01T02:59", "B", 1)], "comes? twice|come twice"),
        ([("2025-12-31T23:59:59", "A", 1)], "the value in column `at` is not a step"),
        ([("soon", "A", 1)], "the value in column `at` is not a step"),
        ([("2026-01-01T06:00", "A", 1)], "beyond the horizon"),
        ([("2026-01-01T01:00", "C", 1)], "is not a cell of the policy"),
        ([("2026-01-01T01:00", "A", -1)], "is not a count"),
    ],
)
def test_rows_of_counts_that_cannot_be_used(plan: Plan, held: Any, rows: list[tuple[str, str, int]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_counts(held(counted(rows)), plan, gaps="zero")


def test_data_frames_of_pandas_in_and_out(plan: Plan, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(events().to_pandas())
    done = release(plan, frame, tmp_path / "l", steps=6, pin=None)
    same = release(plan, events(), tmp_path / "l", steps=6, pin=None)
    assert same.before == 6
    assert done.table().to_pandas()["released"].tolist() == np.ravel(done.released).tolist()


def test_a_library_that_is_not_there_is_named(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(DataError, match="polars is not installed"):
        release(plan, events(), tmp_path / "l", steps=6, pin=None).table().to_polars()


def test_gaps_are_said_on_the_command_line(tmp_path: Path) -> None:
    plan_of(tmp_path)
    pa.csv.write_csv(counted(COUNTS), tmp_path / "counts.csv")
    command = [sys.executable, "-m", "policyc", "run", "trips.plan", "--input", "counts.csv", "--counts"]
    command += ["--output", "out.csv"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, "`--gaps zero`" in refused.stderr) == (1, True)
    done = subprocess.run([*command, "--gaps", "zero"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 13
