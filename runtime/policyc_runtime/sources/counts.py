"""Ready counts: one number for every step and cell, made elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc_check.plan.queries import SumQuery
from policyc_runtime.ancestors import counted_by
from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan
from policyc_runtime.sources.count_rows import LARGEST_COUNT, Gaps, not_counts, read_rows
from policyc_runtime.sources.due_steps import due_counts, due_steps
from policyc_runtime.sources.memory import Rows
from policyc_runtime.sources.moments import declared_start
from policyc_runtime.sources.participation import measured_releases
from policyc_runtime.sources.step_counts import CountDigests, StepCounts, check_population, check_steps
from policyc_runtime.sources.stored_counts import Counts, StoredCounts, begun, hold_little, made
from policyc_runtime.sources.tables import InputTable, connect, open_table, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray


def counts_suffice(plan: Plan) -> bool:
    """Whether ready counts can serve a plan."""
    try:
        require_counts_suffice(plan, "")
    except DataError:
        return False
    return True


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
    spill: Path | None = None,
) -> StepCounts:
    """Counts from a file or table with columns `step` (from 0), the cell column if any, and `count`.

    Instead of `step` it may have the policy's column of moments, each in its step; of both, a row says the same.
    Instead of `count` a column may have the release's name; with several releases each has a column of its own. Where
    everybody is in one cell at a step, counts by cell are enough, and all others are added up.

    Args:
        path: the file, or a table in memory.
        plan: what the counts are for.
        start: the moment of step 0 that was said, or fixed by an earlier run.
        steps: only the first this many; default those that are over by the clock, where a start is known.
        at_least: without `steps`: no fewer than this.
        zoned: whether the start was said with its zone.
        gaps: what a step or cell without a row means.
        since: steps before this one may be left out; without a row they have counts of 0, and no digest.
        spill: a private folder for counts of a run that looks at few of them at a time; None to hold them all.

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
    connection = connect(spill)
    with ExitStack() as stack:
        stack.callback(connection.close)
        with open_table(connection, path) as table, reading(table.path):
            _refuse_events(table, plan)
            asked = measured if whole is None else [whole]
            named = len(plan.releases) > 1 and (whole is None or whole.name in table.columns)
            found = {
                part.name: read_rows(connection, table, plan, part, start, gaps, named, since, spill) for part in asked
            }
        if any(isinstance(counts, StoredCounts) for counts, _ in found.values()):
            hold_little(connection)
            stack.pop_all()  # it is closed with them
    rows = next(known for _, known in found.values())  # of one file all releases have the same steps
    again = rows[rows < since]
    arrays = {name: counts for name, (counts, _) in found.items()}
    if whole is not None and plan.stream.cell is not None:
        states, cell = arrays[whole.name], plan.stream.cell
        arrays = {part.name: made(states, partial(counted_by, cell, part.query.by)) for part in measured}
    if gaps == "zero":
        steps = steps or _due(plan, start, np.union1d(np.arange(since), rows), str(path), at_least, zoned)
        arrays = _filled(arrays, steps)
    return _assembled(arrays, plan, start, steps, str(path), at_least, zoned, since, again)


def _filled(arrays: Mapping[str, Counts], steps: int) -> dict[str, Counts]:
    """Counts of at least so many steps, 0 after those that are there."""
    longest = max(steps, *map(len, arrays.values()))
    return {name: np.pad(counts[:], ((0, longest - len(counts)), (0, 0))) for name, counts in arrays.items()}


def _due(plan: Plan, start: int | None, rows: NDArray[np.int64], where: str, at_least: int, zoned: bool) -> int:
    """How many steps to release where those without a row have counts of 0: the last row, one user's, must not say."""
    begin = declared_start(plan) if start is None else start
    if begin is not None:
        return due_steps(plan, begin, rows, at_least, where, zoned=zoned)
    raise DataError(
        "E0863",
        "nobody says how many steps to release",
        where=where,
        because="where a step without a row has counts of 0, the last row does not say where the data end, and one "
        "user may be all that is in it; the number of steps is published",
        help="say it by the calendar, `--steps N`; or when step 0 begins, `--start`, and all that is over is released",
    )


def counts_of_array(
    counts: NDArray[Any] | Mapping[str, NDArray[Any]],
    plan: Plan,
    *,
    start: int | None = None,
    steps: int | None = None,
    at_least: int = 0,
    zoned: bool = False,
    gaps: Gaps = "refuse",
) -> StepCounts:
    """Counts that are in memory already: (steps, cells), or one such array for each release's name.

    The other arguments are those of `read_counts`; a masked count is one without a row, as are all after the last.

    Raises:
        DataError: wrong shape, or not counts.
    """
    require_counts_suffice(plan, "counts")
    measured = measured_releases(plan)
    if not isinstance(counts, Mapping):
        if len(measured) > 1:
            raise not_counts("one array cannot serve several releases", "counts", "give one array for each name")
        counts = {measured[0].name: counts}
    arrays: dict[str, Counts] = {}
    rows = np.zeros(0, dtype=np.int64)
    for release in measured:
        given = counts.get(release.name, np.zeros(0))
        where = f"counts of `{release.name}`"
        if isinstance(given, np.ma.MaskedArray) and np.ma.is_masked(given) and gaps == "refuse":
            raise not_counts(
                "some counts are masked", where, 'fill them; or say `gaps="zero"`, if that is what it means'
            )
        try:
            array, masked = np.asarray(np.ma.filled(given, 0)), np.ma.getmaskarray(given)
        except ValueError:  # rows of different lengths
            array, masked = np.zeros(0), np.zeros(0, dtype=np.bool_)
        if array.ndim == 1 and len(release.cells) == 1:
            array, masked = array[:, None], masked[:, None]
        if array.ndim != 2 or array.shape[1] != len(release.cells) or not len(array):
            raise not_counts("counts do not have the shape (steps, cells)", where, "one row a step, one column a cell")
        if array.dtype.kind not in "iu" or (array < 0).any() or (array > LARGEST_COUNT).any():
            raise not_counts("counts are not whole numbers from 0", where, "count users, without noise or scaling")
        arrays[release.name] = array.astype(np.int64)
        rows = np.union1d(rows, np.flatnonzero(~masked.all(axis=1)))
    if len({len(array) for array in arrays.values()}) > 1:
        raise not_counts("releases have different numbers of steps", "counts", "give every release the same steps")
    if gaps == "zero":
        steps = steps or _due(plan, start, rows, "counts", at_least, zoned)
        arrays = _filled(arrays, steps)
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
    given: Mapping[str, Counts],
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
        steps = due_counts(plan, start, max(map(len, given.values())), at_least, where, zoned=zoned)
    arrays = {name: begun(counts, steps) for name, counts in given.items()}
    length = len(next(iter(arrays.values())))
    check_steps(plan, length, where, start)
    for release in measured_releases(plan):
        left = partial(_left_over, plan, release, begun=at_least > 0)
        counts = _told(arrays[release.name], left, since, again) if since else made(arrays[release.name], left)
        arrays[release.name] = counts
        if at_least == 0 or release.query.by is not None:
            check_population(plan, release, counts, where, since)
    return StepCounts(start, arrays, CountDigests(list(arrays.values()), since, frozenset(again)))


def _told(
    counts: Counts,
    left: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    since: int,
    again: NDArray[np.int64] | tuple[()],
) -> NDArray[np.int64]:
    """Counts of the steps of which something is told, and zeros, which nobody touches, of all others."""
    told = np.append(again, np.arange(since, len(counts))).astype(np.int64)
    told, given = told[told < len(counts)], counts[:]
    found = np.zeros(given.shape, given.dtype)
    found[told] = left(given[told])
    return found


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
