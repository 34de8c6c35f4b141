"""Simulated events and counts, told from others by a column that a simulation gives to each of its rows."""

# ruff: noqa: S608  SQL is put together from quoted names only

from __future__ import annotations

from policyc_runtime.errors import DataError
from policyc_runtime.published_values import NOT_A_RELEASE
from policyc_runtime.sources.engines.remote import RemoteTable
from policyc_runtime.sources.input_table import InputTable
from policyc_runtime.sources.memory import Rows
from policyc_runtime.sources.tables import connect, open_table, quoted, reading

SIMULATED = "simulated"


def says_simulated(path: Rows) -> bool:
    """Whether events or counts say that they are simulated; False for what is no file of such.

    Raises:
        DataError: a table elsewhere cannot be reached.
    """
    if isinstance(path, RemoteTable):
        with path.open() as (_, table):
            return _mark(table) is not None
    connection = connect()
    try:
        with open_table(connection, path, names_only=True) as table:
            return _mark(table) is not None
    except DataError:
        return False
    finally:
        connection.close()


def all_simulated(path: Rows) -> bool:
    """Whether every row says so; False for what is no file of such, and of a table elsewhere: nobody looks at those."""
    if isinstance(path, RemoteTable):
        return False
    connection = connect()
    try:
        with open_table(connection, path) as table, reading(table.path):
            if (mark := _mark(table)) not in table.columns:  # none, or it stands there twice, or in some files alone
                return False
            others = f"{table.columns[mark]} IS DISTINCT FROM {quoted(NOT_A_RELEASE)}"
            ((rows,),) = connection.execute(f"SELECT count(*) FROM {table.source} WHERE {others}").fetchall()
            return bool(rows == 0)
    except DataError:
        return False
    finally:
        connection.close()


def _mark(table: InputTable) -> str | None:
    """The column that says it, however it is spelt."""
    return next((name for name in table.types if name.casefold() == SIMULATED), None)
