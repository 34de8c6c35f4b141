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
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from policyc_check.plan.queries import Query
from policyc_check.plan.stream import CellRecord
from policyc_check.records import Count, Name, Record
from policyc_runtime.ancestors import parents
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.constraints import TOLERANCE
from policyc_runtime.estimation.digits import decimals
from policyc_runtime.estimation.parts import TIE, added_up, nearest_parts, whole_parts

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
MOST_VALUES = 2**20  # of the finest release, that are worked on together


class Agreement(Record):
    """That for each value of `parent` those values of `child` that belong to it add up to it, in the policy's words."""

    text: str
    line: Count
    child: Name
    parent: Name


class Agreeing(Protocol):
    """A release of a policy or of a plan."""

    @property
    def name(self) -> str:
        """Of the release."""

    @property
    def query(self) -> Query:
        """What it is split by."""

    @property
    def constraint_set(self) -> ConstraintSet:
        """What is asked of its values."""


@dataclass(frozen=True)
class Bounds:
    """What is asked of the values of a level and, by their sums, of those above: whole numbers or infinite bounds."""

    lower: Array
    upper: Array
    whole: bool

    @classmethod
    def of(cls, release: Agreeing, child: Bounds | None, own: Indices | None) -> Bounds:
        """Those of a release; `child` are those of the level whose values belong to it, as `own` says.

        Raises:
            ValueError: they are not of single values, or no whole numbers, or no values keep them.
        """
        asked = release.constraint_set
        if asked.simplex is None:
            raise ValueError(f"more is asked of `{release.name}` than that it agrees, on a total and within bounds")
        lower, upper = asked.cell_bounds
        whole = asked.integer
        if child is not None and own is not None:
            lower = np.maximum(lower, added_up(child.lower[None], own)[0])
            upper = np.minimum(upper, added_up(child.upper[None], own)[0])
            whole = whole or child.whole
        if not all(np.array_equal(bound, np.rint(bound)) for bound in (lower, upper)):
            raise ValueError(f"bounds of `{release.name}`, which agrees with others, are whole numbers")
        if (lower > upper).any():
            raise ValueError(f"no values of `{release.name}` keep its bounds and agree with those that belong to it")
        return cls(lower, upper, whole)

    @property
    def bounded(self) -> bool:
        """Whether a value has a bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


@dataclass(frozen=True)
class Tree:
    """Releases that agree, the finest first; `above[l]` has for each value of one the index of its own in the next.

    `bounds` are what is asked of the values of each; empty where nothing is asked of any. `total` is what all values of
    a level add up to, None where nobody knows.
    """

    names: tuple[str, ...]
    above: tuple[Indices, ...]
    bounds: tuple[Bounds, ...] = ()
    total: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether a value has a bound."""
        return any(bounds.bounded for bounds in self.bounds)

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
        """The same without bounds."""
        free = (
            Bounds(np.full_like(one.lower, -np.inf), np.full_like(one.upper, np.inf), one.whole) for one in self.bounds
        )
        return replace(self, bounds=tuple(free))

    def nearest(
        self, values: Sequence[Array], variances: Sequence[Array], decimals: Sequence[int | None] | None = None
    ) -> list[Array]:
        """The nearest values that agree, from the top down: each level's are the nearest that add up to those above it.

        Args:
            values: of each release, (steps, cells), noisy.
            variances: of the noise of each release's values, (steps,), > 0.
            decimals: of each release, None for every digit; no level has more than the one below it.
        """
        found = [np.empty(rows.shape) for rows in values]
        size = max(MOST_VALUES // len(self.above[0]), 1)
        for first in range(0, len(values[0]), size):
            rows = slice(first, first + size)
            parts = self._nearest([value[rows] for value in values], [one[rows] for one in variances], decimals)
            for whole, part in zip(found, parts, strict=True):
                whole[rows] = part
        return found

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


def trees(
    cell: CellRecord | None,
    releases: Sequence[Agreeing],
    agreements: Sequence[Agreement],
    population: int | None = None,
) -> list[Tree]:
    """The releases that agree with each other, from the finest on.

    Args:
        cell: of the stream.
        releases: among them those that agree.
        agreements: each release is the child of one and the parent of one at most.
        population: what values add up to that have balanced noise.

    Raises:
        ValueError: values do not belong to one value of the next, releases are not as said above, or what is asked of
            their values is more than bounds and whole numbers, or cannot be kept.
    """
    columns, by_name = {one.name: one.query.by for one in releases}, {one.name: one for one in releases}
    up = {agreement.child: agreement.parent for agreement in agreements}
    if len(up) < len(agreements) or len(set(up.values())) < len(up):
        raise ValueError("a release adds up to one other, and one adds up to it")
    found = []
    for first in sorted(up.keys() - set(up.values())):
        names, above = [first], []
        while names[-1] in up:
            child, parent = columns[names[-1]], columns[up[names[-1]]]
            if cell is None or child is None or child == parent:
                raise ValueError(f"`{names[-1]}` has no values that could belong to those of another")
            if parent is None:
                if cell.otherwise is not None:
                    raise ValueError(f"who is `{cell.otherwise}` counts in `{names[-1]}` alone")
                own: Indices | None = np.zeros(len(cell.states_by[child]), np.int64)
            else:
                own = parents(cell, child, parent)
            if own is None:
                raise ValueError(f"values of `{names[-1]}` belong to several of `{up[names[-1]]}`")
            above.append(own)
            names.append(up[names[-1]])
        bounds = [Bounds.of(by_name[first], None, None)]
        for name, own in zip(names[1:], above, strict=True):
            bounds.append(Bounds.of(by_name[name], bounds[-1], own))
        asked = any(one.bounded or one.whole for one in bounds)
        total = _total([by_name[name] for name in names], bounds[-1], population)
        found.append(Tree(tuple(names), tuple(above), tuple(bounds) if asked else (), total))
    if sum(len(tree.above) for tree in found) < len(agreements):
        raise ValueError("releases add up to each other in a circle")
    return found


def _total(releases: Sequence[Agreeing], bounds: Bounds, population: int | None) -> float | None:
    """What all values of each release add up to, those of the last one within bounds; None where nobody knows."""
    asked = [one.constraint_set.total for one in releases]
    known = {total for total in asked if total is not None}
    if population is not None and any(getattr(one, "balanced", False) for one in releases):
        known.add(float(population))
    if not known:
        return None
    total = known.pop()
    room = TOLERANCE * (abs(total) + 1)
    if total % 1:
        raise ValueError(
            f"what all values of `{releases[-1].name}` add up to, which agrees with others, is no whole number"
        )
    if known or not bounds.lower.sum() - room <= total <= bounds.upper.sum() + room:
        raise ValueError(f"no values of `{releases[-1].name}` keep their bounds and add up to all that is said")
    return total


def digits_of(tree: Tree, noise: Mapping[str, float]) -> list[int]:
    """Decimals of each release's values, whose typical errors are these: alike, and none for whole numbers."""
    most = max(decimals(noise[name]) for name in tree.names)
    return [most if units is None else units for units in tree.units]
