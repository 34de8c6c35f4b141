"""What is made of released values, held against its definition."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from statistics import median

import numpy as np
import pytest

from policyc_runtime.made_values import changes, quotients
from policyc_runtime.row_sums import block_totals, running_totals


@pytest.mark.parametrize("digits", [0, 1, 3, 6])
@pytest.mark.parametrize("size", [1, 3, 24])
def test_a_total_is_the_sum_of_the_decimals_that_are_written(digits: int, size: int) -> None:
    """Whoever adds up the printed values by hand has the printed total, to the last digit."""
    generator = np.random.default_rng(digits)
    values = np.round(generator.normal(0, 10.0 ** generator.uniform(-3, 6, (100, 2))), digits)
    totals = block_totals(values, size)
    assert totals.shape == (100 // size, 2)
    for row, cell in np.ndindex(totals.shape):
        printed = [Decimal(repr(value)) for value in values[row * size : (row + 1) * size, cell].tolist()]
        assert Decimal(repr(float(totals[row, cell]))) == sum(printed)


def test_totals_of_whole_numbers_are_whole_numbers() -> None:
    """Counts stay counts."""
    totals = block_totals(np.arange(10, dtype=np.int64)[:, None], 4)
    assert totals.dtype.kind == "i"
    assert totals.tolist() == [[6], [22]]


def test_values_with_all_their_digits_are_added_up_without_a_loss() -> None:
    """Where constraints leave no rounded values, a total is the float nearest to the exact sum."""
    values = np.random.default_rng(1).normal(0, 1e4, (600, 1))
    totals = block_totals(values, 200)
    for row in range(3):
        exact = sum(map(Fraction, values[row * 200 : (row + 1) * 200, 0].tolist()), Fraction(0))
        assert totals[row, 0] == float(exact)


@pytest.mark.parametrize("whole", [True, False])
def test_a_total_of_a_value_that_is_left_out_is_empty(whole: bool) -> None:
    """A total with a gap would be that of other values."""
    values = np.ma.MaskedArray(np.arange(12, dtype=np.int64 if whole else np.float64).reshape(6, 2))
    values[1, 0] = np.ma.masked
    assert block_totals(values, 2).tolist() == [[None, 4], [10, 12], [18, 20]]


@pytest.mark.parametrize("width", [None, 1, 3, 24, 60])
@pytest.mark.parametrize("digits", [0, 3, 6, 17])
def test_a_running_total_is_the_sum_of_the_numbers_that_are_written(digits: int, width: int | None) -> None:
    """So far, or over a window: to the last digit of decimals, and to the nearest float of numbers with all digits."""
    generator = np.random.default_rng(digits)
    values = generator.normal(0, 10.0 ** generator.uniform(-3, 6, (40, 2)))
    values = values if digits == 17 else np.round(values, digits)
    totals = running_totals(values, width)
    assert totals.shape == values.shape
    for row, cell in np.ndindex(totals.shape):
        rows = values[max(0, row + 1 - (width or 40)) : row + 1, cell].tolist()
        written = sum(Fraction(value) if digits == 17 else Fraction(Decimal(repr(value))) for value in rows)
        assert totals[row, cell] == float(written)


@pytest.mark.parametrize("whole", [True, False])
def test_a_running_total_is_empty_where_a_value_of_it_is_left_out(whole: bool) -> None:
    """Once left out, a value is in every later total, and in a window until it has left it."""
    values = np.ma.MaskedArray(np.arange(12, dtype=np.int64 if whole else np.float64).reshape(6, 2))
    values[1, 0] = np.ma.masked
    assert running_totals(values)[:, 0].tolist() == [0, None, None, None, None, None]
    assert running_totals(values, 2).tolist() == [[0, 1], [None, 4], [None, 8], [10, 12], [14, 16], [18, 20]]
    assert running_totals(values, 2).dtype.kind == ("i" if whole else "f")
    assert running_totals(values[:0], 2).shape == (0, 2)


def test_ratios_are_empty_below_one_and_where_a_value_is_left_out() -> None:
    """A noisy count below 1 is no denominator; nothing is shown that was left out before."""
    values = np.ma.MaskedArray([[1.0], [1.0], [-3.0], [4.0], [5.0]])
    values[3] = np.ma.masked
    over = np.ma.MaskedArray([[3.0], [0.999], [1.0], [7.0], [7.0]])
    over[4] = np.ma.masked
    assert quotients(values, over, 100.0).tolist() == [[33.333333], [None], [-300.0], [None], [None]]


def test_one_number_divides_every_cell() -> None:
    """A count of all divides the counts of every cell."""
    assert quotients(np.array([[1, 2, 3]]), np.array([[4]]), 1.0).tolist() == [[0.25, 0.5, 0.75]]


@pytest.mark.parametrize(("every", "begin", "end"), [(1, 0, 5), (7, 2, 37), (7, 0, 7), (3, 4, 9)])
def test_changes_are_from_the_median_of_the_same_turn(every: int, begin: int, end: int) -> None:
    """The baseline of row t has the rows from begin to end that are whole multiples of `every` rows away from t."""
    values = np.random.default_rng(every).uniform(-2, 9, (50, 3))
    values = np.ma.MaskedArray(values, values > 8.7)
    found = changes(values, every, begin, end)
    assert len(found) == 50 - end
    for t, cell in ((t, cell) for t in range(end, 50) for cell in range(3)):
        rows = [values[i, cell] for i in range(begin, end) if (t - i) % every == 0]
        hidden = values[t, cell] is np.ma.masked or any(value is np.ma.masked for value in rows)
        if hidden or median(rows) < 1:
            assert found[t - end, cell] is np.ma.masked
        else:
            expected = 100 * (float(values[t, cell]) / float(median(rows)) - 1)
            assert found[t - end, cell] == pytest.approx(expected, abs=1e-6)


def test_changes_have_no_row_until_the_baseline_is_over() -> None:
    """A baseline is made of fixed steps, all of which are published."""
    assert changes(np.ones((5, 2)), 2, 0, 6).shape == (0, 2)
    assert changes(np.ones((6, 2)), 2, 0, 6).shape == (0, 2)
    assert changes(np.ones((7, 2)), 2, 0, 6).tolist() == [[0.0, 0.0]]
