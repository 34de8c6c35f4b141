"""Constant budgets accounted for every pair of states by itself: larger where those that leak most are far apart.

Larger still, where a chain forgets over so many steps that those amid a stream inherit less from either side than the
last one from all before it, by bounds for stretches of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from policyc.planning.leakage.inheritance import shown_by_pairs
from policyc.planning.leakage.pairs import largest_budget
from policyc.planning.leakage.stretches import LONGEST, followed, largest_constant
from policyc.planning.promise import Promise
from policyc.planning.schedules import Allocation, Group, Run, expand
from policyc_check.steps.chains import Chain

WORTH = 1e-3  # relative gain of budgets from which pairs are accounted for
_SLACK = (1e-8, 1e-6, 1e-4)  # of the promise, for what bounds are raised by
_CAUTION = 0.01  # of what is reached, by which a promise must be more for stretches of steps to be looked at
_TRIES = 4


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
    alike = _for_all_steps(name, promise, horizon, groups, found)
    if horizon is None or name == "bounded":
        return alike
    return _for_stretches(name, promise.nats, horizon, groups, alike or found) or alike


def _for_stretches(
    name: str, nats: float, horizon: int, groups: Sequence[Group], known: Allocation | None
) -> Allocation | None:
    """One budget for all steps, larger where no step inherits as much from both sides as the ends do from one."""
    least = nats / horizon if known is None else min(epsilon for run in known.runs for epsilon in run.pattern)
    told = [followed(group.chain, (least, least, least), horizon - 1) for group in groups]
    if any(one is None or one.leakage.max() * (1 + _CAUTION) > nats for one in told):
        return None
    epsilon, leakage = _largest(nats, horizon, tuple(group.chain for group in groups))
    runs = (Run(epsilon, horizon),)
    if epsilon == 0 or (known is not None and _power(runs) >= _power(known.runs) * (1 - WORTH)):
        return None
    return Allocation(name, runs, tuple(group.with_lags((1,)) for group in groups), leakage)


@lru_cache(maxsize=4)
def _largest(nats: float, horizon: int, chains: tuple[Chain, ...]) -> tuple[float, float]:
    """Of a plan, whose schedules ask for the same: what every step may spend, and leaks as the check sees it; or 0."""
    epsilon, aim = nats / horizon, nats * (1 - _SLACK[0])
    for _ in range(_TRIES):
        epsilon = min(largest_constant(chain, aim, horizon - 1, epsilon) for chain in chains)
        leakage = max(_shown((Run(epsilon, horizon),), chain) for chain in chains) if epsilon else math.inf
        if leakage <= nats:
            return epsilon, leakage
        if leakage == math.inf:
            break
        aim *= nats / leakage * (1 - _SLACK[0])
    return 0.0, 0.0


def _for_all_steps(
    name: str, promise: Promise, horizon: int | None, groups: Sequence[Group], found: Allocation | None
) -> Allocation | None:
    """Budgets by bounds that hold of all steps alike, but of the ends."""
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
    if not all(_shown(runs, group.chain, side.near) <= promise.nats for group, side in zip(groups, kept, strict=True)):
        return None  # of dozens of nats: bounds differ by less than what is rounded
    return Allocation(name, runs, tuple(group.with_lags((1,)) for group in groups), leakage)


@lru_cache(maxsize=4)
def _shown(runs: tuple[Run, ...], chain: Chain, near: tuple[bytes, bytes] = (b"", b"")) -> float:
    """What these budgets leak at most by bounds that the check accepts, nats; inf for none. `near` as in `settled`."""
    endless = runs[-1].steps is None
    # of each run three steps are like all others: a first, a last, and between
    some = [run.epsilon for run in runs for _ in range(min(run.steps or 1, 3))]
    horizon = None if endless else sum(run.steps or 0 for run in runs)
    budgets = expand(runs) if horizon is not None and horizon <= LONGEST + 1 else np.array(some)
    found = shown_by_pairs(chain, budgets, endless=endless, horizon=horizon, near=near)
    return math.inf if found is None else float(found[1].windows(1).max())


def _length(run: Run) -> float:
    return math.inf if run.steps is None else run.steps


def _power(runs: Sequence[Run]) -> float:
    """Of noise, a step; of an endless stream in the long run."""
    if runs[-1].steps is None:
        return 1 / runs[-1].epsilon ** 2
    return sum((run.steps or 0) / run.epsilon**2 for run in runs)
