"""What is published and how often, from which data, and how often one user counts."""

from __future__ import annotations

from policyc.emit.blocks.accuracy import released_steps, where_released
from policyc.emit.blocks.levels import levels
from policyc.emit.blocks.made import made_sentence
from policyc.emit.blocks.public_numbers import unprotected
from policyc.emit.blocks.suppression import left_out_words
from policyc.emit.blocks.user_steps import is_assumed, taking_part, user_steps_of
from policyc.emit.blocks.wording import Json, JsonValue, events_counted, lasting, listed, quoted
from policyc.emit.numbers import counted, every, sentence_case
from policyc_check.plan.queries import CountQuery, PrefixQuery, Query, SumQuery, WindowQuery
from policyc_check.plan.targets import window_of
from policyc_check.users.claims import period_of
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import BudgetedRelease, DerivedRelease, MeasuredRelease, ReleasePlan, Scheduled
from policyc_runtime.sources.calendar import step_of
from policyc_runtime.sources.participation import latest_counts, most_cells
from policyc_runtime.suppression import suppresses

LONGEST_LIST = 12


def product(plan: Plan) -> Json:
    """Block A."""
    stream = plan.stream
    horizon = None if stream.horizon is None else str(stream.horizon)
    return {
        "name": plan.policy.name,
        "purpose": plan.policy.purpose,
        "compiler": plan.compiler,
        "releases": [
            {"name": r.name, "what": f"{quoted(r.name)}, {_what(plan, r)}", "values_per_step": str(len(r.cells))}
            for r in plan.releases
        ],
        "step": {"text": stream.step_text, "milliseconds": str(stream.step_milliseconds)},
        "horizon": {"steps": horizon, "words": _horizon(plan)},
        "delivery": plan.delivery.kind,
        "objective": plan.objective,
        "schedule": f"{sentence_case(every(step_of(stream)))}, {_horizon(plan)}; {_delivered(plan)}.",
        "sentence": _published(plan),
    }


def _horizon(plan: Plan) -> str:
    steps = plan.stream.horizon
    if steps is None:
        return "for as long as the stream lasts"
    return f"for {counted(steps, 'step')} ({lasting(plan, steps)})"


def _delivered(plan: Plan) -> str:
    delay = plan.delivery.delay or 0
    return {
        "realtime": "no value depends on later steps, and a run publishes every step that is over",
        "within": f"each value is published at most {counted(delay, 'step')} after its own",
        "offline": "each run publishes the steps of its input together",
    }[plan.delivery.kind]


def _counted(plan: Plan) -> str:
    """Users, or events where several of one user count in a step."""
    most = events_counted(plan)
    if most > 1:
        return f"the number of events (of one user at most {most:,} in a step)"
    several = (period_of(plan) or 1) < 1  # periods in a step: a user counts in each of them
    return f"the number of users{' in each period, added up' if several else ''}"


def _what(plan: Plan, release: ReleasePlan) -> str:
    if not isinstance(release.query, CountQuery):
        return _total(release.query)
    if release.query.by is None:
        return f"{_counted(plan)}{' present' if events_counted(plan) == 1 else ''}"
    names = [quoted(cell) for cell in release.cells]
    cells = listed(names) if len(names) <= LONGEST_LIST else f"{names[0]} to {names[-1]}, {len(names):,} in all"
    return f"{_counted(plan)} in each {quoted(release.query.by)}{_once(plan, release)}: {cells}"


def _once(plan: Plan, release: ReleasePlan) -> str:
    """At a level: that who is in several cells of one value counts once there."""
    cell, query = plan.stream.cell, release.query
    if cell is None or query.by == cell.column or getattr(query, "cells_per_step", None) is None:
        return ""
    return f" (once each, in however many {quoted(cell.column)} of it)"


def _total(query: Query) -> str:
    """A release that is no count, in words."""
    each = "" if query.by is None else f" in each {quoted(query.by)}"
    if isinstance(query, SumQuery):
        return f"the sum of {quoted(query.column)}, every value cut to {query.low} to {query.high}{each}"
    if isinstance(query, PrefixQuery):
        return f"the running total of {quoted(query.of)}{each}"
    assert isinstance(query, WindowQuery), "a count has words of its own"
    return f"the total of {quoted(query.of)} over the last {counted(query.steps, 'step')}{each}"


def _published(plan: Plan) -> str:
    stream = plan.stream
    several = len(plan.releases) > 1
    each = [f"{quoted(part.name)}{' is' if several else ','} {_what(plan, part)}" for part in plan.releases]
    what = f", these are released. {'. '.join(each)}" if several else f": {each[0]}"
    own = [release for release in plan.releases if not isinstance(release, DerivedRelease)]
    gaps = [f"{left_out_words(plan, one)} ({quoted(one.name)})" for one in plan.releases if suppresses(plan, one)]
    added: dict[str, list[str]] = {}  # what is said of the noise of several releases is said once
    for one in own:
        added.setdefault(_noise(plan, one), []).append(quoted(one.name))
    noise = " ".join(said.format(of="" if len(added) == 1 else f" of {listed(names)}") for said, names in added.items())
    left_out = f" Left out are {listed(gaps)}: their fields are empty." if gaps else ""
    published = f"{sentence_case(every(step_of(stream)))}, {_horizon(plan)}{what}. {sentence_case(_delivered(plan))}."
    return f"{published}{_which_event(plan)} {noise}{left_out}{made_sentence(plan)}"


def _which_event(plan: Plan) -> str:
    """Which of a user's events in a step says the cell."""
    cell, record = plan.stream.cell, plan.participation
    if cell is None:
        return ""
    if latest_counts(plan):
        return f" Of a user's events in a step the last counts: it says the {quoted(cell.column)}."
    assert record is not None, "all else is of a bound"
    if not record.enforced:
        return ""
    if most_cells(plan) is not None:
        return f" Of a user's events in a step the first in each {quoted(cell.column)} counts."
    if record.per_step == 1:
        return f" Of a user's events in a step the first counts: it says the {quoted(cell.column)}."
    return f" Of a user's events in a step the first {record.per_step:,} count, each in its {quoted(cell.column)}."


def _noise(plan: Plan, release: ReleasePlan) -> str:
    """What noise is added to: every value, those of some steps, or what a mechanism measures in place of values.

    `{of}` is the place of the releases of which that is so.
    """
    if where_released(plan, release):
        horizon, only = plan.stream.horizon, "some steps"
        if isinstance(release, Scheduled) and horizon is not None:
            only = f"{released_steps(release):,} of {horizon:,} steps"
        return (
            f"Only {only}{{of}} are measured, and noise is added to their values; what is published, of the other "
            "steps too, uses no data but these noisy values."
        )
    if isinstance(release, MeasuredRelease):
        mechanism = release.mechanism
        plain = mechanism.independent and not mechanism.estimates
    else:
        plain = isinstance(release, BudgetedRelease)
    if plain:
        return (
            "Noise is added to every value{of} first; what is published afterwards uses no data but the noisy values."
        )
    return (
        "Noise is added first to all that is measured{of}; what is published afterwards uses no data but these noisy "
        "measurements."
    )


def data(plan: Plan) -> Json:
    """Block E."""
    stream, cell = plan.stream, plan.stream.cell
    columns: list[JsonValue] = [
        {"column": stream.user_column, "role": "the user whose privacy it is about"},
        {"column": stream.time_column, "role": f"when the event happened{_shown(plan)}"},
    ]
    if cell is not None:
        columns.append({"column": cell.column, "role": "where the user was"})
    return {
        "stream": stream.name,
        "columns": columns,
        "cells": None if cell is None else _cells(plan),
        **({"levels": found} if (found := levels(plan)) else {}),
        "unprotected": [*unprotected(plan)],
        "bad_rows": _bad_rows(plan),
    }


def _shown(plan: Plan) -> str:
    """What a time without a zone means, where a clock is named."""
    clock = plan.stream.clock
    if clock is None:
        return ""
    return (
        f"; without a zone it is what the clock of {clock.zone} shows, of an hour that comes twice the first, and of "
        "one that is left out as if the clock had not been put forward"
    )


def _bad_rows(plan: Plan) -> str:
    cell = plan.stream.cell
    unknown = "" if cell is None else "an unknown cell, "
    counted_as = ""
    if cell is not None and cell.otherwise is not None:
        unknown, counted_as = "", f" An unknown cell counts as {quoted(cell.otherwise)}."
    return (
        f"A row with {unknown}a missing user, an unreadable time or a time outside the horizon stops the run before "
        "any noise "
        f"is drawn.{counted_as} Late events cannot change a step that was released: a run on changed data is refused."
    )


def _cells(plan: Plan) -> Json:
    cell = plan.stream.cell
    assert cell is not None, "asked for streams with cells only"
    levels: list[JsonValue] = [{"column": level.column, "values": [*level.cells]} for level in cell.levels]
    return {
        "column": cell.column,
        "values": [*cell.cells],
        "otherwise": cell.otherwise,
        **({"levels": levels} if levels else {}),
        "where_from": "the policy or a file it names, never the protected data",
    }


def participation(plan: Plan) -> Json:
    """Block F, for promises about one event or one window."""
    windows = [window for target in plan.targets if (window := window_of(target)) > 1]
    held = f"what happens within {max(windows):,} steps in a row" if windows else "one event"
    counts = "only the last event" if plan.stream.cell is not None else "only one"
    bound = f"none: the promise is for {held}, so a user may take part in every step"
    if users := user_steps_of(plan):
        often = listed([taking_part(plan, target) for target in users])
        held = "assumed, not enforced" if any(is_assumed(plan, target) for target in users) else "all there are"
        bound = f"{often}, for the promise about all events of a user: {held}; none for the others"
    return {
        "bound": bound,
        "per_step": "1",
        "enforced": f"by the run: of a user with several events in a step, {counts} counts",
        "beyond": "nothing is lost or changed beyond that",
    }
