"""Simulated events as a file: the moments in their steps and periods, and the mark in every row."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.files import draft, followed, is_full, place
from policyc_runtime.published_values import NOT_A_RELEASE
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.moments import MONDAY, declared_start, whole_step_before
from policyc_runtime.sources.participation import sum_columns
from policyc_runtime.sources.simulated import SIMULATED
from policyc_runtime.sources.tables import connect, is_parquet, opened, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.plan import Plan

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

A_MONDAY = MONDAY + 2923 * 7 * 86_400_000_000  # 2026-01-05
SECOND = 1_000_000


class Events(NamedTuple):
    """Drawn events, one an entry: who, in which step, in which cell (index into the policy's) and period."""

    user: Numbers
    step: Numbers
    cell: Numbers
    period: Numbers | int = 0


def step_0(plan: Plan) -> int:
    """The moment of step 0: the declared one, or the last whole step before a Monday."""
    start = declared_start(plan)
    return whole_step_before(A_MONDAY, 1000 * plan.stream.step_milliseconds) if start is None else start


def write(plan: Plan, events: Events, columns: dict[str, Array], file: Path, generator: np.random.Generator) -> None:
    """A file in order of time, whole or not at all."""
    stream, moments, unit = plan.stream, *_moments(plan, events, generator)
    inside = moments >= 0
    drawn = {"person": events.user, "moment": moments, "code": events.cell, **columns}
    drawn = {name: values[inside] for name, values in drawn.items()}
    form = "%Y-%m-%dT%H:%M:%S" if unit == SECOND else "%Y-%m-%dT%H:%M:%S.%g"
    zone = "" if stream.clock is None else "Z"
    moment = f"strftime(make_timestamp(moment), {quoted(form + zone)})"
    if is_parquet(file):
        moment = f"make_timestamp{'' if stream.clock is None else 'tz'}(moment)"
    chosen = [
        f"concat('simulated-', person) AS {_name(stream.user_column)}",
        f"{moment} AS {_name(stream.time_column)}",
    ]
    if stream.cell is not None:
        names = ", ".join(map(quoted, stream.cell.cells))
        chosen.append(f"[{names}][code + 1] AS {_name(stream.cell.column)}")
    known: set[str] = set()
    for name, query in sum_columns(plan):
        if query.column not in known:
            chosen.append(f"{name} AS {_name(query.column)}")
        known.add(query.column)
    import duckdb

    form = "parquet" if is_parquet(file) else f"csv, HEADER, COMPRESSION {_compression(file)}"
    connection = connect()
    try:
        target = followed(file)
        with draft(target) as beside, beside.open("wb") as handle:
            connection.register("drawn", drawn)
            connection.execute(
                f"COPY (SELECT {', '.join(chosen)}, {quoted(NOT_A_RELEASE)} AS {SIMULATED} FROM drawn "
                f"ORDER BY moment, person) TO {quoted(opened(handle.fileno()))} (FORMAT {form}, USE_TMP_FILE false)"
            )
            place(beside, target)
    except (OSError, duckdb.Error) as error:
        if is_full(error):
            raise _unwritable(file, "the disk is full", "make room, then run again") from None
        if not isinstance(error, OSError | duckdb.IOException):
            raise
        raise _unwritable(file, "the system refused", "check the directory and its rights") from None
    finally:
        connection.close()


def _moments(plan: Plan, events: Events, generator: np.random.Generator) -> tuple[Numbers, int]:
    """When events happen, microseconds since 1970, in units of a second or less; -1 where a step has no such period."""
    calendar = calendar_of(plan, step_0(plan))
    piece, number = calendar.steps, events.step
    if calendar.periods is not None and calendar.periods.length < piece.length:
        piece, number = calendar.periods, calendar.period_of(events.step) + events.period
    begins, ends = piece.begin(number), np.minimum(piece.begin(number + 1), calendar.steps.begin(events.step + 1))
    unit = SECOND if piece.length % SECOND == 0 else 1000
    offset = generator.integers(0, piece.length // unit, len(events.step)) * unit
    return np.where(begins < ends, begins + offset % np.maximum(ends - begins, unit), -1), unit


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _compression(file: Path) -> str:
    return "gzip" if file.name.lower().endswith(".gz") else "none"


def _unwritable(file: Path, reason: str, remedy: str) -> ReleaseError:
    return ReleaseError("E0826", "the output cannot be written", where=str(file), because=reason, help=remedy)
