"""What the steps of a stream inherit from one side: the recursion, followed until it repeats or its limit is seen."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.gaps import FINE, looked_at
from policyc.planning.leakage.limits import limit, periods_until
from policyc.planning.leakage.losses import Losses
from policyc.planning.leakage.repeats import stretches

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Sum = Callable[[float, float], float]
Pass = Callable[[int, int, float], float]
Found = TypeVar("Found")

CYCLE = 6  # periods; last digits may come back only every second or third one
_PATIENCE = 1_024  # steps
_NEAR = 1e-14  # of leakage, by which it may differ and yet grow evenly
_NOTHING = -1, 0.0  # before the first released step


def inherited(
    epsilons: Floats,
    side: Losses,
    lags: tuple[int, ...],
    pass_on: Pass,
    add: Sum,
    finish: Sum = lambda value, _: value,
    *,
    even: bool = False,
    ahead: list[Told] | None = None,
    digits: int = FINE,
    most: float = math.inf,
) -> tuple[Floats, Whole]:
    """Leakage at every step from the steps before it, B_t without the step's own budget; and the lag that bounds it.

    Lag 0: nothing was released before.

    Args:
        epsilons: (T,) budgets in the order of the recursion.
        side: gives the law for (step, lag).
        lags: sorted, beginning with 1.
        pass_on: (step, lag, leakage) -> bound on what passes from step - lag to step.
        add: sum of two leakages, rounded as the caller needs.
        finish: (bound, lag) -> the bound, with the room that the caller needs.
        even: whether steps between which leakage grows evenly may be passed over; a check would not follow.
        ahead: where steps that come to the same after thousands of others may be told to leak that, a hair more, at
            once, a list for what is told so; see `told_together`. Stretches too short to come near it are followed.
        digits: of gaps that are kept between releases; from step to step leakage passes on through them as well.
        most: beyond which `pass_on` passes all on.
    """
    rules = _Rules(side, lags, pass_on, add, finish, digits)
    stream = _Stream(epsilons, rules)
    for end, period in stretches(epsilons):
        _follow(stream, end, period, most, even, ahead)
    return stream.inherited, stream.by


class Told(NamedTuple):
    """A stretch of repeating budgets, from `begin` to `end`, in which leakage stays the same from step `settled` on."""

    begin: int
    end: int
    settled: int
    early: bool  # whether steps before that are told to leak as much


def told_together(steps: int, sides: Sequence[Callable[[list[Told] | None], Found]]) -> tuple[Found, Found]:
    """What is found of both sides of a stream, each in its own order: limits are told of one where the other has one.

    Else the largest sum of both would be that of a step that is told too much from one side while the other, which
    settles much later, still leaks more there than where both are what is told.

    Args:
        steps: of the stream.
        sides: what is found of either, with a list for `inherited`, or None.
    """
    told: tuple[list[Told], list[Told]] = [], []
    found = sides[0](told[0]), sides[1](told[1])
    for one, other in (told, told[::-1]):
        for stretch in (stretch for stretch in one if stretch.early):
            if not any(
                steps - there.end <= stretch.begin and stretch.settled <= steps - there.settled for there in other
            ):
                return sides[0](None), sides[1](None)
    return found


def patience(period: int, reach: int) -> int:
    """Steps that are followed, of budgets that repeat so, before it is looked at what leakage comes to."""
    return max(_PATIENCE, 2 * (CYCLE * period + 2 * reach))


class _Rules(NamedTuple):
    """Arguments of `inherited`."""

    side: Losses
    lags: tuple[int, ...]
    pass_on: Pass
    add: Sum
    finish: Sum
    digits: int


class _Stream:
    """Steps one after the other: what they inherit, `by` which lag, and what they leak with their own budgets."""

    def __init__(self, epsilons: Floats, rules: _Rules) -> None:
        self.inherited, self.leaked = np.zeros(len(epsilons)), np.zeros(len(epsilons))
        self.by = np.zeros(len(epsilons), dtype=np.int64)
        self.now = 0  # the step that comes next
        self.last = -1  # the last released one
        self.epsilons, self.rules = epsilons, rules
        self._recent: deque[tuple[int, float]] = deque(maxlen=rules.lags[-1])  # those that are looked at, and budgets
        self._released, self._since, self._until = np.flatnonzero(epsilons), 0, 0

    def follow(self) -> None:
        """The step that comes next."""
        t = self.now
        epsilon = self.epsilons.item(t)
        value, by = self._bound(t) if self.last >= 0 else (0.0, 0)
        self.inherited[t], self.by[t] = value, by
        self.leaked[t] = self.rules.add(epsilon, value)
        if epsilon > 0:
            self.last = t
            self._recent.append((t, epsilon))
        self.now += 1

    def later(self, leaked: Floats, period: int, reach: int) -> Floats:
        """What the steps of the next period leak, (p,), if those of the ones before leaked so much; all else stays."""
        now, last, recent = self.now, self.last, tuple(self._recent)
        before = slice(now - period * -(-reach // period), now)
        kept = self.leaked[before].copy()
        self.leaked[before] = np.resize(leaked, len(kept))
        for _ in range(period):
            self.follow()
        self.now, self.last, self.leaked[before] = now, last, kept
        self._remember(recent)
        return self.leaked[now : now + period].copy()

    def go_on(self, end: int, length: int, more: float) -> None:
        """Up to the end what was `length` steps earlier, with so many more nats each time."""
        rounds = -(-(end - self.now) // length)
        for column, each in ((self.inherited, more), (self.leaked, more), (self.by, 0)):
            again = column[self.now - length : self.now]
            grown = again + each * np.arange(1, rounds + 1)[:, None] if each else np.tile(again, rounds)
            column[self.now : end] = grown.ravel()[: end - self.now]
        self.now, begin = end, max(0, end - self.rules.lags[-1])
        self.last = int(self._released[np.searchsorted(self._released, end) - 1])
        recent = self._released[np.searchsorted(self._released, begin) : np.searchsorted(self._released, end)]
        self._remember(zip(recent.tolist(), self.epsilons[recent].tolist(), strict=True))

    def _remember(self, recent: Iterable[tuple[int, float]]) -> None:
        self._recent.clear()
        self._recent.extend(recent)

    def _bound(self, t: int) -> tuple[float, int]:
        """The least bound of what step t inherits, and its lag."""
        _, lags, pass_on, add, finish, _ = self.rules
        value, by, spent = math.inf, 0, 0.0
        step, nats = next(earlier := reversed(self._recent), _NOTHING)
        for lag, way in _ways(lags, gap := t - self.last, gap == 1 or self._whole_gap(t)):
            if lag > t:
                break
            while step > t - lag:
                spent = add(spent, nats)
                step, nats = next(earlier, _NOTHING)
            if spent >= value:
                break
            bound = add(spent, pass_on(t, way, self.leaked.item(t - way)))
            if bound < value:
                value, by = finish(bound, way), way
        return value, by

    def _whole_gap(self, t: int) -> bool:
        """Whether the law over all of the gap since the last released step is looked at."""
        if not self._since < t <= self._until:  # since the last released step, until the next one, or the end
            at = int(np.searchsorted(self._released, t))
            self._since = self._released.item(at - 1) if at else -1
            self._until = self._released.item(at) if at < len(self._released) else len(self.epsilons)
        return looked_at(t - self.last, self._until - t, self.rules.digits if t < self._until else FINE)


def _follow(stream: _Stream, end: int, period: int, most: float, even: bool, ahead: list[Told] | None) -> None:
    """All steps up to `end`, whose budgets repeat with a period, or not where that is 0."""
    side, lags, begin = stream.rules.side, stream.rules.lags, stream.now
    if not period:
        while stream.now < end:
            stream.follow()
        return
    reach, cycle = max(period, lags[-1]), CYCLE * period  # how far back a step looks
    same, grown = 0, 0  # steps in a row that leaked as a cycle earlier; more by the budgets of a period
    spent = math.fsum(stream.epsilons[end - period : end].tolist())
    told = [] if ahead is None else ahead
    trial = math.inf if ahead is None else max(begin, side.settled) + patience(period, reach)
    leaked = stream.leaked
    while stream.now < end:
        stream.follow()
        t = stream.now
        same = same + 1 if t - 1 - cycle >= begin and leaked[t - 1] == leaked[t - 1 - cycle] else 0
        grown = grown + 1 if even and t - 1 - period >= begin and _more(leaked, t - 1, period, spent) else 0
        if not 0 < t - stream.last <= period:
            continue
        if same >= 2 * reach and t - 2 * reach - cycle >= side.settled:
            # All that a step looks at is what it was a cycle earlier, and stays so until the budgets change.
            stream.go_on(end, cycle, 0.0)
            told.append(Told(begin, end, t, early=False))
        elif grown >= 2 * reach and t - 2 * reach >= side.settled:
            if _whole(stream, period, most):
                # All that was leaked is passed on, which is the most there is: each period adds its budgets.
                stream.go_on(end, period, spent * (1 + _NEAR))
            grown = 0
        elif trial <= t <= end - period:
            trial += t - begin
            settled = _settles(stream, period, reach)
            if settled <= (begin + end) // 2:  # where about most leaks, from both sides
                stream.now += period
                stream.go_on(end, period, 0.0)
                told.append(Told(begin, end, settled, early=True))


def _settles(stream: _Stream, period: int, reach: int) -> int:
    """The step from which on leakage is near its limit, which the steps of the next period are told; far off for none.

    Where less was leaked before, no later step leaks more: of `limit`, as more passes on more.
    """
    now, leaked = stream.now, stream.leaked
    later = partial(stream.later, period=period, reach=reach)
    found = limit(later, leaked[now - period : now].copy())
    if found is None:
        return sys.maxsize
    stated = later(found[0])  # this is what stays
    past = leaked[now - period * -(-reach // period) : now]
    if (past > np.resize(stated, len(past))).any():
        return sys.maxsize
    periods = -(-int(stream.by[now : now + period].max()) // period)  # by so many a difference is passed on at once
    needed = now + period * periods * math.ceil(periods_until(leaked[now - period : now], stated, found[1]))
    stream.rules.side.settles[period] = needed
    return needed


@lru_cache(maxsize=4096)
def _ways(lags: tuple[int, ...], gap: int, whole: bool) -> list[tuple[int, int]]:
    """Lags that do not end inside a gap, and the lag by which each is bounded, sorted.

    Where the law over a gap is not looked at, by what the step before inherits, as nothing was released there.
    """
    every = [lag for lag in sorted({*lags, gap}) if lag >= gap]
    return [(lag, lag if lag in lags or whole else 1) for lag in every]


def _more(leaked: Floats, t: int, period: int, spent: float) -> bool:
    """Whether step t leaked as much as the step one period earlier and what was spent since."""
    return abs(leaked.item(t) - leaked.item(t - period) - spent) <= _NEAR * leaked.item(t)


def _whole(stream: _Stream, period: int, most: float) -> bool:
    """Whether every lag that is looked at passes on all that leaked, and will when that is more."""
    t, leaked, (side, lags, *_) = stream.now, stream.leaked, stream.rules
    seen = {*lags, *stream.by[t - period : t].tolist()} - {0}
    least = {lag: float(leaked[t - 1 - lag : t].min()) for lag in seen}
    return all(nats > most or side.loss(t, lag).whole_from <= nats for lag, nats in least.items())
