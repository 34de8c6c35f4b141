"""From fields to rows of steps: the moment, the user's name and the cell of each event, told as a run tells them.

Each row is judged by itself: one that could not be used is left out and counted, as it would stop a run.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.follow.lines import Fields
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.moments import FIRST_MOMENT, LAST_MOMENT
from policyc_runtime.sources.names import folded
from policyc_runtime.sources.participation import sum_columns
from policyc_runtime.sources.tables import InputTable, connect
from policyc_runtime.sources.written_moments import rows_with_moments

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan


class Sorted(NamedTuple):
    """Rows by step, each with the fields that a run reads, and how many could not be used."""

    rows: dict[int, list[Fields]]
    unusable: int


def wanted_columns(plan: Plan) -> tuple[str, ...]:
    """The columns of a policy's events: user, time, cell and the values of sums, each once."""
    stream = plan.stream
    cell = () if stream.cell is None else (stream.cell.column,)
    values = (query.column for _, query in sum_columns(plan))
    return tuple(dict.fromkeys((stream.user_column, stream.time_column, *cell, *values)))


class Intake:
    """Sorts events into steps; `start` is the moment of step 0, microseconds since 1970."""

    def __init__(self, plan: Plan, start: int) -> None:
        self._plan = plan
        self._columns = wanted_columns(plan)
        self._connection = connect()
        self._query = self._sql(start)

    def close(self) -> None:
        """Let the engine go."""
        self._connection.close()

    def sorted(self, fields: Sequence[Fields]) -> Sorted:
        """Rows of these fields; the order within a step is that of arrival."""
        rows: dict[int, list[Fields]] = defaultdict(list)
        if not fields:
            return Sorted(rows, 0)
        arrays = {f"c{place}": np.array(column, dtype=object) for place, column in enumerate(zip(*fields, strict=True))}
        self._connection.register("lines", arrays)
        found = self._connection.execute(self._query).fetchall()
        self._connection.unregister("lines")
        for step, *row in found:
            rows[step].append(tuple(row))
        return Sorted(rows, len(fields) - len(found))

    def _sql(self, start: int) -> str:
        stream, sums = self._plan.stream, sum_columns(self._plan)
        columns = {name: f"nullif(c{place}, '')" for place, name in enumerate(self._columns)}
        table = InputTable(Path("lines"), "lines", columns, dict.fromkeys(columns, "VARCHAR"))
        cell, keep = "''", "true"
        if stream.cell is not None:
            listed = ", ".join("'" + name.replace("'", "''") + "'" for name in stream.cell.cells)
            said = columns[stream.cell.column]
            cell = f"CASE WHEN {said} IN ({listed}) THEN {said} ELSE '' END"
            keep = "true" if stream.cell.otherwise is not None else "cell <> ''"
        values = [f"TRY_CAST({columns[query.column]} AS DOUBLE)" for _, query in sums]
        others = [f"{folded(columns[stream.user_column])} AS person", f"{cell} AS cell"]
        others += [f"{value} AS v{place}" for place, value in enumerate(values)]
        rows = rows_with_moments(table, stream, columns[stream.time_column], ", ".join(others))
        calendar = calendar_of(self._plan, start)
        step = calendar.steps.sql("moment")
        period = "0" if calendar.periods is None else calendar.periods.sql("moment")
        horizon = "" if stream.horizon is None else f"AND {step} < {stream.horizon}"
        finite = "".join(f" AND coalesce(isfinite(v{place}), false)" for place in range(len(values)))
        out = {
            stream.user_column: "person",
            stream.time_column: "strftime(make_timestamp(moment), '%Y-%m-%dT%H:%M:%S.%fZ')",
        }
        if stream.cell is not None:
            out[stream.cell.column] = "cell"
        out |= {query.column: f"v{place}::VARCHAR" for place, (_, query) in enumerate(sums)}
        chosen = ", ".join(out[name] for name in self._columns)
        return (
            f"SELECT {step}::BIGINT, {chosen} FROM ({rows}) WHERE moment >= {max(start, FIRST_MOMENT)} "
            f"AND moment < {LAST_MOMENT} AND {step} >= 0 AND {period} >= 0 {horizon} "
            f"AND coalesce(person, '') <> '' AND {keep}{finite}"
        )
