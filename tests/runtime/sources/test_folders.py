"""Folders of Parquet files are read whole, as one table, or refused with the file that is no part of one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plans import make_plan

from policyc_runtime.errors import DataError
from policyc_runtime.sources import read_events
from policyc_runtime.sources.engines.session import DuckDBSession
from policyc_runtime.sources.simulated import all_simulated, says_simulated

PLAN = make_plan(start="2013-01-01")


def write(file: Path, rows: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"SELECT {rows}").write_parquet(str(file))
    return file


def event(who: str, origin: str | None = None, day: int = 1) -> str:
    place = "" if origin is None else f", '{origin}' AS origin"
    return f"'{who}' AS tailnum, TIMESTAMP '2013-01-{day:02} 08:00:00' AS departed_at{place}"


def counted(folder: Path) -> list[list[int]]:
    return read_events(folder, PLAN, steps=2).counts["parked"].tolist()


def refused(folder: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_events(folder, PLAN, steps=2)
    return caught.value


def test_a_folder_is_what_one_file_of_its_rows_is(tmp_path):
    """In it and below it; marks of writers and unfinished files are passed over."""
    write(tmp_path / "in/b.parquet", event("a", "EWR"))
    write(tmp_path / "in/a.parquet", event("b", "JFK", 2))
    write(tmp_path / "in/below/c.PARQUET", event("c", "LGA", 2))
    (tmp_path / "in/_SUCCESS").touch()
    (tmp_path / "in/.part.parquet.crc").write_text("x")
    write(tmp_path / "in/_temporary/d.parquet", event("d", "EWR"))
    parts = [event("a", "EWR"), event("b", "JFK", 2), event("c", "LGA", 2)]
    one = write(tmp_path / "one.parquet", " UNION ALL SELECT ".join(parts))
    known = read_events(one, PLAN, steps=2)
    found = read_events(tmp_path / "in", PLAN, steps=2)
    assert found.counts["parked"].tolist() == known.counts["parked"].tolist() == [[1, 0, 0, 19], [0, 1, 1, 18]]
    assert found.digests == known.digests


def test_folders_below_are_columns_and_those_above_are_not(tmp_path):
    """`origin=JFK` below the named folder is a column of text, with escapes undone; above it is none."""
    folder = tmp_path / "origin=LGA" / "in"
    write(folder / "tail=7/origin=JFK/x.parquet", event("a"))
    write(folder / "tail=8/origin=E%57R/x.parquet", event("b", day=2))
    assert counted(folder) == [[0, 1, 0, 19], [1, 0, 0, 19]]
    assert "origin" in str(refused(folder / "tail=7" / "origin=JFK"))


@pytest.mark.parametrize(
    ("name", "rows", "because"),
    [
        ("more.csv", None, "no Parquet file"),
        ("x*.parquet", event("b", "EWR"), "characters"),
        ("origin=JFK/x.parquet", event("b"), "same columns"),
    ],
)
def test_what_is_no_part_of_it_is_refused_by_name(name, rows, because, tmp_path):
    write(tmp_path / "in/a.parquet", event("a", "EWR"))
    file = tmp_path / "in" / name
    file.write_text("x") if rows is None else write(file, rows)
    found = refused(tmp_path / "in")
    assert found.code == "E0810"
    assert because in str(found.because)
    assert Path(name).name in str(found.where)


@pytest.mark.parametrize("what", ["gone", "cut", "another"])
def test_a_file_that_goes_while_it_is_read_is_one_message(what, tmp_path, monkeypatch):
    """After users were told apart: it is gone, cut, or another one has its name; a new one is passed over."""
    folder = tmp_path / "in"
    write(folder / "a.parquet", event("a", "EWR"))
    write(folder / "b.parquet", event("b", "JFK"))
    file, rows, change = folder / "b.parquet", DuckDBSession.rows, what

    def changing(session: DuckDBSession, query: str) -> list[tuple[object, ...]]:
        found = rows(session, query)
        if change == "gone":
            file.unlink(missing_ok=True)
        elif change == "cut":
            file.write_bytes(file.read_bytes()[:-9])
        elif change == "another":
            write(folder / "_moved", event("c", "EWR")).replace(file)
        elif change == "new":
            write(folder / "c.parquet", event("c", "EWR"))
        return found

    monkeypatch.setattr(DuckDBSession, "rows", changing)
    found = refused(folder)
    assert (found.code, "changed while it was read" in str(found.because)) == ("E0810", True)
    change = "new"
    write(file, event("b", "JFK"))
    assert counted(folder)[0] == [1, 1, 0, 18]


def test_columns_are_those_of_all_files(tmp_path):
    """A user who is text in one file and a number in another is refused, the file named; other columns may differ."""
    write(tmp_path / "in/a.parquet", event("7", "EWR"))
    write(tmp_path / "in/b.parquet", event("8", "EWR", 2) + ", 5 AS extra")
    assert counted(tmp_path / "in") == [[1, 0, 0, 19], [1, 0, 0, 19]]
    write(tmp_path / "in/c.parquet", event("9", "EWR").replace("'9'", "7"))
    error = refused(tmp_path / "in")
    assert (error.code, "`tailnum`" in str(error)) == ("E0811", True)
    assert "in `c.parquet` it has another type than in `a.parquet`" in str(error.because)
    write(tmp_path / "in/c.parquet", "1 AS other")
    error = refused(tmp_path / "in")
    assert (error.code, "`c.parquet` does not have it" in str(error.because)) == ("E0811", True)
    write(tmp_path / "twice/origin=JFK/a.parquet", event("7", "EWR"))
    assert "twice" in str(refused(tmp_path / "twice").because)


def test_a_name_that_comes_twice_in_parquet_is_refused(tmp_path):
    """In a file or in one of a folder, as in CSV; parts of a column may have the names of others."""
    parts = write(
        tmp_path / "in/a.parquet", event("a", "EWR") + ", {'tailnum': 'x', 'more': {'origin': 'y'}} AS device"
    )
    assert counted(parts) == counted(tmp_path / "in") == [[1, 0, 0, 19], [0, 0, 0, 20]]
    table = pq.read_table(parts)
    pq.write_table(table, parts)
    pq.write_table(table.append_column("origin", table["tailnum"]), tmp_path / "in/b.parquet")
    for place in (tmp_path / "in/b.parquet", tmp_path / "in"):
        found = refused(place)
        assert (found.code, found.message) == (
            "E0811",
            "there are several columns `origin`, which is the policy's cell",
        )


def test_parts_of_a_column_are_no_columns(tmp_path):
    """Whatever their types are, and also where a folder's name has the column, or a file has it as a part alone."""
    part = ", {'tailnum': 7, 'origin': 8} AS device"
    for name in ("a", "b"):
        write(tmp_path / f"in/{name}.parquet", event(name, "EWR") + part)
        write(tmp_path / f"day=1/origin=EWR/{name}.parquet", event(name) + part)
    assert counted(tmp_path / "in")[0] == counted(tmp_path / "day=1")[0] == [2, 0, 0, 18]
    write(tmp_path / "in/c.parquet", event("c") + part)
    assert "`c.parquet` does not have it" in str(refused(tmp_path / "in").because)


def test_a_bad_row_has_its_file(tmp_path):
    """The second row of the second file."""
    write(tmp_path / "in/a.parquet", event("a", "EWR"))
    write(tmp_path / "in/b.parquet", f"{event('b', 'EWR')} UNION ALL SELECT {event('', 'EWR')}")
    found = refused(tmp_path / "in")
    assert (found.code, str(found.where)) == ("E0813", f"{tmp_path}/in/b.parquet: row 2")
    (tmp_path / "in/a.parquet").write_bytes(b"PAR1 not whole")
    assert refused(tmp_path / "in").code == "E0810"


def test_one_simulated_file_marks_all(tmp_path):
    write(tmp_path / "in/a.parquet", event("a", "EWR"))
    assert not says_simulated(tmp_path / "in")
    write(tmp_path / "in/b.parquet", event("b", "EWR") + ", true AS simulated")
    assert says_simulated(tmp_path / "in")


MARK = "'NOT A RELEASE' AS simulated"


@pytest.mark.parametrize(
    ("rows", "all_of_them"),
    [
        ([event("a", "EWR") + f", {MARK}", event("b", "EWR") + f", {MARK}"], True),
        ([event("a", "EWR") + f", {MARK}", event("b", "EWR") + ", 'no' AS simulated"], False),
        ([event("a", "EWR") + f", {MARK}", event("b", "EWR")], False),
        ([event("a", "EWR") + ", true AS simulated"], False),
        ([event("a", "EWR")], False),
    ],
)
def test_all_rows_of_all_files_say_that_they_are_simulated_or_not(rows, all_of_them, tmp_path):
    for number, row in enumerate(rows):
        write(tmp_path / f"in/{number}.parquet", row)
    assert all_simulated(tmp_path / "in") == all_of_them


def test_a_mark_that_stands_there_twice_is_none(tmp_path):
    """Whose rows are whose, nobody can tell."""
    mark = pa.array(["NOT A RELEASE"])
    pq.write_table(pa.Table.from_arrays([mark, mark], names=["simulated", "simulated"]), tmp_path / "twice.parquet")
    assert not all_simulated(tmp_path / "twice.parquet")


@pytest.mark.parametrize("cut", [0, 3, 50, -1])
def test_a_broken_file_is_named(cut, tmp_path):
    """Of many the one that is cut short; a pattern is no name, and says so."""
    for name in "abc":
        write(tmp_path / f"in/{name}.parquet", event(name, "EWR"))
    whole = (tmp_path / "in/b.parquet").read_bytes()
    (tmp_path / "in/b.parquet").write_bytes(whole[:cut])
    found = refused(tmp_path / "in")
    assert (found.where, found.because) == (str(tmp_path / "in/b.parquet"), "it is not a whole Parquet file")
    assert "name the folder" in refused(tmp_path / "in/*.parquet").help
