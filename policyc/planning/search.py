"""The search over sparse schedules: periods first, coarsely and then finely, then where the first release comes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from policyc.planning.candidates import Refused, sparse
from policyc.planning.schedules import Allocation, Group
from policyc.planning.sharing import Sharing, Tried
from policyc.progress import counted
from policyc.second_process import Beside, beside
from policyc.semantics.policy import Policy

PERIODS: tuple[int, ...] = (2, *(size << turn for turn in range(16) for size in (3, 4)))  # 2, 3, 4, 6, 8, … 131,072
PATIENCE = 2  # periods in a row that are worse than the best, after which longer ones are not tried


LONG = 0.2  # seconds that a schedule takes from which on the next one is begun beside it
FEW = 64  # states; with more, laws over gaps, which one process works out for all later schedules, are most of the work

Compared = tuple[Allocation | Refused, Tried]
"""A schedule, and what each estimator errs with it."""


def tried_sparse(policy: Policy, groups: Sequence[Group], sharing: Sharing, *, audit: bool) -> list[Compared]:
    """The sparse schedules that are worth comparing, and what they err; the policy's own period alone, if it names one.

    Predicted error falls and then rises with the period: the search ends when it has risen. Without an `audit`, what
    they leak is shown of none: that takes most of the time, and has to be shown of the one that is chosen.
    """

    def compare(every: int, phase: int) -> Compared:
        schedule = sparse(policy, groups, every, phase, audit=audit)
        return schedule, sharing.tried(schedule)

    tries = _Tries(compare, sharing.error, math.inf if any(g.chain.states > FEW for g in groups) else LONG)
    horizon = policy.stream.horizon
    named = policy.budget.arguments.get("every")
    best = int(str(named)) if named is not None else _best_period(tries, horizon)
    if best is None:
        return []
    tries.error(best)
    middle = 0 if horizon is None else (horizon - 1) % best // 2
    if middle and policy.delivery.kind == "offline":  # as many steps before the first release as after the last
        tries.error(best, middle)
    return list(tries.compared.values())


@dataclass
class _Tries:
    """The schedules that were asked for, in this order.

    Attributes:
        compare: tries a period, with a first step.
        told: the predicted error of what was tried.
        long: seconds that one takes from which on two are tried at once.
    """

    compare: Callable[[int, int], Compared]
    told: Callable[[Allocation | Refused, Tried], float]
    long: float
    compared: dict[tuple[int, int], Compared] = field(default_factory=dict)
    _begun: dict[int, Beside[Compared]] = field(default_factory=dict)
    _seconds: float = 0.0  # that the last one took

    def error(self, every: int, phase: int = 0) -> float:
        """The predicted error of a period, with a first step."""
        if (every, phase) not in self.compared:
            now = time.perf_counter()
            begun = None if phase else self._begun.get(every)
            self.compared[every, phase] = self.compare(every, phase) if begun is None else begun.found()
            self._seconds = time.perf_counter() - now if begun is None else self._seconds
        return self.told(*self.compared[every, phase])

    @contextmanager
    def ahead(self, periods: Sequence[int]) -> Iterator[None]:
        """Begin with a period, if any, that is asked for after another one, or is not, where they take long."""
        for every in periods:
            if self._seconds >= self.long and (every, 0) not in self.compared:
                with beside(partial(self.compare, every, 0)) as begun:
                    self._begun = {every: begun}
                    try:
                        yield
                    finally:
                        self._begun = {}
                return
        yield

    def in_turn(self, periods: Sequence[int]) -> Iterator[int]:
        """Periods that will be asked for one after the other until it is enough."""
        for place in range(0, len(periods), 2):
            two = periods[place : place + 2]
            with self.ahead(two[1:]):
                yield from two


def _best_period(tries: _Tries, horizon: int | None) -> int | None:
    """The period of lowest predicted error; None where the horizon is too short for any."""
    periods = [every for every in PERIODS if horizon is None or 2 * every <= horizon]
    if not periods:
        return None
    best, worse = periods[0], 0
    tries.error(best)
    for every in counted("sparse schedules, at most", tries.in_turn(periods[1:]), len(periods) - 1):
        if tries.error(every) < tries.error(best):
            best, worse = every, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    place = PERIODS.index(best)
    low, high = (1, *PERIODS)[place], (*PERIODS, PERIODS[-1])[place + 1]
    return _least_between(tries, low, best, high, max(1, best // 8))


def _least_between(tries: _Tries, low: int, best: int, high: int, apart: int) -> int:
    """The period of least error between two that have more: half way to both neighbours, until these are so near."""
    while True:
        middles = [(left + right) // 2 for left, right in ((low, best), (best, high)) if right - left > apart]
        if not middles:
            return best
        known = sorted({low, best, high, *middles})
        with tries.ahead(middles[1:]):
            best = min([best, *middles], key=tries.error)
        place = known.index(best)
        low, high = known[max(0, place - 1)], known[min(place + 1, len(known) - 1)]
