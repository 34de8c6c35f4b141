"""Whether at most so much of a leakage passes through a law: decided by the definition, without search.

L(alpha) <= bound exactly when sum_j (q_j - e^bound d_j)^+ <= (e^bound - 1) / (e^alpha - 1) for all pairs of rows.
The left side is rounded up and the right side down. Powers and reversals of a chain come with a bound on the relative
error of their entries: every q_j is taken as large as it may be, every d_j as small. So what is accepted holds for the
chain that the plan tells in decimals, to the last bit. Of numpy's exp and expm1 an error of 4 units is allowed for.

Source: CAO17 (the loss function). The audit form is ours.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_check.rounding import UNIT, Floats, roundings
from policyc_check.steps.stationary import VANISHING

Indices = NDArray[np.intp]

_CHUNK = 1 << 15  # floats of a working block
_TOGETHER = 4096  # values of mu
_SINGLE = 2.0**-24  # the relative error of one rounding in single precision
_MARGIN = 1 + 2.0**-45  # more than all roundings of a line and of a sum
_SMALLEST = 1e-290
_LOST = 1e-250  # entries below it may have been raised, from nothing
_LARGEST = 700.0  # beyond it e^x overflows; every column with d_j >= 1e-300 is then out of the sum


def audited_loss_bound(
    matrix: ArrayLike, alpha: ArrayLike, bound: ArrayLike, relative_error: float = 0.0
) -> NDArray[np.bool_]:
    """Whether L(alpha) <= bound, by its definition, with every rounding going against us.

    The matrix is (n, n), row-stochastic, every true entry within a factor exp(+-relative_error) of the one given; alpha
    >= 0 and bound are nats, (m,). False means not shown, which within a few ulps of L may happen although it holds.
    """
    a, b = np.ravel(np.asarray(alpha, dtype=np.float64)), np.ravel(np.asarray(bound, dtype=np.float64))
    shown = ((b >= a) | (a == 0)) & (a >= 0) & (b >= 0)
    open_ = np.flatnonzero(~shown & (b >= 0) & np.isfinite(a))
    if len(open_):
        rows = _RoundedUp(np.asarray(matrix, dtype=np.float64), relative_error)
        shown[open_] = _excess_at_most(rows, *_sides_of_inequality(a[open_], b[open_]))
    return np.asarray(shown)


def _sides_of_inequality(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Rounded down: mu = e^b - 1, and (e^b - 1) / (e^a - 1)."""
    mu = np.expm1(np.minimum(b, _LARGEST)) * (1 - 12 * UNIT)
    with np.errstate(invalid="ignore", divide="ignore"):
        right = np.exp(b - a) * (np.expm1(-b) / np.expm1(-a))
    return mu, np.where(right > _SMALLEST, right * (1 - (32 + a - b) * UNIT), 0.0)


def _excess_at_most(rows: _RoundedUp, mu: Floats, right: Floats) -> NDArray[np.bool_]:
    """Whether sum_j (q_j - d_j - mu d_j)^+ <= right for all ordered pairs of rows q and d."""
    order = np.argsort(mu)
    holds = np.ones(len(mu), dtype=np.bool_)
    for inside in np.split(order, range(_TOGETHER, len(order), _TOGETHER)):
        for i, ends in enumerate(rows.at_most(np.unique(mu[inside[[0, -1]]]))):
            holds[inside] &= _held(rows, i * rows.n + np.arange(rows.n), mu[inside], right[inside], ends)
    return holds


def _held(rows: _RoundedUp, pairs: Indices, mu: Floats, right: Floats, ends: Floats) -> NDArray[np.bool_]:
    """The same for some pairs, and rising mu; the sums at the first and at the last are at most `ends` (pairs, 1 or 2).

    The sum is convex in mu: between two mu a pair stays below the line through its two ends, and where that line is
    below every right side, the pair need not be summed. What is summed decides as if all had been.
    """
    across = (mu - mu[0]) / (mu[-1] - mu[0]) if mu[-1] > mu[0] else np.zeros(len(mu))
    line = ends[:, :1] * _MARGIN + np.minimum(ends[:, -1:] - ends[:, :1], 0.0) * across
    close, half = ~(line <= right).all(axis=1), len(mu) // 2  # what is not a number is never held
    pairs, ends = pairs[close], ends[close]
    if len(mu) <= 2 or len(pairs) * len(mu) * rows.width <= _CHUNK:
        return np.asarray((rows.excess(pairs, mu) <= right).all(axis=0))
    ends = np.insert(ends, 1, rows.excess(pairs, mu[[half]])[:, 0], axis=1)
    holds = np.ones(len(mu), dtype=np.bool_)
    for part, both in ((slice(half + 1), ends[:, :2]), (slice(half, None), ends[:, 1:])):
        holds[part] &= _held(rows, pairs, mu[part], right[part], both)
    return holds


class _RoundedUp:
    """The excess of ordered pairs of rows, rounded up; pair number i n + j has the rows q = i and d = j."""

    def __init__(self, P: Floats, relative_error: float) -> None:
        rows = np.unique(P, axis=0)
        self.n, self.width = rows.shape
        self._lower = np.where(rows < _LOST, 0.0, rows)
        self._upper = np.where((rows > 0) & (rows < VANISHING), VANISHING, rows)
        if relative_error:
            self._lower *= math.exp(-relative_error) * (1 - 4 * UNIT)
            self._upper *= math.exp(relative_error) * (1 + 4 * UNIT)
        self._factor = 1 + (roundings(self.width) + 6) * UNIT  # that of q - d, too, as mu is that much smaller

    def at_most(self, mu: Floats) -> Floats:
        """What the excess is at most, (n, n, len(mu)), in single precision: few pairs are left to be summed exactly.

        sum_j (q_j - x_j)^+ = sum_j q_j - sum_j min(q_j, x_j); that is off by at most n + 7 roundings, in any order.
        """
        shared, part = np.empty((self.n, self.n, len(mu))), np.empty((self.n, self.width), dtype=np.float32)
        for k, times in enumerate(1 + mu):
            x = np.minimum(times * self._lower, 2.0).astype(np.float32)  # what is cut there is lost against us
            for i, q in enumerate(self._upper.astype(np.float32)):
                shared[i, :, k] = np.minimum(q, x, out=part) @ np.ones(self.width, dtype=np.float32)
        total = self._upper.sum(axis=1) * self._factor
        return np.asarray(total[:, None, None] - shared * (1 - (self.width + 8) * _SINGLE))

    def excess(self, pairs: Indices, mu: Floats) -> Floats:
        """Shape (len(pairs), len(mu))."""
        found, some = np.empty((len(pairs), len(mu))), max(1, _CHUNK // (self.width * len(mu)))
        for here in (slice(s, s + some) for s in range(0, len(pairs), some)):
            i, j = np.divmod(pairs[here], self.n)
            difference = (self._upper[i] - self._lower[j])[:, None, :]  # exact where it is below the normal numbers
            part = self._lower[j][:, None, :] * (mu * (1 - 8 * UNIT))[:, None]
            np.minimum(difference, part, out=part)
            np.subtract(difference, part, out=part)  # (x - y)^+ = x - min(x, y), for floats too, and y >= 0
            found[here] = part.sum(axis=2) * self._factor
        return found
