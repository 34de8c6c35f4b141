"""How far one user can move what a strategy matrix C makes of a series, under a participation bound and a spacing.

A user changes the series by d, with |d_t| <= presence at the steps taken part in and 0 elsewhere; |C d|^2 = d' G d with
G = C' C. Under replacement the change is a difference of two users' series. Where C and the series are non-negative, as
with counts, the cross term only helps, which gives sqrt(2) times the sensitivity; else it is at most twice it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.privacy.participation import Participation

Floats = NDArray[np.float64]

UP = 1 + 1e-12
"""Raises what a few thousand roundings of sums of non-negative terms may have lost."""


def toeplitz_l2_square(coefficients: NDArray[np.int64], participation: Participation) -> int:
    """The squared L2 sensitivity of C x for a lower-triangular Toeplitz C of whole numbers, exact.

    Neighbors add or remove one user, who changes each step taken part in by at most 1. With non-negative coefficients
    that do not increase, the worst user takes part as early and as densely as the spacing allows: all inner products of
    columns are non-negative, and grow the earlier and the closer the columns are.

    Args:
        coefficients: the first column of C, shape (n,), whole numbers, non-negative and non-increasing, zero after its
            end.
        participation: how often a user takes part; without a horizon the stream is as long as matters.

    Raises:
        ValueError: coefficients that are not whole, negative or increase; `l2_sensitivity_bound` takes them.

    Source: KL24
    """
    c = np.asarray(coefficients)
    if c.ndim != 1 or c.dtype.kind != "i" or not ((c >= 0).all() and (np.diff(c) <= 0).all()):
        raise ValueError("coefficients must be whole, non-negative and non-increasing")
    return sum(total * total for total in earliest_user(c, participation).tolist())


def earliest_user(coefficients: NDArray[Any], participation: Participation) -> NDArray[Any]:
    """C x, (steps,), for a user who takes part from the first step on, as densely as the spacing allows."""
    steps, spacing = participation.steps, participation.spacing
    length = participation.horizon or (steps - 1) * spacing + coefficients.size
    rows = -(-length // spacing)
    padded = np.zeros(rows * spacing, dtype=coefficients.dtype)
    padded[: min(length, coefficients.size)] = coefficients[:length]
    sums = padded.reshape(rows, spacing).cumsum(axis=0)  # over 0, spacing, 2 spacing, ... steps ago
    sums[steps:] -= sums[:-steps].copy()
    return np.asarray(sums.ravel()[:length])


def tree_l2_square(participation: Participation) -> int:
    """An upper bound on the squared L2 sensitivity of all sums of a binary tree; exact where spacing is 1.

    The tree has every node of 1, 2, 4, ... steps that ends within the horizon. A node of w steps holds at most
    m = floor((w - 1) / spacing) + 1 participations, and squares add up to most when as many nodes as possible are full.

    Args:
        participation: with a horizon.

    Source: CSS11
    """
    assert participation.horizon is not None, "a tree has an end"
    square, bound, horizon = 0, participation.steps, participation.horizon
    for level in range(horizon.bit_length()):
        most = min(bound, ((1 << level) - 1) // participation.spacing + 1)
        full = min(bound // most, horizon >> level)
        rest = bound - full * most if full < horizon >> level else 0
        square += full * most**2 + rest**2
    return square


def largest_sum(columns: NDArray[np.int64], participation: Participation) -> int:
    """At most the largest sum of whole numbers >= 0, one a step, over steps in which one user may take part.

    Of every `spacing` steps in a row a user takes part in one at most. Exact where spacing is 1.

    Args:
        columns: shape (horizon,); of an endless stream, all numbers that there are.
        participation: how often a user takes part.
    """
    if participation.horizon is None:
        return participation.steps * int(columns.max())
    rows = -(-columns.size // participation.spacing)
    padded = np.zeros(rows * participation.spacing, dtype=np.int64)
    padded[: columns.size] = columns
    most = np.sort(padded.reshape(rows, participation.spacing).max(axis=1))
    return sum(most[-participation.steps :].tolist())


def l2_sensitivity_bound(
    matrix: ArrayLike, participation: Participation, presence: float = 1.0, *, replaced: bool = False
) -> float:
    """Upper bound on the L2 sensitivity of C x for any C.

    d' G d is at most the sum over the user's steps of row bounds; a row bound is the largest sum of absolute entries of
    G in that row over steps a user could take part in. Both maxima are found by dynamic programming over the steps.

    Args:
        matrix: C, shape (rows, steps).
        participation: how often a user takes part; its horizon, if given, is the number of steps.
        presence: how much one user changes one step at most, >= 0.
        replaced: neighbors replace one user: at most twice as much.

    Raises:
        ValueError: a horizon that is not the number of columns, or entries that are not finite.
    """
    C = np.asarray(matrix, dtype=np.float64)
    if C.ndim != 2 or not np.isfinite(C).all() or participation.horizon not in {None, C.shape[1]}:
        raise ValueError("the matrix must be finite, with one column for every step")
    rows = _most(np.abs(C.T @ C) + 1e-13 * np.outer(*[np.linalg.norm(C, axis=0)] * 2), participation)
    return _up(float(_most(rows[None, :], participation)[0]) * (4 if replaced else 1), presence)


def _most(values: Floats, participation: Participation) -> Floats:
    """For every row of values (rows, steps), all >= 0, the largest sum over steps in which one user may take part."""
    steps, spacing = values.shape[1], participation.spacing
    taken = min(participation.participation_bound, -(-steps // spacing))
    if spacing == 1:
        return np.asarray(np.sort(values, axis=1)[:, steps - taken :].sum(axis=1))
    best = np.zeros((steps + 1, values.shape[0]))  # best[t]: over steps before t
    for _ in range(taken):
        fewer, best = best, np.zeros_like(best)
        for t in range(steps):
            best[t + 1] = np.maximum(best[t], values[:, t] + fewer[max(0, t + 1 - spacing)])
    return np.asarray(best[steps])


def _up(square: float, presence: float) -> float:
    return math.sqrt(square) * presence * UP
