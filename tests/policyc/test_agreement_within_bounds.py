"""Levels that agree in whole numbers and within bounds: what they are, err, publish and refuse."""

from __future__ import annotations

import csv
import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from agreeing import NAMES, PLACES, POLICY, PURE, RHO, compiled, drawn_tree, written
from prompt import policyc

from policyc_check.verify import verified_claims
from policyc_runtime.agreement import Bounds, Tree
from policyc_runtime.estimates import agreed
from policyc_runtime.estimation.parts import added_up, nearest_parts, whole_parts
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import load_plan

WHOLE = POLICY.replace("sum(places) == regions", "sum(places) == regions, places >= 0, integer(places)")
SOME = POLICY.replace("sum(places) == regions", "sum(places) == regions, integer(places)")


def bounded(tree, lower, *, whole):
    """The tree with the same lower bound of the finest values, and what follows for those above."""
    bounds = [Bounds(np.full(len(tree.above[0]), lower), np.full(len(tree.above[0]), np.inf), whole)]
    for own in tree.above:
        sums = [added_up(bound[None], own)[0] for bound in (bounds[-1].lower, bounds[-1].upper)]
        bounds.append(Bounds(*sums, whole))
    return replace(tree, bounds=tuple(bounds))


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_each_level_is_the_nearest_below_what_was_found_above(seed, whole):
    """By the dense least squares of each value's own tree: its best estimate, and the totals from above."""
    generator = np.random.default_rng(seed)
    tree = bounded(drawn_tree(generator, 3), 0.0, whole=whole)
    variances = generator.uniform(0.5, 9, 3)
    sizes = [len(tree.above[0]), len(tree.above[1]), int(tree.above[1].max()) + 1]
    noisy = [generator.normal(1, 4, (1, size)).round() for size in sizes]
    found = tree.nearest(noisy, [np.full(1, v) for v in variances], [0, 0, 0] if whole else None)
    descends = [np.eye(sizes[0])]
    for own in tree.above:
        descends.append(added_up(descends[-1].T, own).T)
    for level in (2, 1, 0):
        best, spread = np.empty((1, sizes[level])), np.empty((1, sizes[level]))
        for value in range(sizes[level]):  # least squares of what is at and below this value alone
            mine = descends[level][value] > 0
            rows = [(d[:, mine], y[0], v) for d, y, v in zip(descends[: level + 1], noisy, variances, strict=False)]
            kept = [(row, y, v) for d, ys, v in rows for row, y in zip(d, ys, strict=True) if row.any()]
            design = np.array([row for row, _, _ in kept])
            weights = np.array([1 / v for _, _, v in kept])
            covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
            ones = np.ones(mine.sum())
            best[0, value] = ones @ covariance @ design.T @ (weights * np.array([y for _, y, _ in kept]))
            spread[0, value] = ones @ covariance @ ones
        if level == 2:
            expected = np.maximum(best, 0)
            expected = np.rint(expected) if whole else expected
        else:
            own, free = tree.above[level], np.full(sizes[level], np.inf)
            expected = nearest_parts(found[level + 1], best, spread, own, np.zeros(sizes[level]), free)
            expected = whole_parts(found[level + 1], expected, own, np.zeros(sizes[level]), free) if whole else expected
        assert found[level] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("case", ["empty", "few", "one large", "hundreds"])
def test_near_bounds_no_level_errs_more_than_is_stated(case):
    """Squared and absolute errors of each level are at most those far from bounds; whole numbers add a twelfth."""
    generator = np.random.default_rng(5)
    own = np.repeat(np.arange(12), generator.integers(1, 20, 12))
    tree = Tree(("cells", "regions", "all"), (own, np.zeros(12, np.int64)))
    true = {
        "empty": np.zeros(len(own)),
        "few": generator.integers(0, 12, len(own)).astype(float),
        "one large": np.where(np.diff(own, prepend=-1) > 0, 300.0, 0.0),
        "hundreds": np.full(len(own), 300.0),
    }[case]
    truth = [true[None]]
    for above in tree.above:
        truth.append(added_up(truth[-1], above))
    for variances in ((25, 25, 25), (100, 25, 4), (4, 25, 100), (1, 1, 1)):
        steps = 2_000
        noisy = [
            row + generator.normal(0, v**0.5, (steps, row.shape[1])) for row, v in zip(truth, variances, strict=True)
        ]
        given = [np.full(steps, float(v)) for v in variances]
        for whole in (False, True):
            kept = bounded(tree, 0.0, whole=whole)
            found = kept.nearest(noisy, given, kept.units)
            moved = [values + 1e4 * units for values, units in zip(noisy, _units(tree), strict=True)]
            far = kept.unbounded.nearest(moved, given, kept.units)
            for level in range(3):
                away = found[level] - truth[level]
                usual = far[level] - truth[level] - 1e4 * _units(tree)[level]
                for power in (1, 2):
                    means = (np.abs(away) ** power).mean(axis=1) - (np.abs(usual) ** power).mean(axis=1)
                    error = means.std() / steps**0.5
                    stated = (np.abs(usual) ** power).mean()
                    assert means.mean() <= 0.02 * stated + 3 * error, (variances, whole, level, power)


def _units(tree):
    """What each value is where every cell is 1."""
    rows = [np.ones((1, len(tree.above[0])))]
    for own in tree.above:
        rows.append(added_up(rows[-1], own))
    return rows


CASES = [
    ("rho = 5", "gaussian()", "mean_squared_error"),
    (RHO, "gaussian()", "mean_squared_error"),
    ("rho = 5", "gaussian()", "mean_absolute_error"),
    (PURE, "laplace()", "mean_absolute_error"),
    ("epsilon = 12, delta = 0", "laplace()", "mean_squared_error"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_stated_errors_of_whole_numbers_are_those_of_runs(case, tmp_path):
    """Without bounds: every level within 5 % and the stated standard error, where noise is small too."""
    plan = compiled(tmp_path, *case, text=SOME).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    found = {error.release: error for error in simulate(plan, 7, 80, ()).errors if error.chosen}
    for name in NAMES:
        predicted = plan.release_named(name).predicted
        squared = plan.objective == "mean_squared_error"
        error = found[name].mean_squared_error if squared else found[name].mean_absolute_error
        stderr = found[name].mean_squared_error_stderr if squared else found[name].mean_absolute_error_stderr
        assert predicted.kind == "simulated"
        assert abs(error - predicted.published) <= 0.05 * predicted.published + 3 * (stderr + predicted.stderr), name
        assert plan.release_named(name).integer


@pytest.mark.law
def test_errors_near_bounds_are_said_to_be_those_far_from_them(tmp_path):
    """Bounds of places: all that agree with them state what holds before constraints, above what runs have."""
    plan = compiled(tmp_path, text=WHOLE).plan
    found = {error.release: error for error in simulate(plan, 7, 60, ()).errors if error.chosen}
    for name in NAMES:
        predicted = plan.release_named(name).predicted
        assert predicted.kind == "unconstrained"
        assert predicted.because
        error = found[name]
        assert error.mean_squared_error <= 1.05 * predicted.published + 3 * error.mean_squared_error_stderr
    assert plan.release_named("kinds").predicted.kind != "unconstrained"


@pytest.mark.law
@pytest.mark.parametrize("text", [WHOLE, SOME], ids=["bounds", "whole"])
def test_a_total_of_values_with_bounds_has_no_stated_error(text, tmp_path):
    """What bounds move up at every step adds up; whole numbers alone are off to both sides."""
    plan = compiled(tmp_path, text=text + "release tens = total(places, 10 steps)\n").plan
    (tens,) = plan.made
    if text == WHOLE:
        assert tens.predicted is None
        return
    assert tens.predicted.published == pytest.approx(10 * plan.release_named("places").predicted.published)
    found = {error.release: error for error in simulate(plan, 3, 60, ()).errors if error.chosen}["tens"]
    error, stderr = found.mean_squared_error, found.mean_squared_error_stderr
    assert abs(error - tens.predicted.published) <= 0.05 * error + 3 * stderr


def read(folder, name, key):
    """(step, key) to the released number, as text says it."""
    with (folder / f"o-{name}.csv").open(newline="") as file:
        return {(row["step"], row[key] if key else ""): row["released"] for row in csv.DictReader(file)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("text", [WHOLE, WHOLE.replace(", integer(places)", "")], ids=["whole", "real"])
def test_files_have_numbers_that_add_up_and_no_piece_tells(text, tmp_path):
    """A run in two pieces: numbers of the file add up and are not below 0; ledgers with others are refused."""
    written(tmp_path, text=text)
    assert policyc("compile", "visits.policy", cwd=tmp_path).returncode == 0
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("3", "7"):
        run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    belongs = {line.split(",")[0]: line.split(",") for line in PLACES.splitlines()[1:]}
    places, regions = read(tmp_path, "places", "place"), read(tmp_path, "regions", "region")
    countries, everything = read(tmp_path, "countries", "country"), read(tmp_path, "all", None)
    assert len(everything) == 7
    for released in (places, regions, countries, everything):
        assert all(Decimal(value) >= 0 for value in released.values())
        if text == WHOLE:
            assert all(value.isdigit() for value in released.values())
    for (step, region), value in regions.items():
        own = [place for place, line in belongs.items() if line[1] == region]
        assert sum(Decimal(places[step, place]) for place in own) == Decimal(value)
    for (step, country), value in countries.items():
        own = {line[1] for line in belongs.values() if line[2] == country}
        assert sum(Decimal(regions[step, region]) for region in own) == Decimal(value)
    for step, _ in everything:
        assert Decimal(countries[step, "X"]) + Decimal(countries[step, "Y"]) == Decimal(everything[step, ""])
    asked = ("verify", "visits.plan", "--release", "o.csv", "--quick", "--allow-unchecked")
    verified = policyc(*asked, cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    page = (tmp_path / "visits.plan" / "certificate.md").read_text()
    assert "from the top down" in page
    assert "They may be below 0" not in page
    plan, generator = load_plan(tmp_path / "visits.plan"), np.random.default_rng(2)
    noisy = {part.name: generator.normal(2, 5, (7, len(part.cells))).round() for part in plan.releases}
    for name in NAMES:  # what a later block adds is the same
        assert np.array_equal(agreed(plan, noisy)[name][4:], agreed(plan, noisy, 4)[name][4:])


def test_a_ledger_of_other_whole_numbers_is_refused(tmp_path):
    """One unit moved from one place to another of its region, so that all levels still agree."""
    from policyc_runtime.estimates import published_values
    from policyc_runtime.publication import unexplained_value

    plan = compiled(tmp_path, text=WHOLE).plan
    generator = np.random.default_rng(3)
    noisy = {part.name: generator.normal(20, 5, (4, len(part.cells))).round() for part in plan.releases}
    made = agreed(plan, noisy)
    part = plan.release_named("places")
    published = published_values(plan, part, made["places"], np.empty((0, 6)))
    asked = (plan, part, lambda steps: made["places"][:steps], 4)
    assert unexplained_value(*asked, published, [4] * 4, [""] * 4) is None
    moved = published + np.array([[0] * 6, [1, -1, 0, 0, 0, 0], [0] * 6, [0] * 6])
    assert unexplained_value(*asked, moved, [4] * 4, [""] * 4) == 1


def test_thousands_of_counties_take_seconds():
    """A county's year in states and a country: 365 steps of 3,142 values."""
    generator = np.random.default_rng(1)
    own = np.concatenate([np.arange(51), generator.integers(0, 51, 3142 - 51)])
    tree = bounded(Tree(("counties", "states", "nation"), (own, np.zeros(51, np.int64))), 0.0, whole=True)
    true = generator.zipf(1.5, (1, 3142)).clip(max=100_000).astype(float)
    truth = [true, added_up(true, own), true.sum(axis=1, keepdims=True)]
    noisy = [(row + generator.normal(0, 20, (365, row.shape[1]))).round() for row in truth]
    begun = time.process_time()
    found = tree.nearest(noisy, [np.full(365, 400.0)] * 3, tree.units)
    assert time.process_time() - begun < 20
    assert np.array_equal(added_up(found[0], own), found[1])
    assert np.array_equal(found[1].sum(axis=1), found[2][:, 0])
    assert found[0].min() == 0
    error = ((found[0] - true) ** 2).mean()
    assert error < 200  # half of the variance of the noise: most counties are near 0


def test_a_plan_whose_bounds_cannot_be_kept_is_none(tmp_path):
    """Whatever a hand writes."""
    plan = compiled(tmp_path, text=WHOLE).plan
    rows = plan.releases[0].constraints
    update = {"current": ((0, Decimal(1)),), "relation": "<=", "bound": Decimal(-1)}
    row = rows[0].model_copy(update=update)
    changed = [plan.releases[0].model_copy(update={"constraints": (*rows, row), "integer": False}), *plan.releases[1:]]
    content = plan.model_copy(update={"releases": tuple(changed)}).model_dump(mode="json")
    with pytest.raises(ValueError, match="no values"):
        type(plan).model_validate(content)
