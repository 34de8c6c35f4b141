"""Tables in memory: anything that hands itself over by the Arrow PyCapsule protocol, as data frames of all kinds do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from policyc_runtime.errors import DataError
from policyc_runtime.sources.arrow_names import column_names
from policyc_runtime.sources.engines.remote import RemoteTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = Path("the table in memory")
"""What stands where a file would be named."""
HANDED = "handed"


@runtime_checkable
class ArrowStream(Protocol):
    """A table of polars, pandas, pyarrow, duckdb, ibis or any other library that speaks the protocol."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with a stream of its rows."""


class _Handed:
    """A table of which nothing but the protocol is known: duckdb has ways of its own for what it knows."""

    def __init__(self, handed: ArrowStream) -> None:
        self._handed = handed
        self.names: list[str] = []

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Its rows."""
        capsule = self._handed.__arrow_c_stream__(requested_schema)
        self.names = column_names(capsule)
        return capsule


def _without_faults(handed: Any) -> tuple[Any, frozenset[str]] | None:
    """A table without the columns that do not come by themselves either, and their names; None where nobody knows."""
    import duckdb

    try:
        names = [*map(str, getattr(handed, "column_names", getattr(handed, "columns", ())))]
        pick = handed.select if hasattr(handed, "select") else handed.__getitem__
        wrong = set()
        for name in names:
            connection = duckdb.connect()
            try:
                connection.register("part", _Handed(pick([name])))
                connection.execute("SELECT count(COLUMNS(*)) FROM part")
            except Exception:  # their messages may quote data
                wrong.add(name)
            finally:
                connection.close()
        return (pick([name for name in names if name not in wrong]), frozenset(wrong)) if {*names} - wrong else None
    except Exception:  # whatever kind of table it is
        return None


class HeldTable:
    """The rows of a table, held as long as a run lasts: streams that can be read once alone are, and nothing changes.

    Columns that do not come by the protocol are left out, and missed where the policy names one.

    Raises:
        DataError: E0810, it cannot be read.
    """

    def __init__(self, connection: DuckDBPyConnection, handed: ArrowStream) -> None:
        import duckdb

        self._connection = connection
        self.lost: frozenset[str] = frozenset()
        """Columns that were not handed over."""
        faults = duckdb.Error, ImportError, RuntimeError, ValueError, TypeError  # their messages may quote data
        try:
            self.names = self._copied(handed)
            """Of its columns, in order, as they were handed over."""
        except faults:
            left = _without_faults(handed)
            try:
                if left is None or not left[1]:
                    raise ValueError from None
                self.names, self.lost = self._copied(left[0]), left[1]
            except faults:
                raise DataError(
                    "E0810",
                    "the data cannot be read",
                    where=str(MEMORY),
                    because="it hands over no table of columns by the Arrow protocol that can be read to its end",
                    help="hand over a table of text, numbers and moments, or write it to a Parquet file and name that; "
                    "pandas needs pyarrow for it, polars `.collect()` of what is lazy",
                ) from None

    def _copied(self, handed: ArrowStream) -> list[str]:
        """All rows as `held`; the names of the columns."""
        table = _Handed(handed)
        self._connection.register(HANDED, table)
        try:
            self._connection.execute(f"CREATE TABLE held AS FROM {HANDED}")
        finally:
            self._connection.unregister(HANDED)
        return table.names

    def __str__(self) -> str:
        return str(MEMORY)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, as often as they are asked for."""
        return self._connection.table("held").__arrow_c_stream__(requested_schema)


@dataclass(frozen=True)
class CheckedRows:
    """A file whose rows were looked at one by one when they came: none, or none in a listed cell, is no mistake."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


Rows: TypeAlias = str | Path | HeldTable | CheckedRows | RemoteTable
"""Where rows come from: a file that is named, a table in memory, or one that another engine counts where it lies."""
Place: TypeAlias = Path | RemoteTable
