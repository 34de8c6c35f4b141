"""How far neighbors move a series: never further than a setting says, held against every pair of users there is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest

from policyc.offers.calibration import l2_sensitivity
from policyc_check.mechanisms.toeplitz import Convolution
from policyc_check.plan.queries import SumQuery
from policyc_check.users.claims import contribution_of, largest_units
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting

STEPS, CONTRIBUTION = 4, 3
COEFFICIENTS = np.array([3, 2, 1, 1])


def users(bound: int, spacing: int, cells: int, signed: bool) -> Iterator[np.ndarray]:
    """Every user's series (steps, cells), each step at an end of what is allowed."""
    ends = [0, *((-1, 1) if signed else (1,))]
    step = [np.zeros(cells)] + [end * row for end in ends[1:] for row in np.eye(cells)]
    for series in itertools.product(step, repeat=STEPS):
        there = [t for t in range(STEPS) if series[t].any()]
        if len(there) <= bound and all(b - a >= spacing for a, b in itertools.pairwise(there)):
            yield CONTRIBUTION * np.array(series)


def moved(bound: int, spacing: int, cells: int, signed: bool, replaced: bool) -> np.ndarray:
    """Every difference between neighbors: (pairs, steps, cells)."""
    mine = np.array(list(users(bound, spacing, cells, signed)))
    if not replaced:
        return mine
    return (mine[:, None] - mine[None, :]).reshape(-1, STEPS, cells)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (2, 1), (3, 1), (2, 2), (2, 3)])
def test_no_neighbors_move_a_series_further_than_a_setting_says(
    bound: int, spacing: int, cells: int, signed: bool, replaced: bool
) -> None:
    """In L1, in L2, and through a strategy of falling coefficients; and not much less than it says."""
    setting = Setting(Participation(bound, STEPS, spacing), CONTRIBUTION, replaced=replaced, signed=signed, cells=cells)
    found = moved(bound, spacing, cells, signed, replaced)
    l1 = np.abs(found).sum(axis=(1, 2)).max()
    l2 = math.sqrt((found**2).sum(axis=(1, 2)).max())
    assert l1 <= setting.changes * setting.shift <= 2 * l1
    assert l2 <= l2_sensitivity(setting) <= math.sqrt(2) * l2 * (1 + 1e-12)
    C = np.array([[COEFFICIENTS[t - s] if t >= s else 0 for s in range(STEPS)] for t in range(STEPS)])
    longest = ((C @ found) ** 2).sum(axis=(1, 2)).max()
    square = setting.moved_square(Convolution(COEFFICIENTS).l2_square)
    assert longest <= square <= 2 * longest


def test_the_largest_value_is_rounded_up_to_whole_units() -> None:
    """A clamp that is no multiple of the grid moves a sum by one unit more; a negative end counts by its size."""
    for low, high, units in (("0", "10.5", 11), ("-10.5", "3", 11), ("0", "10", 10)):
        query = SumQuery(column="x", low=Decimal(low), high=Decimal(high), grid=Decimal(1), by=None)
        assert (largest_units(query), contribution_of(query, 2)) == (units, 2 * units)
