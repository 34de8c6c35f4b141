"""What the steps of a period inherit that repeats for ever, also while the law of a chain still settles."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.gaps import EVERY, coarse
from policyc.planning.leakage.losses import Losses
from policyc.planning.leakage.proposals import Shown, proposed, recursed, up, with_room
from policyc_check.steps.budgets import window_sums
from policyc_check.steps.chains import Law, Side
from policyc_check.steps.inheritance import require_shown

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_ROUNDS = 200  # around a repeating pattern
_RAISES = 60  # of numbers whose inequality is not shown, each twice as far


def around(budgets: Floats, side: Losses, lags: tuple[int, ...], where: str, digits: int = EVERY) -> Shown:
    """Of a period, however often it went before; inf where no bound is known."""
    nats, by = proposed_around(budgets, side, lags, digits)
    return _raised(nats, by, budgets, side, where) if budgets.any() and np.isfinite(nats).all() else (nats, by)


def proposed_around(budgets: Floats, side: Losses, lags: tuple[int, ...], digits: int, most: float = math.inf) -> Shown:
    """The same before it is shown; where more than `most` is inherited, of all steps the same.

    Over k whole periods, which cost k times the pattern's sum whatever the path, a leakage B with k sum + L(B) <= B is
    never exceeded at a release: at first nothing is inherited, and every later release inherits at most L(B). From
    there each release bounds the next one through the chain over the gap, round and round, and whatever is reached
    holds too.
    """
    pattern, period = budgets.tolist(), len(budgets)
    releases = [step for step in range(period) if pattern[step] > 0]
    if not releases:
        return np.zeros(period), np.zeros(period, dtype=np.int64)
    total = 0.0
    for epsilon in pattern:
        total = up(total, epsilon)
    periods = sorted({1, *(lag // period for lag in lags if lag % period == 0)})
    limits = {k: side.loss(0, k * period).supremum(k * total, most) for k in periods}
    best = min(periods, key=lambda k: limits[k])
    if limits[best] == math.inf or limits[best] > most:
        return np.full(period, limits[best]), np.full(period, best * period)
    last_of = {step: max((r for r in releases if r < step), default=releases[-1]) for step in range(period)}
    by = np.array([(step - last_of[step] - 1) % period + 1 for step in range(period)], dtype=np.int64)
    leaked = dict.fromkeys(releases, limits[best])
    lowered: set[int] = set()
    for _ in range(_ROUNDS if len(releases) > 1 else 0):
        falling = False
        for step in releases:
            value = up(pattern[step], proposed(side.loss(step, int(by[step])), leaked[last_of[step]]))
            falling |= value < leaked[step] * (1 - 1e-13)
            if value < leaked[step]:
                leaked[step] = value
                lowered.add(step)
        if not falling:
            break
    nats = np.zeros(period)
    for step in releases:
        if step not in lowered:
            by[step] = best * period
        nats[step] = math.nextafter(leaked[step] - pattern[step], math.inf)
    return _between(releases, nats, by, budgets, side, digits)


def _between(releases: list[int], nats: Floats, by: Whole, budgets: Floats, side: Losses, digits: int) -> Shown:
    """What the steps between releases inherit as well, each after the one before."""
    period = len(budgets)
    for step in range(releases[0] + 1, releases[0] + period):
        if budgets[at := step % period] > 0:
            continue
        if coarse(int(by[at]), digits) != by[at]:  # the law over the gap is not looked at
            by[at] = 1
        origin = (step - int(by[at])) % period
        nats[at] = proposed(side.loss(at, int(by[at])), up(float(budgets[origin]), float(nats[origin])))
    return nats, by


class _Settled(Side):
    """A side from the step on from which its laws stay what they are."""

    settled = 0.0

    def __init__(self, side: Side) -> None:
        self._side, self._from = side, int(side.settled)

    def law(self, step: int, lag: int) -> Law:  # noqa: ARG002  the same at every step
        return self._side.law(self._from + lag, lag)


def settling(budgets: Floats, side: Losses, lags: tuple[int, ...]) -> Shown:
    """Of a period that repeats for ever while the law settles: of the first rounds, and of one that stays."""
    period, settled = len(budgets), Losses(_Settled(side.side))
    limit, by = around(budgets, settled, lags, "before")
    if not budgets.any() or not np.isfinite(limit).all():
        return limit, by
    reach = -(-max(int(by.max()), lags[-1]) // period)
    rounds = -(-int(side.settled) // period) + 2 * reach + 1
    first = recursed(np.tile(budgets, rounds), side, lags)
    latest = first[0][-reach * period :].reshape(reach, period).max(axis=0)
    limit, by = _raised(np.maximum(limit, latest), by, budgets, settled, "before")
    nats, by = np.concatenate([first[0], limit]), np.concatenate([first[1], by])
    if np.isfinite(limit).all():
        require_shown(nats, by, budgets, side.side, "before", endless=True)
    return nats, by


def _raised(nats: Floats, by: Whole, budgets: Floats, side: Losses, where: str) -> Shown:
    """Numbers around a period, raised until every inequality is shown; inf where none are found."""
    period, wide = len(budgets), int(by.max())
    rounds = np.resize(budgets, period + wide)
    spent = {lag: window_sums(rounds, lag - 1) for lag in set(by.tolist()) if lag > 1}
    nats = nats.copy()
    for doubling in range(_RAISES):
        short = 0.0
        for step, lag in enumerate(by.tolist()):  # in order: some inherit from the step before
            origin, here = (step - lag) % period, float(nats[step])
            passed_on = proposed(side.loss(step + lag, lag), up(float(budgets[origin]), float(nats[origin])))
            between = float(spent[lag][(step - lag + 1) % period]) if lag > 1 else 0.0
            needed = with_room(up(between, passed_on), lag)
            short = max(short, needed - here)
            further = 2.0**doubling if budgets[step] > 0 else 1.0  # releases inherit from themselves
            nats[step] = max(here, needed, here + further * (needed - here))
        if short <= 0:
            require_shown(nats, by, budgets, side.side, where, endless=True)
            return nats, by
    return np.full(period, math.inf), by
