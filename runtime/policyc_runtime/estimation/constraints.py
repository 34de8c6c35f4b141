"""What published values must satisfy, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.recursions import pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray


Relation = Literal["==", "<=", ">="]
TOLERANCE = 1e-9  # relative: floating-point sums of values that are exact otherwise


def _exact(number: float) -> Fraction:
    """The decimal the policy wrote, so that 0.9 / 0.3 is 3."""
    return Fraction(repr(float(number)))


class Simplex(NamedTuple):
    """A constraint set in its simplest form: bounds on single cells, and at most one sum over all of them."""

    total: float | None
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def nonnegative(self) -> Simplex:
        """The same for counts."""
        return self._replace(lower=np.maximum(self.lower, 0.0))

    def require_feasible(self, constraints: ConstraintSet, possible: NDArray[np.bool_] | None = None) -> None:
        """Nothing when every row has values; `possible` (rows, m) are the cells that may differ from 0.

        Raises:
            ReleaseError: some row has none.
        """
        open_cells = np.ones((1, len(self.lower)), dtype=bool) if possible is None else possible
        upper = np.where(open_cells, self.upper, np.minimum(self.upper, 0.0))
        contradicted = (self.lower > upper).any(axis=1)
        if self.total is not None:
            contradicted |= (self.lower.sum() > self.total) | (upper.sum(axis=1) < self.total)
            contradicted |= constraints.integer and self.total != round(self.total)
        if contradicted.any():
            raise constraints.contradiction(None if possible is None else int(np.argmax(contradicted)))


@dataclass(frozen=True)
class ConstraintSet:
    """r linear constraints on m cells: current @ values + previous @ values_one_step_earlier (relation) bound.

    Attributes:
        current: (r, m) coefficients.
        previous: (r, m) coefficients of the step before; a row that has any does not apply to step 0.
        relations: r of `==`, `<=`, `>=`.
        bounds: (r,).
        texts: the policy's words, r of them.
        lines: the policy's 1-based lines.
        integer: whether values must be whole numbers.
        first_step: 0-based step of the first row of values, for messages.
    """

    current: NDArray[np.float64]
    previous: NDArray[np.float64]
    relations: tuple[Relation, ...]
    bounds: NDArray[np.float64]
    texts: tuple[str, ...]
    lines: tuple[int, ...]
    integer: bool
    first_step: int = 0

    @classmethod
    def of_rows(cls, rows: tuple[ConstraintRow, ...], cells: int, *, integer: bool) -> ConstraintSet:
        """Of the rows of a plan, on so many cells."""
        current, previous = np.zeros((len(rows), cells)), np.zeros((len(rows), cells))
        for index, row in enumerate(rows):
            for cell, coefficient in row.current:
                current[index, cell] += float(coefficient)
            for cell, coefficient in row.previous:
                previous[index, cell] += float(coefficient)
        return cls(
            current=current,
            previous=previous,
            relations=tuple(row.relation for row in rows),
            bounds=np.array([float(row.bound) for row in rows]),
            texts=tuple(row.text for row in rows),
            lines=tuple(row.line for row in rows),
            integer=integer,
        )

    @property
    def cells(self) -> int:
        """Number of values a step, m."""
        return int(self.current.shape[1])

    @property
    def couples_steps(self) -> bool:
        """Whether a constraint speaks of two steps."""
        return bool(self.previous.any())

    def within_a_step(self) -> ConstraintSet:
        """The same without the constraints that speak of two steps."""
        kept = np.flatnonzero(~self.previous.any(axis=1))
        return ConstraintSet(
            current=self.current[kept],
            previous=self.previous[kept],
            relations=tuple(self.relations[row] for row in kept),
            bounds=self.bounds[kept],
            texts=tuple(self.texts[row] for row in kept),
            lines=tuple(self.lines[row] for row in kept),
            integer=self.integer,
            first_step=self.first_step,
        )

    @property
    def demands_nothing(self) -> bool:
        """Whether any values will do."""
        return not self.texts and not self.integer

    @cached_property
    def total(self) -> float | None:
        """What all cells add up to, if a constraint says so."""
        sums = (self.current[:, :1] != 0).ravel() & (self.current == self.current[:, :1]).all(axis=1)
        for index in np.flatnonzero(sums & ~self.previous.any(axis=1)):
            if self.relations[index] == "==":
                return float(_exact(self.bounds[index]) / _exact(self.current[index, 0]))
        return None

    @cached_property
    def simplex(self) -> Simplex | None:
        """The simplest form, or None when some row is neither a bound on one cell nor the sum of all."""
        others = int((self._touched.sum(axis=1) != 1).sum())
        if self.couples_steps or others > 1 or (others == 1 and self.total is None):
            return None
        return Simplex(self.total if others else None, *self.cell_bounds)

    @cached_property
    def _touched(self) -> NDArray[np.bool_]:
        """Which cells a row speaks of, (r, m)."""
        return np.asarray(self.current != 0)

    @cached_property
    def cell_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper (m,) of single cells; whole numbers where values are."""
        lower, upper = np.full(self.cells, -np.inf), np.full(self.cells, np.inf)
        for index in np.flatnonzero((self._touched.sum(axis=1) == 1) & ~self.previous.any(axis=1)):
            cell = int(np.flatnonzero(self._touched[index])[0])
            coefficient, relation = self.current[index, cell], self.relations[index]
            bound = _exact(self.bounds[index]) / _exact(coefficient)
            if relation == "==" or (relation == ">=") == (coefficient > 0):
                lower[cell] = max(lower[cell], math.ceil(bound) if self.integer else bound)
            if relation == "==" or (relation == "<=") == (coefficient > 0):
                upper[cell] = min(upper[cell], math.floor(bound) if self.integer else bound)
        return lower, upper

    def violation(self, values: NDArray[np.float64], previous: NDArray[np.float64] | None) -> float:
        """The largest excess over any bound, relative to the row's size (dimensionless, 0 when all hold).

        Args:
            values: (rows, m), consecutive steps where constraints couple them.
            previous: (m,) values of the step before the first row; None at step 0.
        """
        worst = 0.0
        for rows in pieces(len(values)):
            worst = max(worst, self._violation(values[rows], values[rows.start - 1] if rows.start else previous))
        return worst

    def _violation(self, values: NDArray[np.float64], previous: NDArray[np.float64] | None) -> float:
        worst = float(np.abs(values - np.rint(values)).max(initial=0.0)) if self.integer else 0.0
        if not self.texts:
            return worst
        excess = values @ self.current.T - self.bounds
        size = np.abs(values) @ np.abs(self.current).T + np.abs(self.bounds) + 1.0
        if self.couples_steps:
            before = np.vstack([np.zeros(self.cells) if previous is None else previous, values[:-1]])
            excess = excess + before @ self.previous.T
            size = size + np.abs(before) @ np.abs(self.previous).T
            if previous is None:
                excess[0, self.previous.any(axis=1)] = 0.0  # nothing before step 0
        below = np.array([relation == ">=" for relation in self.relations])
        both = np.array([relation == "==" for relation in self.relations])
        beyond = np.where(both, np.abs(excess), np.where(below, -excess, excess)) / size
        return max(worst, float(beyond.max(initial=0.0)))

    def check(self, values: NDArray[np.float64], previous: NDArray[np.float64] | None) -> None:
        """Nothing when all constraints hold within rounding.

        Raises:
            ReleaseError: one does not.
        """
        if self.violation(values, previous) > TOLERANCE:
            raise self.contradiction(None)

    def contradiction(self, row: int | None) -> ReleaseError:
        """The refusal when no values will do; `row` is the 0-based row of what was estimated together."""
        demands = [f"line {line}: `{text}`" for line, text in dict.fromkeys(zip(self.lines, self.texts, strict=True))]
        if self.integer:
            demands.append("whole numbers")
        return ReleaseError(
            "E0830",
            "no values satisfy the constraints of `postprocess`",
            where=None if row is None else f"step {self.first_step + row}",
            because="they cannot all hold: " + ", ".join(demands),
            help="loosen one of them in the policy and compile again",
        )
