"""What is asked of several values of levels that agree, beside bounds and a total: of all levels of a step at once.

Levels are made to agree within bounds first. Where what was found keeps every constraint, it stays; else the nearest
values that keep all of them are taken, differences being measured by the variances of the levels. Far from bounds that
is the least squares of all noisy values under all constraints, since what was found is the least squares without these.

Whole numbers are those nearest to real values that agree. Decimals are the whole numbers of a finer grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.constraints import TOLERANCE
from policyc_runtime.estimation.separable import WeighedSquares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FIRST = 1e-5  # of a unit: what earlier values get more among equals, so that ties are broken alike on every machine
MOST_NODES = 1000  # of a search for decimals; without them every digit is published


class Link(NamedTuple):
    """That values of a level add up to those of another; `own` has to which of them each does.

    `text` and `line` are the policy's own words that say so.
    """

    child: int
    parent: int
    own: NDArray[np.int64]
    text: str
    line: int


@dataclass(frozen=True)
class Demands:
    """Constraints on the values of all levels, the finest first.

    `asked` are those that bounds and a total do not say; `every` are all, and that levels agree.
    """

    asked: ConstraintSet
    every: ConstraintSet
    sizes: tuple[int, ...]
    _scaled: dict[tuple[int, ...], ConstraintSet] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        levels: Sequence[ConstraintSet],
        links: Sequence[Link],
        total: float | None,
        asked: Callable[[ConstraintSet], list[ConstraintRow]],
    ) -> Demands:
        """Those of the constraints of all levels.

        Args:
            levels: what is asked of each, the finest first.
            links: which of them add up to which.
            total: what all values of a level add up to, or None.
            asked: those constraints of a level that are not kept without a program.
        """
        starts = np.cumsum([0, *(level.cells for level in levels)]).tolist()
        every, some = list[ConstraintRow](), list[ConstraintRow]()
        for level, start in zip(levels, starts, strict=False):
            every += [_moved(row, start) for row in level.rows]
            some += [_moved(row, start) for row in asked(level)]
        for child, parent, own, text, line in links:
            order = np.argsort(own, kind="stable")
            for value, cells in enumerate(np.split(order, np.cumsum(np.bincount(own))[:-1])):
                parts = [(starts[child] + int(cell), Decimal(1)) for cell in cells]
                every.append(_equal(text, line, (*parts, (starts[parent] + value, Decimal(-1))), 0))
        if total is not None:
            top = tuple((cell, Decimal(1)) for cell in range(starts[-2], starts[-1]))
            every.append(_equal(links[-1].text, links[-1].line, top, int(total)))
        found, all_of_them = (ConstraintSet(tuple(rows), starts[-1], integer=False) for rows in (some, every))
        return cls(found, all_of_them, tuple(level.cells for level in levels))

    def split(self, values: Array) -> list[Array]:
        """(rows, values of all levels) by level."""
        return np.split(values, np.cumsum(self.sizes)[:-1], axis=1)

    def broken(self, values: Array, previous: Array | None) -> bool:
        """Whether values (rows, all) break a constraint on several of them; `previous` are those of the step before."""
        return self.asked.violation(values, previous) > TOLERANCE

    def real(self, target: Array, variances: Array, previous: Array | None) -> Array:
        """The nearest values (1, all) to a target that keep every constraint; variances are (all,)."""
        from policyc_runtime.estimation.constrained import nearest_weighed

        return nearest_weighed(WeighedSquares(target, variances.min() / variances), self.every, previous)

    def on_the_grid(
        self, target: Array, variances: Array, digits: Sequence[int], previous: Array | None, *, needed: bool
    ) -> Array | None:
        """The nearest such values with these decimals, of each level; None where none are found and they need not be.

        Raises:
            ReleaseError: there are none, and values are to be whole.
        """
        from policyc_runtime.estimation.constrained import nearest_weighed

        scale = np.repeat([10.0**one for one in digits], self.sizes)
        first = FIRST * (1 - np.arange(scale.size) / scale.size)
        weights = variances.min() / variances
        cost = WeighedSquares(target * scale + first, weights / (weights / scale**2).max() / scale**2)
        before = None if previous is None else np.rint(previous * scale)
        try:
            nodes = None if needed else MOST_NODES
            found = np.rint(nearest_weighed(cost, self._on_grid(tuple(digits)), before, nodes)) / scale
        except ReleaseError:
            if needed:
                raise
            return None
        return found if self.every.violation(found, previous) <= TOLERANCE else None

    def _on_grid(self, digits: tuple[int, ...]) -> ConstraintSet:
        """The constraints on values in units of their last decimal."""
        if digits not in self._scaled:
            most = max(digits)
            left = np.repeat([most - one for one in digits], self.sizes).tolist()

            def scaled(terms: tuple[tuple[int, Decimal], ...]) -> tuple[tuple[int, Decimal], ...]:
                return tuple((cell, number.scaleb(left[cell])) for cell, number in terms)

            rows = (
                row.model_copy(
                    update={
                        "current": scaled(row.current),
                        "previous": scaled(row.previous),
                        "bound": row.bound.scaleb(most),
                    }
                )
                for row in self.every.rows
            )
            self._scaled[digits] = ConstraintSet(tuple(rows), self.every.cells, integer=True)
        return self._scaled[digits]


def general_rows(asked: ConstraintSet) -> list[ConstraintRow]:
    """Those constraints of a level that are neither bounds of single values nor its total, in whole numbers."""
    return [row for row in asked.rows if not _says_bound(row, asked) and not _says_total(row, asked)]


def rows_but_totals(asked: ConstraintSet) -> list[ConstraintRow]:
    """Those constraints of a level that do not say its total, in whole numbers."""
    return [row for row in asked.rows if not _says_total(row, asked)]


def beyond_bounds(levels: Sequence[ConstraintSet]) -> bool:
    """Whether more is asked than whole bounds of single values of the first level, and what all add up to."""
    finest = (row for row in rows_but_totals(levels[0]) if len(row.current) != 1 or not _is_whole(_limit(row)))
    return any(finest) or any(rows_but_totals(level) for level in levels[1:])


def _is_whole(limit: Fraction | None) -> bool:
    return limit is not None and limit.denominator == 1


def _says_bound(row: ConstraintRow, asked: ConstraintSet) -> bool:
    limit = _limit(row)
    return len(row.current) == 1 and limit is not None and (asked.integer or limit.denominator == 1)


def _says_total(row: ConstraintRow, asked: ConstraintSet) -> bool:
    limit, coefficients = _limit(row), {coefficient for _, coefficient in row.current}
    total = row.relation == "==" and 1 < len(row.current) == asked.cells and len(coefficients) == 1
    return total and limit is not None and limit.denominator == 1 and float(limit) == asked.total


def _limit(row: ConstraintRow) -> Fraction | None:
    """The bound in units of the first coefficient; None beside values of two steps, or that do not count."""
    if row.previous or not row.current or not all(coefficient for _, coefficient in row.current):
        return None
    return Fraction(row.bound) / Fraction(row.current[0][1])


def _moved(row: ConstraintRow, start: int) -> ConstraintRow:
    """The same of values that begin so much later."""
    moved = {name: tuple((cell + start, c) for cell, c in getattr(row, name)) for name in ("current", "previous")}
    return row.model_copy(update=moved)


def _equal(text: str, line: int, current: tuple[tuple[int, Decimal], ...], bound: int) -> ConstraintRow:
    return ConstraintRow(text=text, line=line, current=current, previous=(), relation="==", bound=Decimal(bound))
