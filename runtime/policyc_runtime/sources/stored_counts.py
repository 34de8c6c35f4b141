"""Ready counts of a stream that is too long to be held: on disk, and read piece by piece."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from policyc_runtime.sources.tables import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

PIECE = 2**18  # numbers that are read at a time, about
HELD = 2**26  # bytes, of all that is on disk


@dataclass(frozen=True, repr=False)
class StoredCounts:
    """Counts of one release, (steps, cells), whose slices are arrays. Never shown: it has no readable form.

    Args:
        rows: asked with numbers of a first row and of one behind the last, the values of those between, in order.
        steps: how many.
        cells: how many values a step has there.
        changes: what is made of every piece before anybody sees it; each step of its own.
    """

    rows: Callable[[int, int], NDArray[np.int64]]
    steps: int
    cells: int
    changes: tuple[Callable[[NDArray[np.int64]], NDArray[np.int64]], ...] = field(default=())

    def __len__(self) -> int:
        return self.steps

    @property
    def shape(self) -> tuple[int, int]:
        """(steps, cells), as of an array."""
        return self.steps, self.cells

    def __getitem__(self, asked: slice) -> NDArray[np.int64]:
        begin, stop, _ = asked.indices(self.steps)
        found = self.rows(begin * self.cells, max(stop, begin) * self.cells).reshape(-1, self.cells)
        for change in self.changes:
            found = change(found)
        return found


Counts: TypeAlias = "NDArray[np.int64] | StoredCounts"
"""(steps, cells), in memory or on disk."""


def made(counts: Counts, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Counts:
    """What is made of the counts of every step by itself."""
    if isinstance(counts, StoredCounts):
        return replace(counts, changes=(*counts.changes, change))
    return change(counts)


def begun(counts: Counts, steps: int | None) -> Counts:
    """The first so many steps; None for all."""
    if isinstance(counts, StoredCounts):
        return replace(counts, steps=len(range(counts.steps)[:steps]))
    return counts[:steps]


def pieces(counts: Counts, first: int = 0) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Counts from a step on, few of them at a time, and the step that each piece begins with."""
    steps = _together(counts.shape[1])
    for begin in range(first, len(counts), steps):
        yield begin, counts[begin : begin + steps]


def _together(cells: int) -> int:
    """How many steps are read at a time."""
    return max(1, PIECE // cells)


def stored_rows(connection: DuckDBPyConnection, rows: str, folder: Path) -> str:
    """Keep what a query gives, in its order, in a file of a folder; the table that has it.

    Args:
        connection: which has to stay open as long as the rows are asked for.
        rows: the query.
        folder: private, and gone with the run.
    """
    ((known,),) = connection.execute("SELECT count(*) FROM duckdb_databases()").fetchall()
    connection.execute(f"ATTACH {quoted(str(folder / f'rows{known}.duckdb'))} AS rows{known}")
    table = f"rows{known}.told"
    connection.execute(f"CREATE TABLE {table} AS {rows}")
    return table


def hold_little(connection: DuckDBPyConnection) -> None:
    """Keep little in memory of what the connection has on disk, now that it is asked for pieces alone."""
    connection.execute(f"SET threads = 1; SET memory_limit = '{HELD} bytes'")


def rows_in_order(connection: DuckDBPyConnection, table: str, cells: int) -> StoredCounts | None:
    """Rows with `step`, `code` and `value`, where every step has one of each cell, all in order; None where not."""
    ((count, wrong),) = connection.execute(
        "SELECT count(*), count(*) FILTER (step < 0 OR code < 0 OR value < 0 "
        f"OR step::HUGEINT * {cells} + code <> rowid) "
        f"FROM {table}"
    ).fetchall()
    if wrong or count % cells:
        return None

    size = _together(cells) * cells

    @lru_cache(maxsize=2)  # a step's counts are asked for more than once, and those of the next steps soon
    def piece(number: int) -> NDArray[np.int64]:
        asked = f"SELECT value FROM {table} WHERE rowid >= {number * size} AND rowid < {(number + 1) * size}"
        found = np.asarray(connection.execute(asked).fetchnumpy()["value"], dtype=np.int64)
        found.setflags(write=False)
        return found

    def values(begin: int, stop: int) -> NDArray[np.int64]:
        first, last = begin // size, max(begin, stop - 1) // size
        found = piece(first) if first == last else np.concatenate([piece(n) for n in range(first, last + 1)])
        return found[begin - first * size : stop - first * size]

    return StoredCounts(values, count // cells, cells)
