"""Pairs of rows of a transition matrix, and the convex hull that holds all their losses.

For two rows q, d and a set S of columns let D = d(S) and G = q(S) - d(S). For one pair, max_S (G - mu D) is its excess
sum_j (q_j - d_j - mu d_j)^+, convex and piecewise linear in mu >= 0. The corners of its maximum over all pairs are
the hull.

Everything is kept in (G, D), not in (q(S), d(S)): nothing is lost when two rows are almost equal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

TINY = 1e-300  # smaller entries are raised (as q) or dropped (as d): both can only raise L
HUGE = 700.0  # beyond it e^a overflows
_BLOCK = 1 << 20  # bytes of a working block: of smaller ones threads wait for each other; larger ones leave the cache
_MANY = 256  # states, whose pairs are summed in single precision first
_FEW = 6  # different probabilities up to which they are taken one by one
_MOST_KEPT = 512
_KEPT: dict[bytes, tuple[float, tuple[Vertex, ...]]] = {}  # up to which mu, and the corners


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
        if alpha < HUGE or self.mass > TINY:
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
        if lead <= 0:
            return math.inf
        z = (Fraction(self.gain) - Fraction(other.gain)) / lead
        return math.log1p(z) if z < 1e300 else math.log(z.numerator) - math.log(z.denominator)

    def supremum(self, epsilon: float) -> float:
        """The leakage B = epsilon + loss(B) that constant budgets approach; inf where there is none."""
        # with z = e^B - 1, w = e^epsilon - 1: D z^2 + w b z - w = 0, b = (1 - G) / w - (G + D)
        v = math.exp(-epsilon) / -math.expm1(-epsilon)  # 1 / w
        b = self.rest * v - (self.gain + self.mass)
        square = b * b + 4 * self.mass * v
        if square < 0 or (self.mass <= 0 and b <= 0):
            return math.inf
        root = math.sqrt(square)
        if b > 0:
            z = 2 / (b + root)
            return math.log1p(z) if math.isfinite(z) else math.log(2) - math.log(b + root)
        near = (root - b) / (2 * self.mass)
        if near < 1e300 * v:
            return math.log1p(near / v)
        return epsilon + math.log(near) + math.log(-math.expm1(-epsilon))


class Pairs:
    """Ordered pairs of distinct rows, and their excess sum_j (q_j - d_j - mu d_j)^+.

    Pair number (s - 1) n + i, 0 < s < n, has the rows q = i and d = (i + s) mod n: the pairs of one s are two tables
    laid side by side, without copies.
    """

    def __init__(self, rows: Floats) -> None:
        self.n = len(rows)
        self.count = self.n * (self.n - 1)
        self._upper = np.where((rows > 0) & (rows < TINY), TINY, rows)
        self._lower = np.where(rows < TINY, 0.0, rows)

    def rows(self, pairs: Indices) -> tuple[Indices, Indices]:
        """Rows q and d of these pairs."""
        shift, i = np.divmod(pairs, self.n)
        return i, (i + shift + 1) % self.n

    def excesses(self, mu: float, pairs: Indices | None = None) -> Floats:
        """Excess of these pairs, or of all in the order of their numbers."""
        if pairs is not None and 4 * len(pairs) < self.count:
            return self._excesses_of(mu, pairs)
        values = self.few_values
        found: Floats = self._all_excesses(mu) if values is None else self._excesses_by_value(mu, values)
        return found if pairs is None else found[pairs]

    @cached_property
    def few_values(self) -> list[float] | None:
        """The different probabilities, where they are so few that matrix products are the fastest way."""
        if len(set(self._lower[:2].ravel().tolist())) > _FEW:
            return None
        values = set(self._lower.ravel().tolist())
        return list(values) if len(values) <= _FEW else None

    def _excesses_by_value(self, mu: float, values: list[float]) -> Floats:
        excess = np.zeros((self.n, self.n))
        for d in values:
            excess += np.maximum(self._upper - d - mu * d, 0.0) @ (self._lower == d).T.astype(np.float64)
        i, j = self.rows(np.arange(self.count))
        return np.asarray(excess[i, j])

    def _all_excesses(self, mu: float) -> Floats:
        lower = self._lower
        if mu == 0 or mu >= 0.25:  # gains are then a fifth of q(S) or more: q - (1 + mu) d is as good as (q - d) - mu d
            return self._over_all((1 + mu) * lower, _excess_over_scaled)

        def excess(q: Floats, d: Floats, out: Floats) -> None:
            np.multiply(d, mu, out=out)
            difference = np.subtract(q, d)
            np.minimum(difference, out, out=out)
            np.subtract(difference, out, out=out)

        return self._over_all(lower, excess)

    def _over_all(self, lower: NDArray[Any], excess: Callable[[Floats, Floats, Floats], None]) -> Floats:
        """The sums over columns of `excess(q, d, out)` of all pairs, with d from `lower`, in its precision."""
        n, width = lower.shape
        upper, ones = self._upper.astype(lower.dtype), np.ones(width, dtype=lower.dtype)
        shifted = sliding_window_view(np.concatenate([lower, lower[:-1]]), n, axis=0).swapaxes(1, 2)
        out = np.empty((n - 1, n), dtype=lower.dtype)
        size = width * lower.itemsize
        rows = -(-n // -(-n * size // _BLOCK))
        shifts = max(1, _BLOCK // (n * size))

        def fill(blocks: Iterator[int]) -> None:
            buffer = np.empty((shifts, rows, width), dtype=lower.dtype)
            for i in blocks:
                for s in range(1, n, shifts):  # from one shift to the next only one row of d is new
                    d = shifted[s : s + shifts, i : i + rows]
                    part = buffer[: len(d), : d.shape[1]]
                    excess(upper[i : i + rows], d, part)
                    np.dot(part.reshape(-1, width), ones, out=out[s - 1 : s - 1 + len(d), i : i + rows].reshape(-1))

        _share(fill, range(0, n, rows))
        return out.ravel()

    def _excesses_of(self, mu: float, pairs: Indices) -> Floats:
        width = self._lower.shape[1]
        step = max(1, _BLOCK // (8 * width))
        i, j = self.rows(pairs)
        out = np.empty(len(pairs))

        def fill(blocks: Iterator[int]) -> None:
            for s in blocks:
                q, d = self._upper[i[s : s + step]], self._lower[j[s : s + step]]
                np.subtract(q, d, out=q)
                np.multiply(d, mu, out=d)
                np.minimum(q, d, out=d)
                np.subtract(q, d, out=q)
                q.sum(axis=1, out=out[s : s + step])

        _share(fill, range(0, len(pairs), step))
        return out

    def vertex(self, pair: int, mu: float) -> Vertex:
        """The corner of a pair at mu, summed without loss; mu = inf takes the columns with d_j = 0."""
        shift, i = divmod(pair, self.n)
        q, d = self._upper[i], self._lower[(i + shift + 1) % self.n]
        S = d == 0 if mu == math.inf else q - d > mu * d
        minus = (-d[S]).tolist()
        rest = math.fsum(q[~S].tolist()) + math.fsum(d[S].tolist())
        return Vertex(math.fsum(q[S].tolist() + minus), -math.fsum(minus), rest)

    def hull(self, start: float = 0.0, stop: float = math.inf) -> list[Vertex]:
        """Corners of max over pairs and sets of G - mu D, start <= mu <= stop, by falling D (rising mu).

        They are found by searching under chords.
        """
        if self.n == 1:
            return [Vertex(0.0, 0.0, 1.0)]
        apart = (self._upper > 0).astype(np.float32) @ (self._lower > 0).T.astype(np.float32) == 0
        if apart.any():  # two rows that share no column are the whole of it: no mu takes anything off
            q, d = divmod(int(apart.argmax()), self.n)
            return [self.vertex((d - q - 1) % self.n * self.n + q, start)]
        pairs = np.arange(self.count)
        if not stop < (reach := self._reach):
            i, j = self.rows(pairs)
            last_excess, stop = (self._upper @ (self._lower == 0).T.astype(np.float64))[i, j], reach
            last = self.vertex(int(last_excess.argmax()), math.inf)
        else:
            last_excess = self.largest_excess(stop, pairs)
            last = self.vertex(int(last_excess.argmax()), stop)
        first_excess = self.largest_excess(start, pairs)
        first = self.vertex(int(first_excess.argmax()), start)
        found = [first, last]
        open_chords = [(start, stop, first, last, pairs, first_excess, last_excess)]
        while open_chords:
            start, stop, v, w, pairs, left, right = open_chords.pop()
            if v.mass <= w.mass:
                continue
            mu = (v.gain - w.gain) / (v.mass - w.mass)
            known = v.gain - mu * v.mass
            if not start < mu < stop:
                continue
            # convexity: between start and stop a pair stays below the line through its two ends
            keep = left + (right - left) * ((mu - start) / (stop - start)) > known
            pairs, left, right = pairs[keep], left[keep], right[keep]
            if not len(pairs):
                continue
            here = self.largest_excess(mu, pairs)
            u = self.vertex(int(pairs[here.argmax()]), mu)
            if w.mass < u.mass < v.mass and u.gain - mu * u.mass > known:
                found.append(u)
                open_chords += [(start, mu, v, u, pairs, left, here), (mu, stop, u, w, pairs, here, right)]
        found.sort(key=lambda vertex: -vertex.mass)
        return found if first.mass > last.mass else found[1:]

    @property
    def _reach(self) -> float:
        """The mu from which on no column is in any S but where d_j = 0."""
        smallest = np.where(self._lower > 0, self._lower, np.inf).min(axis=0)
        return float((self._upper.max(axis=0) / smallest).max())

    def largest_excess(self, mu: float, pairs: Indices) -> Floats:
        """Excess of these pairs; where they are many, of those that cannot have the largest, no less than it.

        sum_j (q_j - x_j)^+ = sum_j q_j - sum_j min(q_j, x_j), in single precision, loses a rounding a column at most.
        """
        width = self._lower.shape[1]
        if 4 * len(pairs) < self.count or self.n < _MANY or self.few_values is not None:
            return self.excesses(mu, pairs)
        lower = np.minimum((1 + mu) * self._lower, 2.0).astype(np.float32)
        shared = self._over_all(lower, _shared) * (1 - (width + 16) * 2.0**-24)
        total = self._upper.sum(axis=1) * (1 + 1e-12)
        found: Floats = np.asarray((total - shared.reshape(-1, self.n)).ravel()[pairs])
        close = found >= self._excesses_of(mu, pairs[[int(found.argmax())]]) * (1 - 1e-12)
        found[close] = self.excesses(mu, pairs[close])
        return found

    def climb(self, E: float, mu: float, pairs: Indices) -> tuple[float, Vertex | None]:
        """The largest solution of mu = E excess(mu) among pairs, from below, and its corner (None: none).

        Newton's steps mu <- E G / (1 + E D) (Dinkelbach); a pair not above mu / E at mu is not above it later.
        """
        best = None
        while len(pairs):
            excess = self.excesses(mu, pairs)
            vertex = self.vertex(int(pairs[excess.argmax()]), mu)
            risen = E * vertex.gain / (1 + E * vertex.mass)
            if risen <= mu:
                break
            pairs, mu, best = pairs[excess > mu / E], risen, vertex
        return mu, best

    @property
    def rough_error(self) -> float:
        """How far an excess may be off in `roughly_above`: half a unit a column, and the rounding of products."""
        width = self._lower.shape[1]
        return float(0.5 * width / _units(width) + 1e-12)

    def roughly_above(self, mu: float, least: float) -> Indices:
        """Pairs whose excess, computed in 16-bit whole numbers, exceeds `least`."""
        width = self._lower.shape[1]
        units = _units(width)
        # column by column: the sums of many pairs grow side by side
        upper = np.rint(self._upper * units).astype(np.uint16).T.copy()
        lower = np.rint(np.minimum((1 + mu) * self._lower, 1.0) * units).astype(np.uint16).T.copy()
        kept = np.zeros((self.n, self.n), dtype=np.uint16)  # sum (q - x)^+ = 1 - sum min(q, x)
        rows = max(1, _BLOCK // (2 * self.n))

        def fill(blocks: Iterator[int]) -> None:
            buffer = np.empty((rows, self.n), dtype=np.uint16)
            for i in blocks:
                total = kept[i : i + rows]
                part = buffer[: len(total)]
                for q, x in zip(upper[:, i : i + rows, None], lower, strict=True):
                    np.minimum(q, x, out=part)
                    np.add(total, part, out=total)

        _share(fill, range(0, self.n, rows))
        i, j = np.nonzero(kept < (1.0 - least) * units)
        pairs = (j - i - 1) % self.n * self.n + i
        return np.asarray(pairs[i != j])


def kept_hull(rows: Floats, most: float = math.inf) -> tuple[Vertex, ...]:
    """`Pairs.hull` up to a mu of `most` or more, of rows that were met before as it was then.

    Records make their chains anew. What is known of these rows is gone on with.
    """
    key = hashlib.sha256(rows.tobytes()).digest() + len(rows).to_bytes(8)
    if key not in _KEPT and len(_KEPT) == _MOST_KEPT:
        del _KEPT[next(iter(_KEPT))]
    known, corners = _KEPT.get(key, (0.0, ()))
    if not corners or known < most:
        more = Pairs(rows).hull(known, most)
        corners = (*corners, *(corner for corner in more if not corners or corner.mass < corners[-1].mass))
        _KEPT[key] = most, corners
    return corners


def _units(width: int) -> int:
    """The whole number that stands for 1, so that a row of this width, rounded, adds up to at most 65,535."""
    return 65_535 - width // 2 - 1


def _excess_over_scaled(q: Floats, x: Floats, out: Floats) -> None:
    np.minimum(q, x, out=out)
    np.subtract(q, out, out=out)


def _shared(q: Floats, x: Floats, out: Floats) -> None:
    np.minimum(q, x, out=out)


def _share(work: Callable[[Iterator[Any]], None], blocks: Sequence[Any]) -> None:
    """Do the blocks, on two threads when they are many: numpy lets go of the interpreter's lock."""
    left = iter(blocks)
    if len(blocks) < 2:
        work(left)
        return
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (left, left)))
