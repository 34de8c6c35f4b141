"""Published values with the digits that noise leaves: rounded, and still as constraints demand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.constraints import TOLERANCE
from policyc_runtime.estimation.recursions import pieces
from policyc_runtime.estimation.separable import SquaredCost, minimise_integers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]

FINE = 1e-3  # of the typical noise: a step of rounding is no larger
FEWEST, MOST = 1, 6  # decimals
EXACT = 2.0**52  # from which on doubles are whole numbers


def decimals(noise: float) -> int:
    """How many decimals say all that there is to say under noise of this typical size, > 0, in published units."""
    if not 0 < noise < math.inf:
        return MOST
    return min(max(math.ceil(-math.log10(FINE * noise)), FEWEST), MOST)


def rounded_values(values: Array, digits: int, constraints: ConstraintSet, previous: Array | None) -> Array:
    """The nearest values with so many decimals that keep the constraints; as they are where rounding breaks one.

    Args:
        values: (rows, cells), which keep the constraints.
        digits: decimals, >= 1.
        constraints: of the release; whole numbers have no decimals.
        previous: (cells,) values of the step before; None at step 0.
    """
    scale = 10.0**digits
    if constraints.integer or not np.abs(values).max(initial=0.0) * scale < EXACT:
        return values
    found = _on_the_grid(values * scale, scale, constraints)
    if found is None or constraints.violation(found / scale, previous) > TOLERANCE:
        return values
    return np.asarray(found / scale)


def _on_the_grid(values: Array, scale: float, constraints: ConstraintSet) -> Array | None:
    """The nearest whole numbers under bounds and a sum; None where there are none."""
    simplex = constraints.simplex
    if simplex is None:
        return np.rint(values) if _keeps_distances(constraints, scale) else None
    lower, upper = np.ceil(simplex.lower * scale - TOLERANCE), np.floor(simplex.upper * scale + TOLERANCE)
    total = None if simplex.total is None else float(np.rint(simplex.total * scale))
    if total is not None and abs(total - (simplex.total or 0.0) * scale) > TOLERANCE * scale:
        return None
    if (lower > upper).any() or (total is not None and not lower.sum() <= total <= upper.sum()):
        return None
    found = np.empty(values.shape)
    for rows in pieces(len(values)):
        found[rows] = minimise_integers(SquaredCost(values[rows]), total, lower, upper)
    return found


def _keeps_distances(constraints: ConstraintSet, scale: float) -> bool:
    """Whether all constraints bound one value, or the distance of two, at a step of rounding: these hold after it.

    A matter of the plan alone, so that values do not depend on which steps were released together.
    """
    coupled, single = constraints.coupled, constraints.single
    rows = np.hstack([coupled.current, coupled.previous])
    before = (np.abs(rows).sum(axis=1) == 1) & ((rows != 0).sum(axis=1) == 1)
    distance = (rows.sum(axis=1) == 0) & (np.abs(rows).max(axis=1, initial=0.0) == 1) & ((rows != 0).sum(axis=1) == 2)
    bounds = np.concatenate([coupled.bounds, single.bounds]) * scale
    kept = (before | distance).all() and (np.abs(single.coefficients) == 1).all()
    return bool(kept and (np.abs(bounds - np.rint(bounds)) <= TOLERANCE * scale).all())
