"""Levels that agree along several ways, as places do that add up to regions and to kinds: one least squares for all.

All values are sums of those of the finest level, S x beside x itself. Noise of variances v and W (a diagonal) gives
the best linear unbiased x as noisy x + v S' (v S S' + W)^-1 (noisy sums - S noisy x). S S' says how many of the finest
values two sums share: no two of one level do, so that the level with most values is eliminated by hand, and what is
factorised is as large as all others together.

Values are rounded at the finest level and added up; where they are whole numbers, the nearest are found by a program.
Along two ways its vertices are whole (sums nested in two families are a network). Along three they are not, and whether
whole numbers with given sums exist is NP-complete (IJ94): values are rounded there as decimals are, and no more can be
asked of them than bounds of the finest ones and what all add up to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from policyc_runtime.agreement import Levels
from policyc_runtime.agreement_demands import Demands
from policyc_runtime.estimation.parts import TIE, added_up, whole_parts

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
MOST_SUMS = 1024  # values that the finest add up to, beside those of the largest such level
MOST_KEPT = 64  # factorisations: one for every pattern of noise
LEAST_NOISE = 1e-5  # variance of a sum in that of a value of the finest level


@dataclass(frozen=True)
class Crossed(Levels):
    """The finest release and those that its values add up to; `above[l]` has to which of each.

    `equations` say that they agree, and what values add up to; they are there where values are whole numbers.
    """

    equations: Demands | None = None
    _kept: dict[tuple[float, ...], _Factor] = field(default_factory=dict, init=False, compare=False, repr=False)

    @cached_property
    def nearest_whole(self) -> bool:
        """Whether values are whole numbers, and the nearest of these are found; else they are rounded."""
        return self.whole and three_ways(self.above) is None

    @property
    def sizes(self) -> list[int]:
        """How many values each release has."""
        return [len(self.above[0]), *(int(own.max()) + 1 for own in self.above)]

    @property
    def more_decimals(self) -> int:
        """One for every hundred parts of a sum: rounding moves it by their number's root."""
        return max(math.ceil(math.log10(max(self._shared.most_parts, 1) / 4) / 2), 0)

    def agreeing(
        self, values: Sequence[Array], variances: Sequence[Array], decimals: Sequence[int | None] | None
    ) -> list[Array]:
        """Of all levels at once."""
        finest = np.empty(values[0].shape)
        patterns, whose = np.unique(np.stack(variances, axis=1), axis=0, return_inverse=True)
        for index, pattern in enumerate(patterns.tolist()):
            rows = np.flatnonzero(whose.ravel() == index)
            finest[rows] = self._factor(pattern).finest([value[rows] for value in values], self.total)
        digits = None if decimals is None else decimals[0]
        if digits is None:
            return self._added_up(finest)
        if self.equations is not None and self.nearest_whole:
            return self._whole(self.equations, np.hstack(self._added_up(finest)), variances)
        anywhere = np.full(len(self.above[0]), np.inf)
        return self._rounded(finest, digits, -anywhere, anywhere)

    def _rounded(self, finest: Array, digits: int, lower: Array, upper: Array) -> list[Array]:
        """Values of the finest level with these decimals, and their sums; what all add up to stays."""
        scale = 10.0**digits
        found = np.rint(np.round(finest * scale, TIE))
        if self.total is not None:
            total = np.full((len(finest), 1), np.rint(self.total * scale))
            found = whole_parts(total, finest * scale, np.zeros(finest.shape[1], np.int64), lower, upper)
        return [level / scale for level in self._added_up(found)]

    def _nearest_demanded(
        self,
        demands: Demands,
        values: Sequence[Array],
        variances: Sequence[Array],
        decimals: Sequence[int | None] | None,
        before: Array | None,
    ) -> Array:
        if decimals is None or not self.whole or self.nearest_whole:
            return super()._nearest_demanded(demands, values, variances, decimals, before)
        target, spread = np.hstack(self.agreeing(values, variances, None)), self._spread(demands, variances)
        finest, asked = demands.split(demands.real(target, spread, before))[0], self.bounds[0]
        return np.hstack(self._rounded(np.clip(finest, asked.lower, asked.upper), 0, asked.lower, asked.upper))

    def _added_up(self, finest: Array) -> list[Array]:
        return [finest, *(added_up(finest, own) for own in self.above)]

    def _whole(self, equations: Demands, target: Array, variances: Sequence[Array]) -> list[Array]:
        found = np.empty(target.shape)
        for row in range(len(target)):
            spread = self._spread(equations, [one[row:] for one in variances])
            near = equations.on_the_grid(target[row : row + 1], spread, [0] * len(variances), None, needed=True)
            assert near is not None, "else it is refused"
            found[row] = near[0]
        return equations.split(found)

    def variances(self, variances: Sequence[float]) -> list[Array]:
        """The variances of what `nearest` gives, (cells,) of each release, for noise of these variances."""
        return _Factor(self._shared, variances).variances()

    @cached_property
    def _shared(self) -> _Shared:
        return _Shared(self.above, total=self.total is not None)

    def _factor(self, variances: Sequence[float]) -> _Factor:
        if tuple(variances) not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[tuple(variances)] = _Factor(self._shared, variances)
        return self._kept[tuple(variances)]


def reason_against(
    names: Sequence[str], above: Sequence[Indices], whole: Sequence[bool], *, demanding: bool
) -> str | None:
    """Why releases cannot agree along several ways, the finest of these first; None where they can.

    Args:
        names: of the releases.
        above: of each but the first, to which of its values each of the finest belongs.
        whole: of which values are whole numbers.
        demanding: whether more is asked of values than whole bounds of the finest ones, and what all add up to.
    """
    sizes = sorted(int(own.max()) + 1 for own in above)
    if sum(sizes[:-1]) > MOST_SUMS:
        return f"levels that agree along several ways have {sum(sizes[:-1]):,} sums, beside those of the largest"
    if any(whole) and not whole[0]:
        return f"sums of values of `{names[0]}` are whole numbers, and these are not"
    ways = three_ways(above)
    if any(whole) and demanding and ways is not None:
        one, two, three = (f"`{names[way + 1]}`" for way in ways)
        return (
            f"of whole numbers that add up along three ways, to {one}, {two} and {three}, more is asked than bounds of "
            f"`{names[0]}`"
        )
    return None


def three_ways(above: Sequence[Indices]) -> tuple[int, ...] | None:
    """Three sums of which no two are nested, by their places; None where there are none."""
    return next((three for three in itertools.combinations(range(len(above)), 3) if _cross(above, three)), None)


def _cross(above: Sequence[Indices], levels: tuple[int, ...]) -> bool:
    """Whether no two of these levels are nested."""
    return not any(nested(above[one], above[other]) for one, other in itertools.permutations(levels, 2))


def nested(fine: Indices, coarse: Indices) -> bool:
    """Whether what belongs to one value of a level belongs to one of another."""
    found = np.zeros(int(fine.max()) + 1, np.int64)
    found[fine] = coarse
    return bool((found[fine] == coarse).all())


class _Shared:
    """How many of the finest values sums have in common: the largest level, and the rest, of which one is the total."""

    def __init__(self, above: Sequence[Indices], *, total: bool) -> None:
        from scipy.sparse import csr_array

        sizes = [int(own.max()) + 1 for own in above]
        self.cells, self.largest = len(above[0]), int(np.argmax(sizes))
        self.own, self.most_parts = above[self.largest], max(int(np.bincount(own).max()) for own in above)
        self.rest = [level for level in range(len(above)) if level != self.largest]
        owns = [above[level] for level in self.rest] + [np.zeros(self.cells, np.int64)] * total
        self.owns = owns
        self.sizes = [sizes[level] for level in self.rest] + [1] * total
        starts = np.cumsum([0, *self.sizes])[: len(owns)]
        self.places = np.stack([own + start for own, start in zip(owns, starts, strict=True)])  # (rest, cells)
        every = np.tile(np.arange(self.cells), len(owns))
        shape: tuple[int, ...] = (sum(self.sizes), self.cells)
        sums = csr_array((np.ones(every.size), (self.places.ravel(), every)), shape=shape)
        ones = np.ones(self.cells)
        own_sums = csr_array((ones, (self.own, np.arange(self.cells))), shape=(sizes[self.largest], self.cells))
        self.parts = np.bincount(self.own).astype(float)
        self.rest_parts = np.asarray((sums @ sums.T).toarray())
        self.common = csr_array(sums @ own_sums.T)  # (rest, largest)


class _Factor:
    """The least squares for one variance a level.

    Sums with next to no noise are taken to have a little, else digits are lost. What is then said of variances is an
    upper bound, as noise is less than that.
    """

    def __init__(self, shared: _Shared, variances: Sequence[float]) -> None:
        self._shared = shared
        self._variances = [variances[0], *(max(one, LEAST_NOISE * variances[0]) for one in variances[1:])]
        v, *sums = self._variances
        self._own = v * shared.parts + sums[shared.largest]
        rest = [sums[level] for level in shared.rest]
        noise = np.repeat([*rest, *[0.0] * (len(shared.sizes) - len(rest))], shared.sizes)
        met = shared.common.multiply(v / self._own[None]) @ shared.common.T
        self._alone = v * (shared.rest_parts - met.toarray())
        self._left = np.linalg.inv(self._alone + np.diag(noise))

    def finest(self, values: Sequence[Array], total: float | None) -> Array:
        """The best values of the finest level, from noisy ones of all."""
        shared, v = self._shared, self._variances[0]
        missing = values[1 + shared.largest] - added_up(values[0], shared.own)
        wanted = [values[1 + level] for level in shared.rest]
        wanted += [] if total is None else [np.full((len(values[0]), 1), total)]
        rest = np.hstack([one - added_up(values[0], own) for one, own in zip(wanted, shared.owns, strict=True)])
        near = missing / self._own
        far = (rest - v * (shared.common @ near.T).T) @ self._left
        near = near - v * (shared.common.T @ far.T).T / self._own
        return np.asarray(values[0] + v * (near[:, shared.own] + far[:, shared.places].sum(axis=1)))

    def variances(self) -> list[Array]:
        """Of the best values of all levels."""
        shared, (v, *sums) = self._shared, self._variances
        met = np.asarray((shared.common.T @ self._left).T)  # (rest, largest)
        both = np.asarray(shared.common.multiply(met).sum(axis=0)).ravel()
        own = 1 / self._own + v**2 * both / self._own**2
        pairs = self._left[shared.places[:, None], shared.places[None]].sum(axis=(0, 1))
        crossing = met[shared.places, shared.own].sum(axis=0)
        told = own[shared.own] + pairs - 2 * v * crossing / self._own[shared.own]
        found = [v - v**2 * told]
        settled, start = (self._left * self._alone.T).sum(axis=1), 0  # not 1 - noise * left: where that is small
        rest = {}
        for level, size in zip(shared.rest, shared.sizes, strict=False):
            rest[level] = sums[level] * settled[start : start + size]
            start += size
        largest = sums[shared.largest]
        rest[shared.largest] = largest * (v * shared.parts - largest * v**2 * both / self._own) / self._own
        found += [rest[level] for level in range(len(sums))]
        return [np.maximum(one, 0.0) for one in found]  # what is known to the last digit may be below by rounding
