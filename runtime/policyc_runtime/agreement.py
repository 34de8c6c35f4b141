"""Levels that agree: values of a level that add up to those of the next, made so after noise by least squares.

Every value has noise of its own, of a known variance; so the nearest values that agree, distances being measured by
these variances, are those of the best linear unbiased estimate. Where each level adds up to one other, one pass up the
levels and one down finds them: on the way up every value is averaged with the sums of what belongs to it, on the way
down what is missing to a sum is spread over its parts by their variances (HAY10, for equal variances). What adds up to
several is in `crossed_levels`.

Bounds and whole numbers are kept on the way down, where each level has the totals that the one above it decided. The
nearest values to all levels at once would have the many small values that a bound moves up move their sum up as well.

What all values of a level add up to may be public, as a population is. It is then one level more, above all others and
without noise. Noise that adds up to zero over a step's cells tells as much: it varies as noise that is new for every
value does beside a known sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Self

import numpy as np
from numpy.typing import NDArray

from policyc_runtime.agreement_demands import Demands
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.constraints import TOLERANCE
from policyc_runtime.estimation.digits import decimals
from policyc_runtime.estimation.parts import TIE, added_up, nearest_parts, whole_parts

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
MOST_VALUES = 2**20  # of the finest release, that are worked on together
FINE = 3  # decimals of levels beside whole ones where nobody asks for some


@dataclass(frozen=True)
class Bounds:
    """What is asked of the values of a level and, by their sums, of those above: whole numbers or infinite bounds."""

    lower: Array
    upper: Array
    whole: bool

    @classmethod
    def of(cls, asked: ConstraintSet, parts: Sequence[tuple[Bounds, Indices]]) -> Bounds:
        """Those of a release; `parts` are those of each level whose values belong to it, and to which each does."""
        lower, upper = (
            np.where(bound == np.rint(bound), bound, none)  # others are asked beside bounds
            for bound, none in zip(asked.cell_bounds, (-np.inf, np.inf), strict=True)
        )
        whole = asked.integer
        for child, own in parts:
            lower = np.maximum(lower, added_up(child.lower[None], own)[0])
            upper = np.minimum(upper, added_up(child.upper[None], own)[0])
            whole = whole or child.whole
        return cls(lower, upper, whole)

    @property
    def bounded(self) -> bool:
        """Whether a value has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


@dataclass(frozen=True)
class Levels(ABC):
    """Releases that agree, each before those that it adds up to; `above` has to which value each belongs.

    `bounds` are what is asked of the values of each; empty where nothing is asked of any. `total` is what all values of
    a level add up to, None where nobody knows. `demands` are what is asked of several values at once, None for nothing.
    """

    names: tuple[str, ...]
    above: tuple[Indices, ...]
    bounds: tuple[Bounds, ...] = ()
    total: float | None = None
    demands: Demands | None = None

    @property
    def more_decimals(self) -> int:
        """That all values get so that the sums of rounded ones are off by no more than one of them."""
        return 0

    @property
    @abstractmethod
    def sizes(self) -> list[int]:
        """How many values each release has."""

    @property
    def bounded(self) -> bool:
        """Whether a value has a bound, or more is asked of several."""
        return self.demands is not None or any(bounds.bounded for bounds in self.bounds)

    @property
    def whole(self) -> bool:
        """Whether values of a level are whole numbers: then those of the top are."""
        return self.units[-1] is not None

    @property
    def units(self) -> tuple[int | None, ...]:
        """By release, 0 decimals where its values are whole numbers, else every digit."""
        return tuple(0 if self.bounds and self.bounds[level].whole else None for level in range(len(self.names)))

    @property
    def unbounded(self) -> Self:
        """The same without bounds, and with nothing asked of several values."""
        free = (
            Bounds(np.full_like(one.lower, -np.inf), np.full_like(one.upper, np.inf), one.whole) for one in self.bounds
        )
        return replace(self, bounds=tuple(free), demands=None)

    @property
    def free(self) -> Self:
        """The same where nothing is asked but that values agree."""
        return replace(self, bounds=(), demands=None)

    def summing(self, cells: int) -> ConstraintSet:
        """What a level of so many values is estimated under by itself: that they add up to what all do, if known."""
        if self.total is None:
            return ConstraintSet((), cells, integer=False)
        every = tuple((cell, Decimal(1)) for cell in range(cells))
        text, total = f"what `{self.names[0]}` adds up to", Decimal(int(self.total))
        row = ConstraintRow(text=text, line=1, current=every, previous=(), relation="==", bound=total)
        return ConstraintSet((row,), cells, integer=False)

    def nearest(
        self,
        values: Sequence[Array],
        variances: Sequence[Array],
        decimals: Sequence[int | None] | None = None,
        previous: Sequence[Array] | None = None,
    ) -> list[Array]:
        """The nearest values that agree.

        Args:
            values: of each release, (steps, cells), noisy.
            variances: of the noise of each release's values, (steps,), > 0.
            decimals: of each release, None for every digit; no level has more than the one below it.
            previous: of each release, (cells,) values of the step before the first; None at step 0.

        Raises:
            ReleaseError: no values keep what is asked.
        """
        found = [np.empty(rows.shape) for rows in values]
        size = max(MOST_VALUES // max(map(len, self.above)), 1)
        for first in range(0, len(values[0]), size):
            rows = slice(first, first + size)
            own, spread = [value[rows] for value in values], [one[rows] for one in variances]
            parts = self.agreeing(own, spread, decimals)
            if self.demands is not None:
                parts = self._as_demanded(self.demands, parts, own, spread, decimals, previous)
                previous = [part[-1] for part in parts]
            for whole, part in zip(found, parts, strict=True):
                whole[rows] = part
        return found

    def _as_demanded(
        self,
        demands: Demands,
        parts: Sequence[Array],
        values: Sequence[Array],
        variances: Sequence[Array],
        decimals: Sequence[int | None] | None,
        previous: Sequence[Array] | None,
    ) -> list[Array]:
        """What was found, but for steps at which it breaks what is asked of several values: the nearest that do not."""
        found = np.hstack(parts)
        before = None if previous is None else np.concatenate(previous)
        if not demands.broken(found, before):
            return list(parts)
        for row in range(len(found)):
            if demands.broken(found[row : row + 1], before):
                one = [value[row : row + 1] for value in values]
                spread = [variance[row : row + 1] for variance in variances]
                found[row : row + 1] = self._nearest_demanded(demands, one, spread, decimals, before)
            before = found[row]
        return demands.split(found)

    def _nearest_demanded(
        self,
        demands: Demands,
        values: Sequence[Array],
        variances: Sequence[Array],
        decimals: Sequence[int | None] | None,
        before: Array | None,
    ) -> Array:
        """Of one step, the values (1, all) that keep all that is asked, with these decimals where such values do."""
        target = np.hstack(self.agreeing(values, variances, None))
        spread = self._spread(demands, variances)
        digits = [FINE if one is None else one for one in decimals or [None] * len(values)]
        if decimals is not None and any(one == 0 for one in decimals):
            if any(digits):  # some levels are whole, and others have decimals
                target = demands.real(target, spread, before)
            found = demands.on_the_grid(target, spread, digits, before, needed=True)
            assert found is not None, "else it is refused"
            return found
        real = demands.real(target, spread, before)
        if decimals is None or None in decimals:
            return real
        near = np.hstack(self.agreeing(demands.split(real), variances, decimals))
        if demands.every.violation(near, before) <= TOLERANCE:
            return near
        found = demands.on_the_grid(real, spread, digits, before, needed=False)
        return real if found is None else found

    @staticmethod
    def _spread(demands: Demands, variances: Sequence[Array]) -> Array:
        """The variances of all values of a step, one after the other."""
        return np.repeat([float(one[0]) for one in variances], demands.sizes)

    @abstractmethod
    def agreeing(
        self, values: Sequence[Array], variances: Sequence[Array], decimals: Sequence[int | None] | None
    ) -> list[Array]:
        """The same, whatever is asked of several values."""

    @abstractmethod
    def variances(self, variances: Sequence[float]) -> list[Array]:
        """The variances of what `nearest` gives, (cells,) of each release, for noise of these variances."""


@dataclass(frozen=True)
class Tree(Levels):
    """Releases of which each but the last adds up to one other; `above[l]` has the index of each value's own in it.

    `up[l]` is which that is: where nothing is said, the next.
    """

    up: tuple[int, ...] = ()

    @property
    def sizes(self) -> list[int]:
        """How many values each release has."""
        return [*map(len, self.above), int(self.above[-1].max()) + 1]

    @property
    def _up(self) -> tuple[int, ...]:
        return self.up or tuple(range(1, len(self.names)))

    def agreeing(
        self, values: Sequence[Array], variances: Sequence[Array], decimals: Sequence[int | None] | None
    ) -> list[Array]:
        """From the top down: each level's are the nearest that add up to those above it."""
        best, spread = list(values), [one[:, None] for one in variances]
        for level, (own, up) in enumerate(zip(self.above, self._up, strict=True)):
            spread[level] = np.broadcast_to(spread[level], values[level].shape)
            spreads = added_up(spread[level], own)
            share = spreads / (spreads + spread[up])
            best[up] = share * best[up] + (1 - share) * added_up(best[level], own)
            spread[up] = share * spread[up]
        above, ups = [*self.above, np.zeros(values[-1].shape[1], np.int64)], (*self._up, len(values))
        found = [np.empty(0)] * len(values) + ([] if self.total is None else [np.full((len(values[0]), 1), self.total)])
        for level in reversed(range(len(values))):
            lower, upper = self._bounds(level)
            digits = None if decimals is None else decimals[level]
            scale = None if digits is None else 10.0**digits
            if ups[level] == len(found):
                part = np.clip(best[level], lower, upper)
                part = part if scale is None else np.rint(np.round(part * scale, TIE)) / scale
            else:
                whole, own = found[ups[level]], above[level]
                part = nearest_parts(whole, best[level], spread[level], own, lower, upper)
                if scale is not None:
                    limits = lower * scale, upper * scale
                    part = whole_parts(np.rint(whole * scale), part * scale, own, *limits) / scale
            found[level] = part
        return found[: len(values)]

    def _bounds(self, level: int) -> tuple[Array, Array]:
        """Of the values of a level, (cells,) each."""
        if self.bounds:
            return self.bounds[level].lower, self.bounds[level].upper
        return np.full(self.sizes[level], -np.inf), np.full(self.sizes[level], np.inf)

    def variances(self, variances: Sequence[float]) -> list[Array]:
        """The variances of what `nearest` gives, (cells,) of each release, for noise of these variances."""
        cells = self.sizes
        spread, spreads = [np.full(size, one) for size, one in zip(cells, variances, strict=True)], []
        for level, (own, up) in enumerate(zip(self.above, self._up, strict=True)):
            spreads.append(added_up(spread[level][None], own)[0])
            spread[up] = spreads[-1] * spread[up] / (spreads[-1] + spread[up])
        found, above, ups = list(spread), list(self.above), list(self._up)
        if self.total is not None:
            found.append(np.zeros(1))
            above.append(np.zeros(cells[-1], np.int64))
            ups.append(len(cells))
            spreads.append(spread[-1].sum(keepdims=True))
        for level in reversed(range(len(above))):
            own, whole = above[level], spreads[level]
            part = spread[level] / whole[own]
            found[level] = spread[level] - part**2 * (whole - found[ups[level]])[own]
        return found[: len(cells)]


def digits_of(levels: Levels, noise: Mapping[str, float]) -> list[int]:
    """Decimals of each release's values, whose typical errors are these: alike, and none for whole numbers."""
    most = max(decimals(noise[name]) for name in levels.names) + levels.more_decimals
    return [most if units is None else units for units in levels.units]
