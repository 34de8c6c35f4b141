"""Constant budgets accounted for every pair of states by itself: larger where those that leak most are far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from policyc.planning.leakage.inheritance import shown_by_pairs
from policyc.planning.leakage.pairs import largest_budget
from policyc.planning.leakage.stretches import LONGEST
from policyc.planning.promise import Promise
from policyc.planning.schedules import Allocation, Group, Run, expand
from policyc_check.steps.chains import Chain

WORTH = 1e-3  # relative gain of budgets from which pairs are accounted for
_SLACK = (1e-8, 1e-6, 1e-4)  # of the promise, for what bounds are raised by


def allocate_by_pairs(
    name: str, promise: Promise, horizon: int | None, groups: Sequence[Group], found: Allocation | None
) -> Allocation | None:
    """A constant budget that keeps a promise about single steps for ever, with larger ends where `name` has them.

    Args:
        name: `uniform`, `bounded` or `quantified`.
        promise: what may leak.
        horizon: steps, None for no end.
        groups: all users.
        found: the same schedule by the recursion; None where there is none.

    Returns:
        None where nothing is known of pairs, or they gain nothing over `found`.
    """
    if max(window for _, window in promise.limits) > 1 or (horizon is not None and horizon < 3):
        return None
    least = 0.0 if found is None else max(run.epsilon for run in sorted(found.runs, key=_length)[-1:])
    ended = None if horizon is None else horizon - 1
    steps = {"uniform": (ended,), "bounded": (None,), "quantified": (None, ended)}[name]
    for slack in _SLACK:
        for most in steps:  # larger ends need bounds that hold after any number of steps, where there are any
            sides = [largest_budget(group.chain, promise.nats * (1 - slack), most) for group in groups]
            kept = [side for side in sides if side is not None]
            if len(kept) == len(groups):
                break
        else:
            return None
        epsilon = min(side.epsilon for side in kept)
        first = last = epsilon
        if name == "quantified":
            ends = [side.free_ends(epsilon, promise.nats * (1 - slack)) for side in kept]
            first, last = (max(epsilon, min(values)) for values in zip(*ends, strict=True))
        leakage = max(side.largest(epsilon, first, last) for side in kept)
        if leakage <= promise.nats * (1 - 1e-12):
            break
    else:
        return None
    runs: tuple[Run, ...] = (Run(epsilon, horizon),)
    if horizon is not None and max(first, last) > epsilon:
        runs = (Run(first, 1), Run(epsilon, horizon - 2), Run(last, 1))
    if epsilon <= least * (1 + WORTH) or (found is not None and _power(runs) >= _power(found.runs)):
        return None
    if not all(_shown(runs, group.chain, promise.nats) for group in groups):
        return None  # of dozens of nats: bounds differ by less than what is rounded
    return Allocation(name, runs, tuple(group.with_lags((1,)) for group in groups), leakage)


def _shown(runs: Sequence[Run], chain: Chain, nats: float) -> bool:
    """Whether the check accepts bounds by which these budgets leak no more."""
    endless = runs[-1].steps is None
    # of each run three steps are like all others: a first, a last, and between
    some = [run.epsilon for run in runs for _ in range(min(run.steps or 1, 3))]
    horizon = None if endless else sum(run.steps or 0 for run in runs)
    budgets = expand(runs) if horizon is not None and horizon <= LONGEST + 1 else np.array(some)
    found = shown_by_pairs(chain, budgets, endless=endless, horizon=horizon)
    return found is not None and float(found[1].windows(1).max()) <= nats


def _length(run: Run) -> float:
    return math.inf if run.steps is None else run.steps


def _power(runs: Sequence[Run]) -> float:
    """Of noise, a step; of an endless stream in the long run."""
    if runs[-1].steps is None:
        return 1 / runs[-1].epsilon ** 2
    return sum((run.steps or 0) / run.epsilon**2 for run in runs)
