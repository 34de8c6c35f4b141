"""From a file of events to counts a step: a user is in one cell a step, the last one seen.

Several events of one user in one step count once, at the cell of the latest; of two cells at the same moment the one
listed first in the policy. A user without an event in a step is in `otherwise`, and so is one in a cell that the policy
does not list.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.ancestors import ancestors, summed
from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.bounding import participations, persons, totals
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.due_steps import due_steps
from policyc_runtime.sources.engines.dialect import DUCKDB
from policyc_runtime.sources.engines.remote import RemoteTable
from policyc_runtime.sources.faults import refuse_rows
from policyc_runtime.sources.input_table import InputTable
from policyc_runtime.sources.memory import Rows
from policyc_runtime.sources.moments import declared_start, unsaid_start
from policyc_runtime.sources.names import check_cells, named_by
from policyc_runtime.sources.participation import counted_by_user, listed_cells, sum_columns
from policyc_runtime.sources.step_counts import StepCounts, check_population, check_steps, every_user_in_a_cell
from policyc_runtime.sources.tables import is_parquet, open_rows
from policyc_runtime.sources.written_moments import rows_with_moments

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from policyc_runtime.sources.engines.session import Session

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")


def read_events(
    path: Rows,
    plan: Plan,
    *,
    start: int | None = None,
    steps: int | None = None,
    at_least: int = 0,
    zoned: bool = False,
    simulated: bool = False,
    spill: Path | None = None,
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
        spill: a folder for what does not fit into memory; default none, and such a file is refused.

    Raises:
        DataError: names the file and the line, or the row of a Parquet file.
    """
    with open_rows(path, spill) as (session, table):
        start = load_events(session, table, plan, start)
        total = steps
        if total is None:
            occupied = occupied_steps(session, plan, start)
            total = due_steps(plan, start, occupied, at_least, str(path), zoned=zoned, simulated=simulated)
        check_steps(plan, total, str(path), start)
        first = at_least == 0 and not table.checked
        return count_events(session, str(path), plan, start, range(total), first=first)


def occupied_steps(session: Session, plan: Plan, start: int) -> NDArray[np.int64]:
    """The steps in which the table `event` has rows, in order."""
    step = calendar_of(plan, start).steps.sql("moment", session.dialect)
    found = session.rows(f"SELECT DISTINCT {step} AS step FROM event ORDER BY step")
    return np.array([step for (step,) in found], dtype=np.int64)


def load_events(session: Session, table: InputTable, plan: Plan, start: int | None) -> int:
    """`event` and `person` of a file (`bounding.py`), and the moment of step 0: what was said or fixed, or the plan's.

    Raises:
        DataError: a column is missing or names nobody, a row cannot be used or lies outside of the stream, two names
            say the same; or nobody says when step 0 is.
    """
    _load(session, table, plan)
    start = declared_start(plan) if start is None else start
    calendar = None if start is None else calendar_of(plan, start)
    values = [name for name, _ in sum_columns(plan)]
    session.create("person", persons(session.dialect, calendar, plan.stream.horizon, listed_cells(plan), values))
    ((events, people, usable, listed, unnamed, said),) = session.rows(
        "SELECT coalesce(sum(events), 0), count(*), min(usable), max(listed), "
        "count(*) FILTER (WHERE coalesce(folded, '') = ''), count(DISTINCT folded) FROM person"
    )
    table.require_all(int(events))
    if usable == 0 or not (listed or table.checked) or unnamed or said < people:
        refuse_rows(session, table, plan, start)
    if start is None:
        raise unsaid_start(
            str(table.path), "no event may say it: whoever comes first would fix when every published step is"
        )
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


def _wanted(plan: Plan) -> tuple[str, ...]:
    """The columns that a plan reads."""
    stream = plan.stream
    cells = (stream.cell.column,) if stream.cell else ()
    return stream.user_column, stream.time_column, *cells, *(query.column for _, query in sum_columns(plan))


def users_of(table: InputTable, plan: Plan) -> tuple[str, str]:
    """How SQL says the column of users, and what they are told by, as a word.

    Raises:
        DataError: there is no such column, or several, or its values name no users.
    """
    _refuse_counts(table, plan)
    user = table.column(plan.stream.user_column, "user", _wanted(plan))
    return user, named_by(table, plan.stream.user_column)


def _load(session: Session, table: InputTable, plan: Plan) -> None:
    """`event` in the file's order: moment (microseconds), person, code (index into the states).

    A Parquet file is read as often as it is asked for, column by column; of others that is dear, and rows are copied.
    """
    stream, dialect = plan.stream, session.dialect
    sums, wanted = sum_columns(plan), _wanted(plan)
    user, _ = users_of(table, plan)
    time = table.column(stream.time_column, "time", wanted)
    others, code, cells = f"{dialect.user(user)} AS person", "0", ""
    if stream.cell:
        cell = table.column(stream.cell.column, "cell", wanted)
        check_cells(table, stream.cell.column)
        others += f", {dialect.text(cell)} AS cell"
        known, cells = session.codes("cell", stream.cell.cells)
        code = f"coalesce({known}, {listed_cells(plan) if stream.cell.otherwise is not None else -1})"
    for name, query in sums:
        value = table.column(query.column, "value", wanted)
        others += f", {_number(session, table, query.column, value)} AS {name}"
    rows = rows_with_moments(table, stream, time, others, dialect)
    values = "".join(f", {name}" for name, _ in sums)
    query_of_rows = f"SELECT moment, person, {code} AS code{values} FROM ({rows}) AS told{cells}"
    if not table.moving and (isinstance(table.path, RemoteTable) or is_parquet(table.path)):
        session.view("event", query_of_rows)
    else:
        session.create("event", query_of_rows)


def _number(session: Session, table: InputTable, column: str, value: str) -> str:
    """SQL for a column of numbers; DuckDB alone reads texts as such."""
    kind = table.types[column]
    if session.dialect is not DUCKDB and not kind.startswith(NUMBERS):
        raise DataError(
            "E0836",
            f"the column `{column}` does not hold numbers",
            where=str(table.path),
            because="every event adds a value to the sum, cut to the clamp of the policy",
            help="make a view in which it is a number, and name that",
        )
    return session.dialect.number(value, kind)


def count_events(
    session: Session, where: str, plan: Plan, start: int, steps: range, *, first: bool, carried_on: bool = False
) -> StepCounts:
    """Counts of `event`, of the steps through the last of these; those before them are 0.

    Args:
        session: has `event` and `person`.
        where: the file, for messages.
        plan: what to count.
        start: the moment of step 0, microseconds since 1970.
        steps: those to count.
        first: whether nothing is released yet, so that another plan may take this one's place: then there must be no
            more users than the population. Later they count as all others do, and `otherwise` is what is left, below 0
            if need be: one user more moves as much of it, and a stream that ends tells that somebody came.
        carried_on: under a participation bound the table `before` says what users did already.
    """
    if first:
        _check_users(session, where, plan, steps)
    if plan.participation is not None:
        return counted_by_user(session, plan, start, steps, carried_on=carried_on)
    states = len(plan.stream.cell.states) if plan.stream.cell else 1
    presence = participations(session.dialect, calendar_of(plan, start), steps, states, plan.stream.horizon)
    present = np.zeros((steps.stop, states), dtype=np.int64)
    digests: dict[int, list[str]] = defaultdict(list)
    for at, code, users, low, high, _ in session.rows(totals(session.dialect, presence, ())):
        present[at, code] = users
        digests[at].append(f"{code}:{users}:{low}:{high};")
    counts = {release.name: _of_release(plan, release, present, where, steps.start, first) for release in plan.releases}
    return StepCounts(start, counts, ("",) * steps.start + tuple("".join(digests[at]) for at in steps))


def _check_users(session: Session, where: str, plan: Plan, steps: range) -> None:
    """Nothing when the users of the whole file fit the population, in listed cells or not."""
    ((users,),) = session.rows(f"SELECT count(*) FROM person WHERE last >= {steps.start}")
    if plan.stream.population is not None and users > plan.stream.population:
        raise DataError(
            "E0817",
            "there are more users in the data than the population",
            where=where,
            because="the policy states it as a public number: all users there are, seen or not",
            help="correct `population` in the policy and compile again, or correct the users in the data; nothing was "
            "drawn, and once a step is out more users count like all others",
        )


def _of_release(
    plan: Plan, release: ReleasePlan, present: NDArray[np.int64], where: str, begin: int, first: bool
) -> NDArray[np.int64]:
    """(steps, cells of the release) from users present by state."""
    cell, by = plan.stream.cell, release.query.by
    known = present if cell is None else present[:, : len(cell.cells)]
    if cell is not None and by not in (None, cell.column):
        known = summed(known, ancestors(cell, str(by)))
    if by is None:
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
    if first or every_user_in_a_cell(plan, release):
        check_population(plan, release, counts, where, begin)
    return counts
