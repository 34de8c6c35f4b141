"""Pairs of rows of a transition matrix, and the convex hull that holds all their losses.

For two rows q, d and a set S of columns let D = d(S) and G = q(S) - d(S). For one pair, max_S (G - mu D) is its excess
sum_j (q_j - d_j - mu d_j)^+, convex and piecewise linear in mu >= 0. The corners of its maximum over all pairs are
the hull.

Everything is kept in (G, D), not in (q(S), d(S)): nothing is lost when two rows are almost equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_TINY = 1e-300  # smaller entries are raised (as q) or dropped (as d): both can only raise L
_HUGE = 700.0  # beyond it e^a overflows
_BLOCK = 1 << 15  # floats of a working block: it stays in the fast cache


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
        """The alpha from which `other`, of smaller mass, has the larger loss; in fractions, as they nearly cancel."""
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


class Pairs:
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
        _share(fill, starts)
        return out

    def excesses(self, i: Indices, j: Indices, mu: float) -> Floats:
        """Excess of the pairs (i, j), shape (len(i),)."""
        width = self.lower.shape[1]
        step = max(1, _BLOCK // width)
        out = np.empty(len(i))

        def fill(starts: range) -> None:
            difference, scaled = np.empty((2, min(step, len(i)), width))
            for s in starts:
                t, d = difference[: len(i) - s], scaled[: len(i) - s]
                np.take(self.upper, i[s : s + step], axis=0, out=t, mode="clip")
                np.take(self.lower, j[s : s + step], axis=0, out=d, mode="clip")
                np.subtract(t, d, out=t)
                np.multiply(d, mu, out=d)
                np.subtract(t, d, out=t)
                np.maximum(t, 0.0, out=t)
                t.sum(axis=1, out=out[s : s + step])

        _share(fill, range(0, len(i), step))
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
        """The largest solution of mu = E excess(mu) among pairs (i, j), from below, and its corner (None: none).

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

        _share(fill, range(0, self.n, step))
        np.subtract(1.0, out, out=out)  # sum (q - x)^+ = 1 - sum min(q, x)
        return out, (width + 8) * 2.0**-24


def _share(work: Callable[[range], None], starts: range) -> None:
    """Do the blocks that begin at `starts`, on two threads: numpy lets go of the interpreter's lock."""
    if len(starts) < 4:
        work(starts)
        return
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (starts[::2], starts[1::2])))
