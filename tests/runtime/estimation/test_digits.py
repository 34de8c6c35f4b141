"""Published values have the digits that noise leaves, and keep what the policy demands."""

from __future__ import annotations

import numpy as np
import pytest
from demands import at_least_zero, change_at_most, demand, demands, total

from policyc_runtime.estimation.constraints import TOLERANCE
from policyc_runtime.estimation.digits import decimals, rounded_values
from policyc_runtime.estimation.projection import nearest_values

CASES = {
    "nothing": demands(cells=3, integer=False),
    "bounds": demands(*at_least_zero(3), cells=3, integer=False),
    "a sum": demands(total(3, 200), *at_least_zero(3), cells=3, integer=False),
    "a sum of halves": demands(total(3, "200.5"), *at_least_zero(3), cells=3, integer=False),
    "an odd bound": demands(demand("x[0] >= 3.14159265", {0: 1}, ">=", "3.14159265"), cells=3, integer=False),
    "steps": demands(*change_at_most(3, 5), *at_least_zero(3), cells=3, integer=False),
}


def test_a_step_of_rounding_is_small_beside_the_noise():
    """One to six decimals, whose step is at most a thousandth of the noise wherever six are enough."""
    for noise in (1e-4, 0.02, 0.5, 1.0, 7.3, 99.9, 1e4, 1e9):
        digits = decimals(noise)
        assert 1 <= digits <= 6
        assert digits == 6 or 10.0**-digits <= 1e-3 * noise
        assert digits == 1 or 10.0 ** -(digits - 1) > 1e-3 * noise
    assert decimals(0.0) == decimals(float("inf")) == decimals(float("nan")) == 6


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("digits", [1, 3])
def test_rounded_values_keep_constraints_and_have_few_digits(name, digits):
    """They are the nearest that keep every constraint; texts are as short as the digits say."""
    constraints = CASES[name]
    rng = np.random.default_rng(digits)
    noisy = np.rint(rng.normal(60, 30, (40, 3))) + rng.random((40, 3))
    values = nearest_values(noisy, constraints, None)
    found = rounded_values(values, digits, constraints, None)
    assert constraints.violation(found, None) <= TOLERANCE
    assert all(len(repr(number).split(".")[1]) <= digits for number in found.ravel().tolist())
    room = (0.5 if constraints.total is None else 1.5) * 10.0**-digits + 1e-9
    if name == "an odd bound":
        room += 0.5 * 10.0**-digits
    assert np.abs(found - values).max() <= room
    assert np.array_equal(rounded_values(found, digits, constraints, None), found)


def test_values_that_no_few_digits_allow_keep_them_all():
    """A sum between two steps of rounding, or steps of an odd size, are kept exactly instead."""
    for constraints in (
        demands(total(3, "200.123456"), *at_least_zero(3), cells=3, integer=False),
        demands(demand("x[0] - previous(x)[0] <= 0.333333", {0: 1}, "<=", "0.333333", {0: -1}), cells=3, integer=False),
    ):
        noisy = np.cumsum(np.full((20, 3), 7.7), axis=0)
        values = nearest_values(noisy, constraints, None)
        found = rounded_values(values, 1, constraints, None)
        assert np.array_equal(found, values)
        assert constraints.violation(found, None) <= TOLERANCE
