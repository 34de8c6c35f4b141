"""The search over periods of sparse schedules: near the least of errors that fall and then rise, by few tries."""

from __future__ import annotations

import pytest

from policyc.planning.search import PERIODS, _best_period


@pytest.mark.parametrize("least", [*range(2, 65), 100, 352, 1_000, 5_000, 50_000, PERIODS[-1]])
@pytest.mark.parametrize("steep", [0.5, 1.0, 3.0])
def test_the_least_of_errors_that_fall_and_rise_is_found(least, steep):
    """Within an eighth of the period; no period is tried that is none."""
    tried: list[int] = []

    def error(every: int) -> float:
        tried.append(every)
        return (every - least) ** 2 * (steep if every > least else 1.0)

    found = _best_period(error, None)
    assert found is not None
    assert abs(found - least) <= max(1, found // 8)
    assert min(tried) >= PERIODS[0]
    assert max(tried) <= PERIODS[-1]
    assert len(set(tried) - set(PERIODS)) <= 6
    assert error(found) == min(map(error, set(tried)))


def test_short_horizons_have_fewer_periods():
    """Two releases at least, and none for a single step."""
    assert _best_period(float, 3) is None
    assert _best_period(lambda every: -float(every), 8) in (3, 4, 5)
