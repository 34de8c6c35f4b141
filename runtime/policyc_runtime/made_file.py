"""Files of what is made of released values, read back and held against what follows from the ledger."""
# ruff: noqa: S608  SQL is put together from quoted names only

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.made_values import made_values
from policyc_runtime.plan import Plan
from policyc_runtime.published_values import MadeSeries, Series
from policyc_runtime.sources.moments import moment_of
from policyc_runtime.sources.tables import connect, open_table, place_of, reading

ROLES = ("step", "time", "released")


def made_series(plan: Plan, series: Mapping[str, Series]) -> dict[str, MadeSeries]:
    """What a plan makes of the released values, by name."""
    rows = made_values(plan, {name: one.released for name, one in series.items()})
    return {
        made.name: MadeSeries(made.name, made.query.by, made.cells, rows[made.name], made.steps, made.first)
        for made in plan.made
    }


def require_made(series: MadeSeries, times: tuple[str, ...], file: Path) -> int:
    """How many steps the rows of a file cover, all of them as they follow from the ledger.

    Args:
        series: the rows that follow.
        times: when each step of the ledger begins.
        file: to compare with.

    Raises:
        ReleaseError: E0827, naming the first row that differs.
    """
    connection = connect()
    try:
        with open_table(connection, file) as table, reading(table.path):
            cell = "''" if series.column is None else table.column(series.column, "cell", ROLES)
            step, time, released = (table.column(name, f"column of {name} values", ROLES) for name in ROLES)
            found = connection.execute(
                f"SELECT coalesce(TRY_CAST({step} AS BIGINT), -1) AS step, "
                f"coalesce(epoch_us(TRY_CAST({time} AS TIMESTAMPTZ)), -1) AS time, "
                f"coalesce({cell}::VARCHAR, '') AS cell, coalesce({released}::VARCHAR, '') = '' AS empty, "
                f"coalesce(TRY_CAST({released} AS DOUBLE), 0) AS released FROM {table.source}"
            ).fetchnumpy()
            table.require_all(len(found["step"]))
    finally:
        connection.close()
    columns = {name: np.ma.getdata(values) for name, values in found.items()}
    count, cells = len(columns["step"]), len(series.cells)
    begins = np.repeat(np.array(series.begins, np.int64), cells)
    size = min(count, begins.size)
    moments = np.array([moment_of(time) for time in times], np.int64)
    wrong = (
        (columns["step"][:size] != begins[:size])
        | (columns["time"][:size] != moments[begins[:size]])
        | (columns["empty"][:size] != np.ma.getmaskarray(series.released).ravel()[:size])
        | (columns["released"][:size] != np.ma.getdata(series.released).ravel()[:size])
        | (columns["cell"][:size].astype(str) != np.array(series.cells * (size // cells + 1))[:size])
    )
    row = int(np.argmax(wrong)) if wrong.any() else size
    if wrong.any() or count > begins.size or count % cells:
        which = f"row {row // cells}" + (f", cell `{series.cells[row % cells]}`" if series.column is not None else "")
        raise ReleaseError(
            "E0827",
            f"`{series.name}` is not what is made of the released values, from {which} on",
            where=f"{place_of(file, row)}, {which}",
            because="it follows from them exactly, and whoever has them can compute it again: the file was altered, or "
            "the ledger is an older copy, or of another run",
            help="if the file has steps that the ledger has not, restore the newest ledger: a run now would draw "
            "them again; else move the file away and run again: it is written from the values that the ledger holds",
        )
    rows = count // cells
    return len(times) if rows == len(series.released) else series.first + rows * series.steps
