"""Constraint sets: their simplest form, and what breaks them."""

from __future__ import annotations

import numpy as np
import pytest
from demands import at_least_zero, change_at_most, demand, demands, total

from policyc_runtime.errors import ReleaseError


def test_a_sum_and_bounds_are_a_simplex() -> None:
    """One sum over all cells and bounds on single ones, whatever the sign of their coefficients."""
    constraints = demands(
        total(3, 200),
        *at_least_zero(3),
        demand("x <= 40", {1: 1}, "<=", 40),
        demand("-2 x", {2: -2}, "<=", -10),
        cells=3,
    )
    simplex = constraints.simplex
    assert simplex is not None
    assert simplex.total == 200
    assert simplex.lower.tolist() == [0, 0, 5]
    assert simplex.upper.tolist() == [np.inf, 40, np.inf]


def test_whole_numbers_round_bounds_inwards_exactly() -> None:
    """0.3 x <= 0.9 allows 3, and 0.7 x >= 1 asks for 2, where values are whole numbers."""
    rows = (demand("a", {0: "0.3"}, "<=", "0.9"), demand("b", {0: "0.7"}, ">=", 1))
    simplex = demands(*rows, cells=2).simplex
    assert simplex is not None
    assert simplex.upper[0] == 3
    assert simplex.lower[0] == 2


@pytest.mark.parametrize(
    "row",
    [
        demand("pair", {0: 1, 1: 1}, "<=", 150),
        demand("weighted sum", {0: 1, 1: 2, 2: 1}, "==", 150),
        demand("inequality of the sum", {0: 1, 1: 1, 2: 1}, "<=", 150),
        demand("two steps", {0: 1}, "<=", 40, {0: -1}),
    ],
)
def test_anything_else_is_no_simplex(row: object) -> None:
    """Sums of some cells, weights, inequalities over all and step-to-step limits need a program."""
    assert demands(row, cells=3).simplex is None  # type: ignore[arg-type]


def test_the_total_is_known_among_other_constraints() -> None:
    """What the cells add up to is found beside constraints of any kind."""
    assert demands(demand("pair", {0: 1, 1: 1}, "<=", 9), total(3, 20), cells=3).total == 20
    assert demands(demand("twice", {0: 2, 1: 2, 2: 2}, "==", 20), cells=3).total == 10
    assert demands(*at_least_zero(3), cells=3).total is None


def test_violations_are_seen() -> None:
    """Sums, bounds, whole numbers and changes from the step before are all checked."""
    constraints = demands(total(2, 10), *at_least_zero(2), *change_at_most(2, 3), cells=2)
    good = np.array([[5.0, 5.0], [8.0, 2.0]])
    assert constraints.violation(good, None) == 0
    constraints.check(good, np.array([4.0, 6.0]))
    for values, previous in [
        ([[5.0, 6.0]], None),
        ([[11.0, -1.0]], None),
        ([[5.5, 4.5]], None),
        ([[5.0, 5.0], [9.0, 1.0]], None),
        ([[5.0, 5.0]], [1.0, 9.0]),
    ]:
        before = None if previous is None else np.array(previous)
        with pytest.raises(ReleaseError):
            constraints.check(np.array(values), before)


def test_step_zero_has_nothing_before_it() -> None:
    """A step-to-step limit does not apply to the first step of a stream."""
    constraints = demands(*change_at_most(2, 3), cells=2)
    assert constraints.violation(np.array([[100.0, 0.0]]), None) == 0


def test_constraints_within_a_step() -> None:
    """Leaving out what couples steps keeps the rest."""
    constraints = demands(total(2, 10), *change_at_most(2, 3), *at_least_zero(2), cells=2).within_a_step()
    assert not constraints.couples_steps
    assert constraints.simplex is not None
    assert len(constraints.rows) == 3
