"""Levels that agree: values of a level that add up to those of the next, made so after noise by least squares.

Every value has noise of its own, of a known variance; so the nearest values that agree, distances being measured by
these variances, are those of the best linear unbiased estimate. One pass up the levels and one down finds them: on the
way up every value is averaged with the sum of what belongs to it, on the way down what is missing to a sum is spread
over its parts by their variances (HAY10, for equal variances).

Bounds and whole numbers are kept on the way down, where each level has the totals that the one above it decided. The
nearest values to all levels at once would have the many small values that a bound moves up move their sum up as well.

What all values of a level add up to may be public, as a population is. It is then one level more, above all others and
without noise. Noise that adds up to zero over a step's cells tells as much: it varies as noise that is new for every
value does beside a known sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

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
    def of(cls, asked: ConstraintSet, child: Bounds | None, own: Indices | None) -> Bounds:
        """Those of a release; `child` are those of the level whose values belong to it, as `own` says."""
        lower, upper = (
            np.where(bound == np.rint(bound), bound, none)  # others are asked beside bounds
            for bound, none in zip(asked.cell_bounds, (-np.inf, np.inf), strict=True)
        )
        whole = asked.integer
        if child is not None and own is not None:
            lower = np.maximum(lower, added_up(child.lower[None], own)[0])
            upper = np.minimum(upper, added_up(child.upper[None], own)[0])
            whole = whole or child.whole
        return cls(lower, upper, whole)

    @property
    def bounded(self) -> bool:
        """Whether a value has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


@dataclass(frozen=True)
class Tree:
    """Releases that agree, the finest first; `above[l]` has for each value of one the index of its own in the next.

    `bounds` are what is asked of the values of each; empty where nothing is asked of any. `total` is what all values of
    a level add up to, None where nobody knows. `demands` are what is asked of several values at once, None for nothing.
    """

    names: tuple[str, ...]
    above: tuple[Indices, ...]
    bounds: tuple[Bounds, ...] = ()
    total: float | None = None
    demands: Demands | None = None

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
    def unbounded(self) -> Tree:
        """The same without bounds, and with nothing asked of several values."""
        free = (
            Bounds(np.full_like(one.lower, -np.inf), np.full_like(one.upper, np.inf), one.whole) for one in self.bounds
        )
        return replace(self, bounds=tuple(free), demands=None)

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
        """The nearest values that agree, from the top down: each level's are the nearest that add up to those above it.

        Args:
            values: of each release, (steps, cells), noisy.
            variances: of the noise of each release's values, (steps,), > 0.
            decimals: of each release, None for every digit; no level has more than the one below it.
            previous: of each release, (cells,) values of the step before the first; None at step 0.

        Raises:
            ReleaseError: no values keep what is asked.
        """
        found = [np.empty(rows.shape) for rows in values]
        size = max(MOST_VALUES // len(self.above[0]), 1)
        for first in range(0, len(values[0]), size):
            rows = slice(first, first + size)
            own, spread = [value[rows] for value in values], [one[rows] for one in variances]
            parts = self._nearest(own, spread, decimals)
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
        target = np.hstack(self._nearest(values, variances, None))
        spread = np.repeat([float(one[0]) for one in variances], demands.sizes)
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
        near = np.hstack(self._nearest(demands.split(real), variances, decimals))
        if demands.every.violation(near, before) <= TOLERANCE:
            return near
        found = demands.on_the_grid(real, spread, digits, before, needed=False)
        return real if found is None else found

    def _nearest(
        self, values: Sequence[Array], variances: Sequence[Array], decimals: Sequence[int | None] | None
    ) -> list[Array]:
        best, spread = [values[0]], [np.broadcast_to(variances[0][:, None], values[0].shape)]
        for own, value, variance in zip(self.above, values[1:], variances[1:], strict=True):
            spreads = added_up(spread[-1], own)
            share = spreads / (spreads + variance[:, None])
            best.append(share * value + (1 - share) * added_up(best[-1], own))
            spread.append(share * variance[:, None])
        scales = [None if digits is None else 10.0**digits for digits in decimals or [None] * len(values)]
        found: list[Array] = [] if self.total is None else [np.full((len(values[0]), 1), self.total)]
        above = [*self.above, np.zeros(best[-1].shape[1], np.int64)]
        for level in reversed(range(len(values))):
            lower, upper, scale = *self._bounds(level), scales[level]
            if not found:
                part = np.clip(best[level], lower, upper)
                part = part if scale is None else np.rint(np.round(part * scale, TIE)) / scale
            else:
                part = nearest_parts(found[0], best[level], spread[level], above[level], lower, upper)
                if scale is not None:
                    limits = lower * scale, upper * scale
                    part = whole_parts(np.rint(found[0] * scale), part * scale, above[level], *limits) / scale
            found.insert(0, part)
        return found[: len(values)]

    def _bounds(self, level: int) -> tuple[Array, Array]:
        """Of the values of a level, (cells,) each."""
        if self.bounds:
            return self.bounds[level].lower, self.bounds[level].upper
        cells = len(self.above[level]) if level < len(self.above) else int(self.above[-1].max()) + 1
        return np.full(cells, -np.inf), np.full(cells, np.inf)

    def variances(self, variances: Sequence[float]) -> list[Array]:
        """The variances of what `nearest` gives, (cells,) of each release, for noise of these variances."""
        spread, spreads = [np.full(len(self.above[0]), variances[0])], []
        for own, variance in zip(self.above, variances[1:], strict=True):
            spreads.append(added_up(spread[-1][None], own)[0])
            spread.append(spreads[-1] * variance / (spreads[-1] + variance))
        found, above = [spread[-1]], list(self.above)
        if self.total is not None:
            found = [np.zeros(1)]
            above.append(np.zeros(len(spread[-1]), np.int64))
            spreads.append(spread[-1].sum(keepdims=True))
        for level in reversed(range(len(above))):
            own, whole = above[level], spreads[level]
            part = spread[level] / whole[own]
            found.insert(0, spread[level] - part**2 * (whole - found[0])[own])
        return found[: len(spread)]


def digits_of(tree: Tree, noise: Mapping[str, float]) -> list[int]:
    """Decimals of each release's values, whose typical errors are these: alike, and none for whole numbers."""
    most = max(decimals(noise[name]) for name in tree.names)
    return [most if units is None else units for units in tree.units]
