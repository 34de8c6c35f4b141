"""Budgets over time: the inverse search. Every result is accepted by the kernel's audit, now or when it is chosen.

A schedule is solved for a promise a hair below alpha (relative slack, raised until the audit accepts), never above.
`alpha` is nats about single steps, or a `Promise` about windows of steps.
Source: CAO17 (Algorithms 2 and 3); the bounds over several lags are the kernel's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from policyc.planning.largest import NEAR, largest
from policyc.planning.leakage.gaps import FINE, MANY
from policyc.planning.leakage.inheritance import (
    audited_group,
    audited_stationary_leakage,
    digits_for,
    proposed_group,
)
from policyc.planning.leakage.losses import losses_of
from policyc.planning.leakage.proposals import proposed_each
from policyc.planning.leakage.recursion import both_sides, lag_set, largest_of, supremum
from policyc.planning.leakage.settled_runs import Sides, along
from policyc.planning.leakage.spaced import Both, Pattern, largest_between, less_between, releases_of, spaced
from policyc.planning.promise import Promise
from policyc_check.errors import KernelError
from policyc_check.steps.chains import Chain
from policyc_check.steps.inheritance import GroupLeakage

Floats = NDArray[np.float64]

SMALLEST_SLACK = 2e-13
LARGEST_SLACK = 1e-3
_HAIR = 3e-12  # of leakage, about which limits that are told to all steps are above those that are told to releases


@dataclass(frozen=True)
class Group:
    """One kind of users: its chain, and the lags that the accounting of its leakage uses."""

    name: str | None
    chain: Chain
    lags: tuple[int, ...] = (1,)

    def with_lags(self, lags: tuple[int, ...]) -> Group:
        """The same users, accounted with other lags."""
        return Group(self.name, self.chain, lags)


@dataclass(frozen=True)
class Run:
    """`epsilon` nats at the first of every `period` steps and nothing between, for `steps` steps (None: for ever).

    `steps` is a multiple of `period`. An `epsilon` of 0 is no release.
    """

    epsilon: float
    steps: int | None
    period: int = 1

    @property
    def pattern(self) -> tuple[float, ...]:
        """The budgets of one period."""
        return (self.epsilon,) + (0.0,) * (self.period - 1)

    def times(self, factor: float) -> Run:
        """So many times as much at the same steps."""
        return Run(self.epsilon * factor, self.steps, self.period)


@dataclass(frozen=True)
class Allocation:
    """A schedule that the audit accepted, with the accounting (lags a group) under which it was accepted.

    One that was only proposed is audited where a plan says what it leaks. `leakage` is the bound, in nats, of the
    largest leakage over windows and groups, of the promise's first limit.
    """

    name: str
    runs: tuple[Run, ...]
    groups: tuple[Group, ...]
    leakage: float

    @property
    def skips(self) -> bool:
        """Whether there are steps without a release."""
        return any(run.epsilon == 0 or run.period > 1 for run in self.runs)


def exact(value: float) -> Decimal:
    """The shortest decimal that reads back as this float: what the plan says, and what is checked."""
    return Decimal(repr(value))


class ScheduleError(Exception):
    """A schedule that does not exist here; the text says why, in plain words."""


def allocate_uniform(
    alpha: float | Promise, horizon: int, groups: Sequence[Group], *, audit: bool = True
) -> Allocation:
    """The largest constant budget that keeps total leakage at or below alpha over this horizon: the minimax optimum.

    Without an `audit`, budgets are only proposed; so below.
    """

    def runs(promise: Promise) -> list[Run]:
        return [Run(_level_budget(promise, horizon, groups), horizon)]

    return accepted("uniform", Promise.of(alpha, horizon), runs, groups, audit=audit)


def allocate_bounded(
    alpha: float | Promise, horizon: int | None, groups: Sequence[Group], *, audit: bool = True
) -> Allocation:
    """The constant budget whose total leakage never exceeds alpha, however long the stream goes on.

    Source: CAO17 (Algorithm 2)

    Raises:
        ScheduleError: no constant budget has a finite supremum.
    """

    def runs(promise: Promise) -> list[Run]:
        epsilon = _endless_budget(promise, groups)
        if epsilon <= 0:
            raise ScheduleError("leakage grows without end at every constant budget")
        return [Run(epsilon, horizon)]

    return accepted("bounded", Promise.of(alpha, horizon), runs, groups, audit=audit)


def allocate_quantified(
    alpha: float | Promise, horizon: int, groups: Sequence[Group], *, audit: bool = True
) -> Allocation:
    """More at the first and last step: with one stationary chain total leakage is alpha at every step.

    About windows the same ends fit: the first step stands for all that a stream without beginning would have told.

    Source: CAO17 (Algorithm 3)

    Raises:
        ScheduleError: no constant budget has a finite supremum.
    """

    def runs(promise: Promise) -> list[Run]:
        if horizon == 1:
            return [Run(promise.nats, 1)]
        stationary = all(group.chain.is_stationary_start for group in groups)
        epsilon = _endless_budget(promise, groups) if stationary else _level_budget(promise, horizon, groups)
        if epsilon <= 0:
            raise ScheduleError("leakage grows without end at every constant budget")
        middle = [Run(epsilon, horizon - 2)] if horizon > 2 else []
        if stationary and len(groups) == 1 and groups[0].lags == (1,):
            first, last = stationary_leakage(epsilon, groups[0])
            return [Run(first, 1), *middle, Run(last, 1)]
        return _raised_ends(promise, epsilon, horizon, groups)

    return accepted("quantified", Promise.of(alpha, horizon), runs, groups, audit=audit)


def _raised_ends(promise: Promise, epsilon: float, steps: int, groups: Sequence[Group]) -> list[Run]:
    """A constant budget with both ends raised as far as the promise allows, each as much of its own way as the other.

    The middle stays a hair below what it could be: else nothing but rounding would say whether ends may be raised.
    """
    middle = epsilon / NEAR

    def runs(first: float, last: float) -> list[Run]:
        return [Run(first, 1), *([Run(middle, steps - 2)] if steps > 2 else []), Run(last, 1)]

    def raised(share: float) -> list[Run]:
        return runs(middle + share * (first - middle), middle + share * (last - middle))

    nats = promise.nats
    first = max(middle, largest(lambda top: spare(runs(top, middle), promise, groups), middle, nats, nats))
    last = max(middle, largest(lambda top: spare(runs(middle, top), promise, groups), middle, nats, nats))
    return raised(largest(lambda share: spare(raised(share), promise, groups), 0.0, 1.0, nats))


def stationary_leakage(epsilon: float, group: Group, every: int = 1, most: float = math.inf) -> tuple[float, float]:
    """The suprema of backward and forward leakage at releases `every` steps apart, nats; inf where there is none.

    Of what is more than `most` something that is more.
    """
    sides = losses_of(group.chain)
    if every == 1:
        return supremum(epsilon, sides[0], group.lags, most), supremum(epsilon, sides[1], group.lags, most)
    lags = sorted({every, *(lag for lag in group.lags if lag % every == 0)})
    backward, forward = (min(side.loss(k, k).supremum(k // every * epsilon, most) for k in lags) for side in sides)
    return backward, forward


def _endless_budget(promise: Promise, groups: Sequence[Group]) -> float:
    """The largest constant budget whose leakage stays within the promise for ever, all groups; 0 if none."""

    def left(epsilon: float) -> float:
        sides = [sum(stationary_leakage(epsilon, group, most=promise.nats)) for group in groups]
        return min(nats - (max(sides) + (window - 2) * epsilon) for nats, window in promise.limits)

    return largest(left, 0.0, promise.nats, promise.nats)


def _level_budget(promise: Promise, horizon: int, groups: Sequence[Group]) -> float:
    """The largest constant budget that keeps leakage within the promise over a finite horizon."""

    def left(epsilon: float) -> float:
        return spare([Run(epsilon, horizon)], promise, groups)

    return largest(left, _endless_budget(promise, groups), promise.nats, promise.nats)


def expand(runs: Iterable[Run]) -> NDArray[np.float64]:
    """The budget of every step of runs that end, (steps,), nats."""
    return np.concatenate([np.tile(run.pattern, (run.steps or 0) // run.period) for run in runs])


def spare(runs: Sequence[Run], promise: Promise, groups: Sequence[Group]) -> float:
    """What the promise leaves where runs that end leak most, over windows and groups, nats, not audited."""
    horizon = sum(run.steps or 0 for run in runs)

    def left(nats: float, window: int, group: Group) -> float:
        width = min(window, horizon)
        most = nats if group.chain.states >= MANY else math.inf  # of few states all is soon told, and is smooth

        def inherited(budgets: Floats, losses: Both, lags: tuple[int, ...]) -> Sides:
            return both_sides(budgets, *losses, lags, width, most, ahead=True)

        def about(budgets: Floats, sides: Sides) -> float:
            return largest_of(budgets, sides, width)

        return nats - _largest(runs, group, width, inherited, about, largest_between)

    return min(left(nats, window, group) for nats, window in promise.limits for group in groups)


def _largest(
    runs: Sequence[Run],
    group: Group,
    width: int,
    find: Callable[[Floats, Both, tuple[int, ...]], Sides],
    about: Callable[[Floats, Sides], float],
    between: Callable[[Floats, Sides, Both, int, int], float] | None,
) -> float:
    """The largest leakage about so many steps in a row of runs that end, of those that stand for all; see `along`.

    From releases alone where it follows from them, unless nothing is told `between` them.

    Args:
        runs: what is spent.
        group: users, and the lags that are looked at.
        width: steps in a row, at most as many as there are.
        find: what steps of given budgets inherit.
        about: the largest of steps that inherit so much.
        between: the largest of steps, where it is releases that inherit so much.
    """
    losses, lags = losses_of(group.chain), lag_set(group.lags)
    patterns: list[Pattern] = [(run.pattern, (run.steps or 0) // run.period) for run in runs]
    apart = releases_of(patterns) if between is not None else None
    if between is not None and apart and (laws := spaced(losses, lags, apart[1])):
        reach = max(width // apart[1] + 2, *laws[1])
        budgets, sides = along(apart[0], reach, laws[0], lambda some: find(some, *laws))
        if width == 1 and less_between(budgets, sides, losses, apart[1]):
            return about(budgets, sides)
        return between(budgets, sides, losses, apart[1], width)
    reach = max(width, *lags, *(run.period for run in runs))
    return about(*along(patterns, reach, losses, lambda some: find(some, losses, lags)))


def accepted(
    name: str,
    promise: Promise,
    runs: Callable[[Promise], list[Run]],
    groups: Sequence[Group],
    *,
    audit: bool = True,
) -> Allocation:
    """Solve for a promise a hair below what is promised, and spend less until the audit accepts it under the promise.

    Without an `audit`, until what would be audited is within the promise.
    """
    solved = [run for run in runs(promise.scaled(1 - SMALLEST_SLACK)) if run.steps is None or run.steps > 0]
    slack = 0.0
    while slack < LARGEST_SLACK:
        found = tuple(run.times(1 - slack) for run in solved)
        beyond = math.inf
        if any(run.epsilon > 0 for run in found):
            leakages = [_leakage(found, groups, window, nats, audit=audit) for nats, window in promise.limits]
            if all(leakage <= nats for leakage, (nats, _) in zip(leakages, promise.limits, strict=True)):
                return Allocation(name, found, tuple(groups), leakages[0])
            beyond = max(leakage / nats for leakage, (nats, _) in zip(leakages, promise.limits, strict=True)) - 1
        slack = max(SMALLEST_SLACK, 4 * slack, slack + 1.5 * beyond if beyond < LARGEST_SLACK else 0.0)
    raise ScheduleError("no budget was found that the audit accepts")


def _leakage(runs: Sequence[Run], groups: Sequence[Group], window: int, most: float, *, audit: bool) -> float:
    """What the audit accepts of the largest leakage, nats; where that is more than `most`, not shown, or inf."""
    try:
        if runs[-1].steps is None:
            pattern = runs[-1].pattern
            return max(audited_stationary_leakage(pattern, group.chain, group.lags, window) for group in groups)
        asked = math.inf if audit else most
        found = [_bound(runs, group, window, proposed_group, asked) for group in groups]
        if audit and max(found) <= most:
            found = [_bound(runs, group, window, audited_group, asked) for group in groups]
        return max(found)
    except KernelError:
        return math.inf


def _bound(runs: Sequence[Run], group: Group, window: int, find: Callable[..., GroupLeakage], most: float) -> float:
    """The largest leakage about so many steps in a row of runs that end, nats, rounded up; of what is up to `most`."""
    width = min(window, sum(run.steps or 0 for run in runs))

    def inherited(budgets: Floats, losses: Both, lags: tuple[int, ...]) -> Sides:
        digits = digits_for(budgets, losses, lags, most) if window == 1 else FINE
        found = find(budgets, losses, lags, digits=digits, ahead=True)
        return found.before, found.after

    def about(budgets: Floats, sides: Sides) -> float:
        return float(GroupLeakage(budgets, *sides, endless=False).windows(window).max())

    return _largest(runs, group, width, inherited, about, None if find is audited_group else _near_between)


def _near_between(budgets: Floats, sides: Sides, losses: Both, every: int, width: int) -> float:
    """What the audit, which follows every step and is told limits a hair above them, will accept at most, or less."""
    return largest_between(budgets, sides, losses, every, width, pass_on=proposed_each) * (1 + _HAIR)
