"""What counts: an engine with the rows of one input, for as long as they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from policyc_runtime.sources.engines.dialect import DUCKDB, Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection


class Session(Protocol):
    """An engine that makes tables of its own and answers queries; what it makes is seen by nobody else, and goes."""

    dialect: Dialect

    def create(self, name: str, query: str) -> None:
        """A table of what a query gives, in place of one of that name."""

    def view(self, name: str, query: str) -> None:
        """The same, computed whenever it is asked for."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives: few rows, all of them numbers for steps and cells."""

    def codes(self, column: str, names: Sequence[str]) -> tuple[str, str]:
        """SQL for the place of a column's text among names, null for any other, and what to join for it."""


class DuckDBSession:
    """DuckDB on this machine."""

    dialect: Dialect = DUCKDB

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self.connection = connection

    def create(self, name: str, query: str) -> None:
        """A table in memory."""
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")

    def view(self, name: str, query: str) -> None:
        """A view."""
        self.connection.execute(f"CREATE OR REPLACE VIEW {name} AS {query}")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """All at once."""
        return self.connection.execute(query).fetchall()

    def codes(self, column: str, names: Sequence[str]) -> tuple[str, str]:
        """A type of its own: nothing is joined, so that rows stay in their order."""
        listed = ", ".join(map(self.dialect.literal, names))
        self.connection.execute(f"CREATE TYPE cell AS ENUM ({listed})")
        return f"enum_code(TRY_CAST({column} AS cell))::INTEGER", ""
