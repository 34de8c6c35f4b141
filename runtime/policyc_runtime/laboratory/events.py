"""Events to try a plan on: users who move, take part and have values as the policy declares. Nobody is among them.

They carry a column `simulated`, which marks the ledger of the run that reads them, and whatever is made of it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from policyc_check.errors import KernelError
from policyc_check.plan.queries import SumQuery
from policyc_check.users.claims import own_bound, period_of, promised_user_level
from policyc_runtime.ancestors import ancestors
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.signal import SeriesProcess, drawn_series
from policyc_runtime.laboratory.events_file import Events, step_0, write
from policyc_runtime.laboratory.moving_users import USERS, moving_users
from policyc_runtime.laboratory.streams import counts_in_cells, turns_of
from policyc_runtime.output_place import output_paths, require_writable
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.participation import measured_releases, sum_columns
from policyc_runtime.sources.simulated import SIMULATED, all_simulated
from policyc_runtime.sources.step_counts import check_request, check_steps
from policyc_runtime.sources.tables import SUFFIXES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.plan.stream import ParticipationRecord, StreamRecord
    from policyc_runtime.plan import Plan

    Array = NDArray[np.float64]
    Numbers = NDArray[np.int64]

ENDLESS_STEPS = 100  # of a stream without a horizon, unless more are asked for
LARGEST_EVENTS = 20_000_000
MOST_OF_CLAMP = 0.7  # of the largest value that one event adds to a sum whose course is declared


def write_events(
    plan: Plan,
    seed: int,
    path: str | Path,
    *,
    steps: int | None = None,
    signal: SeriesProcess | Array | None = None,
) -> int:
    """Write simulated events as CSV (also gzipped) or Parquet, which a run of the plan accepts.

    Args:
        plan: what users do is drawn from its chains; under a user-level promise without any from the signal, within
            the participation bound; where neither is declared users are anywhere, and take part, at random.
        seed: makes the events repeatable.
        path: the file, by suffix; earlier simulated events there are replaced as a whole, nothing else is.
        steps: how many; default the horizon, or `ENDLESS_STEPS`.
        signal: under a user-level promise, how the values of its only count or sum move.

    Returns:
        How many events.

    Raises:
        KernelError: too many events, more steps than the horizon, or a column that is called `simulated`.
        ReleaseError: the file cannot be written.
    """
    (file,) = output_paths([""], path, SUFFIXES).values()
    _require_own(file)
    _check_columns(plan)
    check_request(plan, steps)
    total = steps or plan.stream.horizon or ENDLESS_STEPS
    check_steps(plan, total, str(file), step_0(plan))
    generator = SimulationRandomness(seed).generator
    values: Array | None = None
    if not promised_user_level(plan) or plan.correlation.chains:
        _require_few((plan.stream.population or USERS) * total)
        events = Events(*moving_users(plan, total, generator))
    elif signal is not None and len(measured_releases(plan)) == 1:
        events, values = _following(plan, signal, total, generator)
    else:
        events = _taking_part(plan, total, generator)
    columns = {
        name: _uniform(query, len(events.step), generator) if values is None else values
        for name, query in sum_columns(plan)
    }
    write(plan, events, columns, file, generator)
    return len(events.step)


def _require_own(file: Path) -> None:
    """Nothing when a file can be written there, and none is there or one whose every row says that it is simulated."""
    require_writable(file)
    if not file.exists():
        return
    if not all_simulated(file):
        raise ReleaseError(
            "E0826",
            "this file exists and is not of simulated events",
            where=str(file),
            because="a simulation writes over what was simulated only",
            help="choose another name for the events",
        )


def _check_columns(plan: Plan) -> None:
    named = (plan.stream.user_column, plan.stream.time_column, *(query.column for _, query in sum_columns(plan)))
    if any(name.casefold() == SIMULATED for name in named):
        raise KernelError(
            "E0866",
            f"the policy has a column `{SIMULATED}` itself",
            because=f"simulated events are told from others by a column `{SIMULATED}`",
            help="name the column otherwise in the data and in the policy",
        )


def _require_few(events: int) -> None:
    if events > LARGEST_EVENTS:
        raise KernelError(
            "E0866",
            f"{events:,} simulated events are too many",
            because=f"at most {LARGEST_EVENTS:,} are drawn and written",
            help="ask for fewer steps: `--steps N`",
        )


def _taking_part(plan: Plan, steps: int, generator: np.random.Generator) -> Events:
    """Users who take part at random, each in one to as many steps as the bound allows, with as many events in each.

    Under a promise about periods that is so in every one of them.
    """
    record, firsts, several = _bound(plan), *_periods(plan, steps)
    users = plan.stream.population or USERS
    lengths = np.diff(firsts)
    most = min(own_bound(plan), -(-int(lengths.max()) // record.spacing))
    parts = users * several * len(lengths)
    room = max(turns_of(plan, release) for release in measured_releases(plan))  # events in a step, or cells
    _require_few(parts * (most + 1) // 2 * room)
    times = generator.integers(1, most + 1, parts)
    of_part = np.arange(parts) // (users * several)
    times = np.minimum(times, -(-lengths[of_part] // record.spacing))
    free = lengths[of_part] - (times - 1) * record.spacing
    part = np.repeat(np.arange(parts), times)
    turn = np.arange(len(part)) - np.repeat(np.cumsum(times) - times, times)
    drawn = np.floor(generator.random(len(part)) * free[part]).astype(np.int64)
    step = drawn[np.lexsort((drawn, part))] + turn * record.spacing + firsts[of_part[part]]
    part, step = np.repeat(part[step < steps], room), np.repeat(step[step < steps], room)
    cells = generator.integers(0, _listed(plan.stream), len(part))
    if counts_in_cells(plan):  # each in a cell of its own
        cells = (np.repeat(cells[::room], room) + np.arange(len(part)) % room) % _listed(plan.stream)
    return Events(part // several % users, step, cells, part % several)


def _periods(plan: Plan, steps: int) -> tuple[Numbers, int]:
    """The first steps of periods and where they end, and the periods of a step; without periods the stream is one."""
    period = period_of(plan)
    if period is None:
        return np.array([0, steps]), 1
    return calendar_of(plan, step_0(plan)).first_steps(steps), math.ceil(1 / period)


def _following(
    plan: Plan, signal: SeriesProcess | Array, steps: int, generator: np.random.Generator
) -> tuple[Events, Array | None]:
    """Users whose number in every step, or the sum of whose values, is a course of the signal; None for a count.

    They take turns, so that everybody rests as long as possible; whoever would exceed the bound stays away. Of several
    periods in a step each is one's turn by itself.
    """
    record, bound, firsts, several = _bound(plan), own_bound(plan), *_periods(plan, steps)
    (release,) = measured_releases(plan)
    series = [_course(signal, steps, generator) for _ in release.cells]
    course = np.column_stack(series)
    each = 1.0
    if isinstance(release.query, SumQuery):
        low, high = float(release.query.low), float(release.query.high)
        each = MOST_OF_CLAMP * (high if high > 0 else low)
    wanted = np.maximum(np.ceil(course / each - 1e-9) if each != 1.0 else np.rint(course), 0).astype(np.int64)
    _require_few(int(wanted.sum()))
    together = wanted.sum(axis=1)
    windows = np.convolve(together, np.ones(record.spacing, dtype=np.int64))
    starts = np.cumsum(together) - together
    begins = np.repeat(starts[firsts[:-1]], np.diff(firsts))[:steps]  # how many had their turns before a step's period
    most = int((starts + together - begins).max())
    users = (
        plan.stream.population or max(-(-most // bound // several), -(-int(windows.max()) // several), 1)
    ) * several
    cells = np.arange(len(release.cells))
    step = np.repeat(np.arange(steps), together)
    cell = np.concatenate([np.repeat(cells, row) for row in wanted]) if len(step) else np.zeros(0, dtype=np.int64)
    turn = np.arange(len(step))
    rested = np.ones(len(step), dtype=np.bool_)
    rested[users:] = step[users:] - step[: max(len(step) - users, 0)] >= record.spacing
    kept = rested & ((turn - begins[step]) // users < bound)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(wanted > 0, course / wanted, 0.0)
    values = shares[step, cell][kept] if isinstance(release.query, SumQuery) else None
    part, step, cell = turn[kept] % users, step[kept], cell[kept]
    if release.query.by is None:
        cell = generator.integers(0, _listed(plan.stream), len(cell))
    elif plan.stream.cell is not None:  # the first of those that belong to it
        cell = np.unique(ancestors(plan.stream.cell, release.query.by), return_index=True)[1][cell]
    return Events(part // several, step, cell, part % several), values


def _course(signal: SeriesProcess | Array, steps: int, generator: np.random.Generator) -> Array:
    if isinstance(signal, SeriesProcess):
        return drawn_series(signal, steps, generator)
    return np.maximum(np.resize(signal, steps), 0.0)


def _uniform(query: SumQuery, events: int, generator: np.random.Generator) -> Array:
    """Values anywhere within the clamp, on the grid of the sum."""
    low, high, grid = float(query.low), float(query.high), float(query.grid)
    return np.clip(np.rint(generator.uniform(low, high, events) / grid) * grid, low, high)


def _bound(plan: Plan) -> ParticipationRecord:
    assert plan.participation is not None, "plans with a user-level target have a bound"
    return plan.participation


def _listed(stream: StreamRecord) -> int:
    return len(stream.cell.cells) if stream.cell else 1
