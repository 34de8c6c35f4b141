"""Counts and sums under a participation bound: which of a user's steps are kept, and what the kept ones add up to.

`keep_first` goes through each user's steps in order and keeps one when it is far enough from the last that was kept and
the bound is not reached. So what is kept never depends on later steps, and a run on a longer file keeps the same steps
of the part that was released. Of a kept step the first `per_step` events count; those of one moment are taken in the
order of their cells and values, so that the order of rows in a file does not matter. `keep_sample` takes the steps of
a user in an order that a hash of user and step gives, which favours no time of the stream; it needs all of it.

Under a promise about periods all this holds of a user in one period, whatever happens in others: what is kept of one
never depends on another, so that removing one moves counts by what it added and by nothing else.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.plan.queries import CountQuery, SumQuery
from policyc_check.plan.stream import ParticipationRecord
from policyc_check.plan.targets import NeighboringRelation
from policyc_check.users.claims import largest_units, period_of, promised_user_level, window_of
from policyc_runtime.ancestors import ancestors
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.calendar import Calendar, calendar_of
from policyc_runtime.sources.step_counts import StepCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    Steps = NDArray[np.int64]


def can_carry_on(plan: Plan) -> bool:
    """Whether new rows suffice where earlier ones were counted: what is kept of them never depends on later ones."""
    return plan.participation is None or plan.participation.enforced != "keep_sample"


def measured_releases(plan: Plan) -> list[ReleasePlan]:
    """The counts and sums of a plan; all else is made of them."""
    return [release for release in plan.releases if isinstance(release.query, CountQuery | SumQuery)]


def sum_columns(plan: Plan) -> list[tuple[str, SumQuery]]:
    """The sums of a plan, each with the name of its column in the table `event`."""
    sums = [release.query for release in plan.releases if isinstance(release.query, SumQuery)]
    return [(f"v{index}", query) for index, query in enumerate(sums)]


def counts_absent(plan: Plan, release: ReleasePlan) -> bool:
    """Whether the last value of a step is how many users are in none of the cells: `population` less all others.

    So it is where every user counts once in a step and what one does in steps in a row is replaced: from a cell to
    another, or to none, moves two values by one each, which is what noise is made for.
    """
    cell, record, query = plan.stream.cell, plan.participation, release.query
    if cell is None or cell.otherwise is None or plan.stream.population is None or record is None:
        return False
    once = isinstance(query, CountQuery) and query.by is not None and record.per_step == 1 and _most_cells(plan) is None
    replaced = all(one.relation is NeighboringRelation.REPLACE_ONE for one in promised_user_level(plan))
    return once and replaced and window_of(plan) is not None


def counted_by_user(connection: DuckDBPyConnection, plan: Plan, start: int, steps: int) -> StepCounts:
    """Counts and sums of the tables `event` and `person`, for the steps from `start` (microseconds since 1970) on."""
    record = plan.participation
    assert record is not None, "plans with a user-level target have a bound"
    calendar = calendar_of(plan, start)
    listed = len(plan.stream.cell.cells) if plan.stream.cell else 1
    last = listed + any(
        counts_absent(plan, release) for release in measured_releases(plan)
    )  # an event elsewhere counts
    columns = sum_columns(plan)
    units = "".join(f", {_units(name, query)} AS {name}" for name, query in columns)
    period = "0" if calendar.periods is None else calendar.periods.sql("moment")
    connection.execute(
        f"CREATE TABLE part AS SELECT * FROM (SELECT id, {calendar.steps.sql('moment')} AS step, {period} AS period, "
        f"code, moment{units} FROM event JOIN person USING (person) WHERE code < {last}) WHERE step < {steps}"
    )
    dropped, source = None, "part"  # where nothing is enforced, every step that a user has is kept
    if record.enforced:
        dropped, source = _keep_steps(connection, record, calendar), "part JOIN kept USING (id, period, step)"
    names = [name for name, _ in columns]
    if _most_cells(plan) is None:
        _keep_events(connection, record, source, names)
    else:
        _keep_cells(connection, plan, source, names)
    turns = () if _most_cells(plan) is None else ("turn",)  # which of a user's cells count in which release
    counts = {release.name: _values(connection, plan, release, steps, record) for release in measured_releases(plan)}
    if dropped is not None:
        dropped["events"] = _number(connection, "SELECT (SELECT count(*) FROM part) - (SELECT count(*) FROM counted)")
    return StepCounts(start, counts, _digests(connection, columns, steps, turns), dropped)


def _keep_events(connection: DuckDBPyConnection, record: ParticipationRecord, source: str, columns: list[str]) -> None:
    """The table `counted` of those events of `source` that count, `turn` 1, 2, ... of a user's in a step."""
    # of a user's events in a step the latest says the cell when one counts, the first ones count when several do
    late = "DESC" if record.per_step == 1 and not columns else ""
    limit = record.per_step if record.enforced or (record.per_step == 1 and not columns) else 2**62
    connection.execute(
        "CREATE TABLE counted AS SELECT * FROM (SELECT *, row_number() OVER "
        f"(PARTITION BY id, period, step ORDER BY {', '.join([f'moment {late}', 'code', *columns])}) AS turn "
        f"FROM {source}) WHERE turn <= {limit}"
    )


def _keep_cells(connection: DuckDBPyConnection, plan: Plan, source: str, columns: list[str]) -> None:
    """The same where users count in several cells of a step: the first event in each, `turn` 1, 2, ... of the cells."""
    record, values = plan.participation, "".join(f", {name}" for name in columns)
    limit = _most_cells(plan) if record is not None and record.enforced else 2**62
    connection.execute(
        "CREATE TABLE counted AS SELECT * FROM (SELECT *, row_number() OVER "
        f"(PARTITION BY id, period, step ORDER BY moment, code{values}) AS turn FROM (SELECT *, row_number() OVER "
        f"(PARTITION BY id, period, step, code ORDER BY moment{values}) AS event_in_cell "
        f"FROM {source}) WHERE event_in_cell = 1) WHERE turn <= {limit}"
    )


def _most_cells(plan: Plan) -> int | None:
    """In how many cells of a step a user counts at most, in any release; None where that is not said."""
    said = [query.cells_per_step for query in map(_measured_query, measured_releases(plan))]
    return max((cells for cells in said if cells is not None), default=None)


def _measured_query(release: ReleasePlan) -> CountQuery | SumQuery:
    query = release.query
    assert isinstance(query, CountQuery | SumQuery), "the others are made of these"
    return query


def _units(name: str, query: SumQuery) -> str:
    """SQL for a clamped value in whole units of the grid; never beyond what one event may add, whatever floats do."""
    most = largest_units(query)
    clamped = f"least(greatest({name}, {query.low}), {query.high})"
    return f"least(greatest(round({clamped}::DOUBLE / {query.grid})::BIGINT, -{most}), {most})"


def _keep_steps(connection: DuckDBPyConnection, record: ParticipationRecord, calendar: Calendar) -> dict[str, int]:
    """The table `kept` of users' steps that count, and how many were dropped.

    Steps that earlier runs kept stand in `before`: going forward, what is kept of later ones is the same with nothing
    else of the earlier ones.
    """
    connection.execute("CREATE TABLE IF NOT EXISTS before (person VARCHAR, step BIGINT)")
    known = connection.execute("SELECT DISTINCT step FROM before").fetchnumpy()["step"]
    connection.register("begun", {"step": known, "period": calendar.period_of(np.asarray(known, dtype=np.int64))})
    rank = "md5_number_lower(concat(low, ':', high, ':', step))" if record.enforced == "keep_sample" else "0"
    rows = connection.execute(
        f"SELECT id, period, step, {rank} AS rank FROM (SELECT id, period, step FROM part UNION "
        "SELECT id, period, step FROM before JOIN begun USING (step) JOIN person USING (person)) "
        "JOIN person USING (id) ORDER BY id, period, step"
    ).fetchnumpy()
    connection.unregister("begun")
    ids, steps, periods = (np.asarray(rows[name], dtype=np.int64) for name in ("id", "step", "period"))
    users = np.cumsum((np.diff(ids, prepend=-1) != 0) | (np.diff(periods, prepend=-1) != 0))  # each in one period
    if record.enforced == "keep_first":
        keep = keep_first(users, steps, record.bound, record.spacing)
    else:
        keep = keep_sample(users, steps, np.asarray(rows["rank"]), record.bound, record.spacing)
    kept = {"id": ids[keep], "period": periods[keep], "step": steps[keep]}
    connection.register("kept_rows", kept)
    connection.execute("CREATE TABLE kept AS SELECT id, period, step FROM kept_rows")
    connection.unregister("kept_rows")
    return {"users": len(np.unique(ids[~keep])), "participations": int((~keep).sum())}


def keep_first(users: Steps, steps: Steps, bound: int, spacing: int) -> NDArray[np.bool_]:
    """Which participations to keep, going forward in time: (rows,).

    Args:
        users: (rows,) whole numbers, in order.
        steps: (rows,) distinct and in order for each user.
        bound: how many each user keeps at most, >= 1.
        spacing: steps between two that are kept, at least, >= 1.
    """
    begins = np.flatnonzero(np.diff(users, prepend=users[:1] - 1)) if len(users) else np.zeros(0, dtype=np.int64)
    if spacing == 1:
        sizes = np.diff(np.append(begins, len(users)))
        return np.asarray(np.arange(len(users)) - np.repeat(begins, sizes) < bound)
    keep = np.zeros(len(users), dtype=np.bool_)
    order = np.cumsum(np.bincount(begins, minlength=len(users))) if len(users) else begins
    width = int(steps.max()) + spacing + 1 if len(users) else 1
    places = order * width + steps  # users one after the other, each with steps of its own
    now = begins
    for _ in range(bound):
        keep[now] = True
        after = np.searchsorted(places, places[now] + spacing)
        inside = after < len(users)
        now = after[inside][order[after[inside]] == order[now[inside]]]
    return keep


def keep_sample(users: Steps, steps: Steps, ranks: NDArray[np.uint64], bound: int, spacing: int) -> NDArray[np.bool_]:
    """Which participations to keep, in the order of their ranks: (rows,); arguments as for `keep_first`."""
    keep = np.zeros(len(users), dtype=np.bool_)
    taken: dict[int, list[int]] = {}
    for row in np.argsort(ranks, kind="stable").tolist():
        mine = taken.setdefault(int(users[row]), [])
        if len(mine) < bound and all(abs(step - int(steps[row])) >= spacing for step in mine):
            mine.append(int(steps[row]))
            keep[row] = True
    return keep


def _values(
    connection: DuckDBPyConnection, plan: Plan, release: ReleasePlan, steps: int, record: ParticipationRecord
) -> Steps:
    """(steps, cells) of a count or sum, in units."""
    query = _measured_query(release)
    limit = 2**62
    if _most_cells(plan) is not None:  # without cells a user counts once, in the cell that comes first
        limit = 1 if query.by is None else (query.cells_per_step or 1) if record.enforced else limit
    if isinstance(query, SumQuery):
        name = next(name for name, known in sum_columns(plan) if known is query)
        value = f"sum({name})"
    else:
        several = (period_of(plan) or 1) < 1  # periods of one user in a step
        value = "count(*)" if record.per_step > 1 else f"count(DISTINCT {'(id, period)' if several else 'id'})"
    listed = 1 if plan.stream.cell is None else len(plan.stream.cell.cells)
    code, source = "0" if query.by is None else "code", f"counted WHERE turn <= {limit} AND code < {listed}"
    if plan.stream.cell is not None and query.by not in (None, plan.stream.cell.column):
        source = _at_level(
            connection, ancestors(plan.stream.cell, str(query.by)), source, once=_most_cells(plan) is not None
        )
    rows = connection.execute(
        f"SELECT step, {code} AS code, {value}::BIGINT AS value FROM {source} GROUP BY ALL"
    ).fetchnumpy()
    values = np.zeros((steps, len(release.cells)), dtype=np.int64)
    values[rows["step"], rows["code"]] = rows["value"]
    if counts_absent(plan, release):
        assert plan.stream.population is not None, "or nobody knows how many there are"
        values[:, -1] = plan.stream.population - values.sum(axis=1)
    return values


def _at_level(connection: DuckDBPyConnection, own: Steps, source: str, *, once: bool) -> str:
    """SQL for the rows of `source` with the index of what their cells belong to in place of `code`.

    Where users count in several cells they count `once` in what these belong to, with the first of them there: so many
    cells belong to at most as many, and nobody moves one of these by more than one event.
    """
    connection.execute("DROP TABLE IF EXISTS belongs")
    connection.register("belongs_rows", {"code": np.arange(len(own)), "own": own})
    connection.execute("CREATE TABLE belongs AS SELECT code, own FROM belongs_rows")
    connection.unregister("belongs_rows")
    first = "QUALIFY row_number() OVER (PARTITION BY id, period, step, own ORDER BY turn) = 1" if once else ""
    return f"(SELECT * REPLACE (own AS code) FROM (SELECT * FROM {source}) JOIN belongs USING (code) {first})"


def _digests(
    connection: DuckDBPyConnection, columns: list[tuple[str, SumQuery]], steps: int, turns: Sequence[str]
) -> tuple[str, ...]:
    """What the values of each step came from: sums of hashes of who counted, where and with what."""
    what = "".join(f", ':', {name}" for name in (*(name for name, _ in columns), *turns))
    rows = connection.execute(
        f"SELECT step, code, count(*), sum(low), sum(high), sum(md5_number_lower(concat(low, ':', high{what}))) "
        "FROM counted JOIN person USING (id) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    digests: dict[int, list[str]] = defaultdict(list)
    for step, *parts in rows:
        digests[step].append(f"{':'.join(map(str, parts))};")
    return tuple("".join(digests[step]) for step in range(steps))


def _number(connection: DuckDBPyConnection, query: str) -> int:
    found = connection.execute(query).fetchone()
    assert found is not None, "an aggregate has one row"
    return int(found[0])
