"""The linear constraints of a release as a program for HiGHS, which grows while it is solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from policyc_runtime.errors import ReleaseError

if TYPE_CHECKING:
    import highspy
    from numpy.typing import NDArray

    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]


TIGHT, LOOSE = 1e-10, 1e-7  # tolerances, absolute; the second is HiGHS' own


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
        for demand, (current, before) in zip(constraints.rows, constraints.terms, strict=True):
            relation, bound = demand.relation, float(demand.bound)
            columns = [row * constraints.cells + cell for cell in sorted(current)]
            coefficients = [current[cell] for cell in sorted(current)]
            if before:
                if row > 0:
                    columns += [(row - 1) * constraints.cells + cell for cell in sorted(before)]
                    coefficients += [before[cell] for cell in sorted(before)]
                elif previous is None:
                    continue  # nothing before step 0
                else:
                    bound -= sum(coefficient * float(previous[cell]) for cell, coefficient in before.items())
            low = -np.inf if relation == "<=" else bound
            entries.append((columns, coefficients, low, np.inf if relation == ">=" else bound))
    return LinearRows(
        np.cumsum([0, *(len(entry[0]) for entry in entries)])[:-1].astype(np.int32),
        np.array([column for entry in entries for column in entry[0]], dtype=np.int32),
        np.array([number for entry in entries for number in entry[1]], dtype=np.float64),
        np.array([entry[2] for entry in entries]),
        np.array([entry[3] for entry in entries]),
    )


FEWEST_ROUNDS, ROUNDS = 1000, 100  # of the quadratic solver, whatever the program, and more for every column


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
        self._set_tolerance(TIGHT)
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

    def search_at_most(self, nodes: int) -> None:
        """Whole numbers are searched for in so many places at most."""
        self._solver.setOptionValue("mip_max_nodes", nodes)

    def set_squares(self, noisy: Array, weights: Array | None = None) -> None:
        """The cost is half the squared distance of the values to the noisy ones, each weighed or not."""
        import highspy

        total = int(self._solver.getNumCol())
        weights = np.ones(noisy.size) if weights is None else weights
        self.set_prices(0, np.concatenate([-weights * noisy, np.zeros(total - noisy.size)]))
        starts = np.minimum(np.arange(total + 1), noisy.size).astype(np.int32)
        places = np.arange(noisy.size, dtype=np.int32)
        triangular = int(highspy.HessianFormat.kTriangular)
        self._solver.passHessian(total, noisy.size, triangular, starts[:-1], places, weights)

    def _set_tolerance(self, tolerance: float) -> None:
        """How far a row may be off."""
        self.tolerance = tolerance
        self._solver.setOptionValue("primal_feasibility_tolerance", tolerance)
        self._solver.setOptionValue("dual_feasibility_tolerance", tolerance)

    def runs(self) -> bool:
        """Whether the solver comes to the optimum.

        HiGHS' quadratic solver may go in circles for ever, on one step of four cells too: it is stopped where nothing
        that it solves comes near, by a count of its rounds and so in the same place on every machine.
        """
        import highspy

        self._solver.setOptionValue("qp_iteration_limit", FEWEST_ROUNDS + ROUNDS * int(self._solver.getNumCol()))
        self._solver.run()
        return bool(self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def solve(self, row: int | None) -> tuple[Array, float]:
        """All columns at the optimum, and its cost; `row` is named when there is none."""
        import highspy

        self._solver.run()
        status = self._solver.getModelStatus()
        for tolerance in (self.tolerance, LOOSE):  # with large numbers a fresh start helps, or a looser tolerance
            if status == highspy.HighsModelStatus.kUnknown:
                self._solver.clearSolver()
                self._set_tolerance(tolerance)
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
    "mip_feasibility_tolerance": 1e-9,
    "mip_rel_gap": 1e-9,
}
