"""The search over periods of sparse schedules: near the least of errors that fall and then rise, by few tries."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from policyc.planning.candidates import Refused
from policyc.planning.search import PERIODS, _best_period, _Tries


def tries_of(error: Callable[[int], float], long: float = math.inf) -> _Tries:
    """Tries that know nothing but what a period errs."""
    return _Tries(lambda every, _: (Refused(str(every), ""), []), lambda schedule, _: error(int(schedule.name)), long)


@pytest.mark.parametrize("least", [*range(2, 65), 100, 352, 1_000, 5_000, 50_000, PERIODS[-1]])
@pytest.mark.parametrize("steep", [0.5, 1.0, 3.0])
def test_the_least_of_errors_that_fall_and_rise_is_found(least, steep):
    """Within an eighth of the period; no period is tried that is none, and with two at a time none but these."""

    def error(every: int) -> float:
        return (every - least) ** 2 * (steep if every > least else 1.0)

    tries, two = tries_of(error), tries_of(error, 0.0)
    found = _best_period(tries, None)
    tried = [every for every, _ in tries.compared]
    assert _best_period(two, None) == found
    assert list(two.compared) == list(tries.compared)
    assert found is not None
    assert abs(found - least) <= max(1, found // 8)
    assert min(tried) >= PERIODS[0]
    assert max(tried) <= PERIODS[-1]
    assert len(set(tried) - set(PERIODS)) <= 6
    assert error(found) == min(map(error, set(tried)))


def test_short_horizons_have_fewer_periods():
    """Two releases at least, and none for a single step."""
    assert _best_period(tries_of(float), 3) is None
    assert _best_period(tries_of(lambda every: -float(every)), 8) in (3, 4, 5)


def test_what_was_begun_and_given_up_is_tried_when_it_is_asked_for():
    """The second of two, of which the first was enough."""
    tries = tries_of(float, 0.0)
    with tries.ahead([4]):
        tries.error(3)
    assert list(tries.compared) == [(3, 0)]
    assert tries.error(4) == 4.0
    turn = tries.in_turn([6, 8])
    next(turn)
    del turn
    assert tries._begun == {}
