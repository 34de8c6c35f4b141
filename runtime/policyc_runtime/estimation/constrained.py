"""Least separable convex cost under any linear constraints, of one step or of many, whole numbers or not.

A linear program (mixed-integer where values are whole numbers) holds the constraints; the absolute distances are linear
already, and the smooth part of every cell's cost enters as supporting lines, added where the last optimum showed that
they were missing: tangents for real values, and for whole numbers the chords between neighbors, which meet the curve
at every whole number, so that finitely many are exact. The squared distance of real values is left to HiGHS as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.separable import SquaredCost, minimise_reals

if TYPE_CHECKING:
    from collections.abc import Iterator

    import highspy
    from numpy.typing import NDArray

    from policyc_runtime.estimation.constraints import ConstraintSet
    from policyc_runtime.estimation.separable import SeparableCost

    Array = NDArray[np.float64]

ROUNDS = 100  # of adding supporting lines; a handful is usual
GAP = 1e-9  # how far a curve may lie above its supporting lines
SPREAD = (0, 1, -1, 3, -3, 10, -10, 30, -30, 100, -100)  # units from the first guess where supporting lines start


Cost = TypeVar("Cost", bound="SeparableCost")


class LinearRows(NamedTuple):
    """Low <= A x <= high over the values of some consecutive rows, row after row."""

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    coefficients: Array
    low: Array
    high: Array


def linear_rows(constraints: ConstraintSet, rows: int, previous: Array | None) -> LinearRows:
    """The constraints of `rows` consecutive steps; `previous` is fixed, and None before step 0."""
    entries: list[tuple[list[int], list[float], float, float]] = []
    for row in range(rows):
        for index, relation in enumerate(constraints.relations):
            before, bound = constraints.previous[index], float(constraints.bounds[index])
            columns = [row * constraints.cells + int(cell) for cell in np.flatnonzero(constraints.current[index])]
            coefficients = constraints.current[index][constraints.current[index] != 0].tolist()
            if before.any():
                if row > 0:
                    columns += [(row - 1) * constraints.cells + int(cell) for cell in np.flatnonzero(before)]
                    coefficients += before[before != 0].tolist()
                elif previous is None:
                    continue  # nothing before step 0
                else:
                    bound -= float(before @ previous)
            low = -np.inf if relation == "<=" else bound
            entries.append((columns, coefficients, low, np.inf if relation == ">=" else bound))
    return LinearRows(
        np.cumsum([0, *(len(entry[0]) for entry in entries)])[:-1].astype(np.int32),
        np.array([column for entry in entries for column in entry[0]], dtype=np.int32),
        np.array([number for entry in entries for number in entry[1]], dtype=np.float64),
        np.array([entry[2] for entry in entries]),
        np.array([entry[3] for entry in entries]),
    )


class Program:
    """A growing linear program over values, their distances to the noisy ones, and heights of their curves."""

    def __init__(
        self, constraints: ConstraintSet, possible: NDArray[np.bool_], least: float, previous: Array | None
    ) -> None:
        """`possible` (rows, cells) says which values may differ from 0; `least` is the least any may be."""
        import highspy

        lower, upper = constraints.cell_bounds

        self._solver: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in _OPTIONS.items():
            self._solver.setOptionValue(option, value)
        self._constraints = constraints
        self._count = possible.size
        self._columns(
            np.zeros(self._count),
            np.broadcast_to(np.maximum(lower, least), possible.shape).ravel(),
            np.where(possible, upper, np.minimum(upper, 0.0)).ravel(),
        )
        held = linear_rows(constraints, len(possible), previous)
        self._rows(held.low, held.high, held.starts, held.columns, held.coefficients)

    def _columns(self, prices: Array, lower: Array, upper: Array) -> int:
        """New columns; where they start."""
        first = int(self._solver.getNumCol())
        nothing = np.array([], dtype=np.int32)
        self._solver.addCols(
            prices.size, prices, lower, upper, 0, np.zeros(prices.size, dtype=np.int32), nothing, nothing.astype(float)
        )
        return first

    def _rows(
        self, low: Array, high: Array, starts: NDArray[np.int32], columns: NDArray[np.int32], coefficients: Array
    ) -> None:
        self._solver.addRows(low.size, low, high, columns.size, starts, columns, coefficients)

    def add_distances(self, noisy: Array, prices: Array) -> int:
        """Columns for |values - noisy|; where they start."""
        first = self._columns(prices, np.zeros(noisy.size), np.full(noisy.size, np.inf))
        values = np.arange(noisy.size)
        for sign in (1.0, -1.0):  # distance + sign value >= sign noisy
            self._pairs(first + values, values, np.full(noisy.size, sign), sign * noisy)
        return first

    def _pairs(self, heights: NDArray[np.intp], values: NDArray[np.intp], slopes: Array, low: Array) -> None:
        """Rows height + slope value >= low."""
        columns = np.column_stack([heights, values]).astype(np.int32).ravel()
        coefficients = np.column_stack([np.ones(len(low)), slopes]).ravel()
        starts = (2 * np.arange(len(low))).astype(np.int32)
        self._rows(low, np.full(len(low), np.inf), starts, columns, coefficients)

    def add_heights(self) -> int:
        """Columns for the heights of the curves above their line at the first guess, each >= 0; where they start."""
        return self._columns(np.ones(self._count), np.zeros(self._count), np.full(self._count, np.inf))

    def add_lines(self, first: int, cells: NDArray[np.intp], at: Array, heights: Array, slopes: Array) -> None:
        """Rows height >= heights + slopes (value - at), for some cells."""
        self._pairs(first + cells, cells, -slopes, heights - slopes * at)

    def demand_whole(self, *, whole: bool) -> None:
        """Values are whole numbers from now on, or real ones again."""
        import highspy

        kind = highspy.HighsVarType.kInteger if whole else highspy.HighsVarType.kContinuous
        columns = np.arange(self._count, dtype=np.int32)
        self._solver.changeColsIntegrality(self._count, columns, np.full(self._count, kind))

    def set_prices(self, first: int, prices: Array) -> None:
        """The cost of a unit in each column from `first` on."""
        columns = np.arange(first, first + prices.size, dtype=np.int32)
        self._solver.changeColsCost(prices.size, columns, prices)

    def limit(self, first: int, most: float) -> None:
        """The columns from `first` on, one a value, add up to at most this."""
        columns = np.arange(first, first + self._count, dtype=np.int32)
        self._rows(np.array([-np.inf]), np.array([most]), np.zeros(1, dtype=np.int32), columns, np.ones(self._count))

    def set_squares(self, noisy: Array) -> None:
        """The cost is half the squared distance of the values to the noisy ones."""
        import highspy

        total = int(self._solver.getNumCol())
        self.set_prices(0, np.concatenate([-noisy, np.zeros(total - noisy.size)]))
        starts = np.minimum(np.arange(total + 1), noisy.size).astype(np.int32)
        places = np.arange(noisy.size, dtype=np.int32)
        triangular = int(highspy.HessianFormat.kTriangular)
        self._solver.passHessian(total, noisy.size, triangular, starts[:-1], places, np.ones(noisy.size))

    def runs(self) -> bool:
        """Whether the solver comes to an end with it."""
        import highspy

        self._solver.run()
        return bool(self._solver.getModelStatus() != highspy.HighsModelStatus.kSolveError)

    def solve(self, row: int | None) -> tuple[Array, float]:
        """All columns at the optimum, and its cost; `row` is named when there is none."""
        import highspy

        self._solver.run()
        status = self._solver.getModelStatus()
        none = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
        if status in none:
            raise self._constraints.contradiction(row)
        if status != highspy.HighsModelStatus.kOptimal:
            raise ReleaseError(
                "E0834",
                "the solver gave up on the constraints of `postprocess`",
                where=None if row is None else f"step {self._constraints.first_step + row}",
                because=f"HiGHS says: {self._solver.modelStatusToString(status).lower()}",
                help="fewer or simpler constraints, or leave out `integer`, and compile again",
            )
        solution = np.array(self._solver.getSolution().col_value, dtype=np.float64)
        return solution, float(self._solver.getInfo().objective_function_value)


_OPTIONS = {
    "output_flag": False,
    "threads": 1,  # the same values on every machine
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
    "mip_feasibility_tolerance": 1e-9,
    "mip_rel_gap": 0.0,
}


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
    program.set_prices(0, curves.line.ravel())
    program.add_distances(cost.noisy.ravel(), np.broadcast_to(cost.weight, cost.noisy.shape).ravel())
    return curves.refine(program, row)


def _nearest(cost: SquaredCost, constraints: ConstraintSet, previous: Array | None, row: int | None) -> Array:
    """One block: the least L1 distance first, then the squares within it."""
    if not constraints.integer:
        squares = _least_distance(cost, constraints, previous, row)
        squares.set_squares(cost.noisy.ravel())
        if squares.runs():
            found = squares.solve(row)[0][: cost.noisy.size].reshape(cost.noisy.shape)
            return np.clip(found, *constraints.cell_bounds)
        # HiGHS' quadratic solver gives up now and then; supporting lines always work
    program = _least_distance(cost, constraints, previous, row)
    curves = _Curves(cost, np.rint(cost.noisy), whole=constraints.integer)
    program.set_prices(0, curves.line.ravel())
    return curves.refine(program, row)


def _least_distance(cost: SquaredCost, constraints: ConstraintSet, previous: Array | None, row: int | None) -> Program:
    """A program limited to values of least L1 distance, without any cost yet."""
    noisy = cost.noisy
    program = Program(constraints, np.ones(noisy.shape, dtype=bool), cost.least, previous)
    first = program.add_distances(noisy.ravel(), np.ones(noisy.size))
    found, least = program.solve(row)
    if constraints.integer and not _whole(found[: noisy.size]):
        program.demand_whole(whole=True)
        least = program.solve(row)[1]
        program.demand_whole(whole=False)
    program.limit(first, least + (1e-6 if constraints.integer else GAP * (1.0 + least)))
    program.set_prices(first, np.zeros(noisy.size))
    return program


def _whole(values: Array) -> bool:
    """Whether real values happen to be whole numbers."""
    return bool((np.abs(values - np.rint(values)) < 1e-7).all())


class _Curves:
    """The smooth part of a cost above its line at a first guess: small numbers, which a linear program likes."""

    def __init__(self, cost: SeparableCost, guess: Array, *, whole: bool) -> None:
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
        first = program.add_heights()
        for offset in SPREAD:
            self._support(program, first, self._guess + offset, self.possible)
        shape, count = self._guess.shape, self._guess.size
        demanded = False
        for _ in range(ROUNDS):
            solution = program.solve(row)[0]
            values = np.maximum(solution[:count].reshape(shape), self._cost.least)
            heights = self.heights(values)
            wanting = heights - solution[first : first + count].reshape(shape) > GAP * (1.0 + heights)
            if wanting.any():
                self._support(program, first, values, wanting)
            elif self._whole and not demanded and not _whole(values):
                program.demand_whole(whole=True)
                demanded = True
            else:
                break
        return np.rint(values) if self._whole else values

    def _support(self, program: Program, first: int, values: Array, cells: NDArray[np.bool_]) -> None:
        """Add the tangent, or the chords around it, of some cells where they are in the domain."""
        cells = cells & (values >= self._cost.least)
        if not self._whole:
            at = np.maximum(values, self._cost.least)
            self._add(program, first, cells, at, self._cost.curve_slope(at) - self.line)
            return
        near = np.rint(values)
        at = np.maximum(np.where(np.abs(values - near) < 1e-7, near, np.floor(values)), self._cost.least)
        here = self.heights(at)
        self._add(program, first, cells, at, self.heights(at + 1.0) - here)
        below = np.maximum(at - 1.0, self._cost.least)
        self._add(program, first, cells & (below < at), at, here - self.heights(below))

    def _add(self, program: Program, first: int, cells: NDArray[np.bool_], at: Array, slopes: Array) -> None:
        program.add_lines(first, np.flatnonzero(cells), at[cells], self.heights(at)[cells], slopes[cells])
