"""Steps between releases: laws over gaps of so many lengths need not be looked at one by one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from policyc.planning.leakage.losses import Losses

Floats = NDArray[np.float64]

EVERY, FINE, ROUGH = 64, 5, (0, 1, 2, 3)  # leading binary digits of a gap that are kept; of 0 none is
MANY = 256  # states, of which a law more takes a while
CLEARLY = 1e-9  # of what releases leak, by which steps between them have to leak less
_SAME, _USEFUL = 1e-12, 1e-5  # of leakage between releases, by which more digits have to lower it


def coarse(gap: int, digits: int = FINE) -> int:
    """The gap with its leading binary digits kept: a shorter gap has a larger L; few matrices serve all gaps."""
    shift = max(0, gap.bit_length() - digits)
    return gap >> shift << shift


def looked_at(gap: int, left: int, digits: int = FINE) -> bool:
    """Whether the law over a gap is looked at so many steps after a release, and so many before the next one.

    Near either release most is told there, so that all of it matters.
    """
    return coarse(gap, digits) == gap or (digits >= FINE and 0 < left == coarse(left, digits))


def enough_digits(
    epsilons: Floats,
    sides: tuple[Losses, Losses],
    lags: tuple[int, ...],
    find: Callable[[int], tuple[Floats, Floats]],
    least: int = ROUGH[0],
    most: float = math.inf,
) -> int:
    """How many digits of gaps are kept, so that the largest leakage about a step is that by all.

    Between releases less leaks as a rule than at them, even if gaps are taken for much shorter ones: of chains of
    hundreds of states most laws then need not be looked at. What releases leak is the same by both, where every lag
    leads from one to another. Where rows are known roughly, the fewest are kept: more leaks between releases then.

    Args:
        epsilons: (T,) budgets.
        sides: both directions.
        lags: that the bounds use.
        find: what steps inherit from either side by so many digits, nats, (T,) each.
        least: the fewest that are tried.
        most: of leakage at releases beyond it nobody asks how much leaks between them, nats; up to it, a search asks,
            to which a little more between releases is as good.
    """
    released = epsilons > 0
    at = np.flatnonzero(released)
    if len(at) in (0, len(epsilons)) or any(side.settled or len(side.loss(1, 1).matrix) < MANY for side in sides):
        return FINE
    if not all(gap in lags or coarse(gap) == gap for gap in set(np.diff(at).tolist())):
        return FINE
    for steps, lag in ((steps, lag) for steps in (at, len(epsilons) - 1 - at[::-1]) for lag in lags):
        later = steps[1:][(lag >= np.diff(steps)) & (steps[1:] - lag >= steps[0])]  # others look at nothing released
        if not np.isin(later - lag, steps).all():
            return FINE
    if any(side.row_tolerance for side in sides):
        return ROUGH[0]
    return _fewest(epsilons, find, least, FINE, most)


def enough_around(epsilons: Floats, sides: tuple[Losses, Losses], find: Callable[[int], tuple[Floats, Floats]]) -> int:
    """The same of a period that repeats for ever: its steps inherit from the last release, or from the step before.

    Args:
        epsilons: (T,) budgets of the period.
        sides: both directions.
        find: as above.
    """
    released = epsilons > 0
    if released.all() or not released.any() or any(s.settled or len(s.loss(1, 1).matrix) < MANY for s in sides):
        return EVERY
    return _fewest(epsilons, find, ROUGH[0], EVERY)


def _fewest(
    epsilons: Floats, find: Callable[[int], tuple[Floats, Floats]], least: int, else_: int, most: float = math.inf
) -> int:
    """The fewest digits by which less leaks between releases than at them, or more than `most` at them.

    Those that are tried are enough, too, where they help no more than the fewest; to a search, which asks up to some
    `most`, where they help next to nothing more.
    """
    released, between = epsilons > 0, dict[int, float]()  # the most that leaks between releases, by digits

    def leaked_at(digits: int) -> float:
        before, after = find(digits)
        leakage = before + epsilons + after
        between[digits] = float(leakage[~released].max())
        return float(leakage[released].max())

    for digits in (some for some in ROUGH if some >= least):
        at = leaked_at(digits)
        if between[digits] <= at * (1 - CLEARLY) or at > most:
            return digits
    if not between:
        return else_
    if ROUGH[0] not in between:
        leaked_at(ROUGH[0])
    least_help = _SAME if most == math.inf else _USEFUL
    return ROUGH[-1] if between[ROUGH[-1]] >= between[ROUGH[0]] * (1 - least_help) else else_
