"""Constraints on several values of levels that agree: the values by other solvers, their errors, and runs."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
from agreeing import POLICY as STREAM
from agreeing import compiled as of_stream
from scipy.optimize import minimize
from test_agreement_of_steps import compiled

from policyc_check.verify import verified_claims
from policyc_runtime.agreement import Bounds, Tree
from policyc_runtime.agreement_demands import Demands, Link, general_rows
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimates import agreed
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.parts import added_up
from policyc_runtime.laboratory.simulation import simulate

OWN = np.array([0, 1, 0])  # of places in regions


def row(relation, bound, *current, before=()):
    current, before = (tuple((cell, Decimal(str(c))) for cell, c in terms) for terms in (current, before))
    return ConstraintRow(text="asked", line=1, current=current, previous=before, relation=relation, bound=bound)


ASKED = {
    "pair": ([row("<=", 9, (0, 1), (1, 1))], []),
    "weights": ([row("<=", 14, (0, 1), (1, 2)), row(">=", -1, (1, 1), (2, -1))], []),
    "equal": ([row("==", 0, (0, 1), (1, -1))], []),
    "above": ([], [row(">=", 3, (0, 1), (1, -1))]),
    "both": ([row("<=", 9, (0, 1), (1, 1))], [row(">=", 1, (0, 1), (1, -1))]),
}


def tree_of(asked, total, *, lower, whole):
    places, regions = ASKED[asked]
    least = [row(">=", 0, (cell, 1)) for cell in range(3) if lower == 0]
    levels = [ConstraintSet((*places, *least), 3, integer=whole), ConstraintSet(tuple(regions), 2, integer=whole)]
    demands = Demands.of(levels, [Link(0, 1, OWN, "agree", 1)], total, general_rows)
    bounds = [Bounds(np.full(cells, lower), np.full(cells, np.inf), whole) for cells in (3, 2)]
    return Tree(("places", "regions"), (OWN,), tuple(bounds), total, demands)


def keeps(asked, places, regions, slack=0.0):
    signs = {"<=": 1, ">=": -1}
    for rows, values in zip(ASKED[asked], (places, regions), strict=True):
        for one in rows:
            away = sum(float(c) * values[cell] for cell, c in one.current) - float(one.bound)
            if (abs(away) if one.relation == "==" else signs[one.relation] * away) > slack:
                return False
    return True


@pytest.mark.parametrize("total", [None, 14.0])
@pytest.mark.parametrize("asked", ASKED)
def test_real_values_are_the_least_squares_of_all_noisy_ones(asked, total):
    """By a solver of another kind, on the finest values alone."""
    generator, variances = np.random.default_rng(5), (9.0, 2.0)
    tree = tree_of(asked, total, lower=-np.inf, whole=False)
    noisy = [generator.normal(5, 4, (12, 3)).round(), generator.normal(8, 4, (12, 2)).round()]
    found = tree.nearest(noisy, [np.full(12, v) for v in variances])
    for step in range(12):

        def cost(places, step=step):
            regions = added_up(places[None], OWN)[0]
            pairs = zip((places, regions), (values[step] for values in noisy), variances, strict=True)
            return sum(float(((one - other) ** 2).sum()) / v for one, other, v in pairs)

        asks = [
            {"type": "eq" if one.relation == "==" else "ineq",
             "fun": lambda x, one=one, level=level: (-1 if one.relation == "<=" else 1) * (sum(
                 float(c) * (x, added_up(x[None], OWN)[0])[level][cell] for cell, c in one.current) - float(one.bound))}
            for level, rows in enumerate(ASKED[asked]) for one in rows
        ]  # fmt: skip
        asks += [] if total is None else [{"type": "eq", "fun": lambda x: x.sum() - total}]
        best = minimize(cost, found[0][step], constraints=asks, method="SLSQP", options={"ftol": 1e-12, "maxiter": 300})
        other = minimize(cost, np.full(3, 4.0), constraints=asks, method="SLSQP", options={"ftol": 1e-12})
        assert cost(found[0][step]) <= min(best.fun, other.fun) + 1e-6
        assert keeps(asked, found[0][step], found[1][step], 1e-8)
        assert added_up(found[0][step][None], OWN)[0] == pytest.approx(found[1][step], abs=1e-9)
        assert total is None or found[1][step].sum() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("total", [None, 14.0])
@pytest.mark.parametrize("asked", ASKED)
def test_whole_numbers_are_the_nearest_of_all_that_keep_what_is_asked(asked, total):
    """Of every three whole numbers of a cube, beside what is the nearest of real values without these constraints."""
    generator, variances, steps = np.random.default_rng(6), (9.0, 2.0), 8
    tree = tree_of(asked, total, lower=0.0, whole=True)
    noisy = [generator.normal(5, 4, (steps, 3)).round(), generator.normal(8, 4, (steps, 2)).round()]
    spread = [np.full(steps, v) for v in variances]
    alone = Tree(tree.names, tree.above, tree.bounds, total)
    free, real = alone.nearest(noisy, spread, alone.units), alone.nearest(noisy, spread)
    found = tree.nearest(noisy, spread, tree.units)
    cube = np.array(list(itertools.product(range(28), repeat=3)), dtype=float)
    cube = cube if total is None else cube[cube.sum(axis=1) == total]
    sums = added_up(cube, OWN)
    allowed = np.array([keeps(asked, *pair) for pair in zip(cube, sums, strict=True)])
    cube, sums = cube[allowed], sums[allowed]
    moved = 0
    for step in range(steps):
        if keeps(asked, free[0][step], free[1][step]):
            assert np.array_equal(found[0][step], free[0][step])
            continue
        moved += 1
        costs = sum(((rows - near[step]) ** 2).sum(axis=1) / v
                    for rows, near, v in zip((cube, sums), real, variances, strict=True))  # fmt: skip
        mine = sum(((rows[step] - near[step]) ** 2).sum() / v
                   for rows, near, v in zip(found, real, variances, strict=True))  # fmt: skip
        assert mine <= costs.min() + 1e-3
        assert any(np.array_equal(found[0][step], one) for one in cube)
        assert np.array_equal(added_up(found[0], OWN), found[1])
    assert moved


@pytest.mark.parametrize("units", [[2, 2], [0, 0], [2, 0]], ids=["decimals", "whole", "whole above"])
def test_steps_are_tied_to_what_was_published(units):
    """Each to the one before, with the same values wherever the stream is cut; and with these decimals."""
    generator = np.random.default_rng(7)
    whole = [one == 0 for one in units]
    rows = (row("<=", 2, (0, 1), before=((0, -1),)), row("<=", 16, (1, 1), (2, 1)))
    rows += tuple(row(">=", 0, (cell, 1)) for cell in range(3))
    levels = [ConstraintSet(rows, 3, integer=whole[0]), ConstraintSet((), 2, integer=whole[1])]
    demands = Demands.of(levels, [Link(0, 1, OWN, "agree", 1)], None, general_rows)
    bounds = [Bounds(np.zeros(cells), np.full(cells, np.inf), one) for cells, one in zip((3, 2), whole, strict=True)]
    tree = Tree(("places", "regions"), (OWN,), tuple(bounds), None, demands)
    noisy = [generator.normal(9, 5, (12, 3)).round(), generator.normal(18, 5, (12, 2)).round()]
    spread = [np.full(12, 9.0), np.full(12, 4.0)]
    found = tree.nearest(noisy, spread, units)
    assert np.diff(found[0][:, 0]).max() <= 2 + 1e-9
    assert (found[0][:, 1] + found[0][:, 2]).max() <= 16 + 1e-9
    assert min(found[0].min(), found[1].min()) >= 0
    assert np.allclose(added_up(found[0], OWN), found[1], atol=1e-9)
    for values, one in zip(found, units, strict=True):
        assert np.allclose(values * 10**one, np.rint(values * 10**one), atol=1e-9)
    for cut in (1, 5):
        before = [values[cut - 1] for values in found]
        later = tree.nearest([v[cut:] for v in noisy], [v[cut:] for v in spread], units, before)
        for one, other in zip(later, found, strict=True):
            assert np.array_equal(one, other[cut:])


CASES = {
    "pair": '== regions, places["north"] + places["lake"] <= 90',
    "whole": '== regions, places >= 0, integer(places), places["north"] + places["lake"] <= 90',
    "half": "== regions, places >= 0.5",
    "weights": '== regions, places["north"] + 2 * places["lake"] - 0.5 * places["bay"] <= 160',
    "before": '== regions, places["south"] - previous(places["south"]) <= 1',
    "above": '== regions }\npostprocess regions { regions["Alps"] <= 2 * regions["Coast"], sum(regions) == population',
}


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize("case", CASES)
def test_stated_errors_are_those_of_runs(case, tmp_path):
    """Of simulated users, where true counts keep what is asked now and then only."""
    plan = compiled(tmp_path, ("== regions", CASES[case])).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    for error in simulate(plan, 11, 60, ()).errors:
        if error.chosen:
            predicted = plan.release_named(error.release).predicted
            both = (error.mean_squared_error_stderr**2 + predicted.stderr**2) ** 0.5
            assert predicted.kind == "simulated"
            assert abs(error.mean_squared_error - predicted.published) <= 3.5 * both, error.release


def test_where_nobody_says_where_users_are_errors_are_those_before_constraints(tmp_path):
    """Of all of a user's events: what holds without the constraints is stated as that, and runs keep them."""
    asked = 'sum(places) == regions, places["a"] + places["d"] <= 4, places["b"] - previous(places["b"]) <= 1'
    plan = of_stream(tmp_path, text=STREAM.replace("sum(places) == regions", asked)).plan
    alone = of_stream(tmp_path).plan
    for name in ("places", "regions", "countries", "all"):
        one, other = plan.release_named(name).predicted, alone.release_named(name).predicted
        assert one.kind == "unconstrained"
        assert one.because
        assert one.published == pytest.approx(other.published)
    generator = np.random.default_rng(2)
    noisy = {part.name: generator.normal(2, 5, (7, len(part.cells))).round() for part in plan.releases}
    made = agreed(plan, noisy)
    assert (made["places"][:, 0] + made["places"][:, 3]).max() <= 4 + 1e-9
    assert np.diff(made["places"][:, 1]).max() <= 1 + 1e-9
    assert np.allclose(made["countries"].sum(axis=1), made["all"][:, 0], atol=1e-9)
