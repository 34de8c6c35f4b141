"""What `policyc init` may know of a file of events: the names of its columns, and which days its times lie in.

No other value of the file is looked at, and none is returned.
"""
# ruff: noqa: S608  SQL is put together from quoted names only

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from policyc_check.errors import KernelError
from policyc_runtime.sources.input_table import SHOWN_COLUMNS, InputTable
from policyc_runtime.sources.moments import EPOCH, FIRST_MOMENT, LAST_MOMENT, MICROSECOND, moment_of
from policyc_runtime.sources.tables import connect, no_rows, open_table, reading
from policyc_runtime.sources.written_moments import TIME_TYPES, moments_said

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LOOKED_AT = 1000  # rows, of which those of a column of moments are all moments
LONG = 31  # days; a longer span begins and ends with months
WHO = re.compile(
    r"(account|card|client|customer|device|driver|member|passenger|patient|person|plate|rider|subscriber|tail|user|"
    r"vehicle|visitor)[ _]?(id|no|nr|num|number|name)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Span:
    """Whole days, or whole months where they are many, around the times of a file.

    Args:
        file: which.
        start: the first moment, microseconds since 1970.
        end: the first one after it.
    """

    file: Path
    start: int
    end: int

    @property
    def first_day(self) -> str:
        """The day that it begins with, as a policy has it."""
        return (EPOCH + self.start * MICROSECOND).date().isoformat()


@dataclass(frozen=True)
class EventColumns:
    """The columns of a file of events.

    Args:
        file: which.
        names: of all columns, in order.
        moments: those that hold moments.
    """

    file: Path
    names: tuple[str, ...]
    moments: tuple[str, ...]

    @property
    def time(self) -> str | None:
        """The column of moments, where there is one alone."""
        return self.moments[0] if len(self.moments) == 1 else None

    @property
    def user(self) -> str | None:
        """The column whose name says that it tells users apart, where there is one alone."""
        found = [name for name in self.names if WHO.fullmatch(name) and name not in self.moments]
        return found[0] if len(found) == 1 else None

    def require(self, name: str, meaning: str) -> str:
        """A column that was named.

        Raises:
            KernelError: E0808, the file has none of that name.
        """
        if name in self.names:
            return name
        raise KernelError(
            "E0808",
            f"there is no column `{name[:80]}` for the {meaning}",
            where=str(self.file),
            because=f"the columns are {self._listed}",
            help=f"name one of them: `--{meaning} COLUMN`",
        )

    def untold(self, meaning: str) -> KernelError:
        """The refusal where nobody said which column has a meaning, and its name does not tell."""
        return KernelError(
            "E0808",
            f"which column is the {meaning} is not told by the names",
            where=str(self.file),
            because=f"the columns are {self._listed}",
            help=f"say it: `--{meaning} COLUMN`",
        )

    @property
    def _listed(self) -> str:
        if not self.moments:  # events have one
            return "not shown: none of them holds moments alone, so that the first row may be one of data"
        more = f" and {len(self.names) - SHOWN_COLUMNS:,} more" if len(self.names) > SHOWN_COLUMNS else ""
        return ", ".join(f"`{name}`" for name in self.names[:SHOWN_COLUMNS]) + more


def read_columns(file: Path) -> EventColumns:
    """The columns of a CSV (also gzip) or Parquet file.

    Raises:
        KernelError: E0810, E0811 or E0816, it is no such file, or its first row does not name columns; no value of it
            is quoted.
    """
    connection = connect()
    try:
        with open_table(connection, str(file), names_only=True) as table, reading(table.path):
            names = tuple(table.columns)
            if table.repeated or not names or not all(map(_is_name, names)):
                raise KernelError(
                    "E0811",
                    "the first row does not name columns",
                    where=str(file),
                    because="names are written into the policy, and what stands there may be data"
                    if not table.repeated
                    else "several columns have one name, so that nobody can tell which is meant",
                    help="give every column a name of its own in the first row, with commas between them",
                )
            moments = tuple(name for name in names if _has_moments(connection, table, name))
    finally:
        connection.close()
    return EventColumns(file, names, moments)


def read_span(file: Path, time: str) -> Span:
    """The days or months around the times of a file; without a zone they are taken as UTC.

    Raises:
        KernelError: E0812 or E0816, the column has no moments, or none from the year 1 to 9999.
    """
    connection = connect()
    try:
        with open_table(connection, str(file)) as table, reading(table.path):
            found = None
            if table.types[time] in TIME_TYPES:
                moment, _ = moments_said(table.columns[time], table.types[time])
                query = f"SELECT min({moment}), max({moment}), count(*) FROM {table.source}"
                found = connection.execute(query).fetchone()
            if found is not None and not found[2]:
                raise no_rows(file)
    finally:
        connection.close()
    if found is None or found[0] is None or not FIRST_MOMENT <= found[0] <= found[1] < LAST_MOMENT:
        raise KernelError(
            "E0812",
            f"the column `{time}` does not hold moments",
            where=str(file),
            help="name another: `--time COLUMN`; moments are timestamps, dates, or text like `2013-01-31T17:05:00`",
        )
    return _around(file, found[0], found[1])


def _around(file: Path, first: int, last: int) -> Span:
    begin, end = ((EPOCH + moment * MICROSECOND).date() for moment in (first, last))
    end = min(end, date.max - timedelta(days=LONG)) + timedelta(days=1)
    if (end - begin).days > LONG:
        begin = begin.replace(day=1)
        end = (end + timedelta(days=30)).replace(day=1) if end.day > 1 else end
    return Span(file, moment_of(begin.isoformat()), moment_of(end.isoformat()))


def _has_moments(connection: DuckDBPyConnection, table: InputTable, name: str) -> bool:
    """Whether all that stands in a column's first rows are moments."""
    kind = table.types[name]
    if kind != "VARCHAR":
        return kind in TIME_TYPES
    moment, _ = moments_said("said", kind)
    rows = f"SELECT {table.columns[name]} AS said FROM {table.source} LIMIT {LOOKED_AT}"
    said, moments = connection.execute(f"SELECT count(said), count({moment}) FROM ({rows})").fetchall()[0]
    return bool(said) and said == moments


def _is_name(text: str) -> bool:
    """Whether a column may be called so: no number and no moment, which are data in a file without names."""
    if not text.strip() or not text.isprintable() or len(text) > 200:
        return False
    for reads in (float, moment_of):
        try:
            reads(text)
        except ValueError:
            continue
        return False
    return True
