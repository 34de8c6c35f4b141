"""Rows of ready counts, each a step, a cell and a number, as an array: every combination once, or a refusal."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.memory import Place
from policyc_runtime.sources.moments import declared_start, unsaid_start
from policyc_runtime.sources.step_counts import LARGEST_HORIZON, check_steps
from policyc_runtime.sources.stored_counts import Counts, rows_in_order, stored_rows
from policyc_runtime.sources.tables import InputTable, no_rows, place_of, quoted
from policyc_runtime.sources.written_moments import TIME_TYPES, rows_with_moments

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

Gaps: TypeAlias = Literal["refuse", "zero"]
"""What a step or cell without a row means in ready counts."""
MOST_FILLED = 2**29  # counts in memory, where rows are filled up
LARGEST_COUNT = 2**53  # whole numbers up to here survive every reader
OTHER = -2  # in place of a step that the moment beside it does not lie in


def read_rows(
    connection: DuckDBPyConnection,
    table: InputTable,
    plan: Plan,
    release: ReleasePlan,
    start: int | None,
    gaps: Gaps,
    named: bool,
    since: int,
    spill: Path | None,
) -> tuple[Counts, NDArray[np.int64]]:
    """(steps, cells) of one release, every combination once; and which steps have rows, with gaps, or before `since`.

    The arguments are those of `read_counts`; `named` where only a column with the release's name can have the values.
    """
    said = _step_column(table, plan)
    name = release.name if release.name in table.columns or named else "count"
    value = table.column(name, "count", (said, release.name))
    code = "0"
    if release.query.by is not None:
        cell = table.column(release.query.by, "cell", (said, name))
        code = f"list_position([{', '.join(map(quoted, release.cells))}], {cell}::VARCHAR) - 1"
    counted = f"coalesce({code}, -1)::BIGINT AS code, {_whole(value)} AS value"
    rows = _rows(table, plan, said, start, counted)
    longest, cells = plan.stream.horizon or LARGEST_HORIZON, len(release.cells)
    if spill is not None and gaps == "refuse" and not since:
        kept = stored_rows(connection, rows, spill)
        stored = rows_in_order(connection, kept, cells)
        if stored is not None and 0 < len(stored) <= longest:
            table.require_all(len(stored) * cells)
            return stored, np.zeros(0, dtype=np.int64)
        rows = f"FROM {kept}"  # in its order
    found = connection.execute(rows).fetchnumpy()
    steps, codes, values = (np.asarray(found[key], dtype=np.int64) for key in ("step", "code", "value"))
    table.require_all(len(steps))
    if not len(steps) and (gaps == "refuse" or not since):
        raise no_rows(table.path)
    _check_values(table.path, steps, codes, values, (said, name, release.query.by), plan.stream.time_column)
    beyond = np.flatnonzero(steps >= longest)
    if beyond.size:
        check_steps(plan, int(steps[beyond[0]]) + 1, place_of(table.path, int(beyond[0])))
    last = int(steps.max(initial=-1))
    places = steps * cells + codes
    in_order = len(places) % cells == 0 and bool((places == np.arange(len(places))).all())
    if not in_order:
        _check_once(table.path, places, by_clock=said != "step" and plan.stream.clock is not None)
    if gaps == "refuse":
        if since or not in_order:
            _check_complete(table.path, places, release, since)
    elif (last + 1) * cells > MOST_FILLED:
        raise not_counts("a step is far beyond all others", place_of(table.path, int(steps.argmax())), "correct it")
    counts = np.zeros((last + 1, cells), dtype=np.int64)
    counts.ravel()[places] = values
    return counts, np.unique(steps if gaps == "zero" else steps[steps < since])


def _step_column(table: InputTable, plan: Plan) -> str:
    """The column that says the step: `step`, or the policy's column of moments where there is no such column."""
    time = plan.stream.time_column
    if "step" not in {*table.columns, *table.repeated} and time in table.columns:
        return time
    instead = "" if {"step", time} & set(table.repeated) else f", and none `{time}`, its moment"
    table.column("step", f"step (from 0){instead}", ("count", time))
    return "step"


def _rows(table: InputTable, plan: Plan, said: str, start: int | None, counted: str) -> str:
    """SQL for the rows with `step`, a whole number or -1, or `OTHER` beside another moment, and what is counted."""
    begin, time = declared_start(plan) if start is None else start, plan.stream.time_column
    if said == "step":
        step = _whole(table.columns[said])
        if begin is None or table.types.get(time) not in TIME_TYPES:
            return f"SELECT {step} AS step, {counted} FROM {table.source}"
        rows = rows_with_moments(table, plan.stream, table.columns[time], f"{step} AS number, {counted}")
        told = f"CASE WHEN moment >= {begin} THEN {calendar_of(plan, begin).steps.sql('moment')} ELSE -1 END"
        number = f"CASE WHEN number >= 0 AND moment IS NOT NULL AND number <> {told} THEN {OTHER} ELSE number END"
        return f"SELECT {number} AS step, code, value FROM ({rows})"
    if begin is None:
        raise unsaid_start(str(table.path), "no row may say it: the first would fix when every published step is")
    rows = rows_with_moments(table, plan.stream, table.columns[said], counted)
    step = f"CASE WHEN moment >= {begin} THEN {calendar_of(plan, begin).steps.sql('moment')} END"
    return f"SELECT coalesce({step}, -1) AS step, code, value FROM ({rows})"


def _whole(column: str) -> str:
    """SQL for a whole number from 0, or -1."""
    number = f"TRY_CAST({column} AS DOUBLE)"
    return (
        f"CASE WHEN isfinite({number}) AND {number} BETWEEN 0 AND {LARGEST_COUNT} AND {number} = floor({number}) "
        f"THEN {number}::BIGINT ELSE -1 END"
    )


def _check_values(
    path: Place,
    steps: NDArray[np.int64],
    codes: NDArray[np.int64],
    values: NDArray[np.int64],
    columns: tuple[str, str, str | None],
    time: str,
) -> None:
    """Refuses the first row that cannot be used; `columns` say the step, the count and the cell, `time` the moment."""
    bad = np.flatnonzero((steps < 0) | (codes < 0) | (values < 0))
    if not bad.size:
        return
    row = int(bad[0])
    where, (said, name, by) = place_of(path, row), columns
    if steps[row] == OTHER:
        message = f"the columns `step` and `{time}` say different steps"
        raise not_counts(message, where, f"correct the row, or leave out one of both columns; `{time}` is not needed")
    if steps[row] < 0:
        remedy = "number the steps 0, 1, 2, …" if said == "step" else "write moments from the start of the stream on"
        raise not_counts(f"the value in column `{said}` is not a step", where, remedy)
    if codes[row] < 0:
        raise DataError(
            "E0814",
            f"the value in column `{by}` is not a cell of the policy",
            where=where,
            because="every cell of the policy, with `otherwise`, has one count a step, and no other cell has",
            help="correct the row",
        )
    raise not_counts(
        f"the value in column `{name}` is not a count",
        where,
        "counts are whole numbers from 0; give them without noise",
    )


class MissingCountsError(DataError):
    """Rows that leave out a step or a cell."""


def _check_once(path: Place, places: NDArray[np.int64], *, by_clock: bool) -> None:
    """No step and cell, told by step times cells plus cell, comes twice; `by_clock`: moments may be what one shows."""
    _, first = np.unique(places, return_index=True)
    if len(first) < len(places):
        row = int(np.setdiff1d(np.arange(len(places)), first)[0])
        remedy = "give every count once"
        if by_clock:
            remedy += (
                "; a clock that is set back shows an hour twice, and one that is set forward leaves one out: write "
            )
            remedy += "moments with their offset, such as `+01:00`"
        raise not_counts("this step and cell come twice", place_of(path, row), remedy)


def _check_complete(path: Place, places: NDArray[np.int64], release: ReleasePlan, since: int) -> None:
    """Steps that are there have all their cells, and from `since` on none is left out between them."""
    cells = len(release.cells)
    known = np.unique(places[places < since * cells] // cells)
    new = -(-int((places >= since * cells).sum()) // cells)
    wanted = (np.append(known, np.arange(since, since + new))[:, None] * cells + np.arange(cells)).ravel()
    if not np.array_equal(np.sort(places), wanted):
        step, cell = divmod(int(np.setdiff1d(wanted, places)[0]), cells)
        which = f" of cell `{release.cells[cell]}`" if release.query.by is not None else ""
        alone = "new rows alone need `--continued`, after one such run with the whole history"
        raise MissingCountsError(
            "E0818",
            f"the count{which} at step {step} is missing",
            where=str(path),
            help=f"give every step from {since} on, and 0 where nobody is; or say `--gaps zero`, if that is what no "
            f"row means; {alone if since == 0 else 'those before it are known from earlier runs'}",
        )


def not_counts(message: str, where: str, remedy: str) -> DataError:
    """The refusal of rows, or of an array, that say no counts."""
    return DataError("E0818", message, where=where, help=remedy)
