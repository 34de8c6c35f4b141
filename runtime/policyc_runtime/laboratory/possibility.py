"""Whether published counts could follow each other, had users moved as the chain says; and how strong the chain is.

Source: CAO23 (possibility, and its cut-off), CAO17 (smoothing). The bound on possibilities is ours.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

IMPOSSIBLE = 1e-10  # a move of counts that is less possible counts as an impossible event, as in CAO23
MOST_STATES = 60
_FEW = 12  # states, of which all sets are tried
_ROUNDS = 200
_FURTHEST = 300.0  # of logs of w below the largest, so that none vanishes
_STILL = 1e-3  # nats by which a bound must fall in a round to be followed further
_SAME_TOTAL = 1e-6  # of the users: published values that need not be whole add up so exactly


def impossible_moves(counts: Array, moves: Array) -> float:
    """At least this share of steps has counts that cannot follow those of the step before; nan of a single step.

    Args:
        counts: published counts of all states, (T, n).
        moves: the law of a user's next state given the state now, (n, n).
    """
    if len(counts) < 2:
        return math.nan
    return float(np.mean(log_possibilities(counts[:-1], counts[1:], moves) < math.log(IMPOSSIBLE)))


def log_possibilities(before: Array, after: Array, moves: Array) -> Array:
    """The log of how probably users counted in the one way are next counted in the other, at most, (m,).

    The probability is a coefficient of f(w) = prod_i (sum_j P_ij w_j)^before_i, and so at most f(w) over
    prod_j w_j^after_j, whatever w > 0. Multiplying each w_j by what is counted over what is expected lowers that;
    steps are doubled while they do. Of one user it ends at the entry of the chain; where nobody can move so it falls
    for ever. Counts that are negative, or of another number of users, follow nothing.

    Args:
        before: counts of all states, (m, n); they need not be whole.
        after: those of the step after each, (m, n).
        moves: (n, n), row-stochastic.
    """
    users = before.sum(axis=1)
    fits = (before >= 0).all(axis=1) & (after >= 0).all(axis=1)
    fits &= np.abs(after.sum(axis=1) - users) <= _SAME_TOTAL * np.maximum(users, 1)
    if len(moves) <= _FEW:
        fits &= ~_overfull(before, after, moves > 0)
    bounds = np.where(fits, math.inf, -math.inf)
    rows = np.flatnonzero(fits)
    here, there = before[rows], after[rows]
    logs, towards = np.zeros(there.shape), np.zeros(there.shape)  # of w, where somebody is counted
    pace = np.ones(len(rows))
    for _ in range(_ROUNDS):
        tried = np.maximum(logs + pace[:, None] * towards, -_FURTHEST)
        tried -= tried.max(axis=1, keepdims=True, where=there > 0, initial=-_FURTHEST)
        tried = np.maximum(tried, -_FURTHEST)
        value, expected = _tried(here, there, tried, moves)
        fell = bounds[rows] - value
        better = fell > 0
        bounds[rows[better]] = value[better]
        logs[better], taken = tried[better], pace
        pace = np.where(better, 2 * taken, np.maximum(taken / 4, 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            towards[better] = np.where(there > 0, np.log(there / expected), 0.0)[better]
        on = (bounds[rows] > math.log(IMPOSSIBLE)) & ((fell > _STILL) | (taken > 1))
        if not on.any():
            break
        rows, pace = rows[on], pace[on]
        here, there, logs, towards = here[on], there[on], logs[on], towards[on]
    return bounds


def _overfull(before: Array, after: Array, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether more users must come to some set of states than are counted there: if so they cannot (Hall)."""
    states = len(possible)
    sets = (np.arange(1 << states)[:, None] >> np.arange(states) & 1).astype(np.bool_)
    bound_to = ~(possible[None] & ~sets[:, None]).any(axis=2)  # states from which one can go nowhere else
    must, room = before @ bound_to.T.astype(np.float64), after @ sets.T.astype(np.float64)
    return np.asarray((must > room + _SAME_TOTAL * np.maximum(before.sum(axis=1, keepdims=True), 1)).any(axis=1))


def _tried(here: Array, there: Array, logs: Array, moves: Array) -> tuple[Array, Array]:
    """The bound at some w, (m,), and how many users would then be expected in each state, (m, n)."""
    weights = np.where(there > 0, np.exp(logs), 0.0)
    reached = weights @ moves.T  # sum_j P_ij w_j
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(here > 0, here * np.log(reached), 0.0).sum(axis=1)
        expected = weights * (np.where(here > 0, here / reached, 0.0) @ moves)
    lost = ((here > 0) & (reached == 0)) | ((there > 0) & (expected == 0))
    value = moved - (there * logs).sum(axis=1)
    return np.where(lost.any(axis=1), -math.inf, value), expected


def smoothing_level(moves: Array) -> float:
    """The s at which the papers' strongest chain, smoothed, moves users as unpredictably: 0 to inf.

    Two rows of that chain differ by 1 / (1 + n s) in total variation, and here by as much at most.

    Args:
        moves: (n, n), row-stochastic.
    """
    differ = max(float(np.abs(moves - row).sum(axis=1).max()) / 2 for row in moves)
    return math.inf if differ == 0 else (1 / differ - 1) / len(moves)
