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
from policyc_check.users.claims import largest_units
from policyc_runtime.ancestors import ancestors
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.bounding import (
    EARLIER,
    at_level,
    far_enough,
    first_cells,
    first_events,
    in_turn,
    located,
    participations,
    ranked,
    totals,
)
from policyc_runtime.sources.calendar import Calendar, calendar_of
from policyc_runtime.sources.step_counts import StepCounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_runtime.sources.engines.dialect import Dialect
    from policyc_runtime.sources.engines.session import Session

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

    So it is where every user counts once in a step: from a cell to another, or to none, moves two values by one each.
    """
    cell, record, query = plan.stream.cell, plan.participation, release.query
    if cell is None or cell.otherwise is None or plan.stream.population is None or record is None:
        return False
    once = record.per_step == 1 and most_cells(plan) is None
    return once and isinstance(query, CountQuery) and query.by is not None


def _sums_elsewhere(plan: Plan, release: ReleasePlan) -> bool:
    """Whether the last value of a step is what events in no listed cell add up to."""
    cell, query = plan.stream.cell, release.query
    return cell is not None and cell.otherwise is not None and isinstance(query, SumQuery) and query.by is not None


def counted_by_user(session: Session, plan: Plan, start: int, steps: range, *, carried_on: bool) -> StepCounts:
    """Counts and sums of the tables `event` and `person`, from step 0 on; of steps before `steps` they are 0.

    Args:
        session: has the tables.
        plan: what to count.
        start: the moment of step 0, microseconds since 1970.
        steps: those to count, the last ones.
        carried_on: the table `before` (id, period, step) has what earlier runs kept.
    """
    record = plan.participation
    assert record is not None, "plans with a user-level target have a bound"
    calendar = calendar_of(plan, start)
    last = listed_cells(plan) + any(  # an event elsewhere counts
        counts_absent(plan, release) or _sums_elsewhere(plan, release) for release in measured_releases(plan)
    )
    found, dropped = participations(session.dialect, calendar, steps, last, plan.stream.horizon), None
    if record.enforced:
        session.create("participation", found)
        dropped = _keep_steps(session, record, carried_on)
        found = f"SELECT id, step, code FROM kept WHERE step >= {steps.start}"
    if latest_counts(plan):
        rows = session.rows(totals(session.dialect, found, ()))
        present = np.zeros((steps.stop, last), dtype=np.int64)
        for step, code, users, *_ in rows:
            present[step, code] = users
        counts = {release.name: _of_cells(plan, release, present) for release in measured_releases(plan)}
    else:
        session.create("counted", _counted(session.dialect, plan, calendar, steps, last))
        counts = {release.name: _values(session, plan, release, steps.stop) for release in measured_releases(plan)}
        turns = () if most_cells(plan) is None else ("turn",)  # which of a user's cells count in which release
        what = (*(name for name, _ in sum_columns(plan)), *turns)
        rows = session.rows(totals(session.dialect, "SELECT * FROM counted", what))
    if dropped is not None:
        step = calendar.steps.sql("moment", session.dialect)
        there = f"SELECT count(*) FROM event WHERE code < {last} AND {step} >= {steps.start} AND {step} < {steps.stop}"
        dropped["events"] = _number(session, there) - sum(events for _, _, events, *_ in rows)
    return StepCounts(start, counts, _digests(rows, steps), dropped)


def listed_cells(plan: Plan) -> int:
    """How many cells the policy lists; codes below it are these."""
    return len(plan.stream.cell.cells) if plan.stream.cell else 1


def latest_counts(plan: Plan) -> bool:
    """Whether of a user's events in a step the latest counts, and no other: the cell of a participation."""
    record = plan.participation
    return record is None or (record.per_step == 1 and not sum_columns(plan) and most_cells(plan) is None)


def _counted(dialect: Dialect, plan: Plan, calendar: Calendar, steps: range, last: int) -> str:
    """SQL for the events of kept participations that count, where several of a step may, or values do."""
    record, columns, most = plan.participation, sum_columns(plan), most_cells(plan)
    assert record is not None
    names = [name for name, _ in columns]
    units = [f"{_units(dialect, name, query)} AS {name}" for name, query in columns]
    source = located(dialect, calendar, steps, last, units, all_kept=not record.enforced)
    if most is None:
        return first_events(source, names, record.per_step if record.enforced else None)
    return first_cells(source, names, most if record.enforced else None)


def most_cells(plan: Plan) -> int | None:
    """In how many cells of a step a user counts at most, in any release; None where that is not said."""
    said = [query.cells_per_step for query in map(_measured_query, measured_releases(plan))]
    return max((cells for cells in said if cells is not None), default=None)


def _measured_query(release: ReleasePlan) -> CountQuery | SumQuery:
    query = release.query
    assert isinstance(query, CountQuery | SumQuery), "the others are made of these"
    return query


def _units(dialect: Dialect, name: str, query: SumQuery) -> str:
    """SQL for a clamped value in whole units of the grid; never beyond what one event may add, whatever floats do."""
    most = largest_units(query)
    low, high, grid = (f"CAST('{number}' AS {dialect.double})" for number in (query.low, query.high, query.grid))
    units = f"(least(greatest({name}, {low}), {high}) / {grid})"
    # halves away from 0, as not every engine rounds them so; what is subtracted is exact
    whole = f"CAST(floor(abs({units})) AS BIGINT)"
    rounded = f"({whole} + CASE WHEN abs({units}) - {whole} >= 0.5 THEN 1 ELSE 0 END)"
    return f"least(greatest(CASE WHEN {units} < 0 THEN -{rounded} ELSE {rounded} END, -{most}), {most})"


def _keep_steps(session: Session, record: ParticipationRecord, carried_on: bool) -> dict[str, int]:
    """The tables `kept` of participations within the bound and `cut` of users with others; how many were dropped.

    Steps that earlier runs kept stand in `before`: going forward, what is kept of later ones is the same with nothing
    else of the earlier ones.
    """
    source = ranked(session.dialect, str(record.enforced), carried_on=carried_on)
    if record.spacing == 1:
        session.create("turns", in_turn(source, record.bound + 1))
        session.create("kept", f"SELECT id, period, step, code FROM turns WHERE place <= {record.bound}")
        session.create("cut", f"SELECT DISTINCT id FROM turns WHERE place > {record.bound}")
    else:
        _keep_far_apart(session, source, record.bound, record.spacing)
    users = _number(session, "SELECT count(*) FROM cut")
    kept = _number(session, f"SELECT count(*) FROM kept WHERE code <> {EARLIER}")
    return {"users": users, "participations": _number(session, "SELECT count(*) FROM participation") - kept}


def _keep_far_apart(session: Session, source: str, bound: int, spacing: int) -> None:
    """The same with a spacing: users' first ones, then the first of those far enough from these, and so on."""
    session.create("rest", source)
    parts = []
    for turn in range(bound):
        parts.append(f"kept_{turn}")
        session.create(parts[-1], in_turn("SELECT * FROM rest", 1))
        session.create("rest", far_enough("rest", parts[-1], spacing))
        if not _number(session, "SELECT count(*) FROM rest"):
            break
    session.create("kept", " UNION ALL ".join(f"SELECT id, period, step, code FROM {part}" for part in parts))
    session.create(
        "cut",
        "SELECT DISTINCT id FROM (SELECT id, period, step FROM participation "
        "EXCEPT SELECT id, period, step FROM kept) AS others",
    )


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


def _of_cells(plan: Plan, release: ReleasePlan, present: Steps) -> Steps:
    """(steps, cells) of a count where users count once in a step, from (steps, cells) of the stream and elsewhere."""
    query, listed = _measured_query(release), listed_cells(plan)
    values = np.zeros((len(present), len(release.cells)), dtype=np.int64)
    own = np.zeros(listed, dtype=np.int64)
    if plan.stream.cell is not None and query.by is not None:
        own = ancestors(plan.stream.cell, query.by)
    for code, of in enumerate(own.tolist()):
        values[:, of] += present[:, code]
    return _with_absent(plan, release, values)


def _values(session: Session, plan: Plan, release: ReleasePlan, steps: int) -> Steps:
    """(steps, cells) of a count or sum of the table `counted`, in units."""
    query, record = _measured_query(release), plan.participation
    assert record is not None
    last, names = listed_cells(plan) + _sums_elsewhere(plan, release), [name for name, _ in sum_columns(plan)]
    source = f"SELECT * FROM counted WHERE code < {last}"
    if most_cells(plan) is not None and query.by is None:  # without cells a user counts once, in the first one
        source += " AND turn <= 1"
    elif most_cells(plan) is not None and record.enforced:
        source += f" AND turn <= {query.cells_per_step or 1}"
    if plan.stream.cell is not None and query.by not in (None, plan.stream.cell.column):
        own = ancestors(plan.stream.cell, str(query.by)).tolist()
        own += [max(own) + 1] * (last - len(own))
        source = at_level(source, own, names, once=most_cells(plan) is not None)
    code, value = "0" if query.by is None else "code", "count(*)"
    if isinstance(query, SumQuery):
        value = f"sum({next(name for name, known in sum_columns(plan) if known is query)})"
    elif record.per_step == 1:
        source = f"SELECT DISTINCT id, period, step, {code} AS code FROM ({source}) AS once"
    found = session.rows(
        f"SELECT step, cell, CAST({value} AS BIGINT) FROM (SELECT *, {code} AS cell FROM ({source}) AS counting) "
        "AS values_of GROUP BY step, cell"
    )
    values = np.zeros((steps, len(release.cells)), dtype=np.int64)
    for at, cell, number in found:
        values[at, cell] = number
    return _with_absent(plan, release, values)


def _with_absent(plan: Plan, release: ReleasePlan, values: Steps) -> Steps:
    if counts_absent(plan, release):
        assert plan.stream.population is not None, "or nobody knows how many there are"
        values[:, -1] = plan.stream.population - values.sum(axis=1)
    return values


def _digests(rows: Sequence[tuple[int, ...]], steps: range) -> tuple[str, ...]:
    """What the values of each step came from: sums of hashes of who counted, where and with what; none before these."""
    digests: dict[int, list[str]] = defaultdict(list)
    for step, *parts in rows:
        digests[step].append(f"{':'.join(map(str, parts))};")
    return ("",) * steps.start + tuple("".join(digests[step]) for step in steps)


def _number(session: Session, query: str) -> int:
    ((found,),) = session.rows(query)
    return int(found)
