"""The temporal loss function L of a transition matrix: what passes from one step's leakage to the next step's.

Leakage `a` about one step passes at most log1p(G E / (1 + D E)) on to a correlated step, E = e^a - 1, where D = d(S)
and G = q(S) - d(S) for two rows q, d and a set S of columns; L(a) is the maximum over all pairs and sets. That is
L(a) = log1p(mu) where mu = E max (G - mu D). The corners of the maximum do not depend on `a`: the hull is built once.

Source: CAO17 (the function and Algorithm 1). The hull is ours.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc.planning.leakage.hull import HUGE, TINY, Pairs, Vertex, kept_hull
from policyc.planning.leakage.matrix import transition_matrix
from policyc_check.errors import InvalidMatrixError
from policyc_check.rounding import UNIT, roundings

Floats = NDArray[np.float64]

_LARGE, _LARGEST = 256, 16_384  # states for which one value is first sought in whole numbers
_NEAR, _FAR = 1.0, 4.0  # nats up to which the hull of so many is built at least, and beyond which as a whole
_LEAST = 2.0**-6  # the former where rows are known roughly
_TOLD = 0.9  # (e^alpha - 1) times their tolerance, up to which a part of the hull tells losses of theirs


class LossFunction:
    """The temporal loss function L of one transition matrix: `loss(alpha)`, in nats.

    0 <= L(a) <= a, L(0) = 0, monotone, 1-Lipschitz. The first value is found directly, the hull when more are asked.

    Args:
        matrix: shape (n, n), row-stochastic.
        row_tolerance: total variation, in [0, 1), within which rows are known; the bound holds for every such matrix.
        relative_error: every true entry is within a factor exp(+-relative_error) of the one given; for the audit alone.
        often: whether many values will be asked: of hundreds of states the first one then is not found directly.

    Raises:
        InvalidMatrixError: E0805.

    Source: CAO17.
    """

    def __init__(
        self, matrix: ArrayLike, row_tolerance: float = 0.0, relative_error: float = 0.0, *, often: bool = False
    ) -> None:
        if not 0 <= row_tolerance < 1:
            raise InvalidMatrixError("E0805", f"a row tolerance lies between 0 and 1, not at {row_tolerance:g}")
        self.matrix = transition_matrix(matrix)
        self.row_tolerance = float(row_tolerance)
        self.relative_error = float(relative_error)
        if relative_error:  # rows whose rounding took them away from 1 were divided by their sum
            missed = float(np.abs(np.sum(matrix, axis=1) - 1).max())
            self.relative_error += 1.01 * missed + (roundings(len(self.matrix)) + 3) * UNIT if missed > 0.9e-14 else 0.0
        last = {row.tobytes(): i for i, row in enumerate(self.matrix)}
        self._row = np.array(list(last.values()))
        self._distinct = self.matrix if len(last) == len(self.matrix) else self.matrix[self._row]
        self._asked = often and len(self._distinct) >= _LARGE
        self._begun: tuple[float, tuple[list[float], list[Vertex]]] = (-1.0, ([], []))  # up to which alpha, nats

    @overload
    def __call__(self, alpha: float) -> float: ...
    @overload
    def __call__(self, alpha: Floats) -> Floats: ...
    def __call__(self, alpha: Any) -> Any:
        """Leakage passed on from a neighboring step with leakage `alpha` (nats, >= 0; scalar or array)."""
        if isinstance(alpha, np.ndarray) and alpha.ndim:
            return self._array(np.asarray(alpha, dtype=np.float64))
        a = float(alpha)
        if 0 <= a <= self._begun[0]:
            breaks, vertices = self._begun[1]
            return vertices[bisect_right(breaks, a)].loss(a)
        if not a >= 0:
            raise ValueError("leakage is at least 0")
        if not self._asked and a < 50 and self.row_tolerance == 0:
            self._asked = True
            return self._direct(a)
        if a == math.inf:
            return self._limit
        breaks, vertices = self._hull_up_to(a)
        return vertices[bisect_right(breaks, a)].loss(a)

    def _array(self, alpha: Floats) -> Floats:
        if not (alpha >= 0).all():
            raise ValueError("leakage is at least 0")
        if not alpha.size:
            return alpha
        breaks, vertices = self._hull_up_to(float(alpha.max()))
        at = np.searchsorted(breaks, alpha, side="right")
        gain, mass, rest = np.array([(v.gain, v.mass, v.rest) for v in vertices]).T[:, at]
        x = -np.expm1(-alpha)
        below = mass * x + np.exp(-alpha)
        known = (below > 0) & ((mass > 0) | (rest > 0))
        with np.errstate(over="ignore"):
            found = np.where(known, np.minimum(alpha, np.log1p(gain * x / np.where(known, below, 1.0))), alpha)
        whole = (alpha >= HUGE) & (np.abs(mass) <= TINY) & (rest > 0)
        return np.where(whole, np.where(gain > 0, alpha + np.log(np.maximum(gain, TINY)), 0.0), found)

    @cached_property
    def _limit(self) -> float:
        v = self._hull[1][-1]
        return math.inf if v.mass <= 0 < v.gain else math.log1p(v.gain / v.mass) if v.gain > 0 else 0.0

    @cached_property
    def whole_from(self) -> float:
        """The leakage, nats, from which on all of it is passed on, L(a) = a; inf for none."""
        v = self._hull[1][-1]
        if v.mass < 0 < v.rest:
            return math.log1p(v.rest / -v.mass)
        return 0.0 if v.mass <= 0 >= v.rest else math.inf

    def supremum(self, epsilon: float, most: float = math.inf) -> float:
        """Leakage that a constant `epsilon` > 0 never exceeds, however many steps: exact, inf where there is none.

        Of what is more than `most` something that is more.
        """
        if epsilon == 0:
            return 0.0
        limit = math.inf
        for level in (_NEAR, _FAR, math.inf) if most == math.inf else (most,):
            limit = max(v.supremum(epsilon) for v in self._hull_up_to(level)[1])
            if limit <= level or "_hull" in vars(self):  # what stays below is told by the hull up to there
                break
        if self.row_tolerance and limit < math.inf and epsilon + self(limit) > limit * (1 + 1e-12):
            return (
                math.inf
            )  # with a tolerance a corner may hold below its own limit only on an interval; none is common
        return limit

    def budget(self, bound: float) -> float:
        """The constant epsilon that keeps the leakage at `bound` for ever: bound - L(bound)."""
        return bound - self(float(bound))

    @property
    def dobrushin(self) -> float:
        """The largest total variation between two rows: the slope of L at 0."""
        return min(1.0, self._contraction[0] + 2 * self.row_tolerance)

    @property
    def is_identity(self) -> bool:
        """Whether two rows have disjoint supports, which makes L(a) = a: no supremum, nothing fades."""
        touch = (self._distinct > 0).astype(np.float64)
        return bool((touch @ touch.T == 0).any())

    @property
    def worst_rows(self) -> tuple[int, int]:
        """The two rows (0-based) that differ most: they attain `dobrushin`."""
        return self._contraction[1]

    @cached_property
    def _contraction(self) -> tuple[float, tuple[int, int]]:
        rows = Pairs(self._distinct)
        if rows.n == 1:
            return 0.0, (0, 0)
        pair = np.argmax(rows.excesses(0.0), keepdims=True)
        i, j = (int(self._row[k][0]) for k in rows.rows(pair))
        return rows.vertex(int(pair[0]), 0.0).gain, (i, j)

    @cached_property
    def _hull(self) -> tuple[list[float], list[Vertex]]:
        """Vertices by falling D, and the alphas at which the next one takes over."""
        if self.row_tolerance >= 0.5:  # any two rows may share nothing
            return [], [Vertex(1.0, -self.row_tolerance, 0.0)]
        found = self._corners(kept_hull(self._distinct))
        self._begun = sys.float_info.max, found
        return found

    def _hull_up_to(self, alpha: float) -> tuple[list[float], list[Vertex]]:
        """The hull; of hundreds of states as much of it as tells the losses of leakages up to alpha, nats.

        The corner of alpha is one where mu = E (G + 2 rho) / (1 + E (D - rho)), E = e^alpha - 1; as G <= 1 and D >= 0,
        it is at most E (1 + 2 rho) / (1 - E rho), and as L(a) <= a without a tolerance rho, E.
        """
        rho = self.row_tolerance
        if "_hull" in vars(self) or len(self._distinct) < _LARGE or alpha > _FAR or rho >= 0.5:
            return self._hull
        if alpha > self._begun[0]:
            most = 2.0 ** math.ceil(math.log2(max(alpha, _LEAST if rho else _NEAR)))
            if rho:
                most = max(alpha, min(most, math.log1p(_TOLD / rho)))
            E = math.expm1(most)
            if E * rho > _TOLD * (1 + 1e-9):
                return self._hull
            self._begun = most, self._corners(kept_hull(self._distinct, E * (1 + 2 * rho) / (1 - E * rho)))
        return self._begun[1]

    def _corners(self, hull: Iterable[Vertex]) -> tuple[list[float], list[Vertex]]:
        rho = self.row_tolerance
        vertices: list[Vertex] = []
        slopes: list[float] = []
        for found in hull:
            v = Vertex(found.gain + 2 * rho, found.mass - rho, found.rest - 2 * rho)
            if vertices and not v.mass < vertices[-1].mass:
                continue  # less by so little that nothing is left of it beside rho: the one before gains more
            # rounding may leave a corner that is not strictly one
            while vertices and vertices[-1].slope(v) <= (slopes[-1] if slopes else 0.0):
                vertices.pop()
                del slopes[-1:]
            if vertices:
                slopes.append(vertices[-1].slope(v))
            vertices.append(v)
        breaks = [0.0]
        for v, w in pairwise(vertices):
            breaks.append(max(breaks[-1], v.takeover(w)))
        return breaks[1:], vertices

    def _direct(self, alpha: float) -> float:
        """One value without the hull: mu from some pairs, one pass over all at that mu, then those still above it."""
        rows, E = Pairs(self._distinct), math.expm1(alpha)
        if E == 0 or rows.n == 1:
            return 0.0
        n = rows.n
        sample = np.arange(n) + (n // 2 - 1) * n  # each row with the one half way round
        mu, best = rows.climb(E, 0.0, sample)
        above = np.arange(rows.count)
        if _LARGE <= n <= _LARGEST and rows.few_values is None:
            least = mu / E - rows.rough_error
            if (rows.excesses(mu, sample) > least).mean() < 0.2:  # else ties, which whole numbers cannot part
                above = rows.roughly_above(mu, least)
        best = rows.climb(E, mu, above)[1] or best
        return best.loss(alpha) if best else 0.0
