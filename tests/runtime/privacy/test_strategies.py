"""Sensitivities of strategy matrices against every user of small streams."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc_runtime.mechanisms import Setting
from policyc_runtime.privacy import (
    Participation,
    l2_sensitivity,
    l2_sensitivity_bound,
    toeplitz_l2_square,
    tree_l2_square,
)

HORIZON = 7
COEFFICIENTS = {
    "square root": [1024, 512, 384, 320, 280, 252, 231],
    "running total": [1] * HORIZON,
    "plain": [1],
    "steps": [5, 5, 1, 1, 1],
    "band": [10, 9],
}


def toeplitz(coefficients: list[int], horizon: int) -> NDArray[np.float64]:
    """The lower-triangular matrix with this first column."""
    padded = np.append(np.array(coefficients, dtype=float), np.zeros(horizon))
    return np.array([[padded[i - j] if i >= j else 0.0 for j in range(horizon)] for i in range(horizon)])


def supports(bound: int, spacing: int) -> list[tuple[int, ...]]:
    """Every largest or smaller set of steps one user may take part in."""
    return [
        steps
        for size in range(1, bound + 1)
        for steps in combinations(range(HORIZON), size)
        if all(b - a >= spacing for a, b in pairwise(steps))
    ]


def users(bound: int, spacing: int, values: tuple[float, ...]) -> NDArray[np.float64]:
    """Every user's series."""
    rows = [np.zeros(HORIZON)]
    for steps in supports(bound, spacing):
        for chosen in product(values, repeat=len(steps)):
            rows.append(np.zeros(HORIZON))
            rows[-1][list(steps)] = chosen
    return np.array(rows)


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize("spacing", [1, 2, 3])
@pytest.mark.parametrize("bound", [1, 2, 3, 5])
def test_early_and_dense_is_worst(name: str, bound: int, spacing: int) -> None:
    """For falling coefficients the sensitivity is exactly that of the worst user, found by trying all of them."""
    C = toeplitz(COEFFICIENTS[name], HORIZON)
    participation = Participation(bound, HORIZON, spacing)
    worst = round(((users(bound, spacing, (-1, 1)) @ C.T) ** 2).sum(axis=1).max())
    found = toeplitz_l2_square(np.array(COEFFICIENTS[name]), participation)
    assert found == worst
    assert found**0.5 <= l2_sensitivity_bound(C, participation)


@pytest.mark.parametrize("name", COEFFICIENTS)
@pytest.mark.parametrize(("bound", "spacing"), [(2, 1), (2, 2), (3, 3)])
def test_replaced_users(name: str, bound: int, spacing: int) -> None:
    """Two users' series are no further apart than is said, of whatever signs, in one cell or several."""
    C, column = toeplitz(COEFFICIENTS[name], HORIZON), np.array(COEFFICIENTS[name])
    participation = Participation(bound, HORIZON, spacing)
    for values, signed in (((0.5, 1.0), False), ((-1.0, 1.0), True)):
        moved = users(bound, spacing, values) @ C.T
        worst = np.linalg.norm(moved[:, None] - moved[None], axis=-1).max()
        setting = Setting(participation, replaced=True, signed=signed)
        assert worst**2 <= setting.moved_square(lambda part: toeplitz_l2_square(column, part)) * (1 + 1e-12)
        apart = np.sqrt((moved[:, None] ** 2 + moved[None] ** 2).sum(axis=-1)).max()  # the users are in two cells
        setting = Setting(participation, replaced=True, signed=signed, cells=2)
        assert apart**2 <= setting.moved_square(lambda part: toeplitz_l2_square(column, part)) * (1 + 1e-12)
    assert worst <= l2_sensitivity_bound(C, participation, replaced=True)


@pytest.mark.parametrize("bound", [1, 2, 3, 5])
@pytest.mark.parametrize("spacing", [1, 2, 3])
def test_tree(bound: int, spacing: int) -> None:
    """No user moves the nodes of a tree further than the bound, which is exact without spacing."""
    nodes = [
        [1.0 if start <= step < start + width else 0.0 for step in range(HORIZON)]
        for width in (1, 2, 4)
        for start in range(0, HORIZON - width + 1, width)
    ]
    worst = round(((users(bound, spacing, (-1, 1)) @ np.array(nodes).T) ** 2).sum(axis=1).max())
    found = tree_l2_square(Participation(bound, HORIZON, spacing))
    assert worst <= found <= 1.3 * worst
    assert found == worst or spacing > 1


@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (3, 1), (3, 2), (2, 4)])
def test_bound_of_any_matrix(bound: int, spacing: int) -> None:
    """No user moves the result of a matrix of any signs further than the bound, which is exact where signs agree."""
    rng = np.random.default_rng(8)
    participation = Participation(bound, HORIZON, spacing)
    for C in (rng.normal(size=(5, HORIZON)), rng.uniform(size=(HORIZON, HORIZON)), np.eye(HORIZON)):
        worst = np.linalg.norm(users(bound, spacing, (-1, 1)) @ C.T, axis=1).max()
        assert worst <= l2_sensitivity_bound(C, participation)
    assert l2_sensitivity_bound(np.eye(HORIZON), participation, 2.0) == pytest.approx(
        l2_sensitivity(participation, 2.0)
    )


def test_one_participation_is_the_largest_column() -> None:
    """With one participation both are the largest norm of a column."""
    C = toeplitz(COEFFICIENTS["square root"], HORIZON)
    largest = np.linalg.norm(C, axis=0).max()
    assert l2_sensitivity_bound(C, Participation(1, HORIZON)) == pytest.approx(largest)
    column = np.array(COEFFICIENTS["square root"])
    assert toeplitz_l2_square(column, Participation(1, HORIZON)) == pytest.approx(largest**2)


def test_streams_without_end() -> None:
    """A band has a sensitivity over any length: that of a stream with room for every participation."""
    band = np.array(COEFFICIENTS["band"])
    endless = toeplitz_l2_square(band, Participation(3, None, 2))
    assert endless == toeplitz_l2_square(band, Participation(3, 50, 2)) == 3 * (100 + 81)


def test_long_streams_are_exact() -> None:
    """100,000 steps and participations by the thousand are added up in whole numbers."""
    ones = np.ones(100_000, dtype=np.int64)
    assert toeplitz_l2_square(ones, Participation(100_000, 100_000)) == sum(t * t for t in range(1, 100_001))
    few = Participation(1000, 100_000, 7)
    assert toeplitz_l2_square(ones, few) == sum(min(t // 7 + 1, 1000) ** 2 for t in range(100_000))


@pytest.mark.parametrize("coefficients", [[1, 2], [1, -1], [1.0, 0.5], [[1]]])
def test_other_coefficients_are_refused(coefficients: list[float]) -> None:
    """Where the worst user is not known, nothing is claimed."""
    with pytest.raises(ValueError):
        toeplitz_l2_square(np.array(coefficients), Participation(2, 5))


def test_matrices_that_do_not_fit_are_refused() -> None:
    """One column for every step."""
    with pytest.raises(ValueError):
        l2_sensitivity_bound(np.eye(3), Participation(2, 4))
