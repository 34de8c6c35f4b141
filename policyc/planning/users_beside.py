"""Promises about all events of one user beside those about steps: budgets are cut at a level until all are kept.

Neighbors differ in the costliest steps at worst, so that cutting those costs least. Fewer nats at some steps never
raise leakage anywhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from policyc.planning.schedules import Floats, Run, exact, expand
from policyc_check.plan.targets import AnyUserSteps, UserSteps, UserStepsRho
from policyc_check.rounding import rounded_up
from policyc_check.steps.users import costliest, differing_steps, kept

FINE = 1e-9  # relative width at which a level is found where something is left to chance


def cut(runs: Sequence[Run], users: Sequence[AnyUserSteps]) -> tuple[Run, ...]:
    """Budgets that keep every promise: each as it was, or the level at which all are cut."""
    found = tuple(runs)
    for target in users:
        level = _level(found, target)
        found = tuple(replace(run, epsilon=min(run.epsilon, level)) for run in found)
    return found


def _level(runs: Sequence[Run], target: AnyUserSteps) -> float:
    endless = runs[-1].steps is None
    budgets = _looked_at(runs, target.window or 1)
    differing = differing_steps(target, None if endless else len(budgets))
    spent = costliest(budgets, target.window or len(budgets), differing)
    spent = np.full(differing, spent[0]) if endless and target.window is None else spent[spent > 0]
    if not len(spent) or _keeps(spent, float(spent[0]), target):
        return float(budgets.max())
    if isinstance(target, UserStepsRho):
        alike = math.sqrt(2 * target.rho / len(spent))
    else:
        alike = float(target.epsilon) / len(spent)
    low = alike / (1 + 1e-12)  # so that roundings do not add up to more
    high, fine = float(spent[0]), FINE if isinstance(target, UserSteps) and target.delta else 1e-15
    while high - low > fine * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _keeps(spent, middle, target) else (low, middle)
    return low


def _looked_at(runs: Sequence[Run], width: int) -> Floats:
    """The budgets of all steps; of an endless stream, so many that every `width` steps in a row are among them."""
    *begin, last = runs
    enough = last.period * (-(-width // last.period) + 1)
    return expand([*begin, last if last.steps is not None else replace(last, steps=enough)])


def _keeps(spent: Floats, level: float, target: AnyUserSteps) -> bool:
    often = Counter(np.minimum(spent, level).tolist())
    costs = [(Fraction(rounded_up(exact(budget))), times) for budget, times in often.items()]  # as the check rounds
    return kept(costs, target)[0]
