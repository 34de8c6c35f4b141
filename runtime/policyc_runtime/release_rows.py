"""A release file as it stands, row by row."""
# ruff: noqa: S608  SQL is put together from quoted names only

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.sources.tables import connect, open_table, place_of, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ReadRelease:
    """A release file as it stands: one row a step and cell.

    Args:
        steps: (rows,).
        times: (rows,) microseconds since 1970; -1 where there is none.
        cells: the cell of each row, "" without cells.
        noisy: (rows,); 0 where the field is empty.
        skipped: (rows,) whether it is.
        released: (rows,); 0 where the field is empty.
        left_out: (rows,) whether it is.
        simulated: whether it says that it is not a release.
    """

    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    cells: list[str]
    noisy: NDArray[np.int64]
    skipped: NDArray[np.bool_]
    released: NDArray[np.float64]
    left_out: NDArray[np.bool_]
    simulated: bool


def read_release(path: str | Path, column: str | None, *, whole: bool = True) -> ReadRelease:
    """Read what `write_release` wrote.

    Args:
        path: the file.
        column: the cell column, None without cells.
        whole: whether noisy values are whole numbers.

    Raises:
        DataError: not readable, or a column is missing.
        ReleaseError: a value is not a number.
    """
    connection = connect()
    try:
        with open_table(connection, path) as table, reading(table.path):
            cell = "''" if column is None else table.column(column, "cell", ("step", "noisy", "released"))
            step, time, noisy, released = (
                table.column(name, f"column of {name} values", ("step", "noisy", "released"))
                for name in ("step", "time", "noisy", "released")
            )
            kind = "BIGINT" if whole else "DOUBLE"
            found = connection.execute(
                f"SELECT TRY_CAST({step} AS BIGINT) AS step, coalesce(epoch_us(TRY_CAST({time} AS TIMESTAMPTZ)), -1) "
                f"AS time, {cell}::VARCHAR AS cell, CASE WHEN "
                f"coalesce({noisy}::VARCHAR, '') = '' THEN 0 ELSE TRY_CAST({noisy} AS {kind}) END AS noisy, "
                f"coalesce({noisy}::VARCHAR, '') = '' AS skipped, "
                f"CASE WHEN coalesce({released}::VARCHAR, '') = '' THEN 0 ELSE TRY_CAST({released} AS DOUBLE) END "
                f"AS released, coalesce({released}::VARCHAR, '') = '' AS left_out FROM {table.source}"
            ).fetchnumpy()
            table.require_all(len(found["step"]))
    finally:
        connection.close()
    for name, values in found.items():
        if np.ma.is_masked(values):
            row = int(np.argmax(np.ma.getmaskarray(values)))
            raise ReleaseError(
                "E0827",
                f"the value in column `{name}` cannot be read",
                where=place_of(path, row),
                help="compare the file that `policyc run` wrote, as it was written",
            )
    columns = {name: np.ma.getdata(values) for name, values in found.items()}
    return ReadRelease(
        steps=columns["step"],
        times=columns["time"],
        cells=columns["cell"].tolist(),
        noisy=columns["noisy"],
        skipped=columns["skipped"],
        released=columns["released"],
        left_out=columns["left_out"],
        simulated="simulated" in table.types,
    )
