"""Which texts are moments: most are told without the pattern of those that are none, and none otherwise than by it.

And which types of columns hold moments, with a zone and without.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from policyc.planning.draft import draft_of
from policyc.semantics.checked import check_file
from policyc_runtime.errors import DataError
from policyc_runtime.sources.memory import HeldTable
from policyc_runtime.sources.tables import connect, open_table, quoted
from policyc_runtime.sources.written_moments import NO_MOMENT, TIME_TYPES, moments_said, rows_with_moments

POLICY = """policy days "Days of a city"
stream seen { user person  time at  step 1d  horizon 9 steps  start "2026-07-01"  clock "Europe/Berlin" }
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(1 steps, enforced = keep_first)
"""
MOMENT = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)  # half past midnight in Berlin

PARTS = ("2013-01-31", "1-1-1", "T", " ", "08:15:00", "1:1", ".5", "Z", "+", "-", "02", "24", "99:00", ":", "0260")
WORDS = ("epoch", " epoch", "infinity", "-infinity", "now", "\t2013-01-31", "", ":1:1+24", "2013-01-31T08:15:00+24:00")


def test_texts_are_moments_by_one_pattern_whatever_is_told_sooner() -> None:
    """20,000 texts put together from pieces of moments, some with an offset that no place has."""
    rng = random.Random(5)
    texts = [*WORDS, *("".join(rng.choices(PARTS, k=rng.randint(1, 6))) for _ in range(20_000))]
    pattern = (
        f"epoch_us(TRY_CAST(CASE WHEN NOT regexp_matches(said, {quoted(NO_MOMENT)}) THEN said END AS TIMESTAMPTZ))"
    )
    connection = connect()
    connection.execute("CREATE TABLE text AS SELECT unnest(?) AS said", [texts])
    found = connection.execute(
        f"SELECT said, {moments_said('said', 'VARCHAR')[0]}, {pattern}, epoch_us(TRY_CAST(said AS TIMESTAMPTZ)) "
        "FROM text"
    ).fetchall()
    assert [row for row in found if row[1] != row[2]] == []
    assert sum(row[1] is not None for row in found) > 100
    assert any(row[1] is None and row[3] is not None for row in found), "some are refused by the pattern alone"


def test_a_type_has_a_zone_where_its_text_shows_an_offset(tmp_path: Path) -> None:
    """Of all types that the installed engine knows: those that are not known here, too, are refused."""
    (tmp_path / "days.policy").write_text(POLICY, encoding="utf-8")
    stream = draft_of(check_file(tmp_path / "days.policy")[2], {}).stream
    connection = connect()
    names = connection.execute("SELECT DISTINCT type_name FROM duckdb_types() WHERE type_category = 'DATETIME'")
    known = []
    for (name,) in [*names.fetchall(), ("date",), ("varchar[]",), ("date[]",), ("timestamp[]",)]:
        connection.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT CAST(NULL AS {name}) AS at')
        file = tmp_path / f"{name}.parquet"
        connection.execute(f'COPY "{name}" TO {quoted(str(file))} (FORMAT parquet)')
        with open_table(connection, str(file)) as table:
            kind = table.types["at"]
            if kind not in TIME_TYPES:
                with pytest.raises(DataError, match="does not hold moments"):
                    rows_with_moments(table, stream, table.columns["at"], "1 AS one")
                continue
        text, local = connection.execute(
            f"SELECT CAST(said AS VARCHAR), {moments_said('said', kind)[1]} "
            f"FROM (SELECT CAST(TIMESTAMPTZ '2026-07-01 22:30:00+00' AS {kind}) AS said)"
        ).fetchall()[0]
        assert local == ("+" not in text), (kind, text)
        known.append(kind)
    assert {"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"} <= set(known)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/Lima"])
@pytest.mark.parametrize("suffix", ["parquet", "table"])
def test_a_column_of_any_unit_is_the_same_moment(unit: str, zone: str | None, suffix: str, tmp_path: Path) -> None:
    """With a zone the moment itself; without one what the clock shows. Of files and of tables in memory."""
    (tmp_path / "days.policy").write_text(POLICY, encoding="utf-8")
    stream = draft_of(check_file(tmp_path / "days.policy")[2], {}).stream
    column = pa.array([MOMENT if zone else MOMENT.replace(tzinfo=None)], pa.timestamp(unit, tz=zone))
    connection = connect()
    given: str | HeldTable = HeldTable(connect(), pa.table({"at": column}))
    if suffix == "parquet":
        pd.DataFrame({"at": column.to_pandas().dt.as_unit(unit)}).to_parquet(tmp_path / "rows.parquet")
        given = str(tmp_path / "rows.parquet")
    with open_table(connection, given) as table:
        found = connection.execute(rows_with_moments(table, stream, table.columns["at"], "1 AS one")).fetchall()
    berlin = MOMENT.timestamp() - (0 if zone else 2 * 3600)
    assert found[0][0] == berlin * 1_000_000


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("suffix", ["parquet", "table"])
def test_nanoseconds_are_cut_as_those_of_texts_are(zone: str | None, suffix: str, tmp_path: Path) -> None:
    """Else the last moment of a day, as pandas has it, would be in the next one; before 1970 as well."""
    (tmp_path / "days.policy").write_text(POLICY.replace('  clock "Europe/Berlin"', ""), encoding="utf-8")
    stream = draft_of(check_file(tmp_path / "days.policy")[2], {}).stream
    texts = ["2026-07-01T23:59:59.999999999", "1949-12-31T23:59:59.999999500", "1970-01-01T00:00:00.000000999"]
    column = pa.array([pd.Timestamp(text).value for text in texts], pa.timestamp("ns", tz=zone))
    connection = connect()
    given: str | HeldTable = HeldTable(connect(), pa.table({"at": column}))
    if suffix == "parquet":
        pq.write_table(pa.table({"at": column}), tmp_path / "rows.parquet")
        given = str(tmp_path / "rows.parquet")
    with open_table(connection, given) as table:
        rows = rows_with_moments(table, stream, table.columns["at"], "1 AS one")
        found = [moment for moment, _ in connection.execute(rows).fetchall()]
    (tmp_path / "rows.csv").write_text("\n".join(["at", *texts]) + "\n", encoding="utf-8")
    with open_table(connection, str(tmp_path / "rows.csv")) as table:
        rows = rows_with_moments(table, stream, table.columns["at"], "1 AS one")
        said = [moment for moment, _ in connection.execute(rows).fetchall()]
    assert found == said == [pd.Timestamp(text).value // 1000 for text in texts]


@pytest.mark.parametrize("folder", [False, True])
def test_moments_of_96_bits_are_those_of_utc(folder: bool, tmp_path: Path) -> None:
    """As Spark writes them, and reads them: not what a clock shows."""
    (tmp_path / "days.policy").write_text(POLICY, encoding="utf-8")
    stream = draft_of(check_file(tmp_path / "days.policy")[2], {}).stream
    rows = pa.table({"at": [MOMENT.replace(tzinfo=None)]})
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        pq.write_table(rows, tmp_path / "in" / f"{name}.parquet", use_deprecated_int96_timestamps=True)
    connection = connect()
    with open_table(connection, str(tmp_path / "in" / ("" if folder else "a.parquet"))) as table:
        found = connection.execute(rows_with_moments(table, stream, table.columns["at"], "1 AS one")).fetchall()
    assert [(row[0], row[-2]) for row in found] == [(MOMENT.timestamp() * 1_000_000, False)] * (2 if folder else 1)
