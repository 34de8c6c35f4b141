"""The search over sparse schedules: periods first, coarsely and then finely, then where the first release comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from policyc.planning.candidates import Refused, sparse
from policyc.planning.schedules import Allocation, Group
from policyc.planning.sharing import Sharing, Tried
from policyc.progress import counted
from policyc.semantics.policy import Policy

PERIODS: tuple[int, ...] = (2, *(size << turn for turn in range(16) for size in (3, 4)))  # 2, 3, 4, 6, 8, … 131,072
PATIENCE = 2  # periods in a row that are worse than the best, after which longer ones are not tried


def tried_sparse(
    policy: Policy, groups: Sequence[Group], sharing: Sharing, *, audit: bool
) -> list[tuple[Allocation | Refused, Tried]]:
    """The sparse schedules that are worth comparing, and what they err; the policy's own period alone, if it names one.

    Predicted error falls and then rises with the period: the search ends when it has risen. Without an `audit`, what
    they leak is shown of none: that takes most of the time, and has to be shown of the one that is chosen.
    """
    added: list[tuple[Allocation | Refused, Tried]] = []

    @cache
    def error(every: int, phase: int = 0) -> float:
        schedule = sparse(policy, groups, every, phase, audit=audit)
        added.append((schedule, sharing.tried(schedule)))
        return sharing.error(*added[-1])

    horizon = policy.stream.horizon
    named = policy.budget.arguments.get("every")
    best = int(str(named)) if named is not None else _best_period(error, horizon)
    if best is None:
        return added
    error(best)
    middle = 0 if horizon is None else (horizon - 1) % best // 2
    if middle and policy.delivery.kind == "offline":  # as many steps before the first release as after the last
        error(best, middle)
    return added


def _best_period(error: Callable[[int], float], horizon: int | None) -> int | None:
    """The period of lowest predicted error; None where the horizon is too short for any."""
    periods = [every for every in PERIODS if horizon is None or 2 * every <= horizon]
    if not periods:
        return None
    best, worse = periods[0], 0
    for every in counted("sparse schedules, at most", periods[1:], len(periods) - 1):
        if error(every) < error(best):
            best, worse = every, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    place = PERIODS.index(best)
    low, high = (1, *PERIODS)[place], (*PERIODS, PERIODS[-1])[place + 1]
    return _least_between(error, low, best, high, max(1, best // 8))


def _least_between(error: Callable[[int], float], low: int, best: int, high: int, apart: int) -> int:
    """The period of least error between two that have more: half way to both neighbours, until these are so near."""
    while True:
        middles = [(left + right) // 2 for left, right in ((low, best), (best, high)) if right - left > apart]
        if not middles:
            return best
        known = sorted({low, best, high, *middles})
        best = min([best, *middles], key=error)
        place = known.index(best)
        low, high = known[max(0, place - 1)], known[min(place + 1, len(known) - 1)]
