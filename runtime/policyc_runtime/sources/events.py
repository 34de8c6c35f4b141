"""From a file of events to counts a step: a user is in one cell a step, the last one seen.

Several events of one user in one step count once, at the cell of the latest; of two cells at the same moment the one
listed first in the policy. A user without an event in a step is in `otherwise`, and so is one in a cell that the policy
does not list.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.due_steps import due_steps
from policyc_runtime.sources.memory import Rows
from policyc_runtime.sources.moments import FIRST_MOMENT, LAST_MOMENT, declared_start, unsaid_start
from policyc_runtime.sources.names import check_cells, load_spellings, named_by
from policyc_runtime.sources.participation import counted_by_user, sum_columns
from policyc_runtime.sources.step_counts import StepCounts, check_population, check_steps
from policyc_runtime.sources.tables import InputTable, connect, no_rows, open_table, place_of, quoted, reading
from policyc_runtime.sources.written_moments import rows_with_moments

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

NO_VALUE, NO_DATE = 3, 4


def read_events(
    path: Rows,
    plan: Plan,
    *,
    start: int | None = None,
    steps: int | None = None,
    at_least: int = 0,
    zoned: bool = False,
    simulated: bool = False,
) -> StepCounts:
    """Counts of every release from a CSV (also gzipped) or Parquet file of events.

    Args:
        path: the file, or a table in memory; it must have the policy's columns, others are ignored.
        plan: what to count.
        start: the moment of step 0 (microseconds since 1970) that was said, or fixed by an earlier run. Else it is the
            plan's; no event says it.
        steps: exactly the first this many steps, whether or not events reach that far.
        at_least: without `steps`: what `due_steps` says, and at least this many.
        zoned: whether the start was said with its zone.
        simulated: whether the events come from a seed.

    Raises:
        DataError: names the file and the line, or the row of a Parquet file.
    """
    connection = connect()
    try:
        with open_table(connection, path) as table, reading(table.path):
            load_events(connection, table, plan)
            start = first_step(connection, table.path, plan, start)
            total = steps
            if total is None:
                occupied = occupied_steps(connection, plan, start)
                total = due_steps(plan, start, occupied, at_least, str(path), zoned=zoned, simulated=simulated)
            check_steps(plan, total, str(path), start)
            return count_events(connection, str(path), plan, start, total)
    finally:
        connection.close()


def occupied_steps(connection: DuckDBPyConnection, plan: Plan, start: int) -> NDArray[np.int64]:
    """The steps in which the table `event` has rows, in order."""
    found = connection.execute(
        f"SELECT DISTINCT {calendar_of(plan, start).steps.sql('moment')} AS step FROM event ORDER BY step"
    ).fetchnumpy()
    return np.asarray(found["step"], dtype=np.int64)


def load_events(connection: DuckDBPyConnection, table: InputTable, plan: Plan) -> None:
    """The table `event` of a file, and `spelling` of its users' names.

    Raises:
        DataError: a column is missing or names nobody, or a row cannot be used.
    """
    _load(connection, table, plan)
    _check_rows(connection, table, plan)
    load_spellings(connection, table.path)


def first_step(connection: DuckDBPyConnection, path: Path, plan: Plan, start: int | None) -> int:
    """The moment of step 0: what was said or fixed, or the plan's; all events fit to it.

    Raises:
        DataError: an event lies before it or beyond the horizon; or nobody says it.
    """
    start = declared_start(plan) if start is None else start
    if start is None:
        raise unsaid_start(str(path), "no event may say it: whoever comes first would fix when every published step is")
    _check_horizon(connection, path, plan, start)
    return start


def _refuse_counts(table: InputTable, plan: Plan) -> None:
    counted = {"count", *(release.name for release in plan.releases)} & table.columns.keys()
    if "step" in table.columns and counted and plan.stream.user_column not in table.columns:
        raise DataError(
            "E0811",
            "the file has ready counts, not events",
            where=str(table.path),
            because=f"it has the columns `step` and `{min(counted)}`, and none that says whose an event is",
            help="run again with `--counts`",
        )


def _load(connection: DuckDBPyConnection, table: InputTable, plan: Plan) -> None:
    """The table `event` in the file's order: moment (microseconds), person, code (index into the states)."""
    stream = plan.stream
    sums = sum_columns(plan)
    wanted = (
        stream.user_column,
        stream.time_column,
        *((stream.cell.column,) if stream.cell else ()),
        *(query.column for _, query in sums),
    )
    _refuse_counts(table, plan)
    user = table.column(stream.user_column, "user", wanted)
    named_by(table, stream.user_column)
    time = table.column(stream.time_column, "time", wanted)
    code = "0"
    if stream.cell:
        cell = table.column(stream.cell.column, "cell", wanted)
        check_cells(table, stream.cell.column)
        names = ", ".join(map(quoted, stream.cell.cells))
        connection.execute(f"CREATE TYPE cell AS ENUM ({names})")
        unknown = _listed(plan) if stream.cell.otherwise is not None else -1
        code = f"coalesce(enum_code(TRY_CAST({cell}::VARCHAR AS cell))::INTEGER, {unknown})"
    values = "".join(f", TRY_CAST({table.column(query.column, 'value', wanted)} AS DOUBLE) AS {v}" for v, query in sums)
    rows = rows_with_moments(table, stream, time, f"{user}::VARCHAR AS person, {code} AS code{values}")
    connection.execute(f"CREATE TABLE event AS {rows}")


def _check_rows(connection: DuckDBPyConnection, table: InputTable, plan: Plan) -> None:
    """Refuses the first row that cannot be used."""
    path = table.path
    unread = " OR ".join(f"NOT coalesce(isfinite({name}), false)" for name, _ in sum_columns(plan)) or "false"
    found = connection.execute(
        "SELECT min(rowid) FILTER (moment IS NULL), min(rowid) FILTER (coalesce(trim(person), '') = ''), "
        f"min(rowid) FILTER (code < 0), min(rowid) FILTER ({unread}), "
        f"min(rowid) FILTER (moment < {FIRST_MOMENT} OR moment >= {LAST_MOMENT}), count(*), "
        f"count(*) FILTER (code < {_listed(plan)}) FROM event"
    ).fetchall()
    ((no_moment, no_person, no_cell, no_value, no_date, rows, listed),) = found
    table.require_all(int(rows))
    if rows == 0 and not table.checked:
        raise no_rows(path)
    bad = [
        (row, kind) for kind, row in enumerate((no_moment, no_person, no_cell, no_value, no_date)) if row is not None
    ]
    if bad:
        row, kind = min(bad)
        raise _bad_row(plan, kind, place_of(path, row))
    if not listed and not table.checked:
        assert plan.stream.cell is not None
        raise DataError(
            "E0814",
            f"no value in column `{plan.stream.cell.column}` is a cell of the policy",
            where=f"{place_of(path, 0)} and every row below",
            because=f"everybody would be counted as `{plan.stream.cell.otherwise}` at every step",
            help="compare the spelling of the policy's cells with the data's, capitals included",
        )


def _listed(plan: Plan) -> int:
    """How many cells the policy lists; codes below it are these."""
    return len(plan.stream.cell.cells) if plan.stream.cell else 1


def _bad_row(plan: Plan, kind: int, where: str) -> DataError:
    stream = plan.stream
    if kind == 0:
        return DataError(
            "E0812",
            f"the time in column `{stream.time_column}` is empty or cannot be read",
            where=where,
            because="an event without a time belongs to no step",
            help="write times like `2013-01-31T17:05:00`, or leave the row out",
        )
    if kind == 1:
        return DataError(
            "E0813",
            f"the user in column `{stream.user_column}` is empty",
            where=where,
            because="the promise is made to users, so every event must say whose it is",
            help="fill in the user, or leave the row out",
        )
    if kind == NO_DATE:
        return DataError(
            "E0812",
            f"the time in column `{stream.time_column}` lies before the year 1 or after the year 9999",
            where=where,
            because="no calendar of a release has such a date",
            help="correct the date, or leave the row out",
        )
    if kind == NO_VALUE:
        columns = " or ".join(f"`{query.column}`" for _, query in sum_columns(plan))
        return DataError(
            "E0836",
            f"the value in column {columns} is not a number",
            where=where,
            because="every event adds a value to the sum, cut to the clamp of the policy",
            help="correct the row, or leave it out",
        )
    assert stream.cell is not None
    return DataError(
        "E0814",
        f"the value in column `{stream.cell.column}` is not a cell of the policy",
        where=where,
        because="cells are fixed before the data is seen; a new one would show that somebody was there",
        help='correct the row, leave it out, or add `otherwise "elsewhere"` to the cell in the policy',
    )


def _check_horizon(connection: DuckDBPyConnection, path: Path, plan: Plan, start: int) -> None:
    """Refuses the first row outside the stream."""
    horizon, calendar = plan.stream.horizon, calendar_of(plan, start)
    step = calendar.steps.sql("moment")
    pieces = step if calendar.periods is None else f"least({step}, {calendar.periods.sql('moment')})"
    late = "NULL" if horizon is None else f"min(rowid) FILTER (moment >= {start} AND {step} >= {horizon})"
    ((early, beyond),) = connection.execute(
        f"SELECT min(rowid) FILTER (moment < {start} OR {pieces} < 0), {late} FROM event"
    ).fetchall()
    if early is not None and (beyond is None or early < beyond):
        raise DataError(
            "E0815",
            "the event lies before the start of the stream",
            where=place_of(path, early),
            because="step 0 is fixed, by the plan or by the first run; times with a zone are converted",
            help="leave the row out, or give the stream an earlier start before its first run",
        )
    if beyond is not None:
        raise DataError(
            "E0815",
            "the event lies beyond the horizon",
            where=place_of(path, beyond),
            because=f"the plan has noise for {horizon:,} steps of {plan.stream.step_text} from the start of the stream",
            help="leave the row out, or give the policy a longer horizon and compile again",
        )


def count_events(connection: DuckDBPyConnection, where: str, plan: Plan, start: int, steps: int) -> StepCounts:
    """Counts of the table `event`; under a participation bound the table `before` says what users did already."""
    states = len(plan.stream.cell.states) if plan.stream.cell else 1
    step = calendar_of(plan, start).steps
    connection.execute(  # each user's name is hashed once; a step's digest adds up the hashes of who was where
        "CREATE TABLE person AS SELECT person, row_number() OVER () AS id, "
        "md5_number_lower(person) AS low, md5_number_upper(person) AS high FROM spelling"
    )
    _check_users(connection, where, plan)
    if plan.participation is not None:
        return counted_by_user(connection, plan, start, steps)
    whole = "BIGINT" if (LAST_MOMENT - FIRST_MOMENT + 1) * states < 2**63 else "HUGEINT"
    connection.execute(  # the largest key of a step is the latest moment, then the first cell
        f"CREATE TABLE presence AS SELECT id, step, {states} - 1 - max(key) % {states} AS code FROM ("
        f"SELECT id, {step.sql('moment')} AS step, (moment - {start})::{whole} * {states} + {states} - 1 - code AS key "
        f"FROM event JOIN person USING (person)) WHERE step < {steps} GROUP BY id, step"
    )
    rows = connection.execute(
        "SELECT step, code, count(*), sum(low), sum(high) FROM presence "
        "JOIN person USING (id) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    present = np.zeros((steps, states), dtype=np.int64)
    digests: dict[int, list[str]] = defaultdict(list)
    for at, code, users, low, high in rows:
        present[at, code] = users
        digests[at].append(f"{code}:{users}:{low}:{high};")
    counts = {release.name: _of_release(plan, release, present, where) for release in plan.releases}
    return StepCounts(start, counts, tuple("".join(digests[at]) for at in range(steps)))


def _check_users(connection: DuckDBPyConnection, where: str, plan: Plan) -> None:
    """Nothing when the users of the whole file fit the population, in listed cells or not."""
    ((users,),) = connection.execute("SELECT count(*) FROM person").fetchall()
    if plan.stream.population is not None and users > plan.stream.population:
        raise DataError(
            "E0817",
            "there are more users in the data than the population",
            where=where,
            because="the policy states it as a public number: all users there are, seen or not",
            help="correct `population` in the policy, or the users in the data",
        )


def _of_release(plan: Plan, release: ReleasePlan, present: NDArray[np.int64], where: str) -> NDArray[np.int64]:
    """(steps, cells of the release) from users present by state."""
    cell = plan.stream.cell
    known = present if cell is None else present[:, : len(cell.cells)]
    if release.query.by is None:
        counts: NDArray[np.int64] = known.sum(axis=1, keepdims=True)
    elif cell is None or cell.otherwise is None:
        counts = known
    elif plan.stream.population is None:
        raise DataError(
            "E0817",
            f"nobody can be counted as `{cell.otherwise}` without a population",
            where="plan.json: stream.population",
            because="the number of users in the data is not public: one user's only event changes it, and with it "
            f"`{cell.otherwise}` at every step",
            help="declare `population` in the policy: the number of users there are, seen or not",
        )
    else:
        missing = plan.stream.population - known.sum(axis=1, keepdims=True)
        return np.hstack([known, missing])
    check_population(plan, release, counts, where)
    return counts
