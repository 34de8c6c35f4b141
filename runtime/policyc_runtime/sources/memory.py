"""Tables in memory: anything that hands itself over by the Arrow PyCapsule protocol, as data frames of all kinds do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from policyc_runtime.errors import DataError
from policyc_runtime.sources.arrow_names import column_names
from policyc_runtime.sources.engines.remote import RemoteTable

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def _at_fault(handed: Any) -> str | None:
    """The name of the first column that does not come by itself either; None where nobody can ask for one."""
    import duckdb

    names: Iterable[object] = getattr(handed, "column_names", getattr(handed, "columns", ()))
    for name in map(str, names):
        try:
            one = handed.select([name]) if hasattr(handed, "select") else handed[[name]]
        except Exception:  # whatever kind of table it is
            return None
        try:
            duckdb.connect().from_arrow(_Handed(one)).fetchall()
        except Exception:  # their messages may quote data
            return name
    return None


class HeldTable:
    """The rows of a table, held as long as a run lasts: streams that can be read once alone are, and nothing changes.

    Raises:
        DataError: E0810, it cannot be read.
    """

    def __init__(self, connection: DuckDBPyConnection, handed: ArrowStream) -> None:
        import duckdb

        self._connection = connection
        table = _Handed(handed)
        try:
            connection.register(HANDED, table)
            connection.execute(f"CREATE TABLE held AS FROM {HANDED}")
            connection.unregister(HANDED)
        except (duckdb.Error, ImportError, RuntimeError, ValueError, TypeError):  # their messages may quote data
            reason = "it hands over no table of columns by the Arrow protocol that can be read to its end"
            if (one := _at_fault(handed)) is not None:
                reason = (
                    f"column `{one}` is not handed over by the Arrow protocol: it stands there twice, or holds other "
                )
                reason += "things than text, numbers and moments"
            raise DataError(
                "E0810",
                "the data cannot be read",
                where=str(MEMORY),
                because=reason,
                help="hand over a table of text, numbers and moments, or write it to a Parquet file and name that; "
                "pandas needs pyarrow for it",
            ) from None
        self.repeated = frozenset(name for name, times in Counter(table.names).items() if times > 1)
        """Names that several columns have, of which duckdb renames all but the first."""

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
