"""Which lags are worth their time for a chain."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.losses import Losses, losses_of
from policyc_check.errors import InvalidMatrixError
from policyc_check.steps.chains import Chain

Floats = NDArray[np.float64]

SETTLED = 2_000  # steps after which a start that is still moving is judged as it is then
MOVING = (SETTLED, 200, 20, 0)  # where states are left for good, floats lose them, the later the sooner
_BOUNDS = (0.1, 1.0, 4.0)  # leakages, nats, and
_BUDGETS: tuple[float, ...] = (0.05, 0.5)  # budgets on which lags are tried
# States, for which lags that are a quarter apart are tried: next to each other they win little; and of budgets those
# that leak no more than the largest bound above: what leaks more is told by most of a hull, and promised by nobody.
_MANY = 256


def useful_lags(chain: Chain, most: int = 64) -> tuple[int, ...]:
    """Lags that can lower the leakage of this chain, always with 1; fewer lags only loosen the bound.

    Two states, and chains on which lag 2 wins nowhere, need lag 1 alone; deciding that costs less than one hull.
    """
    if chain.states <= 2 or most < 2:
        return (1,)
    lags = {1}
    for side in losses_of(chain):
        if most not in side.lags:
            side.lags[most] = _useful(side, most)
        lags.update(side.lags[most])
    return tuple(sorted(lags))


def _useful(side: Losses, most: int) -> set[int]:
    """Judged by the laws that are settled in, or by late ones that floats can tell."""
    for start in (int(side.settled),) if side.settled <= SETTLED else MOVING:
        with suppress(InvalidMatrixError):
            return _useful_from(start, side, most)
    return set()


def _useful_from(start: int, side: Losses, most: int) -> set[int]:
    first, budgets = side.loss(start + 1, 1), _BUDGETS
    lag, many = 1, len(first.matrix) >= _MANY
    if first.is_identity:
        lag = _first_joined(first.matrix, most)
        if lag == 0:
            return set()
        if many:  # what the lag's own steps spend is leaked at least
            budgets = tuple(e for e in budgets if lag * e < _BOUNDS[-1]) or budgets
    else:
        limits = {e: first.supremum(e) for e in budgets}
        if not _may_win(2, limits) or not _second_wins(start, side):
            return set()
        if many:
            budgets = tuple(e for e in budgets if limits[e] <= _BOUNDS[-1]) or budgets
    found: set[int] = set()
    best, idle, most_asked = dict.fromkeys(budgets, math.inf), 0, _BOUNDS[-1] if many else math.inf
    while lag <= most and idle < 4 and _may_win(lag, best):
        law = side.loss(start + lag, lag)
        limits = {e: law.supremum(lag * e, min(best[e], most_asked)) for e in budgets}
        if any(limits[e] < best[e] * (1 - 1e-9) for e in budgets):
            found.add(lag)
            best, idle = {e: min(limits[e], best[e]) for e in budgets}, 0
        elif math.inf not in best.values():
            idle += 1
        lag += max(1, lag // 4) if many else 1
    return found


def _may_win(lag: int, limits: dict[float, float]) -> bool:
    """Whether this lag or a longer one can bring a limit down: it is at least what the lag's own steps spend.

    `limits` are by budget, nats both.
    """
    return any(lag * e < limit for e, limit in limits.items())


def _first_joined(matrix: Floats, most: int) -> int:
    """The first lag at which every two rows of the power share a column; 0 if there is none up to `most`."""
    support = (matrix > 0).astype(np.float32)
    power = support
    for lag in range(2, most + 1):
        power = ((power @ support) > 0).astype(np.float32)
        if (power @ power.T > 0).all():
            return lag
    return 0


def _second_wins(start: int, side: Losses) -> bool:
    """Whether two steps at once ever pass on less than one step twice."""
    first, second = side.loss(start + 1, 1), side.loss(start + 2, 2)
    for b in _BOUNDS:
        two = second(b)
        if any(first(e + first(b)) > (e + two) * (1 + 1e-12) for e in _BUDGETS):
            return True
    return False
