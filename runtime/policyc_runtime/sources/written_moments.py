"""Columns of moments as files have them: text, dates and timestamps, with and without a zone."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from policyc_check.plan.stream import StreamRecord
from policyc_runtime.errors import DataError
from policyc_runtime.sources.calendar import Clock
from policyc_runtime.sources.engines.dialect import DUCKDB, Dialect
from policyc_runtime.sources.input_table import UTC, InputTable
from policyc_runtime.sources.tables import quoted

WITH_ZONE = (UTC, "TIMESTAMPTZ_NS")
WITHOUT_ZONE = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
TIME_TYPES = ("VARCHAR", *WITHOUT_ZONE, *WITH_ZONE)  # by name: of one that is not known here nobody can say its zone
# Texts that duckdb takes for moments, and `start` does not: words such as `epoch`, and offsets that no place has.
NO_MOMENT = r"^\s*[A-Za-z]|:[0-9.]+\s*[+-](2[4-9]|[3-9][0-9]|[0-9]{2}:?[6-9]|[0-9]{2}:?[0-9]{2}:?[6-9])"


def rows_with_moments(
    table: InputTable, stream: StreamRecord, time: str, others: str, dialect: Dialect = DUCKDB
) -> str:
    """SQL for the rows of a table with `moment`, microseconds since 1970 (null where it cannot be read), and others.

    Args:
        table: which.
        stream: says which column has moments, and by which clock those are read that say no zone; else it is UTC's.
        time: how SQL says that column.
        others: SQL for the other columns, each with a name.
        dialect: the engine's; all but DuckDB take columns of moments alone, since each reads other texts as such.

    Raises:
        DataError: E0812, the column is of a type that has no moments.
    """
    kind = table.types[stream.time_column]
    if kind not in (TIME_TYPES if dialect is DUCKDB else TIME_TYPES[1:]):
        raise DataError(
            "E0812",
            f"the column `{stream.time_column}` does not hold moments",
            where=str(table.path),
            help="store it as a timestamp, a date, or text like `2013-01-31T17:05:00`"
            if dialect is DUCKDB
            else "make a view in which it is a timestamp or a date, and name that",
        )
    said, local = moments_said(time, kind, dialect)
    if stream.clock is None:
        return f"SELECT {said} AS moment, {others} FROM {table.source}"
    rows = f"SELECT {said} AS said, {local} AS local, {others} FROM {table.source}"
    moment = f"CASE WHEN local THEN {Clock.of(stream.clock).moment_sql('said')} ELSE said END AS moment"
    return f"SELECT {moment}, * FROM ({rows}) AS given"


def moments_said(time: str, kind: str, dialect: Dialect = DUCKDB) -> tuple[str, str]:
    """SQL for a column's moments, without a zone as if in UTC, and for whether they say none."""
    if kind != "VARCHAR":
        return dialect.moment(time, kind), str(kind not in WITH_ZONE)
    plain = f"{time} BETWEEN '0' AND ':' AND {time} NOT LIKE '%:%+%' AND {time} NOT LIKE '%:%-%'"  # most, told sooner
    moment = f"CASE WHEN {plain} THEN {time} WHEN NOT regexp_matches({time}, {quoted(NO_MOMENT)}) THEN {time} END"
    with_zone = (f"TRY_CAST(concat(trim({time}), {quoted(zone)}) AS TIMESTAMPTZ)" for zone in ("Z", " 00:00Z"))
    return f"epoch_us(TRY_CAST({moment} AS TIMESTAMPTZ))", f"coalesce({', '.join(with_zone)}) IS NOT NULL"
