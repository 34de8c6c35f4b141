"""Sensitivities under a participation bound, against every pair of neighbors of small streams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting

SMALL = [Participation(*numbers) for numbers in product((1, 2, 3, 6), (1, 3, 4, 6), (1, 2, 3))]


def supports(participation: Participation) -> Iterator[tuple[int, ...]]:
    """Every set of steps in which one user may take part."""
    horizon = participation.horizon
    assert horizon is not None
    for size in range(min(participation.participation_bound, horizon) + 1):
        for steps in combinations(range(horizon), size):
            if all(b - a >= participation.spacing for a, b in pairwise(steps)):
                yield steps


@pytest.mark.parametrize("participation", SMALL, ids=str)
def test_steps(participation: Participation) -> None:
    """As many steps as fit: the bound, or what spacing leaves of the horizon."""
    assert participation.steps == max(map(len, supports(participation)))


@pytest.mark.parametrize("participation", SMALL, ids=str)
def test_replace_in_histograms(participation: Participation) -> None:
    """With cells, users who share every step differ in two counts at each, whatever the horizon."""
    cells = 2
    rows = []
    for steps in supports(participation):
        for places in product(range(cells), repeat=len(steps)):
            row = np.zeros((participation.horizon or 0, cells))
            row[list(steps), list(places)] = 1
            rows.append(row.ravel())
    table = np.array(rows)
    distances = table[:, None, :] - table[None, :, :]
    assert Setting(participation, replaced=True, cells=2).changes == (distances != 0).sum(axis=-1).max()


@pytest.mark.parametrize("participation", SMALL, ids=str)
def test_changed_counts_of_one_cell(participation: Participation) -> None:
    """As many counts differ as two users' steps can cover, or one user's when a user is added or removed."""
    mine = list(supports(participation))
    both = max(len(set(a) | set(b)) for a in mine for b in mine)
    assert Setting(participation, replaced=True).changes == both
    assert Setting(participation).changes == participation.steps


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_bounds_below_one_are_refused(numbers: tuple[int, int, int]) -> None:
    """A participation bound, horizon and spacing of at least 1, or an error."""
    with pytest.raises(ValueError):
        Participation(*numbers)
