"""What is done to protected rows, as SQL: from events to the ones that count, and what they add up to.

Every function gives one query, made of standard SQL, over relations of these names, each made of those above it:

    event(person, moment, code, v0, v1, ...)       a row an event: microseconds since 1970, index of the cell, values
    person(person, name, folded, ..., id, low, high, mark)     a row a user, whose name is hashed once
    participation(id, period, step, code)          a row for each step that a user has: the cell of the latest event
    kept(id, period, step, code), cut(id)          participations within the bound, and who had others
    counted(id, period, step, code, turn, ...)     events that count

The few words in which engines differ are in `engines/dialect.py`.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.sources.moments import FIRST_MOMENT, LAST_MOMENT
from policyc_runtime.sources.names import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policyc_runtime.sources.calendar import Calendar
    from policyc_runtime.sources.engines.dialect import Dialect

DAY = 86_400_000_000
LARGEST = "1.7976931348623157E308"  # beyond it lie infinity and what is no number
BOTH = "concat(low, ':', high)"
EARLIER = -1  # the cell of participations that earlier runs kept, which does not matter any more


def persons(
    dialect: Dialect, calendar: Calendar | None, horizon: int | None, listed: int, values: Iterable[str]
) -> str:
    """`person`: of each the `name` as text and its hash, and of all events whether they can be used, and the last step.

    Args:
        dialect: of the engine.
        calendar: which steps moments lie in; None where nobody says, and no moment is out of the stream.
        horizon: how many steps the stream has; None without end.
        listed: how many cells are listed; codes below are these.
        values: names of the columns with values.
    """
    begin, step, period = FIRST_MOMENT, "0", "0"
    if calendar is not None:
        begin, step = calendar.steps.start, calendar.steps.sql("within", dialect)
        period = period if calendar.periods is None else calendar.periods.sql("within", dialect)
    usable = ["step >= 0", f"{period} >= 0", "within IS NOT NULL", "code >= 0"]
    usable += [] if horizon is None else [f"step < {horizon}"]
    usable += [f"abs({name}) <= {LARGEST}" for name in values]
    within = f"SELECT *, CASE WHEN moment >= {begin} AND moment < {LAST_MOMENT} THEN moment END AS within FROM event"
    seen = (
        f"SELECT person, count(*) AS events, min(CASE WHEN {' AND '.join(usable)} THEN 1 ELSE 0 END) AS usable, "
        f"max(CASE WHEN code < {listed} THEN 1 ELSE 0 END) AS listed, max(step) AS last "
        f"FROM (SELECT *, {step} AS step FROM ({within}) AS dated) AS stepped GROUP BY person"
    )
    hashed = (
        f"SELECT *, {folded('name', dialect)} AS folded, {dialect.low('name')} AS low, {dialect.high('name')} AS high "
        f"FROM (SELECT *, {dialect.text('person')} AS name FROM ({seen}) AS seen) AS named"
    )
    return f"SELECT *, {dialect.person} AS id, {dialect.low(BOTH)} AS mark FROM ({hashed}) AS hashed"


def participations(dialect: Dialect, calendar: Calendar, steps: range, last: int, horizon: int | None) -> str:
    """`participation` in these steps, of events in cells below `last`, in a stream of `horizon` steps or without end.

    The latest event says the cell, and of several at that moment the first cell: the largest key of a step.
    """
    start, states, latest = calendar.steps.start, last + 1, LAST_MOMENT
    if horizon is not None:  # a clock that is put back shows a day again
        latest = min(latest, int(calendar.steps.begin(np.array([horizon]))[0]) + DAY)
    whole = "BIGINT" if (latest - start) * states < 2**62 else dialect.whole
    key = f"CAST(moment - {start} AS {whole}) * {states} + {last} - code AS key"
    return (
        f"SELECT id, CAST(period AS INTEGER) AS period, CAST(step AS INTEGER) AS step, "
        f"CAST({last} - max(key) % {states} AS INTEGER) AS code "
        f"FROM ({_placed(dialect, calendar, steps, last, [key])}) AS placed GROUP BY id, period, step"
    )


def ranked(dialect: Dialect, enforced: str, *, carried_on: bool) -> str:
    """Participations with the `rank` by which a user's are taken one after the other; with `before` when carried on."""
    if enforced == "keep_sample":
        rank = dialect.low("concat(low, ':', high, ':', step)")
        return f"SELECT id, period, step, code, {rank} AS rank FROM participation JOIN person USING (id)"
    found = "SELECT id, period, step, code, step AS rank FROM participation"
    return found + (f" UNION ALL SELECT id, period, step, {EARLIER}, step FROM before" if carried_on else "")


def in_turn(source: str, most: int) -> str:
    """The first so many of a user's participations in a period, with their `place` 1, 2, ..."""
    place = "row_number() OVER (PARTITION BY id, period ORDER BY rank, step, code) AS place"
    placed = f"SELECT id, period, step, code, {place} FROM ({source}) AS ranked"
    return f"SELECT * FROM ({placed}) AS placed WHERE place <= {most}"


def far_enough(source: str, taken: str, spacing: int) -> str:
    """What of `source` is so many steps or more from the one of its user and period in `taken`, of earlier ones."""
    return (
        f"SELECT {source}.id, {source}.period, {source}.step, {source}.code, {source}.rank FROM {source} "
        f"JOIN {taken} ON {source}.id = {taken}.id AND {source}.period = {taken}.period "
        f"WHERE abs({source}.step - {taken}.step) >= {spacing}"
    )


def located(
    dialect: Dialect, calendar: Calendar, steps: range, last: int, columns: Iterable[str], *, all_kept: bool
) -> str:
    """Events of these steps in cells below `last`, with columns; of the participations in `kept`, or of all."""
    placed = _placed(dialect, calendar, steps, last, ["moment", "code", *columns])
    kept = "(SELECT id, period, step FROM kept) AS kept USING (id, period, step)"
    return placed if all_kept else f"SELECT * FROM ({placed}) AS placed JOIN {kept}"


def first_events(source: str, values: Sequence[str], limit: int | None) -> str:
    """`counted` where a user's first so many events of a step count; None for all."""
    order = ", ".join(("moment", "code", *values))
    turn = f"row_number() OVER (PARTITION BY id, period, step ORDER BY {order}) AS turn"
    return _limited(f"SELECT *, {turn} FROM ({source}) AS located", limit)


def first_cells(source: str, values: Sequence[str], limit: int | None) -> str:
    """The same where users count in several cells of a step: the first event in each, `turn` 1, 2, ... of the cells."""
    moment, code = (", ".join((*by, *values)) for by in (("moment",), ("moment", "code")))
    first = f"row_number() OVER (PARTITION BY id, period, step, code ORDER BY {moment}) AS event_in_cell"
    turn = f"row_number() OVER (PARTITION BY id, period, step ORDER BY {code}) AS turn"
    inside = f"SELECT *, {first} FROM ({source}) AS located"
    return _limited(f"SELECT *, {turn} FROM ({inside}) AS ordered WHERE event_in_cell = 1", limit)


def at_level(source: str, own: Iterable[int], values: Sequence[str], *, once: bool) -> str:
    """Rows of `source` with the index of what their cells belong to in place of `code`.

    Where users count in several cells they count `once` in what these belong to, with the first of them there: so many
    cells belong to at most as many, and nobody moves one of these by more than one event.
    """
    pairs = ", ".join(f"({code}, {of})" for code, of in enumerate(own))
    columns = "".join(f", {name}" for name in values)
    belonging = (
        f"SELECT id, period, step, own AS code, turn{columns} FROM ({source}) AS below "
        f"JOIN (VALUES {pairs}) AS belongs (cell, own) ON code = cell"
    )
    if not once:
        return belonging
    first = "row_number() OVER (PARTITION BY id, period, step, code ORDER BY turn) AS cell_in_level"
    return f"SELECT * FROM (SELECT *, {first} FROM ({belonging}) AS belonging) AS ordered WHERE cell_in_level = 1"


def totals(dialect: Dialect, source: str, what: Sequence[str]) -> str:
    """What steps and cells came from: how many rows of `source`, and sums of hashes of who counted, and with `what`."""
    also = "".join(f", ':', {name}" for name in what)
    mark = dialect.low(f"concat(low, ':', high{also})") if what else "mark"
    return (
        f"SELECT step, code, count(*), sum(low), sum(high), sum({mark}) "
        f"FROM ({source}) AS counted JOIN person USING (id) GROUP BY step, code ORDER BY step, code"
    )


def _placed(dialect: Dialect, calendar: Calendar, steps: range, last: int, columns: Iterable[str]) -> str:
    """Events in cells below `last`, each of whose user, period and step it is."""
    period = "0" if calendar.periods is None else calendar.periods.sql("moment", dialect)
    told = ", ".join((f"{calendar.steps.sql('moment', dialect)} AS step", f"{period} AS period", *columns))
    names = ", ".join(column.rsplit(" ", 1)[-1] for column in columns)
    return (
        f"SELECT id, period, step, {names} FROM (SELECT person, {told} FROM event WHERE code < {last}) AS told "
        f"JOIN person USING (person) WHERE step >= {steps.start} AND step < {steps.stop}"
    )


def _limited(source: str, limit: int | None) -> str:
    return source if limit is None else f"SELECT * FROM ({source}) AS turns WHERE turn <= {limit}"
