"""What is made of released values: totals of blocks, running totals, windows, ratios, means and changes.

A function of the plan and of what is released, for the run, for whoever verifies, and for simulations alike. What is
masked is published empty: a denominator below 1, or a value that was itself left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.denominators import denominators
from policyc_runtime.made_release import BlockTotal, Change, Quotient
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MadeRelease
from policyc_runtime.row_sums import (
    DECIMALS,
    EXACT,
    UNIT,
    Masked,
    Values,
    block_totals,
    masked,
    running_totals,
    width_of,
)
from policyc_runtime.suppression import suppressed_rows

Array = NDArray[np.float64]

LEAST_DENOMINATOR = 1.0  # a ratio to less is published empty: it would be noise


def made_values(plan: Plan, released: Mapping[str, Values]) -> dict[str, Masked]:
    """Rows of everything that the plan makes of released values.

    Args:
        plan: whose `made` is meant; they come in its order.
        released: by release name, (steps, cells), steps 0, 1, ...; whole numbers or floats, masked where left out.

    Returns:
        By name, (rows, cells), one row of every block of steps all of which are there; whole numbers where they are
        totals of whole numbers.
    """
    known: dict[str, Values] = dict(released)
    found: dict[str, Masked] = {}
    for made in plan.made:
        known[made.name] = rows = _values(plan, made, known)
        if made.suppressions:
            rows = masked(np.ma.getdata(rows), np.ma.getmaskarray(rows) | suppressed_rows(plan, made, known))
        found[made.name] = known[made.name] = rows
    return found


def _values(plan: Plan, made: MadeRelease, known: Mapping[str, Values]) -> Masked:
    query, base = made.query, known[made.query.of]
    steps, first = rows_of(plan, query.of)
    if isinstance(query, BlockTotal):
        return block_totals(base, made.steps // steps)
    if isinstance(query, PrefixQuery | WindowQuery):
        return running_totals(base, width_of(query))
    if isinstance(query, Change):
        every, begin, end = (number // steps for number in (query.every, query.first - first, query.last + 1 - first))
        return changes(base, every, begin, end)
    if query.over is None:
        over: Values = np.full((len(base), 1), float(plan.stream.population or 0))
    else:
        over = denominators(plan, query, known[query.over])
    return quotients(base, over, float(query.times))


def rows_of(plan: Plan, name: str) -> tuple[int, int]:
    """Of how many steps a row of a release is, and at which step the first one begins."""
    return next(((made.steps, made.first) for made in plan.made if made.name == name), (1, 0))


def sources_of(plan: Plan, name: str) -> set[str]:
    """The names of the releases that one is made of in the end; its own where it is not made of others."""
    made = next((one for one in plan.made if one.name == name), None)
    if made is None:
        return {name}
    over = made.query.over if isinstance(made.query, Quotient) else None
    return set().union(*(sources_of(plan, of) for of in (made.query.of, over) if of is not None))


def quotients(values: Values, over: Values, times: float) -> Masked:
    """`times` the values divided by others, rounded; empty where these are below 1.

    Args:
        values: (rows, cells).
        over: (rows, cells), or (rows, 1) for all cells.
        times: > 0.
    """
    numbers, small = _divisors(over)
    return _rounded(times * np.ma.getdata(values) / numbers, np.logical_or(np.ma.getmaskarray(values), small))


def changes(values: Values, every: int, begin: int, end: int) -> Masked:
    """By how many percent the rows from `end` on are above the medians of earlier rows, rounded.

    Args:
        values: (rows, cells).
        every: the baseline of row t has rows that are whole multiples of so many rows from t; begin + every <= end.
        begin: the first row of the baseline.
        end: one beyond its last row.
    """
    data, empty, cells = np.ma.getdata(values), np.ma.getmaskarray(values), values.shape[1]
    if len(values) <= end:
        return _rounded(np.empty((0, cells)), np.zeros((0, cells), np.bool_))
    rows = [np.arange(begin + (turn - begin) % every, end, every) for turn in range(every)]
    baselines = masked(
        np.array([np.median(data[one], axis=0) for one in rows]), np.array([empty[one].any(axis=0) for one in rows])
    )
    medians, small = _divisors(baselines[np.arange(end, len(values)) % every])
    return _rounded(100.0 * (data[end:] / medians - 1.0), empty[end:] | small)


def _divisors(values: Values) -> tuple[Array, NDArray[np.bool_]]:
    """What may be divided by, 1 where nothing is, and where that is."""
    data = np.asarray(np.ma.getdata(values), np.float64)
    small: NDArray[np.bool_] = np.ma.getmaskarray(values) | (data < LEAST_DENOMINATOR)
    return np.where(small, 1.0, data), small


def _rounded(values: Array, empty: NDArray[np.bool_]) -> Masked:
    """With six decimals; larger numbers have fewer digits than that anyway. Minus zero is zero."""
    rounded = np.where(np.abs(values) < EXACT / UNIT, np.round(values, DECIMALS), values)
    return masked(rounded + 0.0, empty)
