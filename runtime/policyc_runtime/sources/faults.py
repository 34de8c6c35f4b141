"""The first row of a file that cannot be used, and why: looked for once it is known that there is one."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from typing import TYPE_CHECKING

from policyc_check.users.claims import promised_user_level
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.plan import Plan
from policyc_runtime.sources.bounding import LARGEST
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.engines.dialect import DUCKDB
from policyc_runtime.sources.input_table import changed_meanwhile
from policyc_runtime.sources.moments import FIRST_MOMENT, LAST_MOMENT
from policyc_runtime.sources.names import folded, written_twice
from policyc_runtime.sources.participation import listed_cells, sum_columns
from policyc_runtime.sources.tables import no_rows, place_of

if TYPE_CHECKING:
    from pathlib import Path

    from policyc_runtime.sources.engines.session import Session
    from policyc_runtime.sources.input_table import InputTable
    from policyc_runtime.sources.memory import Place, Rows

NO_VALUE, NO_DATE = 3, 4


def refuse_rows(session: Session, table: InputTable, plan: Plan, start: int | None) -> None:
    """Refuses the first row of `event` that cannot be used; `start` is that of the stream, where anybody says it.

    Raises:
        DataError: always; that the file was changed when no such row is there any more.
    """
    _number_rows(session)
    _check_rows(session, table, plan)
    _check_spellings(session, table.path)
    if start is not None:
        _check_horizon(session, table.path, plan, start)
    raise changed_meanwhile(table.path)


def first_row(session: Session, ids: list[int]) -> int:
    """The first row of `event` whose user is one of these."""
    _number_rows(session)
    listed = ", ".join(map(str, ids))
    ((row,),) = session.rows(
        f"SELECT min({session.dialect.row}) FROM numbered JOIN (SELECT person AS named FROM person WHERE id IN "
        f"({listed})) AS these ON person = named"
    )
    return int(row)


def _number_rows(session: Session) -> None:
    """The table `numbered`: events in their order, where the engine has one."""
    make = session.create if session.dialect is DUCKDB else session.view
    make("numbered", "SELECT * FROM event")


def _check_spellings(session: Session, path: Place) -> None:
    """Refuses the first row of a name that says what another name says in a row above."""
    ((row,),) = session.rows(
        "SELECT min(place) FROM (SELECT place, row_number() OVER (PARTITION BY folded ORDER BY place) AS number "
        f"FROM (SELECT person, min({session.dialect.row}) AS place FROM numbered GROUP BY person) AS firsts "
        "JOIN person USING (person)) AS named WHERE number > 1"
    )
    if row is not None:
        raise written_twice(path, row, "in a row above")


def _check_rows(session: Session, table: InputTable, plan: Plan) -> None:
    """Refuses the first row that cannot be used."""
    path = table.path
    first = f"min({session.dialect.row}) FILTER (WHERE"
    unread = " OR ".join(f"NOT coalesce(abs({name}) <= {LARGEST}, 1 = 0)" for name, _ in sum_columns(plan)) or "1 = 0"
    name = folded(session.dialect.text("person"), session.dialect)
    ((no_moment, no_person, no_cell, no_value, no_date, rows, listed),) = session.rows(
        f"SELECT {first} moment IS NULL), {first} coalesce({name}, '') = ''), "
        f"{first} code < 0), {first} {unread}), "
        f"{first} moment < {FIRST_MOMENT} OR moment >= {LAST_MOMENT}), count(*), "
        f"count(*) FILTER (WHERE code < {listed_cells(plan)}) FROM numbered"
    )
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
        columns = " or ".join(dict.fromkeys(f"`{query.column}`" for _, query in sum_columns(plan)))
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
        help="correct the row, leave it out, or "
        + (
            "list its cell in a policy that is compiled into another directory"
            if any(target.relation == "add_or_remove_one" for target in promised_user_level(plan))
            else 'add `otherwise "elsewhere"` to the cell in the policy'
        ),
    )


def _check_horizon(session: Session, path: Place, plan: Plan, start: int) -> None:
    """Refuses the first row outside the stream."""
    horizon, calendar, dialect = plan.stream.horizon, calendar_of(plan, start), session.dialect
    step, first = calendar.steps.sql("moment", dialect), f"min({dialect.row}) FILTER (WHERE"
    pieces = step if calendar.periods is None else f"least({step}, {calendar.periods.sql('moment', dialect)})"
    late = "1 = 0" if horizon is None else f"moment >= {start} AND {step} >= {horizon}"
    ((early, beyond),) = session.rows(
        f"SELECT {first} moment < {start} OR {pieces} < 0), {first} {late}) FROM numbered"
    )
    if early is not None and (beyond is None or early <= beyond):
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


def unusable_history(path: Path, reason: str, plan: Plan) -> LedgerError:
    """The refusal of what earlier runs kept for runs on new rows; without a bound to keep, that may be ready counts."""
    enforced = plan.participation is not None and plan.participation.enforced is not None
    lost = "how often users took part already" if enforced else "what earlier steps counted"
    both = " and ".join(f"`{path.with_suffix(ending).name}`" for ending in (".history", ".steps"))
    return LedgerError(
        "E0840",
        "what earlier runs kept of their data cannot be used",
        where=str(path),
        because=f"{reason}; without it nobody knows {lost}",
        help=f"restore {both}; or move both away and run once with the whole history from step 0 on and `--continued`",
    )


def other_rows(where: Rows, taken: str, brought: str) -> DataError:
    """The refusal of new rows of another kind than the earlier ones."""
    return DataError(
        "E0839",
        f"earlier runs took in {taken}, and these are {brought}",
        where=str(where),
        because="rows of two kinds cannot be compared when those of a step come again",
        help="go on with what the earlier runs had, with or without `--counts`",
    )
