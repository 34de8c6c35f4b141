"""From the records of a stream mechanism to noisy values, and on to what is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import WindowQuery
from policyc_check.plan.release import Asked
from policyc_check.users.claims import promised_user_level, setting_of, unit_of
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms import StreamMechanism, WindowMechanism
from policyc_runtime.mechanisms.mechanism import Left, StepRecord
from policyc_runtime.offset import NO_OFFSET, Offset
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import (
    AdaptiveRelease,
    BudgetedRelease,
    DerivedRelease,
    MeasuredRelease,
    Recorded,
    ReleasePlan,
)

Array = NDArray[np.float64]


def measured(plan: Plan, release: ReleasePlan) -> tuple[StreamMechanism | WindowMechanism, Setting] | None:
    """The mechanism whose steps give away records, and its setting; None for any other."""
    if isinstance(release, AdaptiveRelease):
        steps = Participation(release.mechanism.window, plan.stream.horizon)
        setting = Setting(steps, replaced=True, cells=len(release.cells), wait=plan.delivery.longest_wait)
        return release.mechanism, setting
    if isinstance(release, MeasuredRelease):
        return release.mechanism, setting_of(plan, release, promised_user_level(plan)[0])
    return None


def follows_results(plan: Plan, release: ReleasePlan) -> bool:
    """Whether the noise of values depends on earlier results, so that nobody knows it beforehand."""
    while isinstance(release, DerivedRelease):
        release = plan.release_named(release.query.of)
    return isinstance(release.mechanism, WindowMechanism)


def ready_steps(plan: Plan, steps: int) -> int:
    """How many of the first `steps` steps can be released: fewer where a mechanism measures blocks, or all at once."""
    ready = steps
    for release in plan.releases:
        found = measured(plan, release)
        if found is not None:
            ready = min(ready, found[0].ready(found[1], steps))
    return ready


def waiting_steps(plan: Plan) -> int:
    """How many later steps the values of a step wait for: the delay, where an estimator looks at them."""
    wait = plan.delivery.longest_wait or 0
    return wait if any(release.estimator.looks_ahead(wait) for release in plan.releases) else 0


def made_together(plan: Plan) -> bool:
    """Whether values are made of those of all steps, in one block: of a stream that is published when it is over."""
    wait = plan.delivery.longest_wait
    return plan.delivery.kind == "offline" and any(
        part.estimator.looks_ahead(wait) or any(row.previous for row in part.constraints) for part in plan.releases
    )


def publishable_steps(plan: Plan, ready: int) -> int:
    """How many of the first `ready` steps may be published: the last ones wait where the stream goes on."""
    return ready if ready == plan.stream.horizon else max(ready - waiting_steps(plan), 0)


def noisy_values(plan: Plan, release: ReleasePlan, records: Sequence[StepRecord]) -> Array:
    """Noisy values of a release with a stream mechanism, (steps, cells), in published units; NaN for none."""
    found = measured(plan, release)
    assert found is not None, "asked for releases with a stream mechanism only"
    mechanism, setting = found
    return in_units(plan, release, mechanism.values(setting, records))


def in_units(plan: Plan, release: ReleasePlan, values: Array) -> Array:
    """What a mechanism says, in published units."""
    # one rounding a value: dividing by a whole number gives the float nearest to a value of the grid 1/10, 1/100, ...
    up, down = unit_of(plan, release).as_integer_ratio()
    return values * up / down


def derived_values(release: Asked, values: Array) -> Array:
    """A running total or window, (steps, cells), of the noisy values of the release it is made of."""
    return derived_after(release, (), values)[0]


def derived_after(release: Asked, left: Left, values: Array) -> tuple[Array, Left]:
    """The same of the next steps, and what all leave to those after them: the last running totals."""
    known = np.reshape(left[0], (-1, values.shape[1])) if len(left) else np.zeros((0, values.shape[1]))
    totals = np.vstack([known, np.cumsum(np.vstack([known[-1:], values]), axis=0)[len(known[-1:]) :]])
    if not isinstance(release.query, WindowQuery):
        return totals[len(known) :], [totals[-1:]]
    width, steps = release.query.steps, len(values)
    begun = np.vstack([np.zeros((min(width - len(known), steps), values.shape[1])), totals])[:steps]
    return totals[len(known) :] - begun, [totals[-width:]]


def totalled(totals: Sequence[Asked], values: Array) -> Array:
    """What running totals and windows, each of the one before it, make of the values of steps, (steps, cells)."""
    return reduce(lambda found, total: derived_values(total, found), totals, values)


def stored_noisy(plan: Plan, release: ReleasePlan, drawn: list[list[int] | None]) -> Array:
    """Noisy values (steps, cells) from what a ledger keeps of each step; NaN where nothing was drawn."""
    if isinstance(release, Recorded):
        return noisy_values(plan, release, [tuple(record or ()) for record in drawn])
    none = [math.nan] * len(release.cells)
    rows = [none if row is None else row for row in drawn]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(release.cells))


def whole_values(plan: Plan, release: ReleasePlan) -> bool:
    """Whether noisy values are whole numbers: counts, where the mechanism says so."""
    if isinstance(release, DerivedRelease):
        return whole_values(plan, plan.release_named(release.query.of))
    if isinstance(release, Recorded):
        return release.mechanism.whole_values and unit_of(plan, release) == 1
    return True


def noise_stddevs(plan: Plan, release: ReleasePlan, steps: int) -> Array:
    """The standard deviation of the noise of every step's noisy value, (steps,), in published units; NaN without one.

    Of a derived release: as if the noise of the steps it adds up were independent, but for what they have in common.
    """
    return np.hypot(own_stddevs(plan, release, steps), common_stddevs(plan, release, steps))


def common_stddevs(plan: Plan, release: ReleasePlan, steps: int) -> Array:
    """The same of the part that steps have in common, (steps,): zeros for most mechanisms."""
    if isinstance(release, DerivedRelease):
        totals: list[DerivedRelease] = []
        while isinstance(release, DerivedRelease):
            totals.insert(0, release)
            release = plan.release_named(release.query.of)
        return offset_of(plan, release).of_totals(partial(totalled, totals), steps)
    return np.full(steps, offset_of(plan, release).stddev)


def offset_of(plan: Plan, release: ReleasePlan) -> Offset:
    """What the noisy values of a release that is not made of another are off by together, in published units."""
    if not isinstance(release, MeasuredRelease):
        return NO_OFFSET
    setting = setting_of(plan, release, promised_user_level(plan)[0])
    return release.mechanism.offset(setting).scaled(float(unit_of(plan, release)))


def own_stddevs(plan: Plan, release: ReleasePlan, steps: int) -> Array:
    """The same of every step's own noise, (steps,)."""
    if isinstance(release, DerivedRelease):
        squares = own_stddevs(plan, plan.release_named(release.query.of), steps)[:, None] ** 2
        return np.sqrt(derived_values(release, squares))[:, 0]
    found = measured(plan, release)
    if found is not None:
        mechanism, setting = found
        variances = mechanism.variances(setting, steps)
        if isinstance(mechanism, StreamMechanism):
            variances = variances - mechanism.common_variance(setting)
        return np.asarray(np.sqrt(variances) * float(unit_of(plan, release)))
    assert isinstance(release, BudgetedRelease), "the only kind that is left"
    scales = release.schedule.scales(steps)
    known = {scale: release.mechanism.variance(scale) ** 0.5 for scale in set(scales) if scale > 0}
    return np.array([known.get(scale, np.nan) for scale in scales])


def same_as_recorded(plan: Plan, stored: Mapping[str, Sequence[Any]], seen: Mapping[str, Sequence[int]]) -> str | None:
    """The first release whose stored records are none of its mechanism's, or whose derived values do not follow.

    Args:
        plan: verified.
        stored: for each release, what its ledger entries hold as drawn, steps 0, 1, ...
        seen: for each of them, how many steps had noisy values when it was written.

    Returns:
        The release's name, None when all is as it should be.
    """
    known: dict[str, Array] = {}
    for release in plan.releases:
        rows = stored[release.name]
        if isinstance(release, BudgetedRelease):
            if not _drawn_at_steps(plan, release, rows):
                return release.name
            continue
        try:
            if isinstance(release, DerivedRelease):
                values = derived_values(release, known[release.query.of])
                drawn = np.array(rows, dtype=np.float64).reshape(values.shape)
                same = bool(np.array_equal(values, drawn, equal_nan=True))
                same = same or _followed_then(plan, release, stored, drawn, seen[release.name])
            else:
                same = all(type(number) is int for row in rows for number in row)
                values = noisy_values(plan, release, [tuple(row) for row in rows])
        except (ValueError, TypeError, IndexError):
            return release.name
        if not same or len(values) != len(rows):
            return release.name
        known[release.name] = values
    return None


def _followed_then(
    plan: Plan, release: DerivedRelease, stored: Mapping[str, Sequence[Any]], drawn: Array, seen: Sequence[int]
) -> bool:
    """Whether derived values followed from what was there when each was written: offline later records change them."""
    if plan.delivery.longest_wait is not None:
        return False
    for steps in set(seen):
        rows = [step for step, count in enumerate(seen) if count == steps]
        if not rows[-1] < steps <= len(drawn):
            return False
        if not np.array_equal(_values_of(plan, release, stored, steps)[rows], drawn[rows], equal_nan=True):
            return False
    return True


def _values_of(plan: Plan, release: ReleasePlan, stored: Mapping[str, Sequence[Any]], steps: int) -> Array:
    """Noisy values of the first steps, from their records alone."""
    if isinstance(release, DerivedRelease):
        return derived_values(release, _values_of(plan, plan.release_named(release.query.of), stored, steps))
    return noisy_values(plan, release, [tuple(row) for row in stored[release.name][:steps]])


def _drawn_at_steps(plan: Plan, release: BudgetedRelease, rows: Sequence[Any]) -> bool:
    """Whether noisy counts are what a step mechanism can give: whole numbers where there is a budget, else nothing.

    Balanced noise adds up to zero, so that the cells of a step add up to the public population.
    """
    for row, epsilon in zip(rows, release.schedule.epsilons(len(rows)), strict=True):
        if epsilon == 0:
            if row is not None:
                return False
            continue
        if row is None or len(row) != len(release.cells) or any(type(number) is not int for number in row):
            return False
        if release.balanced and sum(row) != plan.stream.population:
            return False
    return True
