"""The temporal loss function L of a transition matrix, evaluated exactly on a convex hull.

For two rows q, d and a set S of columns let D = d(S) and G = q(S) - d(S). What an adversary who already leaked `a` about
one step learns about a correlated step is at most log1p(G E / (1 + D E)), E = e^a - 1; L(a) is the maximum over all ordered
pairs and all sets. For one pair, max_S (G - mu D) = sum_j (q_j - d_j - mu d_j)^+ is convex and piecewise linear in mu >= 0,
and L(a) = log1p(mu) where mu = E max_pairs of it. Its vertices do not depend on `a`: the hull is built once.

Everything is kept in (G, D), not in (q(S), d(S)): nothing is lost when two rows are almost equal.

Source: CAO17 (the function and Algorithm 1). The hull is ours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from policyc_runtime.errors import InvalidMatrixError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_TINY = 1e-300  # smaller entries are raised (as q) or dropped (as d): both can only raise L
_HUGE = 700.0  # beyond it e^a overflows
_LARGE = 256  # states from which one value is first sought in single precision
_BLOCK = 1 << 15  # floats of a working block: it stays in the fast cache


def transition_matrix(matrix: ArrayLike) -> Floats:
    """Check that a matrix is row-stochastic, and return it with rows that sum to 1 to the last digit.

    Args:
        matrix: shape (n, n), probabilities; rows may miss 1 by 1e-9, as printed decimals do.

    Raises:
        InvalidMatrixError: E0805, for a matrix that is not square, finite, non-negative and row-stochastic.
    """
    try:
        P = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidMatrixError("E0805", "a transition matrix must be a table of numbers") from None
    if P.ndim != 2 or P.shape[0] != P.shape[1] or P.shape[0] == 0:
        shape = " x ".join(map(str, P.shape)) or "a single number"
        raise InvalidMatrixError("E0805", f"a transition matrix must be square, this one is {shape}")
    for broken, what in ((~np.isfinite(P), "is not a finite number"), (P < 0, "is negative")):
        if broken.any():
            row, column = np.argwhere(broken)[0]
            raise InvalidMatrixError("E0805", f"the probability in row {row + 1}, column {column + 1} {what}")
    sums = P.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > 1e-9:
        raise InvalidMatrixError(
            "E0805", f"row {worst + 1} of the transition matrix sums to {sums[worst]:.12g}, not 1",
            because="a row lists the probabilities of all states, given one",
            help="divide the row by its sum, or correct the entry that is off",
        )  # fmt: skip
    return np.asarray(P / sums[:, None])


@dataclass(frozen=True, slots=True)
class Vertex:
    """One corner of the hull: a pair of rows and the columns where q_j - d_j > mu d_j.

    Args:
        gain: G = q(S) - d(S).
        mass: D = d(S); below 0 only where a row tolerance was taken off.
        rest: 1 - G, summed without cancellation.
    """

    gain: float
    mass: float
    rest: float

    def loss(self, alpha: float) -> float:
        """Leakage that this pair and set cause, in nats; `alpha` where nothing smaller is known."""
        if self.mass <= 0 >= self.rest:
            return alpha
        x, e = -math.expm1(-alpha), math.exp(-alpha)
        if alpha < _HUGE or self.mass > _TINY:
            below = self.mass * x + e
            return min(alpha, math.log1p(self.gain * x / below)) if below > 0 else alpha
        if self.mass < 0:
            return alpha
        return alpha + math.log(self.gain) if self.gain > 0 else 0.0

    def slope(self, other: Vertex) -> float:
        """The mu at which `other`, of smaller mass, is as high as this one."""
        return (self.gain - other.gain) / (self.mass - other.mass) if self.mass > other.mass else 0.0

    def takeover(self, other: Vertex) -> float:
        """The alpha from which `other`, of smaller gain and mass, has the larger loss; exact, as the products nearly cancel."""
        lead = Fraction(other.gain) * Fraction(self.mass) - Fraction(self.gain) * Fraction(other.mass)
        return math.log1p((Fraction(self.gain) - Fraction(other.gain)) / lead) if lead > 0 else math.inf

    def supremum(self, epsilon: float) -> float:
        """The leakage B = epsilon + loss(B) that constant budgets approach; inf where there is none."""
        # with z = e^B - 1, w = e^epsilon - 1: D z^2 + w b z - w = 0, b = (1 - G) / w - (G + D)
        v = math.exp(-epsilon) / -math.expm1(-epsilon)  # 1 / w
        b = self.rest * v - (self.gain + self.mass)
        square = b * b + 4 * self.mass * v
        if square < 0 or (self.mass <= 0 and b <= 0):
            return math.inf
        root = math.sqrt(square)
        z = 2 / (b + root) if b > 0 else (root - b) / (2 * self.mass) / v
        if math.isfinite(z):
            return math.log1p(z)
        return epsilon + math.log((root - b) / (2 * self.mass)) + math.log(-math.expm1(-epsilon))


class LossFunction:
    """The temporal loss function L of one transition matrix: `loss(alpha)`, in nats.

    0 <= L(a) <= a, L(0) = 0, monotone, 1-Lipschitz. The first value is found directly; the hull is built when more are asked.

    Args:
        matrix: shape (n, n), row-stochastic.
        row_tolerance: total variation, in [0, 1), within which every row is known; the bound then holds for every such matrix.

    Raises:
        InvalidMatrixError: E0805.

    Source: CAO17.
    """

    def __init__(self, matrix: ArrayLike, row_tolerance: float = 0.0) -> None:
        if not 0 <= row_tolerance < 1:
            raise InvalidMatrixError("E0805", f"a row tolerance lies between 0 and 1, not at {row_tolerance:g}")
        self.matrix = transition_matrix(matrix)
        self.row_tolerance = float(row_tolerance)
        self._distinct, self._row = np.unique(self.matrix, axis=0, return_index=True)
        self._asked = False

    @overload
    def __call__(self, alpha: float) -> float: ...
    @overload
    def __call__(self, alpha: Floats) -> Floats: ...
    def __call__(self, alpha: Any) -> Any:
        """Leakage passed on from a neighboring step with leakage `alpha` (nats, >= 0; scalar or array)."""
        if isinstance(alpha, np.ndarray) and alpha.ndim:
            return self._array(np.asarray(alpha, dtype=np.float64))
        a = float(alpha)
        if not a >= 0:
            raise ValueError("leakage is at least 0")
        if not self._asked and a < 50 and self.row_tolerance == 0:
            self._asked = True
            return self._direct(a)
        if a == math.inf:
            return self._limit
        breaks, vertices = self._hull
        return vertices[bisect_right(breaks, a)].loss(a)

    def _array(self, alpha: Floats) -> Floats:
        if not (alpha >= 0).all():
            raise ValueError("leakage is at least 0")
        return np.array([self(a) for a in alpha.ravel().tolist()]).reshape(alpha.shape)

    @cached_property
    def _limit(self) -> float:
        v = self._hull[1][-1]
        return math.inf if v.mass <= 0 < v.gain else math.log1p(v.gain / v.mass) if v.gain > 0 else 0.0

    def supremum(self, epsilon: float) -> float:
        """Leakage that a constant `epsilon` > 0 never exceeds, however many steps: exact, inf where there is none."""
        if epsilon == 0:
            return 0.0
        return max(v.supremum(epsilon) for v in self._hull[1])

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
        rows = _Rows(self._distinct)
        i, j = divmod(int(rows.all_excesses(0.0).argmax()), len(self._distinct))
        vertex = rows.vertex(i, j, 0.0)
        return max(vertex.gain, 0.0), (int(self._row[i]), int(self._row[j]))

    @cached_property
    def _hull(self) -> tuple[list[float], list[Vertex]]:
        """Vertices by falling D, and the alphas at which the next one takes over."""
        rho = self.row_tolerance
        vertices: list[Vertex] = []
        slopes: list[float] = []
        for found in _Rows(self._distinct).hull():
            v = Vertex(found.gain + 2 * rho, found.mass - rho, found.rest - 2 * rho)
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
        rows, E = _Rows(self._distinct), math.expm1(alpha)
        if E == 0 or rows.n == 1:
            return 0.0
        n = rows.n
        i = np.arange(n)
        mu, best = rows.climb(E, 0.0, i, (i + n // 2) % n)
        excess, error = rows.rough_excesses(mu) if n >= _LARGE else (rows.all_excesses(mu), 0.0)
        i, j = np.nonzero(excess > mu / E - error)
        if len(i):
            best = rows.climb(E, mu, i, j)[1] or best
        return best.loss(alpha) if best else 0.0


class _Rows:
    """Ordered pairs of distinct rows, and their excess sum_j (q_j - d_j - mu d_j)^+."""

    def __init__(self, rows: Floats) -> None:
        self.upper = np.where((rows > 0) & (rows < _TINY), _TINY, rows)
        self.lower = np.where(rows < _TINY, 0.0, rows)
        self.n = len(rows)

    def all_excesses(self, mu: float) -> Floats:
        """Excess of every ordered pair, shape (n, n)."""
        n, width = self.lower.shape
        out = np.empty((n, n))
        scaled = mu * self.lower
        step = max(1, _BLOCK // width)

        def fill(starts: range) -> None:
            buffer = np.empty((step, width))
            for start in starts:
                stop = min(start + step, n)
                part = buffer[: stop - start]
                for i in range(n):
                    np.subtract(self.upper[i], self.lower[start:stop], out=part)
                    np.subtract(part, scaled[start:stop], out=part)
                    np.maximum(part, 0.0, out=part)
                    part.sum(axis=1, out=out[i, start:stop])

        starts = range(0, n, step)
        if n < 128:
            fill(starts)
        else:
            _on_two_threads(fill, starts)
        return out

    def excesses(self, i: Indices, j: Indices, mu: float) -> Floats:
        """Excess of the pairs (i, j), in blocks."""
        step = max(1, 8 * _BLOCK // self.lower.shape[1])
        out = np.empty(len(i))
        for s in range(0, len(i), step):
            d = self.lower[j[s : s + step]]
            t = self.upper[i[s : s + step]] - d
            d *= mu
            t -= d
            np.maximum(t, 0.0, out=t)
            t.sum(axis=1, out=out[s : s + step])
        return out

    def vertex(self, i: int, j: int, mu: float) -> Vertex:
        """The corner of pair (i, j) at mu, summed without loss; mu = inf takes the columns with d_j = 0."""
        q, d = self.upper[i], self.lower[j]
        S = d == 0 if mu == math.inf else q - d > mu * d
        minus = (-d[S]).tolist()
        rest = math.fsum(q[~S].tolist()) + math.fsum(d[S].tolist())
        return Vertex(math.fsum(q[S].tolist() + minus), -math.fsum(minus), rest)

    def hull(self) -> list[Vertex]:
        """Corners of max over pairs and sets of G - mu D, by falling D (rising mu), found by searching under chords."""
        n = self.n
        last_excess = self.upper @ (self.lower == 0).T.astype(np.float64)
        first_excess = self.all_excesses(0.0)
        last = self.vertex(*divmod(int(last_excess.argmax()), n), math.inf)
        first = self.vertex(*divmod(int(first_excess.argmax()), n), 0.0)
        smallest = np.where(self.lower > 0, self.lower, np.inf).min(axis=0)
        reach = float((self.upper.max(axis=0) / smallest).max())
        i, j = np.divmod(np.arange(n * n), n)
        found = [first, last]
        open_chords = [(0.0, reach, first, last, i, j, first_excess.ravel(), last_excess.ravel())]
        while open_chords:
            start, stop, v, w, i, j, left, right = open_chords.pop()
            if v.mass <= w.mass:
                continue
            mu = (v.gain - w.gain) / (v.mass - w.mass)
            known = v.gain - mu * v.mass
            if not start < mu < stop:
                continue
            # convexity: between start and stop a pair stays below the line through its two ends
            keep = left + (right - left) * ((mu - start) / (stop - start)) > known
            i, j, left, right = i[keep], j[keep], left[keep], right[keep]
            if not len(i):
                continue
            here = self.excesses(i, j, mu) if 4 * len(i) < n * n else self.all_excesses(mu)[i, j]
            best = int(here.argmax())
            u = self.vertex(int(i[best]), int(j[best]), mu)
            if w.mass < u.mass < v.mass and u.gain - mu * u.mass > known:
                found.append(u)
                open_chords += [(start, mu, v, u, i, j, left, here), (mu, stop, u, w, i, j, here, right)]
        found.sort(key=lambda vertex: -vertex.mass)
        return found if first.mass > last.mass else found[1:]

    def climb(self, E: float, mu: float, i: Indices, j: Indices) -> tuple[float, Vertex | None]:
        """The largest solution of mu = E excess(mu) among pairs (i, j), from below, and its corner (None: none above mu).

        Newton's steps mu <- E G / (1 + E D) (Dinkelbach); a pair not above mu / E at mu is not above it later.
        """
        best = None
        while len(i):
            many = 8 * len(i) > self.n * self.n
            excess = self.all_excesses(mu)[i, j] if many else self.excesses(i, j, mu)
            k = int(excess.argmax())
            vertex = self.vertex(int(i[k]), int(j[k]), mu)
            risen = E * vertex.gain / (1 + E * vertex.mass)
            if risen <= mu:
                break
            keep = excess > mu / E
            i, j, mu, best = i[keep], j[keep], risen, vertex
        return mu, best

    def rough_excesses(self, mu: float) -> tuple[Floats | NDArray[np.float32], float]:
        """Excess of every ordered pair in single precision, shape (n, n), and how far each may be off."""
        width = self.lower.shape[1]
        upper, scaled = self.upper.astype(np.float32), ((1 + mu) * self.lower).astype(np.float32)
        ones = np.ones(width, dtype=np.float32)
        out = np.empty((self.n, self.n), dtype=np.float32)
        step = max(1, _BLOCK // width)

        def fill(starts: range) -> None:
            buffer = np.empty((step, width), dtype=np.float32)
            for start in starts:
                block = scaled[start : start + step]
                part = buffer[: len(block)]
                for i in range(self.n):
                    np.minimum(upper[i], block, out=part)
                    np.dot(part, ones, out=out[i, start : start + step])

        _on_two_threads(fill, range(0, self.n, step))
        np.subtract(1.0, out, out=out)  # sum (q - x)^+ = 1 - sum min(q, x)
        return out, (width + 8) * 2.0**-24


def _on_two_threads(work: Callable[[range], None], starts: range) -> None:
    with ThreadPoolExecutor(2) as pool:  # numpy lets go of the interpreter's lock
        list(pool.map(work, (starts[::2], starts[1::2])))
