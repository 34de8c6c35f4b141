"""Ready counts: one number for every step and cell, made elsewhere."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from policyc_check.plan.queries import SumQuery
from policyc_runtime.ancestors import counted_by
from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.due_steps import due_counts
from policyc_runtime.sources.memory import Place, Rows
from policyc_runtime.sources.moments import declared_start, unsaid_start
from policyc_runtime.sources.participation import measured_releases
from policyc_runtime.sources.step_counts import LARGEST_HORIZON, CountDigests, StepCounts, check_population, check_steps
from policyc_runtime.sources.tables import InputTable, connect, no_rows, open_table, place_of, quoted, reading
from policyc_runtime.sources.written_moments import rows_with_moments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

Gaps: TypeAlias = Literal["refuse", "zero"]
"""What a step or cell without a row means in ready counts."""
MOST_FILLED = 2**29  # counts in memory, where rows are filled up
LARGEST_COUNT = 2**53  # whole numbers up to here survive every reader


def require_counts_suffice(plan: Plan, where: str) -> None:
    """Nothing when ready counts can serve a plan: they do not say whose events they are, nor what was clamped.

    Raises:
        DataError: the plan enforces a participation bound, or has a sum.
    """
    record = plan.participation
    if record is not None and record.enforced is not None:
        raise DataError(
            "E0837",
            "the participation bound cannot be enforced on ready counts",
            where=where,
            because="counts do not say whose they are, so nobody's events could be dropped beyond the bound",
            help='give events; or write `participation at_most(..., assumed = "why this holds")` and compile again',
        )
    if any(isinstance(release.query, SumQuery) for release in plan.releases):
        raise DataError(
            "E0837",
            "a clamped sum cannot be made from ready counts",
            where=where,
            because="a total does not say whether the values in it were cut to the clamp",
            help="give events instead of ready counts",
        )


def read_counts(
    path: Rows,
    plan: Plan,
    *,
    start: int | None = None,
    steps: int | None = None,
    at_least: int = 0,
    zoned: bool = False,
    gaps: Gaps = "refuse",
    since: int = 0,
) -> StepCounts:
    """Counts from a file or table with columns `step` (from 0), the cell column if any, and `count`.

    Instead of `step` it may have the policy's column of moments, each in its step. Instead of `count` a column may have
    the release's name; with several releases each has a column of its own. Where everybody is in one cell at a step,
    counts by cell are enough, and all others are added up.

    Args:
        path: the file, or a table in memory.
        plan: what the counts are for.
        start: the moment of step 0 that was said, or fixed by an earlier run.
        steps: only the first this many; default those that are over by the clock, where a start is known.
        at_least: without `steps`: no fewer than this.
        zoned: whether the start was said with its zone.
        gaps: what a step or cell without a row means.
        since: steps before this one may be left out; without a row they have counts of 0, and no digest.

    Raises:
        DataError: names the file and the line (the row of a Parquet file), or the step and cell that are missing.
    """
    require_counts_suffice(plan, str(path))
    measured, whole = measured_releases(plan), _told_by_cells(plan)
    if whole is None and len({release.query.by for release in plan.releases}) > 1:
        raise DataError(
            "E0818",
            "ready counts cannot serve releases with different cells",
            where=str(path),
            because="a row has one cell, and counts at a level do not follow from those of cells: who is in several "
            "counts once in what they belong to",
            help="give events instead of ready counts",
        )
    connection = connect()
    try:
        with open_table(connection, path) as table, reading(table.path):
            _refuse_events(table, plan)
            asked = measured if whole is None else [whole]
            named = len(plan.releases) > 1 and (whole is None or whole.name in table.columns)
            found = {
                part.name: _one_release(connection, table, plan, part, start, gaps, named, since) for part in asked
            }
    finally:
        connection.close()
    again = next(known for _, known in found.values())  # of one file all releases have the same steps
    arrays = {name: counts for name, (counts, _) in found.items()}
    if whole is not None and plan.stream.cell is not None:
        states, cell = arrays[whole.name], plan.stream.cell
        arrays = {part.name: counted_by(cell, part.query.by, states) for part in measured}
    longest = max(steps or 0, *map(len, arrays.values()))
    if gaps == "zero":
        arrays = {name: np.pad(array, ((0, longest - len(array)), (0, 0))) for name, array in arrays.items()}
    return _assembled(arrays, plan, start, steps, str(path), at_least, zoned, since, again)


def counts_of_array(
    counts: NDArray[Any] | Mapping[str, NDArray[Any]],
    plan: Plan,
    *,
    start: int | None = None,
    steps: int | None = None,
    at_least: int = 0,
    zoned: bool = False,
) -> StepCounts:
    """Counts that are in memory already: (steps, cells), or one such array for each release's name.

    The other arguments are those of `read_counts`.

    Raises:
        DataError: wrong shape, or not counts.
    """
    require_counts_suffice(plan, "counts")
    measured = measured_releases(plan)
    if not isinstance(counts, Mapping):
        if len(measured) > 1:
            raise _not_counts("one array cannot serve several releases", "counts", "give one array for each name")
        counts = {measured[0].name: counts}
    arrays = {}
    for release in measured:
        array = np.asarray(counts.get(release.name, np.zeros(0)))
        if array.ndim == 1 and len(release.cells) == 1:
            array = array[:, None]
        where = f"counts of `{release.name}`"
        if array.ndim != 2 or array.shape[1] != len(release.cells) or not len(array):
            raise _not_counts("counts do not have the shape (steps, cells)", where, "one row a step, one column a cell")
        if array.dtype.kind not in "iu" or (array < 0).any() or (array > LARGEST_COUNT).any():
            raise _not_counts("counts are not whole numbers from 0", where, "count users, without noise or scaling")
        arrays[release.name] = array.astype(np.int64)
    if len({len(array) for array in arrays.values()}) > 1:
        raise _not_counts("releases have different numbers of steps", "counts", "give every release the same steps")
    return _assembled(arrays, plan, start, steps, "counts", at_least, zoned)


def _refuse_events(table: InputTable, plan: Plan) -> None:
    if "step" not in table.columns and {plan.stream.user_column, plan.stream.time_column} <= table.columns.keys():
        raise DataError(
            "E0811",
            "the file has events, not ready counts",
            where=str(table.path),
            because="it has the policy's columns for the user and the time, and no column `step`",
            help="run again without `--counts`",
        )


def _assembled(
    arrays: dict[str, NDArray[np.int64]],
    plan: Plan,
    start: int | None,
    steps: int | None,
    where: str,
    at_least: int,
    zoned: bool,
    since: int = 0,
    again: NDArray[np.int64] | tuple[()] = (),
) -> StepCounts:
    """Counts of all steps; `again` are those before `since` that have rows."""
    if start is None:
        start = declared_start(plan)
    if steps is None and start is not None:
        steps = due_counts(plan, start, max(map(len, arrays.values())), at_least, where, zoned=zoned)
    arrays = {name: array[:steps] for name, array in arrays.items()}
    length = len(next(iter(arrays.values())))
    check_steps(plan, length, where, start)
    told = np.append(again, np.arange(since, length)).astype(np.int64)  # of all others nothing is known
    asked = told[told < length] if since else slice(None)
    for release in measured_releases(plan):
        given = arrays[release.name]
        counts = np.zeros(given.shape, given.dtype) if since else given  # nobody touches what is not asked
        arrays[release.name] = counts
        counts[asked] = _left_over(plan, release, given[asked], begun=at_least > 0)
        if at_least == 0 or release.query.by is not None:
            check_population(plan, release, counts, where, since)
    return StepCounts(start, arrays, CountDigests(list(arrays.values()), since, frozenset(again)))


def _left_over(plan: Plan, release: ReleasePlan, counts: NDArray[np.int64], *, begun: bool) -> NDArray[np.int64]:
    """Counts of a stream that has begun, where nobody is elsewhere: `otherwise` is what is left, below 0 if need be."""
    cell, population = plan.stream.cell, plan.stream.population
    if not begun or release.query.by is None or cell is None or cell.otherwise is None or population is None:
        return counts
    left = population - counts[:, :-1].sum(axis=1)
    return np.column_stack([counts[:, :-1], np.where(counts[:, -1] == 0, np.minimum(left, 0), counts[:, -1])])


def _told_by_cells(plan: Plan) -> ReleasePlan | None:
    """The release from whose counts the others follow, where everybody is in one cell at a step; None where none is."""
    cell, by = plan.stream.cell, {release.query.by for release in plan.releases}
    if plan.participation is not None or cell is None or cell.column not in by or len(by) == 1:
        return None
    return next(release for release in measured_releases(plan) if release.query.by == cell.column)


def _one_release(
    connection: DuckDBPyConnection,
    table: InputTable,
    plan: Plan,
    release: ReleasePlan,
    start: int | None,
    gaps: Gaps,
    named: bool,
    since: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(steps, cells) of one release, every combination once; and which steps before `since` have rows."""
    said = _step_column(table, plan)
    name = release.name if release.name in table.columns or named else "count"
    value = table.column(name, "count", (said, release.name))
    code = "0"
    if release.query.by is not None:
        cell = table.column(release.query.by, "cell", (said, name))
        code = f"list_position([{', '.join(map(quoted, release.cells))}], {cell}::VARCHAR) - 1"
    counted = f"coalesce({code}, -1)::BIGINT AS code, {_whole(value)} AS value"
    found = connection.execute(_rows(table, plan, said, start, counted)).fetchnumpy()
    steps, codes, values = (np.asarray(found[key], dtype=np.int64) for key in ("step", "code", "value"))
    table.require_all(len(steps))
    if not len(steps):
        raise no_rows(table.path)
    _check_values(table.path, steps, codes, values, (said, name, release.query.by))
    beyond = np.flatnonzero(steps >= (plan.stream.horizon or LARGEST_HORIZON))
    if beyond.size:
        check_steps(plan, int(steps[beyond[0]]) + 1, place_of(table.path, int(beyond[0])))
    cells, last = len(release.cells), int(steps.max())
    places = steps * cells + codes
    in_order = len(places) % cells == 0 and bool((places == np.arange(len(places))).all())
    if not in_order:
        _check_once(table.path, places)
    if gaps == "refuse":
        if since or not in_order:
            _check_complete(table.path, places, release, since)
    elif (last + 1) * cells > MOST_FILLED:
        raise _not_counts("a step is far beyond all others", place_of(table.path, int(steps.argmax())), "correct it")
    counts = np.zeros((last + 1, cells), dtype=np.int64)
    counts.ravel()[places] = values
    return counts, np.unique(steps[steps < since])


def _step_column(table: InputTable, plan: Plan) -> str:
    """The column that says the step: `step`, or the policy's column of moments where there is no such column."""
    time = plan.stream.time_column
    if "step" not in {*table.columns, *table.repeated} and time in table.columns:
        return time
    table.column("step", "step (from 0)", ("count", time))
    return "step"


def _rows(table: InputTable, plan: Plan, said: str, start: int | None, counted: str) -> str:
    """SQL for the rows with `step`, a whole number or -1, and what is counted."""
    if said == "step":
        step = _whole(table.columns[said])
        return f"SELECT {step} AS step, {counted} FROM {table.source}"
    begin = declared_start(plan) if start is None else start
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
) -> None:
    """Refuses the first row that cannot be used; `columns` say the step, the count and the cell."""
    bad = np.flatnonzero((steps < 0) | (codes < 0) | (values < 0))
    if not bad.size:
        return
    row = int(bad[0])
    where, (said, name, by) = place_of(path, row), columns
    if steps[row] < 0:
        remedy = "number the steps 0, 1, 2, …" if said == "step" else "write moments from the start of the stream on"
        raise _not_counts(f"the value in column `{said}` is not a step", where, remedy)
    if codes[row] < 0:
        raise DataError(
            "E0814",
            f"the value in column `{by}` is not a cell of the policy",
            where=where,
            because="every cell of the policy, with `otherwise`, has one count a step, and no other cell has",
            help="correct the row",
        )
    raise _not_counts(
        f"the value in column `{name}` is not a count",
        where,
        "counts are whole numbers from 0; give them without noise",
    )


def _check_once(path: Place, places: NDArray[np.int64]) -> None:
    """No step and cell, told by step times cells plus cell, comes twice."""
    _, first = np.unique(places, return_index=True)
    if len(first) < len(places):
        row = int(np.setdiff1d(np.arange(len(places)), first)[0])
        raise _not_counts("this step and cell come twice", place_of(path, row), "give every count once")


def _check_complete(path: Place, places: NDArray[np.int64], release: ReleasePlan, since: int) -> None:
    """Steps that are there have all their cells, and from `since` on none is left out between them."""
    cells = len(release.cells)
    known = np.unique(places[places < since * cells] // cells)
    new = -(-int((places >= since * cells).sum()) // cells)
    wanted = (np.append(known, np.arange(since, since + new))[:, None] * cells + np.arange(cells)).ravel()
    if not np.array_equal(np.sort(places), wanted):
        step, cell = divmod(int(np.setdiff1d(wanted, places)[0]), cells)
        which = f" of cell `{release.cells[cell]}`" if release.query.by is not None else ""
        raise _not_counts(
            f"the count{which} at step {step} is missing",
            str(path),
            f"give every step from {since} on, and 0 where nobody is; or say `--gaps zero`, if that is what no row "
            "means; new rows alone need `--continued`, after one such run with the whole history",
        )


def _not_counts(message: str, where: str, remedy: str) -> DataError:
    return DataError("E0818", message, where=where, help=remedy)
