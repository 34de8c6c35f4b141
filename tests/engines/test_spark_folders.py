"""Folders are the same to Spark as to the engine of this machine: the same rows are counted, or the same is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from plans import make_plan

from policyc import compile_policy
from policyc_runtime import load_plan
from policyc_runtime.errors import DataError
from policyc_runtime.sources import read_events
from policyc_runtime.sources.engines.spark import SparkSessionOfOneRun, SparkTable, started
from policyc_runtime.sources.engines.spark_folder import listed
from policyc_runtime.sources.folders import checked_files, parquet_files

pytestmark = pytest.mark.law
PLAN = make_plan(start="2013-01-01")


def write(
    file: Path, who: str = "a", origin: str | None = "EWR", moment: str = "TIMESTAMP '2013-01-01 08:00:00'"
) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    place = "" if origin is None else f", '{origin}' AS origin"
    duckdb.sql(f"SELECT {who!r} AS tailnum, {moment} AS departed_at{place}").write_parquet(str(file))


def nested(folder: Path) -> None:
    write(folder / "a.parquet")
    write(folder / "below" / "deeper" / "b.PARQUET", "b", "JFK")


def only_below(folder: Path) -> None:
    write(folder / "below" / "b.parquet", "b", "JFK")


def partitions(folder: Path) -> None:
    write(folder / "_day=1" / "origin=J%46K" / "a.parquet", "a", None)
    write(folder / "_day=2" / "origin=E{W}R" / "b.parquet", "b", None)
    write(folder / "_day=2" / "origin=LGA" / "b,c.parquet", "c", None)


def beside_a_partition(folder: Path) -> None:
    write(folder / "a.parquet")
    write(folder / "_day=2" / "b.parquet", "b")


def marks(folder: Path) -> None:
    write(folder / "a.parquet")
    write(folder / "_temporary" / "b.parquet", "b")
    (folder / "_SUCCESS").touch()
    (folder / ".b.parquet.crc").write_text("x")


def a_link(folder: Path) -> None:
    write(folder / "a.parquet")
    (folder / "again").symlink_to(folder)


def a_dangling_link(folder: Path) -> None:
    write(folder / "a.parquet")
    (folder / "b.parquet").symlink_to(folder / "gone")


def a_column_that_one_file_lacks(folder: Path) -> None:
    write(folder / "a.parquet")
    write(folder / "b.parquet", "b", None)


def a_column_that_the_first_file_lacks(folder: Path) -> None:
    write(folder / "a.parquet", "a", None)
    write(folder / "b.parquet", "b")


def a_column_nobody_needs(folder: Path) -> None:
    write(folder / "a.parquet")
    file = str(folder / "b.parquet")
    duckdb.sql(
        "SELECT 7 AS more, 'b' AS tailnum, TIMESTAMP '2013-01-01' AS departed_at, 'JFK' AS origin"
    ).write_parquet(file)


def moments_with_and_without_a_zone(folder: Path) -> None:
    write(folder / "a.parquet")
    write(folder / "b.parquet", "b", "JFK", "TIMESTAMPTZ '2013-01-01 08:00:00+00'")


def texts_and_moments(folder: Path) -> None:
    write(folder / "a.parquet")
    write(folder / "b.parquet", "b", "JFK", "'2013-01-01 08:00:00'")


def a_column_that_stands_twice(folder: Path) -> None:
    write(folder / "origin=JFK" / "a.parquet")


def folders_of_different_columns(folder: Path) -> None:
    write(folder / "origin=JFK" / "a.parquet", "a", None)
    write(folder / "b.parquet", "b")


def half_a_file(folder: Path) -> None:
    write(folder / "a.parquet")
    whole = (folder / "a.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(whole[:-9])


def another_kind(folder: Path) -> None:
    write(folder / "a.parquet")
    (folder / "b.csv").write_text("x")


def a_table_with_deleted_rows(folder: Path) -> None:
    write(folder / "a.parquet")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "0.json").write_text("{}")


def nothing(folder: Path) -> None:
    folder.mkdir()


def found(where: Path | SparkTable) -> tuple[object, ...]:
    """Counts and fingerprints; or what is refused, without what each engine says of a broken file."""
    try:
        counted = read_events(where, PLAN, steps=1)
    except DataError as error:
        return error.code, error.message, error.where
    return counted.counts["parked"].tolist(), counted.digests


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (nested, None), (only_below, None), (partitions, None), (marks, None), (a_column_nobody_needs, None),
        (beside_a_partition, "E0810"), (a_link, "E0810"), (a_dangling_link, "E0810"),
        (a_column_that_one_file_lacks, "E0811"), (a_column_that_the_first_file_lacks, "E0811"),
        (moments_with_and_without_a_zone, "E0811"), (texts_and_moments, "E0811"),
        (a_column_that_stands_twice, "E0810"), (folders_of_different_columns, "E0810"),
        (half_a_file, "E0810"), (another_kind, "E0810"), (a_table_with_deleted_rows, "E0810"), (nothing, "E0810"),
    ],
)  # fmt: skip
def test_a_folder_is_the_same_to_both(
    spark: None, tmp_path: Path, make: Callable[[Path], None], code: str | None
) -> None:
    folder = tmp_path / "in"
    make(folder)
    here = found(folder)
    assert here[0] == code if code else isinstance(here[0], list)
    assert found(SparkTable(str(folder))) == here


def test_what_a_store_lists_is_what_this_machine_lists(spark: None, tmp_path: Path) -> None:
    """Where files are not here Hadoop lists them: the same files, by the same rules."""
    jvm = started()._jvm
    for make in (nested, partitions, marks):
        folder = tmp_path / make.__name__
        make(folder)
        path = jvm.org.apache.hadoop.fs.Path(f"file:{folder}")
        system = path.getFileSystem(started()._jsc.hadoopConfiguration())
        assert checked_files(folder, listed(system, path)) == parquet_files(folder)


def test_what_a_query_failed_at_is_not_logged(spark: None, capfd: pytest.CaptureFixture[str]) -> None:
    """Pyspark logs the value that a cast of a view met: a user's name, say."""
    query = "SELECT CAST('N0SECRET' AS INT) AS tailnum, TIMESTAMP '2013-01-01' AS departed_at, 'JFK' AS origin"
    started().sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW cast_of_names AS {query}")
    with pytest.raises(DataError) as refused:
        read_events(SparkTable("table:global_temp.cast_of_names"), PLAN, steps=1)
    assert refused.value.code == "E0869"
    told = capfd.readouterr()
    assert "N0SECRET" not in told.out + told.err + f"{refused.value}{refused.value.because}{refused.value.help}"
    assert told.err == ""


CHANGES: dict[str, Callable[[Path], object]] = {
    "another": lambda file: write(file, "z", "JFK"),
    "longer": lambda file: duckdb.sql(
        "SELECT 'u' || i AS tailnum, TIMESTAMP '2013-01-01 08:00:00' AS departed_at, 'JFK' AS origin FROM range(9) "
        "AS t(i)"
    ).write_parquet(str(file)),
    "in its place": lambda file: (write(file.with_suffix(".tmp"), "z"), file.with_suffix(".tmp").replace(file)),
    "gone": Path.unlink,
}


@pytest.mark.parametrize(
    ("kind", "call", "how"),
    [
        *(("folder", call, how) for call in (0, 2) for how in CHANGES),
        ("table", 1, "in its place"),
        ("table", 1, "gone"),
    ],
)
def test_files_that_change_meanwhile_are_refused(
    spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, call: int, how: str
) -> None:
    """Every query reads them anew: else users of one state would be counted among the rows of another."""
    folder = tmp_path / "in of \u00fc"
    write(folder / "a.parquet")
    write(folder / "b.parquet", "b", "JFK")
    where = str(folder)
    if kind == "table":
        session = started()
        session.sql("DROP TABLE IF EXISTS changing")
        session.sql(f"CREATE TABLE changing USING parquet LOCATION '{folder}'")
        where = "table:default.changing"
    assert isinstance(found(SparkTable(where))[0], list)
    asked = []
    for name in ("create", "rows"):
        way = getattr(SparkSessionOfOneRun, name)

        def changing(session: SparkSessionOfOneRun, *given: str, way: Callable[..., object] = way) -> object:
            asked.append(given)
            if len(asked) == call + 1:
                CHANGES[how](folder / "a.parquet")
            return way(session, *given)

        monkeypatch.setattr(SparkSessionOfOneRun, name, changing)
    with pytest.raises(DataError) as refused:
        read_events(SparkTable(where), PLAN, steps=1)
    assert (refused.value.code, refused.value.because) == ("E0810", "it changed while it was read")
    assert len(asked) > call


def test_what_is_padded_is_told_by_what_is_written(spark: None, tmp_path: Path) -> None:
    """Blanks at the end of `char(n)` mean nothing."""
    session = started()
    session.sql("DROP TABLE IF EXISTS padded")
    columns = "tailnum CHAR(9), departed_at TIMESTAMP, origin CHAR(7)"
    session.sql(f"CREATE TABLE padded ({columns}) USING parquet LOCATION '{tmp_path / 'table'}'")
    session.sql("INSERT INTO padded VALUES ('a', timestamp'2013-01-01 00:30:00Z', 'JFK')")
    write(tmp_path / "in" / "a.parquet", "a", "JFK", "TIMESTAMP '2013-01-01 00:30:00'")
    assert found(SparkTable("table:default.padded")) == found(tmp_path / "in")
    session.sql("DROP TABLE padded")


DAYS = """policy days "Days of a city"
stream seen { user person  time at  step 1d  horizon 9 steps  start "2026-03-28"  clock "Europe/Berlin" }
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(1 steps, enforced = keep_first)
"""


def test_moments_of_96_bits_are_those_of_utc_to_both(spark: None, tmp_path: Path) -> None:
    """As Spark writes them unless it is told otherwise: half past eleven there is the next day in Berlin."""
    (tmp_path / "days.policy").write_text(DAYS, encoding="utf-8")
    plan = load_plan(compile_policy(tmp_path / "days.policy").save(tmp_path / "days.plan"))
    session = started()
    session.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    rows = session.sql("SELECT 'a' AS person, timestamp'2026-03-28 23:30:00Z' AS at")
    rows.coalesce(1).write.parquet(str(tmp_path / "old"))
    for one in (tmp_path / "old", SparkTable(str(tmp_path / "old"))):
        assert read_events(one, plan, steps=3).counts["there"].tolist() == [[0], [1], [0]]
