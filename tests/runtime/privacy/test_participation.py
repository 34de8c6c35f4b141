"""Sensitivities under a participation bound, against every pair of neighbors of small streams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc_runtime.privacy import Participation, changed_counts, l1_sensitivity, l2_sensitivity

SMALL = [Participation(*numbers) for numbers in product((1, 2, 3, 6), (1, 3, 4, 6), (1, 2, 3))]


def supports(participation: Participation) -> Iterator[tuple[int, ...]]:
    """Every set of steps in which one user may take part."""
    horizon = participation.horizon
    assert horizon is not None
    for size in range(min(participation.participation_bound, horizon) + 1):
        for steps in combinations(range(horizon), size):
            if all(b - a >= participation.spacing for a, b in pairwise(steps)):
                yield steps


def series(participation: Participation, values: tuple[float, ...]) -> list[NDArray[np.float64]]:
    """One user's possible contributions: any of `values` at every step of any support."""
    found = []
    for steps in supports(participation):
        for chosen in product(values, repeat=len(steps)):
            row = np.zeros(participation.horizon or 0)
            row[list(steps)] = chosen
            found.append(row)
    return found


@pytest.mark.parametrize("participation", SMALL, ids=str)
def test_add_or_remove(participation: Participation) -> None:
    """One user's largest series has L2 norm presence sqrt(k) and L1 norm presence k, k as many steps as fit."""
    mine = series(participation, (2.0,))
    assert l2_sensitivity(participation, 2.0) == pytest.approx(max(float(np.linalg.norm(row)) for row in mine))
    assert l1_sensitivity(participation, 2.0) == max(float(np.abs(row).sum()) for row in mine)
    assert participation.steps == max(map(len, supports(participation)))


@pytest.mark.parametrize("participation", SMALL, ids=str)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-1.0, 3.0)])
def test_replace_in_sums(participation: Participation, low: float, high: float) -> None:
    """Replacing one user: exactly the largest distance between two users' clamped series, shared steps included."""
    rows = np.array(series(participation, (low, high)))
    distances = rows[:, None, :] - rows[None, :, :]
    presence, exchange = max(abs(low), abs(high)), high - low
    l2 = float(np.sqrt((distances**2).sum(axis=-1)).max())
    l1 = float(np.abs(distances).sum(axis=-1).max())
    assert l2_sensitivity(participation, presence, exchange) == pytest.approx(l2)
    assert l2_sensitivity(participation, presence, exchange) >= l2
    assert l1_sensitivity(participation, presence, exchange) == l1


@pytest.mark.parametrize("participation", SMALL, ids=str)
def test_replace_in_histograms(participation: Participation) -> None:
    """With cells, users who share every step differ in two counts at each: c sqrt(2k) whatever the horizon."""
    cells = 2
    rows = []
    for steps in supports(participation):
        for places in product(range(cells), repeat=len(steps)):
            row = np.zeros((participation.horizon or 0, cells))
            row[list(steps), list(places)] = 1
            rows.append(row.ravel())
    table = np.array(rows)
    distances = table[:, None, :] - table[None, :, :]
    l2 = float(np.sqrt((distances**2).sum(axis=-1)).max())
    assert l2_sensitivity(participation, 1.0, np.sqrt(2.0)) == pytest.approx(l2)
    assert changed_counts(participation, replaced=True, by_cell=True) == (distances != 0).sum(axis=-1).max()
    assert l1_sensitivity(participation, 1.0, 2.0) == np.abs(distances).sum(axis=-1).max()


@pytest.mark.parametrize("participation", SMALL, ids=str)
def test_changed_counts_of_one_cell(participation: Participation) -> None:
    """As many counts differ as two users' steps can cover, or one user's when a user is added or removed."""
    mine = list(supports(participation))
    both = max(len(set(a) | set(b)) for a in mine for b in mine)
    assert changed_counts(participation, replaced=True, by_cell=False) == both
    assert changed_counts(participation, replaced=False, by_cell=False) == participation.steps


def test_streams_without_end() -> None:
    """Without a horizon the bound alone counts: c sqrt(k), and c sqrt(2k) for replaced users."""
    participation = Participation(50)
    assert l2_sensitivity(participation, 2.0) == pytest.approx(2 * 50**0.5)
    assert l2_sensitivity(participation, 2.0, 2.0) == 20
    assert l1_sensitivity(participation, 3.0) == 150


def test_roots_are_rounded_up() -> None:
    """No sensitivity is below the true root."""
    for bound in range(1, 400):
        assert l2_sensitivity(Participation(bound), 1.0) ** 2 >= bound * (1 - 1e-16)


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_bounds_below_one_are_refused(numbers: tuple[int, int, int]) -> None:
    """A participation bound, horizon and spacing of at least 1, or an error."""
    with pytest.raises(ValueError):
        Participation(*numbers)
