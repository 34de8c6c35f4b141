"""Least separable convex cost under any linear constraints, of one step or of many, whole numbers or not.

A linear program (mixed-integer where values are whole numbers) holds the constraints; the absolute distances are linear
already, and the smooth part of every cell's cost enters as supporting lines, added where the last optimum showed that
they were missing: tangents for real values, and for whole numbers the chords between neighbors, which meet the curve
at every whole number, so that finitely many are exact. The squared distance of real values is left to HiGHS as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from policyc_runtime.estimation.program import Program
from policyc_runtime.estimation.separable import SquaredCost, minimise_reals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from policyc_runtime.estimation.constraints import ConstraintSet
    from policyc_runtime.estimation.separable import SeparableCost, WeighedSquares

    Array = NDArray[np.float64]

ROUNDS = 100  # of adding supporting lines; a handful is usual
GAP = 1e-9  # how far a curve may lie above its supporting lines
SPREAD = (0, 1, -1, 3, -3, 10, -10, 30, -30, 100, -100)  # units from the first guess where supporting lines start
NEAR = (0, 1, -1, 10, -10, 1000, -1000)  # the same where it is the best of real values


Cost = TypeVar("Cost", bound="SeparableCost")


def minimise_under_constraints(cost: SeparableCost, constraints: ConstraintSet, previous: Array | None) -> Array:
    """Values (rows, cells) of least cost that satisfy the constraints.

    Args:
        cost: of (rows, cells); where its slope is infinite a value is fixed at 0.
        constraints: what they must satisfy; steps are solved together where these couple them.
        previous: (cells,) values of the step before, or None.

    Raises:
        ReleaseError: there are none.
    """
    return np.vstack([_least_cost(part, constraints, previous, row) for part, row in _blocks(cost, constraints)])


def nearest_under_constraints(noisy: Array, constraints: ConstraintSet, previous: Array | None) -> Array:
    """Values of least L1 distance, and among those of least L2 distance; arguments as above."""
    blocks = _blocks(SquaredCost(noisy), constraints)
    return np.vstack([_nearest(part, constraints, previous, row) for part, row in blocks])


def nearest_weighed(
    cost: WeighedSquares, constraints: ConstraintSet, previous: Array | None, nodes: int | None = None
) -> Array:
    """Values (1, cells) of one step at the least weighed squared distance that satisfy the constraints.

    Args:
        cost: the squares.
        constraints: what they must satisfy.
        previous: (cells,) values of the step before, or None.
        nodes: how long whole numbers are searched for at most; None for as long as it takes.

    Raises:
        ReleaseError: there are none, or none were found.
    """
    everywhere, near = np.ones(cost.noisy.shape, dtype=bool), cost.noisy
    spread: tuple[int, ...] = SPREAD
    program = Program(constraints, everywhere, cost.least, previous)
    program.set_squares(cost.noisy.ravel(), cost.weights)
    if program.runs():
        near = np.clip(program.solve(0)[0].reshape(cost.noisy.shape), *constraints.cell_bounds)
        if not constraints.integer:
            return near
        spread = NEAR
    program = Program(constraints, everywhere, cost.least, previous)
    if nodes is not None:
        program.search_at_most(nodes)
    return _Curves(cost, np.rint(near), whole=constraints.integer, spread=spread).refine(program, 0)


def _blocks(cost: Cost, constraints: ConstraintSet) -> Iterator[tuple[Cost, int | None]]:
    """What is solved together, with the row it is when it is one alone."""
    rows = len(cost.noisy)
    if constraints.couples_steps:
        yield cost, 0 if rows == 1 else None
        return
    for row in range(rows):
        yield cost.take(np.array([row])), row


def _least_cost(cost: SeparableCost, constraints: ConstraintSet, previous: Array | None, row: int | None) -> Array:
    """One block."""
    free = np.full(constraints.cells, np.inf)
    curves = _Curves(
        cost, minimise_reals(cost, constraints.total, np.maximum(-free, cost.least), free), whole=constraints.integer
    )
    program = Program(constraints, curves.possible, cost.least, previous)
    program.add_distances(cost.noisy.ravel(), np.broadcast_to(cost.weight, cost.noisy.shape).ravel())
    return curves.refine(program, row)


def _nearest(cost: SquaredCost, constraints: ConstraintSet, previous: Array | None, row: int | None) -> Array:
    """One block: the least L1 distance first, then the squares within it."""
    noisy, shape = cost.noisy, cost.noisy.shape
    start = _LeastDistance(cost, constraints, previous, row)
    if not constraints.integer:
        start.limit()
        start.program.set_squares(noisy.ravel())
        if start.program.runs():
            return np.clip(start.program.solve(row)[0][: noisy.size].reshape(shape), *constraints.cell_bounds)
        # HiGHS' quadratic solver gives up now and then; supporting lines always work
        start = _LeastDistance(cost, constraints, previous, row)
        start.limit()
        return _Curves(cost, np.rint(start.found), whole=False).refine(start.program, row)
    # a heavy price on distance mostly keeps it least, and leads to whole numbers more often than a limit does
    start.program.set_prices(start.first, np.full(noisy.size, min(4.0 * noisy.size * (1.0 + start.farthest), 1e6)))
    values = _Curves(cost, np.rint(start.found), whole=True).refine(start.program, row)
    if np.abs(values - noisy).sum() <= start.least + 1e-6 * (1.0 + start.least):
        return values
    start = _LeastDistance(cost, constraints, previous, row)
    start.limit()
    return _Curves(cost, np.rint(start.found), whole=True).refine(start.program, row)


class _LeastDistance:
    """A program whose values have the least L1 distance to the noisy ones."""

    def __init__(self, cost: SquaredCost, constraints: ConstraintSet, previous: Array | None, row: int | None) -> None:
        noisy = cost.noisy
        self.program = Program(constraints, np.ones(noisy.shape, dtype=bool), cost.least, previous)
        self.first = self.program.add_distances(noisy.ravel(), np.ones(noisy.size))
        found, self.least = self.program.solve(row)
        if constraints.integer and not _whole(found[: noisy.size]):
            self.program.demand_whole(whole=True)
            found, self.least = self.program.solve(row)
            self.program.demand_whole(whole=False)
        self.found = found[: noisy.size].reshape(noisy.shape)
        self.farthest = float(np.abs(self.found - noisy).max())

    def limit(self) -> None:
        """Keep the distance, at no price."""
        self.program.limit(self.first, self.least + GAP * (1.0 + self.least))
        self.program.set_prices(self.first, np.zeros(self.found.size))


def _whole(values: Array) -> bool:
    """Whether real values happen to be whole numbers."""
    return bool((np.abs(values - np.rint(values)) < 1e-7).all())


class _Curves:
    """The smooth part of a cost above its line at a first guess: small numbers, which a linear program likes."""

    def __init__(self, cost: SeparableCost, guess: Array, *, whole: bool, spread: tuple[int, ...] = SPREAD) -> None:
        self._spread = spread
        slope = cost.curve_slope(guess)
        self.possible = np.isfinite(slope)
        self.line = np.where(self.possible, slope, 0.0)
        self._cost = cost
        self._guess = guess
        self._base = cost.curve(guess)
        self._whole = whole

    def heights(self, values: Array) -> Array:
        """Of the curves at some values (rows, cells); between whole numbers, on the chord, where values are whole."""
        if not self._whole:
            return self._height(values)
        floor = np.floor(values)
        return self._height(floor) + (values - floor) * (self._height(floor + 1.0) - self._height(floor))

    def _height(self, values: Array) -> Array:
        at = np.where(self.possible, values, self._guess)
        return self._cost.curve(at) - self._base - self.line * (at - self._guess)

    def refine(self, program: Program, row: int | None) -> Array:
        """Solve, add the supporting lines that were missing, and again, until none is.

        The lines between whole numbers alone often lead to whole numbers; only where not are these demanded.
        """
        program.set_prices(0, self.line.ravel())
        first = program.add_heights()
        self._support(program, first, [(self._guess + offset, self.possible) for offset in self._spread])
        shape, count = self._guess.shape, self._guess.size
        demanded = False  # what is found satisfies the constraints in every round; rounds only bring the cost down
        for _ in range(ROUNDS):
            solution = program.solve(row)[0]
            values = np.maximum(solution[:count].reshape(shape), self._cost.least)
            heights = self.heights(values)
            missing = heights - solution[first : first + count].reshape(shape)
            wanting = missing > GAP * (1.0 + heights) + program.tolerance
            if wanting.any():
                self._support(program, first, [(values, wanting)])
            elif self._whole and not demanded and not _whole(values):
                program.demand_whole(whole=True)
                demanded = True
            else:
                break
        return np.rint(values) if self._whole else values

    def _support(self, program: Program, first: int, places: Iterable[tuple[Array, NDArray[np.bool_]]]) -> None:
        """Add the tangents, or the chords around them, of cells at places of the domain, in one go."""
        lines = [line for values, cells in places for line in self._lines(values, cells & (values >= self._cost.least))]
        chosen = [
            (np.flatnonzero(cells), *(array[cells] for array in (at, heights, slopes)))
            for cells, at, heights, slopes in lines
        ]
        program.add_lines(first, *map(np.concatenate, zip(*chosen, strict=True)))

    def _lines(
        self, values: Array, cells: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.bool_], Array, Array, Array]]:
        """Lines that touch the curves of cells: through which places and heights, and their slopes."""
        if not self._whole:
            at = np.maximum(values, self._cost.least)
            yield cells, at, self._height(at), self._cost.curve_slope(at) - self.line
            return
        near = np.rint(values)
        at = np.maximum(np.where(np.abs(values - near) < 1e-7, near, np.floor(values)), self._cost.least)
        here = self._height(at)
        yield cells, at, here, self._height(at + 1.0) - here
        below = np.maximum(at - 1.0, self._cost.least)
        yield cells & (below < at), at, here, here - self._height(below)
