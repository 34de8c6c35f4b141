"""Schedules that differ from step to step: `optimal`, and `sparse`, which is optimal over the steps it releases.

Long horizons are solved on a shorter one, whose middle has become stationary: head and tail are kept, the middle is
repeated. Every result is scaled by the kernel's recursion until it keeps the promise, then audited; of many that are
compared, the one that is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from policyc.planning.largest import largest
from policyc.planning.leakage.inheritance import audited_stationary_leakage
from policyc.planning.leakage.losses import losses_of
from policyc.planning.optimal import least_noise
from policyc.planning.promise import Promise
from policyc.planning.schedules import (
    SMALLEST_SLACK,
    Allocation,
    Group,
    Run,
    ScheduleError,
    accepted,
    spare,
    stationary_leakage,
)
from policyc.planning.smooth import past_of

Floats = NDArray[np.float64]

DIRECT = 2000  # releases that are solved for at once
SHORT = 120  # releases with which a longer horizon is tried first
FLAT = 1e-4  # relative spread within which a middle is stationary
SAME = 1e-6  # relative difference below which neighbouring budgets become one
_ROOM = 1e-9  # by which budgets are scaled beyond the part of the promise that they leak too much, or leave
_UNSPENT, _ROUGHLY = 1e-6, 1e-2  # of the promise what may be left, of budgets that are solved for again as well
NEAR = 0.95  # a factor so near 1 changes the shape of the budgets no more
MOST_RESCALED = 4  # times that budgets are solved for again because windows bind


def allocate_optimal(
    alpha: float | Promise, horizon: int, groups: Sequence[Group], weights: Floats | None = None, *, audit: bool = True
) -> Allocation:
    """The budgets of least noise power: sum of w / e^2 over all steps, w = 1 unless given (horizon,), > 0.

    A promise about windows of several steps is kept by a smaller one about single steps, for which noise is least.

    Raises:
        ScheduleError: no budget is accepted; or weights for more steps than are solved for at once.
    """
    return _allocated("optimal", Promise.of(alpha, horizon), horizon, groups, 1, 0, weights, audit=audit)


def allocate_sparse(
    alpha: float | Promise,
    horizon: int | None,
    groups: Sequence[Group],
    every: int,
    phase: int = 0,
    *,
    audit: bool = True,
) -> Allocation:
    """A release at every `every`-th step from step `phase` on, of least noise power; nothing at the steps between.

    What passes from one release to the next goes through the chain over the whole gap. An endless stream gets one
    constant budget at its releases. Without an `audit`, budgets over a horizon are only proposed.

    Raises:
        ScheduleError: no budget is accepted, or no step is released.
    """
    promise = Promise.of(alpha, horizon)
    if horizon is None:
        return _endless(promise, groups, every)
    if phase >= horizon:
        raise ScheduleError("no step of the horizon is released")
    later = f" from step {phase}" if phase else ""
    return _allocated(
        f"sparse(every = {every} steps){later}", promise, horizon, groups, every, phase, None, audit=audit
    )


def _endless(promise: Promise, groups: Sequence[Group], every: int) -> Allocation:
    def runs(less: Promise) -> list[Run]:
        epsilon = largest(lambda e: _left(e, every, less, groups), 0.0, less.nats, less.nats)
        if epsilon <= 0:
            raise ScheduleError("leakage grows without end at every constant budget")
        return [Run(epsilon, None, every)]

    return accepted(f"sparse(every = {every} steps)", promise, runs, groups)


def _left(epsilon: float, every: int, promise: Promise, groups: Sequence[Group]) -> float:
    """What the promise leaves, over all windows, of a release every so many steps, for ever."""
    worst = np.inf
    for group in groups:
        settled = group.chain.backward_side().settled
        if settled == np.inf:
            return -np.inf
        if settled:  # laws of its first steps are others
            pattern = [epsilon] + [0.0] * (every - 1)
            for nats, window in promise.limits:
                worst = min(worst, nats - audited_stationary_leakage(pattern, group.chain, group.lags, window))
            continue
        before, after = stationary_leakage(epsilon, group, every)
        if not np.isfinite(before + after):
            return -np.inf
        past, future = losses_of(group.chain)
        earlier = [before - epsilon, *(past.loss(j, j)(before) for j in range(1, every))]
        later = [after - epsilon, *(future.loss(every - j, every - j)(after) for j in range(1, every))]
        for nats, window in promise.limits:
            for start in range(every):
                end = start + window
                releases = -(-end // every) - -(-start // every)
                leaked = earlier[start] + releases * epsilon + later[(end - 1) % every]
                worst = min(worst, nats - leaked)
    return worst


def _allocated(
    name: str,
    promise: Promise,
    horizon: int,
    groups: Sequence[Group],
    every: int,
    phase: int,
    weights: Floats | None,
    *,
    audit: bool = True,
) -> Allocation:
    count = -(-(horizon - phase) // every)
    if weights is not None and (count > DIRECT or len(weights) != horizon or not (weights > 0).all()):
        raise ScheduleError(f"weights are positive, one a step, for at most {DIRECT:,} steps")
    nats, smaller = promise.nats, promise.scaled(1 - SMALLEST_SLACK)
    found = _found(nats, horizon, groups, every, phase, weights)
    scaled: list[Run] = []
    for again in range(MOST_RESCALED if max(window for _, window in promise.limits) > 1 else 0):
        scaled = _scaled(found, smaller, groups, _UNSPENT if again else _ROUGHLY)
        factor = max(run.epsilon for run in scaled) / max(run.epsilon for run in found)
        if NEAR < factor < 1 / NEAR:
            scaled = scaled if again else []
            break
        nats = min(nats * factor, promise.nats)  # windows bind: solved again for what a single step is left
        found, scaled = _found(nats, horizon, groups, every, phase, weights), []
    return accepted(name, promise, lambda less: scaled or _scaled(found, less, groups), groups, audit=audit)


def _found(
    nats: float, horizon: int, groups: Sequence[Group], every: int, phase: int, weights: Floats | None
) -> list[Run]:
    """Runs of least noise under a promise about single steps."""
    count = -(-(horizon - phase) // every)
    budgets, at = _solved(nats, horizon, groups, every, phase, weights)
    middle = count - len(budgets)
    found = [Run(0.0, phase)] if phase else []
    for i, epsilon in enumerate(budgets.tolist()):
        gap = every if i < len(budgets) - 1 else horizon - phase - (count - 1) * every
        steps = gap * (middle + 1) if middle and i == at else gap
        last = found[-1] if found else None
        if last is not None and last.period == gap and abs(last.epsilon - epsilon) <= SAME * epsilon:
            found[-1] = Run(min(last.epsilon, epsilon), (last.steps or 0) + steps, gap)
        else:
            found.append(Run(epsilon, steps, gap))
    return found


def _solved(
    alpha: float, horizon: int, groups: Sequence[Group], every: int, phase: int, weights: Floats | None
) -> tuple[Floats, int]:
    """Budgets of the releases of this horizon, or of a shorter one with the index of its stationary middle."""
    count = -(-(horizon - phase) // every)
    tail = (horizon - phase - 1) % every  # steps after the last release
    size = count if count <= DIRECT else SHORT
    while True:
        steps = phase + (size - 1) * every + tail + 1
        budgets = _directly(alpha, steps, groups, every, phase, weights)
        inner = budgets[2 * size // 5 : 3 * size // 5]
        if size == count:
            return budgets, 0
        if np.ptp(inner) <= FLAT * inner.min() or size == DIRECT:
            budgets[size // 2] = inner.min()
            return budgets, size // 2
        size = min(2 * size, DIRECT)


def _directly(
    alpha: float, horizon: int, groups: Sequence[Group], every: int, phase: int, weights: Floats | None
) -> Floats:
    releases = range(phase, horizon, every)
    mirrored = [horizon - 1 - step for step in reversed(releases)]
    pasts = [
        (
            past_of(losses_of(group.chain)[0], releases, group.lags),
            past_of(losses_of(group.chain)[1].reversed(), mirrored, group.lags),
        )
        for group in groups
    ]
    some = np.ones(len(releases)) if weights is None else weights[phase::every]
    return least_noise(pasts, alpha, some)


def _scaled(runs: Sequence[Run], promise: Promise, groups: Sequence[Group], enough: float = _UNSPENT) -> list[Run]:
    """All budgets times a factor with which the kernel's recursion keeps the promise, and leaves as little as asked."""

    def times(factor: float) -> list[Run]:
        return [run.times(factor) for run in runs]

    @cache
    def left(factor: float) -> float:
        return spare(times(factor), promise, groups)

    unspent = left(1.0) / promise.nats
    if 0 <= unspent <= enough:
        return list(runs)
    if unspent < 0:
        return times(largest(left, 0.0, 1.0, promise.nats, unspent=enough))
    # Leakage rises about in proportion to budgets, or a little faster; about several steps it may rise more slowly.
    low, high = 1.0, (1 + _ROOM) / (1 - unspent)
    while left(high) >= 0:
        low, high = high, 2 * high
    return times(largest(left, low, high, promise.nats, unspent=enough))
