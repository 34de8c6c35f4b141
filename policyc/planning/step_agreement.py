"""Levels that agree where steps have budgets: which part of them each level gets, and what its values err."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from policyc.planning.agreement import STILL, least_cost, of_tree, still_errors
from policyc.planning.comparison import Choice, Comparison, mean_error
from policyc.planning.draft import draft_of
from policyc.planning.expected_errors import BOUNDED, GAINS
from policyc.planning.sharing import SMALLEST
from policyc.semantics.policy import Policy, Release
from policyc_runtime.agreement import Levels
from policyc_runtime.estimates import as_independent
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.projection import NearestValues
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease, BudgetedRelease

NATS = Decimal("0.01")  # noise this large is as good as continuous
LEAST = 1e-9  # error of a level by itself, where nothing is uncertain
COMPUTED = "law of the noise after the least squares of levels that agree; schedules are compared by the noise alone"
NOISE = "how much error least squares take away, of absolute or rounded values of levels that agree, has no formula"


def agrees(policy: Policy, name: str) -> bool:
    """Whether the values of a release add up to those of another, or others to them."""
    return any(name in (one.parent, block.release) for block in policy.postprocess for one in block.agreements)


def agreeing_trees(policy: Policy) -> list[Levels]:
    """The releases that agree, with what their values add up to where their noise says so."""
    if not any(agrees(policy, release.name) for release in policy.releases):
        return []
    balanced = {release.name for release in policy.releases if policy.balances(release)}
    return [
        replace(tree, total=tree.total or policy.stream.population) if balanced & set(tree.names) else tree
        for tree in draft_of(policy).trees
    ]


def level_demands(policy: Policy, release: Release) -> ConstraintSet | None:
    """What the values of a level are estimated under by themselves; None for a release that agrees with no other."""
    tree = next((tree for tree in agreeing_trees(policy) if release.name in tree.names), None)
    return None if tree is None else tree.summing(len(policy.stream.values_by(release.by)))


def weighed(policy: Policy, choices: Sequence[Choice]) -> list[Choice]:
    """The choices, where levels that agree are estimated with what each errs by itself, which then weighs it."""
    found = []
    for release, one in zip(policy.releases, choices, strict=True):
        told = {"before_agreeing": max(one.predicted.published, LEAST)}
        estimated = agrees(policy, release.name) and not isinstance(one.estimator, NearestValues)
        found.append(replace(one, predicted=one.predicted.model_copy(update=told)) if estimated else one)
    return found


def least_step_parts(policy: Policy, tables: Sequence[Comparison]) -> list[float] | None:
    """What part of every step's budget each release gets, so that all values err least once levels agree.

    None where none do. `tables` are those of all releases. Sums of what lies below tell a level nearly as much
    as noisy values of its own; these get some of the budget all the same, as they are published too.
    """
    if not any(agrees(policy, release.name) for release in policy.releases):
        return None
    by_name = {release.name: table for release, table in zip(policy.releases, tables, strict=True)}
    trees = agreeing_trees(policy)
    scales = {name: table.mechanism.calibrate(NATS) for name, table in by_name.items()}
    counts = {name: policy.weight_of(name) * table.values for name, table in by_name.items()}
    errors = {name: counts[name] * table.predictor.noise_error(float(scales[name])) for name, table in by_name.items()}
    variances = {
        name: as_independent(
            by_name[name].mechanism.variance(scales[name]),
            by_name[name].values,
            balanced=by_name[name].predictor.balanced,
        )
        for tree in trees
        for name in tree.names
    }
    found = np.maximum(least_cost(trees, errors, variances, counts, policy.objective, 1), SMALLEST)
    return [float(part) for part in found / found.sum()]


def is_computed(plan: Plan, tree: Levels) -> bool:
    """Whether a formula has the errors of values that agree: squared ones of noise, without bounds or whole numbers."""
    noise = all(isinstance(plan.release_named(name).estimator, NearestValues) for name in tree.names)
    return plan.objective == "mean_squared_error" and noise and not tree.bounded and not tree.whole


def with_agreement(plan: Plan, choices: Sequence[Choice]) -> list[Choice]:
    """The choices of all releases, with errors of those that agree: without bounds, or else those of their noise.

    Args:
        plan: of these choices.
        choices: one a release, whose errors are those of each level by itself.
    """
    found = {part.name: choice for part, choice in zip(plan.scheduled, choices, strict=True)}
    for tree in plan.trees:
        rules = [part for part in map(plan.release_named, tree.names) if isinstance(part, AdaptiveRelease)]
        squared = is_computed(plan, tree.unbounded)
        levels = _of_levels(plan, tree) if squared and not rules else None
        still = _of_still_levels(plan, tree, rules) if rules else []
        for index, name in enumerate(tree.names):
            one = found[name]
            if rules:
                found[name] = _as_still(one, still[index], bounded=tree.bounded)
                continue
            if levels is None:
                found[name] = _as_noise(one, NOISE if isinstance(one.estimator, NearestValues) else GAINS)
                continue
            errors = tuple(tuple(row[index] for row in pattern) for pattern in levels)
            told = {
                "kind": "unconstrained" if tree.bounded else "expected",
                "because": BOUNDED if tree.bounded else None,
                "published": mean_error(one.allocation, errors),
                "method": COMPUTED,
            }
            found[name] = replace(one, predicted=one.predicted.model_copy(update=told), expected_errors=errors)
    return list(found.values())


def _of_levels(plan: Plan, tree: Levels) -> list[list[list[float]]]:
    """By run, step of its pattern and level, the mean squared error of a value."""
    parts = [plan.release_named(name) for name in tree.names]
    known: dict[tuple[Decimal, ...], list[float]] = {}
    found = []
    for segments in zip(*(part.schedule.segments for part in parts if part.schedule is not None), strict=True):
        pattern = list(zip(*(segment.scales for segment in segments), strict=True))
        for scales in pattern:
            if scales not in known:
                variances = [
                    as_independent(part.mechanism.variance(scale), len(part.cells), balanced=part.balanced)
                    for part, scale in zip(parts, scales, strict=True)
                    if isinstance(part, BudgetedRelease)
                ]
                known[scales] = of_tree(tree, variances, plan.objective)
        found.append([known[scales] for scales in pattern])
    return found


def _of_still_levels(plan: Plan, tree: Levels, parts: Sequence[AdaptiveRelease]) -> list[float]:
    """By level, the error while counts stand still: of all steps, as these are known by their mean alone."""
    rules = [part.mechanism for part in parts]
    variances = [rule.variance(rule.still_scale) for rule in rules]
    return still_errors(tree, rules, [1.0] * len(rules), variances, plan.stream.horizon, plan.objective)


def _as_still(one: Choice, error: float, *, bounded: bool) -> Choice:
    """The choice with this error at every step."""
    kind, method = "unconstrained" if bounded else "at_least", f"{STILL}: what counts that move add to it is not known"
    told = {"kind": kind, "published": error, "method": method}
    errors = tuple(tuple(error for _ in pattern) for pattern in one.expected_errors)
    return replace(one, predicted=one.predicted.model_copy(update=told), expected_errors=errors)


def _as_noise(one: Choice, because: str) -> Choice:
    """The choice of whose error no more is known than that of its noise."""
    noise, mean = one.predicted.without_postprocessing, one.predicted.published
    assert noise is not None, "of what is drawn at every step anew it is known"
    factor = noise / mean if mean > 0 else 0.0
    errors = tuple(tuple(factor * error for error in pattern) for pattern in one.expected_errors)
    told = {"kind": "noise", "because": because, "published": noise}
    return replace(one, predicted=one.predicted.model_copy(update=told), expected_errors=errors)
