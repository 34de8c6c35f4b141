"""What published values must satisfy, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.recursions import pieces

if TYPE_CHECKING:
    from decimal import Decimal

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


class CoupledRows(NamedTuple):
    """r constraints on several values, or on those of two steps: current @ values + previous @ values before.

    Args:
        current: (r, m) coefficients.
        previous: (r, m) coefficients of the step before; a row that has any does not apply to step 0.
        relations: r of `==`, `<=`, `>=`.
        bounds: (r,).
    """

    current: NDArray[np.float64]
    previous: NDArray[np.float64]
    relations: tuple[Relation, ...]
    bounds: NDArray[np.float64]


class CellRows(NamedTuple):
    """s constraints on single values: coefficient * value (relation) bound.

    Args:
        cells: (s,) which value.
        coefficients: (s,), none of them 0.
        relations: s of `==`, `<=`, `>=`.
        bounds: (s,).
    """

    cells: NDArray[np.intp]
    coefficients: NDArray[np.float64]
    relations: tuple[Relation, ...]
    bounds: NDArray[np.float64]


@dataclass(frozen=True)
class ConstraintSet:
    """Linear constraints on the values of a step and of the one before.

    Attributes:
        rows: as a plan has them.
        cells: number of values a step, m.
        integer: whether values must be whole numbers.
        first_step: 0-based step of the first row of values, for messages.
    """

    rows: tuple[ConstraintRow, ...]
    cells: int
    integer: bool
    first_step: int = 0

    @cached_property
    def terms(self) -> list[tuple[dict[int, float], dict[int, float]]]:
        """Coefficients of each row by cell, of the step and of the one before."""
        return [(_coefficients(row.current), _coefficients(row.previous)) for row in self.rows]

    @cached_property
    def coupled(self) -> CoupledRows:
        """Rows that speak of several values."""
        kept = [index for index, found in enumerate(self.terms) if not _of_one_value(*found)]
        current, previous = np.zeros((len(kept), self.cells)), np.zeros((len(kept), self.cells))
        for row, index in enumerate(kept):
            for into, coefficients in zip((current, previous), self.terms[index], strict=True):
                into[row, list(coefficients)] = list(coefficients.values())
        return CoupledRows(
            current,
            previous,
            tuple(self.rows[index].relation for index in kept),
            np.array([float(self.rows[index].bound) for index in kept]),
        )

    @cached_property
    def single(self) -> CellRows:
        """Rows that speak of one value of the step: as many as cells, so they are not kept as a matrix."""
        kept = [index for index, found in enumerate(self.terms) if _of_one_value(*found)]
        parts = [next(iter(self.terms[index][0].items())) for index in kept]
        return CellRows(
            np.array([cell for cell, _ in parts], dtype=np.intp),
            np.array([coefficient for _, coefficient in parts]),
            tuple(self.rows[index].relation for index in kept),
            np.array([float(self.rows[index].bound) for index in kept]),
        )

    @cached_property
    def couples_steps(self) -> bool:
        """Whether a constraint speaks of two steps."""
        return any(previous for _, previous in self.terms)

    def within_a_step(self) -> ConstraintSet:
        """The same without the constraints that speak of two steps."""
        of_one = (row for row, (_, previous) in zip(self.rows, self.terms, strict=True) if not previous)
        return replace(self, rows=tuple(of_one))

    @property
    def demands_nothing(self) -> bool:
        """Whether any values will do."""
        return not self.rows and not self.integer

    @cached_property
    def total(self) -> float | None:
        """What all cells add up to, if a constraint says so."""
        for row, (current, previous) in zip(self.rows, self.terms, strict=True):
            if row.relation == "==" and len(current) == self.cells and len(set(current.values())) == 1 and not previous:
                return float(_exact(float(row.bound)) / _exact(next(iter(current.values()))))
        return None

    @cached_property
    def simplex(self) -> Simplex | None:
        """The simplest form, or None when some row is neither a bound on one cell nor the sum of all."""
        others = sum(len(current) != 1 for current, _ in self.terms)
        if self.couples_steps or others > 1 or (others == 1 and self.total is None):
            return None
        return Simplex(self.total if others else None, *self.cell_bounds)

    @cached_property
    def cell_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper (m,) of single cells; whole numbers where values are."""
        lower, upper = np.full(self.cells, -np.inf), np.full(self.cells, np.inf)
        for cell, coefficient, relation, least in zip(*self.single, strict=True):
            bound = least if coefficient == 1 else _exact(least) / _exact(coefficient)
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
        own = values[:, self.single.cells] * self.single.coefficients
        size = np.abs(own) + np.abs(self.single.bounds) + 1.0
        worst = max(worst, _largest((own - self.single.bounds) / size, self.single.relations))
        if not self.coupled.relations:
            return worst
        excess = values @ self.coupled.current.T - self.coupled.bounds
        size = np.abs(values) @ np.abs(self.coupled.current).T + np.abs(self.coupled.bounds) + 1.0
        if self.couples_steps:
            before = np.vstack([np.zeros(self.cells) if previous is None else previous, values[:-1]])
            excess = excess + before @ self.coupled.previous.T
            size = size + np.abs(before) @ np.abs(self.coupled.previous).T
            if previous is None:
                excess[0, self.coupled.previous.any(axis=1)] = 0.0  # nothing before step 0
        return max(worst, _largest(excess / size, self.coupled.relations))

    def check(self, values: NDArray[np.float64], previous: NDArray[np.float64] | None) -> None:
        """Nothing when all constraints hold within rounding.

        Raises:
            ReleaseError: one does not.
        """
        if self.violation(values, previous) > TOLERANCE:
            raise self.contradiction(None)

    def contradiction(self, row: int | None) -> ReleaseError:
        """The refusal when no values will do; `row` is the 0-based row of what was estimated together."""
        demands = [f"line {line}: `{text}`" for line, text in dict.fromkeys((row.line, row.text) for row in self.rows)]
        if self.integer:
            demands.append("whole numbers")
        return ReleaseError(
            "E0830",
            "no values satisfy the constraints of `postprocess`",
            where=None if row is None else f"step {self.first_step + row}",
            because="they cannot all hold: " + ", ".join(demands),
            help="loosen one of them in the policy and compile again",
        )


def _coefficients(terms: tuple[tuple[int, Decimal], ...]) -> dict[int, float]:
    """Of each cell that is spoken of, all its terms together."""
    found: dict[int, float] = {}
    for cell, coefficient in terms:
        found[cell] = found.get(cell, 0.0) + float(coefficient)
    return {cell: coefficient for cell, coefficient in found.items() if coefficient}


def _of_one_value(current: dict[int, float], previous: dict[int, float]) -> bool:
    return len(current) == 1 and not previous


def _largest(excess: NDArray[np.float64], relations: tuple[Relation, ...]) -> float:
    """By how much the worst of (rows, r) differences breaks its relation."""
    below = np.array([relation == ">=" for relation in relations], dtype=bool)
    both = np.array([relation == "==" for relation in relations], dtype=bool)
    return float(np.where(both, np.abs(excess), np.where(below, -excess, excess)).max(initial=0.0))
