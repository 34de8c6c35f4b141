"""Levels that agree: what their values err once they are made to, and which parts of the promise make that least."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from policyc.planning.comparison import ADAPTS
from policyc.planning.draft import Draft
from policyc.planning.expected_errors import BOUNDED, FAR, GAINS, ROUNDED, Found
from policyc.planning.measurements import Measurement, Objective, of_variances, parts
from policyc.planning.sharing import SMALLEST
from policyc.planning.trials import SEED
from policyc.semantics.policy import Policy
from policyc_check.users.noise import DiscreteGaussian
from policyc_runtime.agreement import Levels
from policyc_runtime.crossed_levels import Crossed
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.mechanisms.window_mechanism import STILL_RUNS, over_all, still_away
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]

MOST_VALUES = 200_000  # of noise that is drawn
STILL = f"{FAR}, after the least squares of levels that agree"
PROGRAMS = 400  # steps of it where each asks for one


def agreed_errors(
    draft: Draft, measured: Mapping[str, Measurement], objective: Objective, estimated: Collection[str] = ()
) -> dict[str, Found]:
    """By release that agrees with others, what is known of the errors of its values; `estimated` are not noisy ones."""
    found: dict[str, Found] = {}
    for tree in draft.trees:
        if not set(tree.names).isdisjoint(estimated):
            noise = "law of the noise alone: no signal says how values move, so what the estimator gains is not known"
            found |= {
                name: Found("noise", noise, measured[name].errors(objective), because=GAINS) for name in tree.names
            }
            continue
        entries = [measured[name] for name in tree.names]
        rules = [entry.mechanism for entry in entries if isinstance(entry.mechanism, WindowMechanism)]
        if rules:
            units = [float(entry.unit) for entry in entries]
            variances = [float(entry.variances()[0]) for entry in entries]
            errors = still_errors(tree, rules, units, variances, entries[0].setting.horizon, objective)
            still = [Found("at_least", STILL, np.full(entries[0].steps, error), because=ADAPTS) for error in errors]
            found |= {
                name: _near_bounds(one) if tree.bounded else one for name, one in zip(tree.names, still, strict=True)
            }
            continue
        normal = objective == "mean_squared_error" or all(_normal(entry) for entry in entries)
        told = _computed(tree, entries, objective) if normal else None
        if told is None or tree.whole:  # what is added up of few Laplace draws is neither Laplace nor normal
            told = _drawn(tree, entries, objective, told)
        found |= {name: _near_bounds(one) if tree.bounded else one for name, one in zip(tree.names, told, strict=True)}
    return found


def _near_bounds(found: Found) -> Found:
    """What holds far from all bounds: near them they take error away, as no level moves those above it."""
    return replace(found, kind="unconstrained", because=found.because or BOUNDED)


def still_errors(
    tree: Levels,
    rules: Sequence[WindowMechanism],
    units: Sequence[float],
    variances: Sequence[float],
    horizon: int | None,
    objective: Objective,
) -> list[float]:
    """The mean error of every release whose values are published again, while they stand still far above the noise.

    Args:
        tree: of these releases.
        rules: of each, how it publishes.
        units: of each, what its counts stand for in published values.
        variances: of each, what its values are off by themselves: squared, a mean over all steps.
        horizon: of the stream.
        objective: what error counts.
    """
    if objective == "mean_squared_error":  # each value is off by as much up as down, and none with another
        return of_tree(tree, variances, objective)
    told = enumerate(zip(rules, tree.sizes, strict=True))
    away = [still_away(rule, size, horizon, STILL_RUNS, seed) for seed, (rule, size) in told]
    free, errors = replace(tree.unbounded, total=None if tree.total is None else 0.0), []
    for one in zip(*away, strict=True):
        runs = min(map(len, one))
        spread = [np.full(runs, variance) for variance in variances]
        found = free.nearest([rows[:runs] * unit for rows, unit in zip(one, units, strict=True)], spread)
        errors.append([float(np.abs(rows).mean()) for rows in found])
    return [over_all(level, horizon) for level in zip(*errors, strict=True)]


def _computed(tree: Levels, entries: Sequence[Measurement], objective: Objective) -> list[Found]:
    """Of the values of each level, by their variances."""
    rows, steps = np.unique(np.stack([entry.variances() for entry in entries], axis=1), axis=0, return_inverse=True)
    errors = np.array([of_tree(tree, row, objective) for row in rows])[steps.ravel()]  # (steps, releases)
    method = "law of the noise after the least squares of levels that agree"
    return [Found("expected", method, level) for level in errors.T]


def _drawn(
    tree: Levels, entries: Sequence[Measurement], objective: Objective, computed: Sequence[Found] | None
) -> list[Found]:
    """The same of noise that is drawn, far from all bounds; of `computed` ones, what whole numbers add to them is."""
    count = max(MOST_VALUES // max(map(len, tree.above)), 16)
    if isinstance(tree, Crossed) and tree.nearest_whole:
        count = min(count, PROGRAMS)
    noises, randomness = [], SimulationRandomness(SEED)
    for entry in entries:
        steps = min(count, entry.steps)
        raw = np.zeros((steps, entry.setting.cells), np.int64)
        turns = [entry.mechanism.measure(entry.setting, raw, (), randomness) for _ in range(-(-count // steps))]
        values = [entry.mechanism.values(entry.setting, turn) for turn in turns]
        noises.append(np.vstack(values)[:count] * float(entry.unit))
    variances = [np.resize(entry.variances(), count) for entry in entries]
    # anywhere, as what lies halfway between whole numbers goes to the even one
    unit = 1.0 if tree.total is not None else float(entries[0].unit)
    drawn = np.random.default_rng(SEED)
    anywhere = [np.rint(1_000 * drawn.random(noise.shape)) for noise in noises]
    true = [unit * value for value in tree.free.agreeing(anywhere, variances, [0] * len(entries))]
    found = tree.unbounded.nearest(
        [value + noise for value, noise in zip(true, noises, strict=True)], variances, tree.units
    )
    zero = None if tree.total is None else 0.0
    missed = [value - one for value, one in zip(found, true, strict=True)]
    real = None if computed is None else replace(tree.unbounded, total=zero).nearest(noises, variances)
    method = "noise through the least squares of levels that agree, simulated"
    if tree.whole:
        method = "noise through the least squares of levels that agree and their whole numbers, simulated"
    told = []
    for level, entry in enumerate(entries):
        means, known = _errors(missed[level], objective), 0.0
        if computed is not None and real is not None and _typical(computed[level], objective) >= ROUNDED:
            means, known = means - _errors(real[level], objective), _mean(computed[level])
        error, stderr = known + float(means.mean()), float(means.std(ddof=1) / math.sqrt(count))
        told.append(Found("simulated", method, np.full(entry.steps, error), stderr))
    return told


def _mean(found: Found) -> float:
    """Over all steps."""
    return 0.0 if found.errors is None else float(found.errors.mean())


def _typical(found: Found, objective: Objective) -> float:
    """The same in the unit of values."""
    return math.sqrt(_mean(found)) if objective == "mean_squared_error" else _mean(found)


def _errors(missed: Array, objective: Objective) -> Array:
    """The mean error of each step, (steps,)."""
    return np.asarray((missed**2 if objective == "mean_squared_error" else np.abs(missed)).mean(axis=1))


def _normal(entry: Measurement) -> bool:
    return isinstance(getattr(entry.mechanism, "law", None), DiscreteGaussian)


def of_tree(tree: Levels, variances: Sequence[float] | Array, objective: Objective) -> list[float]:
    """The mean error of the values of every release."""
    return [float(np.mean(of_variances(found, objective))) for found in tree.variances(list(variances))]


def least_parts(
    policy: Policy, draft: Draft, alone: Mapping[str, Measurement], errors: Mapping[str, float], power: int
) -> list[float]:
    """What part of the promise each measured release gets, so that the sum of errors of published values is least.

    Args:
        policy: says which errors are added up, and how often each counts.
        draft: what is measured, and which of it agrees.
        alone: by name, with noise as if each had the whole promise.
        errors: by name, of the values of each and what is made of them, then, in units of a user and as often as they
            count.
        power: with f times as much noise a release takes 1 / f^power of the promise.
    """
    agreeing = {name for tree in draft.trees for name in tree.names}
    sizes = {name: (float(alone[name].unit) * alone[name].setting.contribution) ** 2 for name in agreeing}
    variances = {name: float(np.mean(alone[name].variances())) / sizes[name] for name in agreeing}
    counts = {name: policy.weight_of(name) for name in agreeing}
    found = np.array(least_cost(draft.trees, errors, variances, counts, policy.objective, power))
    if any(isinstance(entry.mechanism, WindowMechanism) for entry in alone.values()):
        found = np.maximum(found, SMALLEST)  # what has next to nothing would hardly be published
    return [float(part) for part in found / found.sum()]


def least_cost(
    trees: Sequence[Levels],
    errors: Mapping[str, float],
    variances: Mapping[str, float],
    counts: Mapping[str, float],
    objective: Objective,
    power: int,
) -> list[float]:
    """Parts of the promise for which errors cost least.

    Args:
        trees: releases that agree.
        errors: by name of every release, what its values cost with noise as if it had the whole promise.
        variances: by name of those that agree, of that noise.
        counts: by name of those that agree, how often the mean error of a value counts.
        objective: the unit of errors.
        power: with f times as much noise a release takes 1 / f^power of the promise.
    """
    start, names = parts(list(errors.values()), objective, power), list(errors)
    if not trees:
        return start
    from scipy.optimize import minimize

    least = SMALLEST if any(isinstance(tree, Crossed) for tree in trees) else 0.0  # whose least squares lose digits

    def divided(free: Array) -> Array:
        powers = np.exp(free - free.max())
        kept: Array = np.maximum(powers / powers.sum(), least)
        return kept

    def error(free: Array) -> float:
        squares = dict(zip(names, (divided(free) ** (-2 / power)).tolist(), strict=True))  # f^2
        degree = 1.0 if objective == "mean_squared_error" else 0.5
        total = sum(errors[name] * squares[name] ** degree for name in names if name not in variances)
        for tree in trees:
            levels = of_tree(tree, [variances[name] * squares[name] for name in tree.names], objective)
            total += sum(counts[name] * error for name, error in zip(tree.names, levels, strict=True))
        return math.log(total)

    found = divided(minimize(error, np.log(start), method="L-BFGS-B", options={"maxiter": 60}).x)
    return [float(part) for part in found / found.sum()]
