"""Several measured releases under one promise about all events of a user: their noise, and which are measured at all.

All get more noise than alone, so that what they tell together is the promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import cast

import numpy as np

from policyc.offers import AtDelta, Goal
from policyc.offers.goals import Added
from policyc.planning.agreement import least_parts
from policyc.planning.candidates import Refused
from policyc.planning.draft import Draft
from policyc.planning.expected_errors import PlannedRelease
from policyc.planning.measurements import Measurement, Objective, of_variances
from policyc.planning.series import Pair
from policyc.planning.several_promises import within
from policyc.planning.total_errors import least_together, weights
from policyc.semantics.policy import Policy


def measuring_totals(policy: Policy, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
    """Running totals and windows are measured by themselves where that lowers the error of all releases together."""
    if policy.budget.name == "parts":  # which are of counts and sums
        return planned
    for index, one in enumerate(planned):
        usable = [entry for entry in one.others if isinstance(entry, Pair)]
        if one.pair is not None or not usable:
            continue
        best = min(usable, key=lambda entry: entry.mean_error(policy.objective))
        others = tuple(entry for entry in one.others if entry is not best)
        measured = [*planned[:index], replace(one, pair=best, others=others), *planned[index + 1 :]]
        costs = [
            least_together(_weights(policy, entries), policy.objective, goal.power) for entries in (planned, measured)
        ]
        if costs[1] < costs[0]:
            reason = f"all releases together would have {costs[0] / costs[1]:.3g} times the error, in units of a user"
            measured[index] = replace(measured[index], others=(Refused("derived", reason), *others))
            planned = measured
    return planned


def composed(policy: Policy, draft: Draft, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
    """All measured releases with noise for the whole promise together, of the mechanisms that are best together.

    What one release would lose least by need not be best beside others: of many losses those of Gaussian noise add up
    slowest.
    """
    found = _sharing(policy, draft, goal, planned)
    measured = [one for one in planned if one.pair is not None]
    if policy.mechanism.name != "auto" or not isinstance(goal, AtDelta) or len(measured) == 1:
        return found
    other = [_gaussian(one) for one in planned]
    if other == planned or None in other:
        return found
    shared = _sharing(policy, draft, goal, cast(list[PlannedRelease], other))
    costs = [sum(errors_together(policy, entries).values()) for entries in (shared, found)]
    if not costs[0] < costs[1]:
        return found
    reason = f"all releases together would have {costs[1] / costs[0]:.3g} times the error, in units of a user"
    return [one if one.pair is None else _beside_others(one, policy.objective, reason) for one in shared]


def _gaussian(one: PlannedRelease) -> PlannedRelease | None:
    """A release with Gaussian noise, where that was a choice; None where it was not."""
    if one.pair is None or one.pair.measurement.mechanism.name == "gaussian":
        return one
    usable = (entry for entry in one.others if isinstance(entry, Pair))
    pair = next((entry for entry in usable if entry.measurement.mechanism.name == "gaussian"), None)
    if pair is None:
        return None
    others = (one.pair, *(entry for entry in one.others if entry is not pair))
    return replace(one, pair=pair, estimator=pair.estimator, others=others)


def _beside_others(one: PlannedRelease, objective: Objective, reason: str) -> PlannedRelease:
    """A release whose mechanism has less error than others only beside other releases, and says so of these."""
    assert one.pair is not None, "it is measured"
    least = one.pair.mean_error(objective)
    others = (
        Refused(entry.measurement.mechanism.name, reason)
        if isinstance(entry, Pair) and entry.mean_error(objective) < least
        else entry
        for entry in one.others
    )
    return replace(one, others=tuple(others))


def errors_together(policy: Policy, planned: Sequence[PlannedRelease]) -> dict[str, float]:
    """By measured release, the error of its values with noise for its share, by the law of that noise."""
    shared = {one.draft.name: one.measurement for one in planned if one.measurement is not None}
    as_normal = weights([one.draft for one in planned], shared, policy.objective, policy.weight_of)
    normal = {name: of_variances(entry.variances(), policy.objective) for name, entry in shared.items()}
    own = {name: entry.mean_error(policy.objective) / float(np.nanmean(normal[name])) for name, entry in shared.items()}
    return {name: error * own[name] for name, error in as_normal.items()}


def _weights(policy: Policy, planned: Sequence[PlannedRelease]) -> dict[str, float]:
    alone = {one.draft.name: one.alone for one in planned if one.alone is not None}
    return weights([one.draft for one in planned], alone, policy.objective, policy.weight_of)


def _sharing(policy: Policy, draft: Draft, goal: Goal, planned: list[PlannedRelease]) -> list[PlannedRelease]:
    """All measured releases with noise for the whole promise together."""
    alone = [one.alone for one in planned if one.alone is not None]
    if policy.budget.name == "parts":
        assert isinstance(goal, Added), "checked before"
        given = {name: replace(goal, limit=cast(Decimal, part)) for name, part in policy.budget.arguments.items()}
        return [
            one if one.alone is None else replace(one, measurement=one.alone.fitted(given[one.draft.name]))
            for one in planned
        ]
    if len(alone) == 1:
        return [replace(one, measurement=one.alone) for one in planned]
    by_name = {one.draft.name: one.alone for one in planned if one.alone is not None}
    least = least_parts(policy, draft, by_name, _weights(policy, planned), goal.power)
    if isinstance(goal, AtDelta):
        shared = _within(goal, alone, [part ** (-1 / goal.power) for part in least])
    else:
        each = goal.parts(least)
        shared = [entry.fitted(part) for entry, part in zip(alone, each, strict=True)]
    finished = iter(shared)
    return [one if one.alone is None else replace(one, measurement=next(finished)) for one in planned]


def _within(goal: AtDelta, alone: Sequence[Measurement], factors: Sequence[float]) -> list[Measurement]:
    """Measurements whose curves together keep a goal, with about these factors of what each alone would need."""
    shared = [entry.noisier(factor) for entry, factor in zip(alone, factors, strict=True)]
    found = within(goal, [(entry.mechanism, entry.setting) for entry in shared])
    return [replace(entry, mechanism=mechanism) for entry, mechanism in zip(shared, found, strict=True)]
