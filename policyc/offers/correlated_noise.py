"""The coefficients of correlated noise: those of least mean square error under the participation bound.

C = (1 - decay L)^(-exponent), L the shift by one step, is chosen from the setting alone. Where participations are so
far apart that a band of coefficients does not reach from one to the next, these are chosen one by one instead.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from policyc_check.mechanisms.toeplitz import PIECE, earliest_user
from policyc_check.users.participation import Participation
from policyc_runtime.mechanisms.toeplitz import inverse, product, totals

Array = NDArray[np.float64]
DIGITS = Decimal("1e-9")  # of decay and exponent


@lru_cache(maxsize=64)
def best_exponent(participation: Participation, workload: str, window: int | None) -> tuple[Decimal, Decimal]:
    """Decay and exponent of least mean square error; no data is asked."""
    from scipy.optimize import minimize

    steps = participation.horizon
    assert steps is not None, "it does not apply to endless streams"
    if workload == "identity":
        return Decimal(0), Decimal(0)
    longest = math.log(steps) + 5  # decay = 1 - exp(-this) is as good as 1
    weights = 1 - np.arange(steps) / steps

    def error(point: tuple[float, float]) -> float:
        decay, j = -math.expm1(-point[0]), np.arange(1, steps)
        column = np.cumprod(np.append(1.0, decay * (point[1] + j - 1) / j))
        inverse = np.cumprod(np.append(1.0, decay * (j - 1 - point[1]) / j))
        noise = float(weights @ totals(inverse, workload, window) ** 2)
        return math.log(noise * float((earliest_user(column, participation) ** 2).sum()))

    found = minimize(
        error,
        (min(3.0, longest), 0.5),
        method="Nelder-Mead",
        bounds=((0.0, longest), (0.0, 1.0)),
        options={"xatol": 2e-3, "fatol": 1e-5, "initial_simplex": [(2.0, 0.5), (min(4.0, longest), 0.7), (4.0, 0.3)]},
    ).x
    return Decimal(-math.expm1(-found[0])).quantize(DIGITS), Decimal(found[1]).quantize(DIGITS)


def near(participation: Participation) -> Participation:
    """Of a long stream a part that says enough of it to choose coefficients by."""
    return replace(participation, horizon=min(participation.horizon or PIECE, PIECE))


def mean_error(column: Array, participation: Participation, workload: str, window: int | None) -> tuple[float, Array]:
    """Log of mean square error times squared sensitivity, and its gradient by the entries of the column."""
    steps = column.size
    weights = 1 - np.arange(steps) / steps
    undone = inverse(column)
    answer = totals(undone, workload, window)
    twice = totals(product(undone, undone, steps), workload, window)
    moved = earliest_user(column, participation)
    taken = np.zeros(steps)
    taken[np.arange(participation.steps) * participation.spacing] = 1
    noise, square = float(weights @ answer**2), float(moved @ moved)
    # entry j moves answer_t by -twice_(t - j), and what a user moves by taken_(t - j)
    falls = product((2 * weights * answer)[::-1], twice, steps)[::-1]
    rises = product((2 * moved)[::-1], taken, steps)[::-1]
    return math.log(noise * square), rises / square - falls / noise


@lru_cache(maxsize=64)
def _best_band_of(participation: Participation, workload: str, window: int | None, begin: tuple[float, ...]) -> Array:
    from scipy.optimize import minimize

    steps, width = participation.horizon or 1, len(begin)

    def error(falls: Array) -> tuple[float, Array]:
        column = np.zeros(steps)
        column[:width] = np.cumsum(falls[::-1])[::-1]
        value, slope = mean_error(column, participation, workload, window)
        return value, np.cumsum(slope[:width])

    first = np.array(begin) - np.append(begin[1:], 0.0)
    found = minimize(
        error, first, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * width, options={"maxiter": 300, "ftol": 1e-10}
    )
    column = np.cumsum(found.x[::-1])[::-1]
    return np.asarray(column / column[0])


def best_band(
    participation: Participation, workload: str, window: int | None, column: Array, grid: int
) -> tuple[int, ...]:
    """As many coefficients as steps between participations, of least mean square error, in units of the grid."""
    begin = tuple((column / column[0])[: participation.spacing].tolist())
    found = _best_band_of(participation, workload, window, begin)
    return tuple(np.rint(found * grid).astype(np.int64).tolist())
