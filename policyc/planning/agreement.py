"""Levels that agree: what their values err once they are made to, and which parts of the promise make that least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from policyc.planning.draft import Draft
from policyc.planning.measurements import Measurement, Objective, of_variances, parts
from policyc.planning.trials import SEED, Estimated
from policyc.semantics.policy import Policy
from policyc_check.users.noise import DiscreteGaussian
from policyc_runtime.agreement import Tree
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]

MOST_VALUES = 400_000  # of noise that is drawn


def agreed_errors(draft: Draft, measured: Mapping[str, Measurement], objective: Objective) -> dict[str, Array]:
    """By release that agrees with others, the mean error of its values at every step, (steps,), as far as computed.

    Absolute errors of Laplace noise are not: what is added up of few draws is neither Laplace nor normal.
    """
    found: dict[str, Array] = {}
    for tree in draft.trees:
        entries = [measured[name] for name in tree.names]
        if objective == "mean_absolute_error" and not all(_normal(entry) for entry in entries):
            continue
        rows, steps = np.unique(np.stack([entry.variances() for entry in entries], axis=1), axis=0, return_inverse=True)
        errors = np.array([_of_tree(tree, row, objective) for row in rows])  # (rows, releases)
        found |= {name: errors[steps.ravel(), place] for place, name in enumerate(tree.names)}
    return found


def drawn_errors(draft: Draft, measured: Mapping[str, Measurement]) -> dict[str, Estimated]:
    """The mean absolute error of the others, of noise that is drawn."""
    found: dict[str, Estimated] = {}
    for tree in draft.trees:
        entries = [measured[name] for name in tree.names]
        if all(_normal(entry) for entry in entries):
            continue
        count = max(MOST_VALUES // len(tree.above[0]), 16)
        noises, randomness = [], SimulationRandomness(SEED)
        for entry in entries:
            steps = min(count, entry.steps)
            raw = np.zeros((steps, entry.setting.cells), np.int64)
            turns = [entry.mechanism.measure(entry.setting, raw, (), randomness) for _ in range(-(-count // steps))]
            values = [entry.mechanism.values(entry.setting, turn) for turn in turns]
            noises.append(np.vstack(values)[:count] * float(entry.unit))
        variances = [np.resize(entry.variances(), count) for entry in entries]
        for name, missed in zip(tree.names, tree.nearest(noises, variances), strict=True):
            means = np.abs(missed).mean(axis=1)
            found[name] = Estimated(float(means.mean()), float(means.std(ddof=1) / math.sqrt(count)))
    return found


def _normal(entry: Measurement) -> bool:
    return isinstance(getattr(entry.mechanism, "law", None), DiscreteGaussian)


def _of_tree(tree: Tree, variances: Sequence[float] | Array, objective: Objective) -> list[float]:
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
    objective = policy.objective
    start = parts(list(errors.values()), objective, power)
    trees, names = draft.trees, list(errors)
    if not trees:
        return start
    from scipy.optimize import minimize

    agreeing = {name for tree in trees for name in tree.names}
    variances = {name: float(np.mean(alone[name].variances())) for name in agreeing}
    sizes = {name: (float(alone[name].unit) * alone[name].setting.contribution) ** 2 for name in agreeing}

    def divided(free: Array) -> Array:
        powers = np.exp(free - free.max())
        return np.asarray(powers / powers.sum())

    def error(free: Array) -> float:
        squares = dict(zip(names, (divided(free) ** (-2 / power)).tolist(), strict=True))  # f^2
        degree = 1.0 if objective == "mean_squared_error" else 0.5
        total = sum(errors[name] * squares[name] ** degree for name in names if name not in agreeing)
        for tree in trees:
            noise = [variances[name] * squares[name] / sizes[name] for name in tree.names]
            counts = [policy.weight_of(name) for name in tree.names]
            total += sum(c * error for c, error in zip(counts, _of_tree(tree, noise, objective), strict=True))
        return math.log(total)

    found = divided(minimize(error, np.log(start), method="L-BFGS-B", options={"maxiter": 60}).x)
    return [float(part) for part in found / found.sum()]
