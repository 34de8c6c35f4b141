"""Streams to try a user-level plan on: drawn from how the policy says values move, or from how often users take part.

Nothing of this is a release, and nothing of it looks at protected data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_check.plan.queries import CountQuery, PrefixQuery, SumQuery, WindowQuery
from policyc_check.users.claims import own_bound, period_of, source_release, unit_of, window_of
from policyc_runtime.ancestors import ancestors
from policyc_runtime.estimation import Estimator
from policyc_runtime.estimation.linear import Linear
from policyc_runtime.estimation.plain_series import SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.projection import Mle, NoEstimation
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel, drawn_series
from policyc_runtime.laboratory.moving_users import USERS, moving_users
from policyc_runtime.noisy_values import derived_values, measured, noisy_values
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import DerivedRelease, MeasuredRelease, ReleasePlan
from policyc_runtime.sources.calendar import calendar_of
from policyc_runtime.sources.moments import declared_start
from policyc_runtime.sources.participation import counts_absent, keep_first, keep_sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from policyc_runtime.randomness import SimulationRandomness

    Array = NDArray[np.float64]
    Counts = NDArray[np.int64]

DROPPING = "dropping alone"


class Drawn(NamedTuple):
    """(steps, cells) whole units of every count and sum, by release name: `kept` by the participation bound, and `all`.

    Without an enforced bound, and where values move as the policy says, these are the same.
    """

    kept: dict[str, Counts]
    all: dict[str, Counts]


@dataclass(frozen=True)
class Streams:
    """Where true values are drawn from.

    Args:
        draw: (steps, cells) whole units of every count and sum, by release name.
        priors: what the policy's law alone expects of every release, (steps, cells) in published units; every step of a
            count or sum has the same. Empty where the policy declares none.
        said: what they are, in a few words.
    """

    draw: Callable[[np.random.Generator], Drawn]
    priors: dict[str, Array]
    said: str


def streams_of(plan: Plan, steps: int, signal: SeriesProcess | Array | None = None) -> Streams:
    """True values for a plan under a user-level promise.

    Args:
        plan: with a participation bound.
        steps: how many to draw.
        signal: how the values of its only count or sum move: a process with a mean, or a public series of the same
            kind, begun again at its end. None, or several counts and sums: users are drawn.
    """
    sources = [release for release in plan.releases if source_release(plan, release) is release]
    if plan.correlation.chains and (signal is None or len(sources) > 1):
        return _of_moving_users(plan, sources, steps)
    if signal is None or len(sources) > 1:
        return _of_users(plan, sources, steps)
    (source,) = sources
    shape, unit = (steps, len(source.cells)), float(unit_of(plan, source))
    if isinstance(signal, SeriesProcess):
        process, mean, said = signal, signal.mean or 0.0, "values of the declared signal"

        def course(generator: np.random.Generator) -> Array:
            return np.column_stack([drawn_series(process, steps, generator) for _ in source.cells])
    else:
        series = np.resize(signal, steps)
        mean, said = float(series.mean()), "the public pilot series"

        def course(generator: np.random.Generator) -> Array:  # noqa: ARG001
            return np.repeat(series[:, None], shape[1], axis=1)

    def draw(generator: np.random.Generator) -> Drawn:
        raw = {source.name: np.rint(course(generator) / unit).astype(np.int64)}
        return Drawn(raw, raw)

    said += ", taken as that of kept events" if plan.drops else ""
    return Streams(
        draw=draw,
        priors=_of_every_release(plan, {source.name: np.full(shape, mean)}),
        said=said,
    )


def true_values(plan: Plan, raw: dict[str, Counts]) -> dict[str, Array]:
    """What is released of whole units, exactly, by release name, (steps, cells) in published units."""
    units = {name: float(unit_of(plan, plan.release_named(name))) for name in raw}
    return _of_every_release(
        plan, {name: np.asarray(values * units[name], dtype=np.float64) for name, values in raw.items()}
    )


def noisy_streams(plan: Plan, raw: dict[str, Counts], randomness: SimulationRandomness) -> dict[str, Array]:
    """Noisy values of every release from one run of its mechanism, (steps, cells) in published units; NaN for none."""
    found: dict[str, Array] = {}
    for release in plan.releases:
        if isinstance(release, DerivedRelease):
            found[release.name] = derived_values(release, found[release.query.of])
            continue
        known = measured(plan, release)
        assert known is not None, "a user-level plan has no other kind"
        mechanism, setting = known
        values = raw[source_release(plan, release).name]
        found[release.name] = noisy_values(plan, release, mechanism.measure(setting, values, (), randomness))
    return found


def variants_of(plan: Plan, part: ReleasePlan, estimators: Sequence[Estimator] | None) -> dict[str, ReleasePlan]:
    """The release with each estimator that applies, the plan's own among them, and what is published of noise alone."""
    constraints, wait = part.constraint_set, plan.delivery.longest_wait
    mechanism = part.mechanism if isinstance(part, MeasuredRelease) else None
    gaps = mechanism is not None and mechanism.leaves_gaps
    series = isinstance(part.query, CountQuery | SumQuery) and not (mechanism is not None and mechanism.estimates)
    alone = NoEstimation() if constraints.demands_nothing else Mle()
    others = [alone, *([Linear()] if gaps else []), SeriesFilter(signal=SignalModel()), SeriesSmoother()]
    tried = [
        part.estimator,
        *([kind for kind in others if series or not kind.plain] if estimators is None else estimators),
    ]
    applying = [kind for kind in tried if kind.reason_against_delay(wait) is None and (kind.fills or not gaps)]
    titles = {kind.described(): part.model_copy(update={"estimator": kind}) for kind in applying}
    return dict(sorted(titles.items()))


def taking_part(users: int, bound: int, spacing: int, steps: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    """In which steps users take part, (users, steps): each in 1 to `bound` of them, at random, `spacing` apart.

    Args:
        users: how many, >= 0.
        bound: steps a user takes part in at most, >= 1; no more than fit are drawn.
        spacing: steps between two of them at least, >= 1.
        steps: T, >= 1.
        generator: of a simulation.
    """
    most = min(bound, -(-steps // spacing))
    found = np.zeros((users, steps), dtype=np.bool_)
    needed = generator.integers(1, most + 1, users)
    room = steps - (needed - 1) * (spacing - 1)  # places, were the steps between taken out
    taken = np.zeros(users, dtype=np.int64)
    for place in range(steps):  # each set of places is as likely as any other (KNUTH97, algorithm S)
        who = np.flatnonzero(generator.random(users) * (room - place) < needed)
        who = who[needed[who] > 0]
        found[who, place + taken[who] * (spacing - 1)] = True
        taken[who] += 1
        needed[who] -= 1
    return found


def _parts(
    plan: Plan, users: int, bound: int, spacing: int, steps: int, generator: np.random.Generator
) -> tuple[Counts, Counts]:
    """Who takes part, and in which step, (rows,) each, in order: every user in every period is one of its own."""
    period = period_of(plan)
    if period is None:
        who, when = np.nonzero(taking_part(users, bound, spacing, steps, generator))
        return who, when
    start, units = declared_start(plan), users * math.ceil(1 / period)
    assert start is not None or window_of(plan), "periods are counted from a start that is said, if not from steps"
    firsts = calendar_of(plan, start or 0).first_steps(steps)
    longest = int(np.diff(firsts).max())
    part, when = np.nonzero(taking_part(units * (len(firsts) - 1), min(bound, longest), spacing, longest, generator))
    when += firsts[part // units]
    inside = when < np.minimum(firsts[1:], steps)[part // units]
    return part[inside], when[inside]


def _of_users(plan: Plan, sources: list[ReleasePlan], steps: int) -> Streams:
    """Users who take part at random; values of sums are anywhere between their limits, cells equally likely.

    Under an enforced bound half of the users exceed it, as far as the stream is long enough, and so do half of their
    steps where events are dropped in one.
    """
    record = plan.participation
    assert record is not None, "a user-level plan has a bound"
    users = plan.stream.population or USERS
    cells = 1 if plan.stream.cell is None or not any(one.query.by for one in sources) else len(plan.stream.cell.cells)
    own = own_bound(plan)
    most, spacing = (2 * own, 1) if plan.drops_steps else (own, record.spacing)
    crowded = any(plan.drops_events(source) for source in sources)
    several = counts_in_cells(plan)
    turns = {source.name: turns_of(plan, source) for source in sources}
    room = max(turns.values())  # events in a step that count, or cells

    def summed(source: ReleasePlan, part: Counts, step: Counts, cell: Counts, values: Array) -> Counts:
        """`part`: which rows are of one user in one step. Several cells count once in what they belong to."""
        sums = np.zeros((steps, len(source.cells)))
        own = np.zeros_like(cell)
        if plan.stream.cell is not None and source.query.by is not None:
            own = ancestors(plan.stream.cell, source.query.by)[cell]
            if several:
                first = np.unique(part * len(source.cells) + own, return_index=True)[1]
                step, own, values = step[first], own[first], values[first]
        np.add.at(sums, (step, own), values)
        return _with_absent(plan, source, sums, users).astype(np.int64)

    def draw(generator: np.random.Generator) -> Drawn:
        who, when = _parts(plan, users, most, spacing, steps, generator)
        counted = _counted(plan, who, when, generator)
        events = np.full(when.size, room)
        if crowded:
            events = generator.integers(1, 2 * room + 1, when.size)
        if several:
            events = np.minimum(events, cells)
        part = np.repeat(np.arange(when.size), events)
        step, counted = when[part], counted[part]
        turn = np.arange(step.size) - np.repeat(np.cumsum(events) - events, events)
        cell = generator.integers(0, cells, step.size)
        if several:  # each in a cell of its own
            cell = (np.repeat(generator.integers(0, cells, when.size), events) + turn) % cells
        drawn = Drawn({}, {})
        for source in sources:
            once = record.per_step == 1 and not (several and source.query.by is not None)
            values = np.asarray(turn == 0, dtype=np.float64) if once else np.ones(step.size)
            if isinstance(source.query, SumQuery):
                values = _units(source.query, step.size, generator)
            drawn.all[source.name] = summed(source, part, step, cell, values)
            kept = counted & (turn < turns[source.name])
            drawn.kept[source.name] = summed(source, part[kept], step[kept], cell[kept], values[kept])
        return drawn

    often = min(most, -(-min(steps, plan.longest_part or steps) // spacing))
    of = "" if period_of(plan) is None else " of every period"
    where = f"1 to {often:,} steps{of} at random" if window_of(plan) is None else "every step"
    said = f"{users:,} users, each in {where}; the policy does not say how values move"
    if plan.drops:
        said += (
            f"; {counted_words(plan, crowded=crowded)} count, and errors are against the values with all events: "
            f"`{DROPPING}` has those that are dropped, and no noise"
        )
    return Streams(draw, {}, said)


def _of_moving_users(plan: Plan, sources: Sequence[ReleasePlan], steps: int) -> Streams:
    """Users who move as the chains say, each with one event in a step, of values anywhere between their limits."""
    users = plan.stream.population or USERS

    def draw(generator: np.random.Generator) -> Drawn:
        _, step, cell = moving_users(plan, steps, generator)
        raw = {}
        for source in sources:
            sums, own, values = np.zeros((steps, len(source.cells))), np.zeros_like(cell), np.ones(step.size)
            if plan.stream.cell is not None and source.query.by is not None:
                own = ancestors(plan.stream.cell, source.query.by)[cell]
            if isinstance(source.query, SumQuery):
                values = _units(source.query, step.size, generator)
            np.add.at(sums, (step, own), values)
            raw[source.name] = _with_absent(plan, source, sums, users).astype(np.int64)
        return Drawn(raw, raw)

    return Streams(draw, {}, f"{users:,} users who move as declared, each with one event in a step")


def _units(query: SumQuery, events: int, generator: np.random.Generator) -> Array:
    """Values of events anywhere between the limits of a sum, in whole units of its grid."""
    drawn: Array = generator.uniform(float(query.low), float(query.high), events) / float(query.grid)
    return np.rint(drawn)


def _with_absent(plan: Plan, source: ReleasePlan, sums: Array, users: int) -> Array:
    """Counts with those who are in none of the cells, in the last, where they are counted."""
    if counts_absent(plan, source):
        sums[:, -1] = users - sums.sum(axis=1)
    return sums


def counts_in_cells(plan: Plan) -> bool:
    """Whether the plan says in how many cells of a step a user counts, in any release."""
    return any(getattr(release.query, "cells_per_step", None) is not None for release in plan.releases)


def turns_of(plan: Plan, release: ReleasePlan) -> int:
    """How many events of a user in a step count in a release, or how many cells."""
    assert plan.participation is not None, "a user-level plan has a bound"
    if not counts_in_cells(plan):
        return plan.participation.per_step
    listed = 1 if plan.stream.cell is None or release.query.by is None else len(plan.stream.cell.cells)
    return min(getattr(release.query, "cells_per_step", None) or 1, listed)


def _counted(plan: Plan, users: Counts, steps: Counts, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Which of the users' steps an enforced bound lets count, (rows,)."""
    record = plan.participation
    if record is None or not plan.drops_steps:
        return np.ones(users.size, np.bool_)
    if record.enforced == "keep_sample":
        ranks = generator.permutation(users.size).astype(np.uint64)
        return keep_sample(users, steps, ranks, own_bound(plan), record.spacing)
    return keep_first(users, steps, own_bound(plan), record.spacing)


def counted_words(plan: Plan, *, crowded: bool) -> str:
    """Which of a user's steps, and of the events in one if these are `crowded`, an enforced bound lets count."""
    record, told = plan.participation, []
    assert record is not None, "a user-level plan has a bound"
    if plan.drops_steps:
        told.append(
            f"{own_bound(plan):,} of these" + (f", {record.spacing:,} steps apart," if record.spacing > 1 else "")
        )
    if crowded and counts_in_cells(plan):
        told.append("the first cells in a step, as many as each release says,")
    elif crowded:
        told.append("1 event in a step" if record.per_step == 1 else f"{record.per_step:,} events in a step")
    return f"only {' and '.join(told)}"


def _of_every_release(plan: Plan, values: dict[str, Array]) -> dict[str, Array]:
    """With running totals and windows of what is given, in the plan's order."""
    found = dict(values)
    for release in plan.releases:
        if isinstance(release.query, PrefixQuery | WindowQuery):
            found[release.name] = derived_values(release, found[release.query.of])
    return {release.name: found[release.name] for release in plan.releases}
