"""From the noisy values of a release to its published ones, as its plan says."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from policyc_runtime.agreement import digits_of
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.digits import decimals, rounded_values
from policyc_runtime.estimation.projection import NearestValues, nearest_values
from policyc_runtime.groups import law_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from policyc_runtime.agreement import Levels
    from policyc_runtime.estimation import ConstraintSet
    from policyc_runtime.offset import Offset
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan
    from policyc_runtime.schedule import Schedule

    Array = NDArray[np.float64]
    Number = TypeVar("Number", float, Array)


FEW_STRETCHES = 4
STRETCH = 4096  # steps whose scales are asked for together


def processes_used(
    plan: Plan, release: ReleasePlan, noisy: Array, first: int, before: str = ""
) -> Sequence[str] | None:
    """What the estimator takes users to move like at the steps from `first` on; None where it does not ask.

    A function of the plan and of noisy values (t, cells) alone: it costs no privacy, and whoever has the ledger can
    compute it again. `before` is what it said of the step before, if that is known, which spares it the values.
    """
    if first == len(noisy):
        return None
    if before and first >= release.estimator.decided(len(release.cells)):
        return [before] * (len(noisy) - first)
    return release.estimator.processes(
        np.asarray(noisy, dtype=np.float64),
        _scales(plan, release, len(noisy), first),
        first,
        law_of(plan, release),
        estimated_under(plan, release),
        plan.delivery.longest_wait,
        balanced=release.balanced,
    )


def needed(plan: Plan, release: ReleasePlan, first: int, before: str) -> int:
    """The first step whose noisy values are read for those from `first` on, of a plan that goes on.

    `before` is what `processes_used` said of the step before; empty where that is not known.
    """
    if release.estimator.of_one_step:
        return first
    law, constraints = law_of(plan, release), estimated_under(plan, release)
    scales = _scales(plan, release, first)
    return release.estimator.needed(scales, first, law, constraints, before, balanced=release.balanced)


def unexplained_step(plan: Plan, release: ReleasePlan, noisy: Array, used: Sequence[str]) -> int | None:
    """The first step whose process, as a ledger says it was used, does not follow from noisy values; None if all do.

    Args:
        plan: of the ledger.
        release: one of its releases.
        noisy: (t, cells) noisy values of all steps.
        used: by step; empty texts where nothing is said.
    """
    return release.estimator.unexplained_step(
        noisy,
        _scales(plan, release, len(noisy)),
        used,
        law_of(plan, release),
        estimated_under(plan, release),
        plan.delivery.longest_wait,
        balanced=release.balanced,
    )


def described_processes(used: Sequence[str], first: int = 0) -> str:
    """Processes by step, from the `first` on, in a few words: where each was used, or of many at how many steps."""
    starts = [step for step, name in enumerate(used) if step == 0 or used[step - 1] != name]
    stretches = [(a, b - 1, used[a]) for a, b in pairwise([*starts, len(used)]) if used[a]]
    if len(stretches) <= FEW_STRETCHES:
        return "; ".join(f"{name} at {_steps(first + begin, first + last)}" for begin, last, name in stretches)
    return "; ".join(f"{name} at {count:,} steps" for name, count in Counter(filter(None, used)).most_common())


def _steps(first: int, last: int) -> str:
    return f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"


def estimate_release(
    plan: Plan, release: ReleasePlan, noisy: Array, published: Array, processes: Sequence[str] | None = None
) -> Array:
    """The values to publish next.

    Args:
        plan: whose chain and delivery count.
        release: one of its releases.
        noisy: (t, cells) noisy values of all steps so far.
        published: (s, cells) values published already, s <= t.
        processes: what `processes_used` said of the steps s to t - 1; None to find out here.

    Returns:
        (t - s, cells) values for the steps s to t - 1; they satisfy the release's constraints.

    Raises:
        ReleaseError: no values satisfy the constraints.
    """
    previous = np.asarray(published[-1], dtype=np.float64) if len(published) else None
    values = _estimated(plan, release, noisy, len(published), release.constraint_set, previous, processes)
    release.constraint_set.check(values, previous)
    return values


def _estimated(
    plan: Plan,
    release: ReleasePlan,
    noisy: Array,
    done: int,
    asked: ConstraintSet,
    previous: Array | None,
    processes: Sequence[str] | None,
) -> Array:
    """What the estimator makes of the steps from `done` on, under these constraints."""
    now = len(noisy)
    if now == done:
        return np.empty((0, len(release.cells)))
    constraints = replace(asked, first_step=done)
    try:
        return release.estimator.estimate_series(
            np.asarray(noisy, dtype=np.float64),
            _scales(plan, release, now, done),
            done,
            law_of(plan, release),
            constraints,
            previous,
            plan.delivery.longest_wait,
            balanced=release.balanced,
            processes=processes,
            offset=_offset(plan, release),
        )
    except ReleaseError:
        # No values are both probable and allowed. Noise is spent by now, so the nearest allowed ones are published.
        return nearest_values(np.asarray(noisy[done:], dtype=np.float64), constraints, previous)


def estimated_under(plan: Plan, release: ReleasePlan) -> ConstraintSet:
    """The constraints of the estimator: of a level that agrees its total alone, as the rest is kept together."""
    tree = next((tree for tree in plan.trees if release.name in tree.names), None)
    return release.constraint_set if tree is None else tree.summing(len(release.cells))


def published_values(
    plan: Plan, release: ReleasePlan, noisy: Array, published: Array, processes: Sequence[str] | None = None
) -> Array:
    """The same with the digits that the plan's noise leaves: what runs publish, and whoever has the ledger finds again.

    Of levels that agree `noisy` are what `agreed` makes of all of them.
    A value that is not a whole number has at least one decimal, and a step of rounding is at most a thousandth of the
    noise that the plan expects, wherever constraints can be kept so.
    """
    previous = np.asarray(published[-1], dtype=np.float64) if len(published) else None
    if plan.agrees(release.name):  # and was estimated and rounded together
        values = np.asarray(noisy[len(published) :], dtype=np.float64)
        release.constraint_set.check(values, previous)
        return values
    values = estimate_release(plan, release, noisy, published, processes)
    return rounded_values(values, decimals(_typical_noise(plan, release)), release.constraint_set, previous)


def _typical_noise(plan: Plan, release: ReleasePlan) -> float:
    """By how much noisy values are off, or published ones where that is not known."""
    noise = release.predicted.without_postprocessing
    noise = release.predicted.published if noise is None else noise
    return math.sqrt(max(noise, 0.0)) if plan.objective == "mean_squared_error" else noise


def agreed(
    plan: Plan,
    noisy: Mapping[str, Array],
    first: int = 0,
    published: Mapping[str, Array] | None = None,
    processes: Mapping[str, Sequence[str] | None] | None = None,
    *,
    every_digit: bool = False,
) -> dict[str, Array]:
    """Noisy values of all releases, (steps, cells), those of levels that agree estimated and made so.

    What releases that agree publish is this, so that it is a function of the plan and of noisy values alone.

    Args:
        plan: of the releases.
        noisy: of all steps so far.
        first: the first step that is not published.
        published: of the steps before it, where constraints tie steps.
        processes: by release what `processes_used` said of the steps from `first` on; None to find out here.
        every_digit: whether only whole numbers are rounded.
    """
    found = dict(noisy)
    for tree in plan.trees:
        parts = [plan.release_named(name) for name in tree.names]
        steps = len(noisy[tree.names[0]])
        if steps <= first:
            continue
        used = [None if processes is None else processes.get(name) for name in tree.names]
        asked = [tree.summing(len(part.cells)) for part in parts]
        values = [
            np.asarray(noisy[part.name][first:], np.float64)
            if isinstance(part.estimator, NearestValues)
            else _estimated(plan, part, noisy[part.name], first, alone, None, told)
            for part, alone, told in zip(parts, asked, used, strict=True)
        ]
        variances = [each[first:] for each in level_variances(plan, tree, steps)]
        digits = digits_of(tree, {part.name: _typical_noise(plan, part) for part in parts})
        before = None
        if first and published is not None:
            before = [np.asarray(published[name][first - 1], np.float64) for name in tree.names]
        rounding = tree.units if every_digit else digits
        for part, rows in zip(parts, tree.nearest(values, variances, rounding, before), strict=True):
            found[part.name] = np.vstack([noisy[part.name][:first], rows])
    return found


def level_variances(plan: Plan, tree: Levels, steps: int) -> list[Array]:
    """Of what each level has by itself, (steps,): of its noise, as if it were new for every value, or its estimates."""
    return [_level_variance(plan, plan.release_named(name), steps) for name in tree.names]


def _level_variance(plan: Plan, part: ReleasePlan, steps: int) -> Array:
    from policyc_runtime.noisy_values import noise_stddevs

    error = part.predicted.before_agreeing
    if error is None:
        return as_independent(noise_stddevs(plan, part, steps) ** 2, len(part.cells), balanced=part.balanced)
    return np.full(steps, error if plan.objective == "mean_squared_error" else error**2)


def as_independent(variance: Number, cells: int, *, balanced: bool) -> Number:
    """The variance of noise that is new for every value, and varies beside a known sum as that of a release does."""
    return variance * cells / (cells - 1) if balanced else variance


def _scales(plan: Plan, release: ReleasePlan, steps: int, first: int = 0) -> Array:
    """Laplace scales of the noise, (steps,), 0 without a value; of other noise, those of the same variance.

    Those before the `first` step are 0, too, where the estimator asks for none of them.
    """
    if release.schedule is not None:
        begin = first // STRETCH * STRETCH if release.estimator.of_one_step else 0
        stop = begin + (1 << (steps - begin).bit_length())
        if not begin:
            return _scheduled(release.schedule, 0, min(stop, release.schedule.length or stop))[:steps]
        found = np.zeros(steps)
        found[begin:] = _scheduled(release.schedule, begin, min(stop, release.schedule.length or stop))[: steps - begin]
        return found
    from policyc_runtime.noisy_values import own_stddevs

    return np.nan_to_num(own_stddevs(plan, release, steps) / math.sqrt(2))


@lru_cache(maxsize=16)  # a run asks after every few steps
def _scheduled(schedule: Schedule, first: int, stop: int) -> Array:
    """The scales of some steps, not to be written to."""
    each = np.array([float(scale) for segment in schedule.segments for scale in segment.scales])
    found = np.asarray(each[schedule.runs.places(np.arange(first, stop))])
    found.setflags(write=False)
    return found


def _offset(plan: Plan, release: ReleasePlan) -> Offset:
    """What noisy values of a measured release are off by together."""
    from policyc_runtime.noisy_values import offset_of

    return offset_of(plan, release)
