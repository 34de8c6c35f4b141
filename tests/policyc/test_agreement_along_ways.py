"""Levels that agree along several ways: dense solutions, whole numbers by enumeration, stated errors, and runs."""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from agreeing import PLACES, RHO
from agreeing import POLICY as STREAM
from agreeing import compiled as of_stream
from mpmath import mp
from prompt import policyc
from test_agreement_of_steps import compiled as of_chain

from policyc.diagnostics import PolicyError
from policyc_check.verify import verified_claims
from policyc_runtime.agreement import Bounds, Tree
from policyc_runtime.agreement_demands import Demands, Link, rows_but_totals
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.crossed_levels import Crossed
from policyc_runtime.estimates import agreed
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.parts import added_up
from policyc_runtime.laboratory.simulation import simulate

ALONG = STREAM[: STREAM.index("postprocess places")] + (
    "postprocess places { sum(places) == regions, sum(places) == kinds }\n"
    "postprocess regions { countries == sum(regions) }\n"
    "postprocess countries { sum(countries) == all }\n"
    "postprocess kinds { sum(kinds) == all }\n"
)
TWO_TREES = ALONG.replace(", sum(places) == kinds", "")
ASKED = "sum(places) == kinds"
THREE = (
    ALONG.replace("country, kind)", "country, kind, span)")
    .replace(ASKED, f"{ASKED}, sum(places) == spans")
    .replace("release kinds ", "release spans = count(visits) by span\nrelease kinds ")
)
SPANS = "\n".join(
    f"{line},{span}" for line, span in zip(PLACES.splitlines(), ("span", "x", "y", "x", "y", "y", "y"), strict=True)
)


def dense(design, sizes, variances, noisy, total):
    """The values and variances of the weighted least squares, beside a known total of the finest level."""
    weights = np.repeat(1 / np.asarray(variances), sizes)
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    best = noisy @ (weights[:, None] * design) @ covariance
    if total is not None:
        all_of_them = np.zeros(design.shape[1])
        all_of_them[: sizes[0]] = 1
        gain = covariance @ all_of_them / (all_of_them @ covariance @ all_of_them)
        best = best + np.outer(total - best @ all_of_them, gain)
        covariance = covariance - np.outer(gain, all_of_them @ covariance)
    return best @ design.T, np.diag(design @ covariance @ design.T)


def drawn(generator, cells, ways):
    return [
        generator.permutation(np.concatenate([np.arange(size), generator.integers(0, size, cells - size)]))
        for size in generator.integers(1, 6, ways)
    ]


@pytest.mark.parametrize("total", [None, 60.0])
@pytest.mark.parametrize("ways", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_values_and_variances_are_those_of_the_least_squares(seed, ways, total):
    """Of any sums of the finest values; the decimals of every table add up every way."""
    generator = np.random.default_rng(seed)
    above = drawn(generator, 9, ways)
    levels = Crossed(tuple("abcde"[: ways + 1]), tuple(above), (), total)
    design = np.vstack([np.eye(9), *(added_up(np.eye(9), own).T for own in above)])
    sizes = [9, *(int(own.max()) + 1 for own in above)]
    variances = generator.uniform(0.2, 5, ways + 1)
    noisy = [generator.normal(7, 5, (3, size)) for size in sizes]
    best, spread = dense(design, sizes, variances, np.hstack(noisy), total)
    steps = [np.full(3, v) for v in variances]
    found = levels.nearest(noisy, steps)
    assert np.allclose(np.hstack(found), best, rtol=1e-10, atol=1e-10)
    assert np.allclose(np.concatenate(levels.variances(variances.tolist())), spread, rtol=1e-9, atol=1e-10)
    for digits in (1, 4):
        rounded = levels.nearest(noisy, steps, [digits] * (ways + 1))
        assert max(np.abs(one - other).max() for one, other in zip(rounded, found, strict=True)) <= 5 * 10.0**-digits
        for own, sums in zip(above, rounded[1:], strict=True):
            for row in range(3):
                exact = [Decimal(0)] * sums.shape[1]
                for value, place in zip(rounded[0][row].tolist(), own.tolist(), strict=True):
                    exact[place] += Decimal(repr(value))
                assert exact == [Decimal(repr(value)) for value in sums[row].tolist()]


@pytest.mark.parametrize("total", [None, 60.0])
@pytest.mark.parametrize("seed", range(4))
def test_several_levels_that_add_up_to_one_are_two_passes(seed, total):
    """Places to regions and regions and kinds to all: by a basis of the values that agree."""
    generator = np.random.default_rng(seed)
    own, variances = np.array([0, 1, 0, 2, 1]), generator.uniform(0.2, 5, 4).tolist()
    sizes, top = [5, 3, 2, 1], (np.zeros(3, np.int64), np.zeros(2, np.int64))
    tree = Tree(("places", "regions", "kinds", "all"), (own, *top), (), total, None, (1, 3, 3))
    free = np.eye(6)  # five places and the first kind: the second is what is left
    places, kinds = free[:5], np.vstack([free[5], free[:5].sum(axis=0) - free[5]])
    design = np.vstack([places, added_up(places.T, own).T, kinds, places.sum(axis=0)])
    noisy = [generator.normal(7, 5, (3, size)) for size in sizes]
    best, spread = dense(design, sizes, variances, np.hstack(noisy), total)
    steps = [np.full(3, v) for v in variances]
    assert np.allclose(np.hstack(tree.nearest(noisy, steps)), best, rtol=1e-10, atol=1e-10)
    assert np.allclose(np.concatenate(tree.variances(variances)), spread, rtol=1e-10, atol=1e-10)
    rounded = tree.nearest(noisy, steps, [0] * 4)
    assert np.array_equal(rounded[1].sum(axis=1), rounded[2].sum(axis=1))
    assert np.array_equal(added_up(rounded[0], own), rounded[1])


@pytest.mark.parametrize("ratio", [1e-7, 1e-5, 1e-2, 1e4, 1e12])
@pytest.mark.parametrize("ways", [2, 3])
def test_variances_keep_their_digits_where_levels_have_very_different_noise(ways, ratio):
    """To ten digits of sixty; where sums have less than 1e-5 of the noise of what adds up to them, bounds of them."""
    cells = np.arange(24)
    above = [cells % 4, cells // 6, np.zeros(24, np.int64)][:ways]
    levels, sums = (
        Crossed(tuple("abcd"[: ways + 1]), tuple(above)),
        np.vstack([added_up(np.eye(24), own).T for own in above]),
    )
    for other in (ratio, min(1.0, 1e3 * ratio)):
        variances = [1.0, ratio, other, ratio][: ways + 1]
        with mp.workdps(60):
            noise = [mp.mpf(one) for one, own in zip(variances[1:], above, strict=True) for _ in range(own.max() + 1)]
            inverse, of = (mp.matrix(sums @ sums.T) + mp.diag(noise)) ** -1, mp.matrix(sums)
            exact = [1 - (of[:, cell].T * inverse * of[:, cell])[0] for cell in range(24)]
            exact += [one - one**2 * inverse[row, row] for row, one in enumerate(noise)]
            found = np.concatenate(levels.variances(variances))
            gaps = np.array([float(mp.mpf(one) / right - 1) for one, right in zip(found.tolist(), exact, strict=True)])
        assert gaps.min() > -1e-10
        if ratio >= 1e-5:
            assert gaps.max() < 1e-10


@pytest.mark.parametrize("least", [None, 0])
@pytest.mark.parametrize("total", [None, 9.0])
def test_whole_numbers_are_the_nearest_of_all(least, total):
    """Of every four whole numbers of a cube, in variances of the noise; and real ones within bounds are nearer."""
    generator, above, variances = (
        np.random.default_rng(3),
        [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])],
        (4.0, 2, 7),
    )
    every = [(((cell, Decimal(1)),), Decimal(least)) for cell in range(4)] if least is not None else []
    rows = [ConstraintRow(text="asked", line=1, current=c, previous=(), relation=">=", bound=b) for c, b in every]
    asked = [ConstraintSet(tuple(rows), 4, integer=True), *(ConstraintSet((), 2, integer=False) for _ in above)]
    links = [Link(0, level + 1, own, "agree", 1) for level, own in enumerate(above)]
    demands = Demands.of(asked, links, total, rows_but_totals)
    equations = Demands.of([ConstraintSet((), n, integer=False) for n in (4, 2, 2)], links, total, rows_but_totals)
    finest = Bounds.of(asked[0], [])
    bounds = (finest, *(Bounds.of(one, [(finest, own)]) for one, own in zip(asked[1:], above, strict=True)))
    levels = Crossed(("a", "b", "c"), tuple(above), bounds, total, demands if rows else None, equations)
    noisy = [generator.normal(2, 3, (6, size)).round() for size in (4, 2, 2)]
    steps = [np.full(6, v) for v in variances]
    target = np.hstack(levels.free.nearest(noisy, steps))
    cube = np.array(list(itertools.product(range(-9 if least is None else 0, 14), repeat=4)), dtype=float)
    cube = cube if total is None else cube[cube.sum(axis=1) == total]
    every_level = np.hstack([cube, *(added_up(cube, own) for own in above)])
    spread = np.repeat(variances, (4, 2, 2))
    found = np.hstack(levels.nearest(noisy, steps, [0, 0, 0]))
    real = np.hstack(levels.nearest(noisy, steps))
    for row in range(6):
        costs = ((every_level - target[row]) ** 2 / spread).sum(axis=1)
        mine, near = (((one[row] - target[row]) ** 2 / spread).sum() for one in (found, real))
        assert mine <= costs.min() + 1e-3
        assert (every_level == found[row]).all(axis=1).any()
        assert near <= mine + 1e-6
        assert least is None or real[row].min() >= -1e-9


CASES = {
    "squared": (ALONG, RHO, "gaussian()", "mean_squared_error", ASKED),
    "absolute": (ALONG, RHO, "gaussian()", "mean_absolute_error", ASKED),
    "Laplace": (ALONG, "epsilon = 1, delta = 0", "laplace()", "mean_absolute_error", ASKED),
    "two trees": (TWO_TREES, RHO, "gaussian()", "mean_squared_error", "sum(places) == regions"),
    "whole": (ALONG, "rho = 3", "gaussian()", "mean_squared_error", f"{ASKED}, integer(places)"),
    "three ways, whole": (THREE, "rho = 3", "gaussian()", "mean_squared_error", f"{ASKED}, integer(places)"),
}


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize("case", CASES)
def test_stated_errors_are_those_of_runs(case, tmp_path):
    """Every level within 5 %, over simulated users; none errs more than its noise; the promise is kept."""
    text, target, mechanism, objective, asked = CASES[case]
    whole = "whole" in case
    text = text.replace(ASKED, asked) if whole else text
    places = {"places": SPANS} if text.startswith(THREE[: THREE.index("postprocess")]) else {}
    plan = of_stream(tmp_path, target, mechanism, objective, text=text, **places).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    squared = objective == "mean_squared_error"
    for found in simulate(plan, 7, 40 if whole else 150, ()).errors:
        if not found.chosen:
            continue
        predicted = plan.release_named(found.release).predicted
        error = found.mean_squared_error if squared else found.mean_absolute_error
        stderr = found.mean_squared_error_stderr if squared else found.mean_absolute_error_stderr
        away = 3 * np.hypot(stderr, predicted.stderr or 0.0)
        assert abs(error - predicted.published) <= 0.05 * predicted.published + away, found.release
        assert predicted.kind == ("expected" if case in ("squared", "absolute", "two trees") else "simulated")
        rounding = 1 / 6 if whole else 0
        summed = 1 if squared else 1.01  # less variance; sums of Laplace draws are less often near 0 than single ones
        assert predicted.published < predicted.without_postprocessing * summed + rounding


def test_another_way_makes_every_level_err_less(tmp_path):
    """At the same noise: what kinds tell of places is known of them too."""
    levels = of_stream(tmp_path, text=ALONG).plan.trees[0]
    without = of_stream(tmp_path).plan.trees[0]
    noise = dict(zip(levels.names, (3.0, 5.0, 4.0, 6.0, 2.0), strict=True))
    with_kinds = dict(zip(levels.names, levels.variances(list(noise.values())), strict=True))
    for name, variance in zip(without.names, without.variances([noise[name] for name in without.names]), strict=True):
        assert (with_kinds[name] < variance).all()


def test_published_tables_add_up_both_ways_and_follow_from_the_ledger(tmp_path):
    """The decimals of files, of steps that were run in two pieces; `verify` makes them again; the page says how."""
    from agreeing import written

    written(tmp_path, text=ALONG)
    assert policyc("compile", "visits.policy", cwd=tmp_path).returncode == 0
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("2", "5"):
        run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    columns = {"places": "place", "regions": "region", "countries": "country", "kinds": "kind", "all": None}
    table = {}
    for name, column in columns.items():
        with (tmp_path / f"o-{name}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                table[name, row["step"], row[column] if column else ""] = Decimal(row["released"])
    of = [dict(zip(PLACES.split("\n")[0].split(","), line.split(","), strict=True)) for line in PLACES.splitlines()[1:]]
    for (name, step, value), sums in table.items():
        own = [one["place"] for one in of if columns[name] is None or one[columns[name]] == value]
        assert sum(table["places", step, place] for place in own) == sums
    verified = policyc("verify", "visits.plan", "--release", "o.csv", "--quick", "--allow-unchecked", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "the least squares of all levels at once" in (tmp_path / "visits.plan" / "certificate.json").read_text()


def test_whole_numbers_along_three_ways_are_rounded_values_of_the_finest(tmp_path):
    """Of the nearest values within bounds; all sums are those of rounded ones, and no value is below its bound."""
    asked = f"{ASKED}, sum(places) == spans, places >= 0, integer(places)"
    plan = of_stream(tmp_path, text=THREE.replace(f"{ASKED}, sum(places) == spans", asked), places=SPANS).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    (levels,) = plan.trees
    generator = np.random.default_rng(4)
    noisy = [generator.normal(2, 4, (20, size)).round() for size in levels.sizes]
    steps = [np.full(20, v) for v in generator.uniform(2, 9, len(noisy))]
    real = levels.nearest(noisy, steps)
    found = levels.nearest(noisy, steps, levels.units)
    assert np.abs(found[0] - real[0]).max() <= 0.5 + 1e-6
    assert found[0].min() == 0
    assert np.array_equal(found[0], np.rint(found[0]))
    for own, sums in zip(levels.above, found[1:], strict=True):
        assert np.array_equal(added_up(found[0], own), sums)
    fixed = replace(levels, total=11.0, demands=None)
    summed = fixed.nearest(noisy, steps, levels.units)
    assert (summed[0].sum(axis=1) == 11).all()
    assert np.abs(summed[0] - fixed.nearest(noisy, steps)[0]).max() < 1


def test_under_a_chain_bounds_and_totals_are_kept_by_all_levels(tmp_path):
    """Of users who are somewhere or away, whose number is public; errors are simulated."""
    two = "== regions, sum(places) == kinds, sum(places) == population, places >= 0, integer(places)"
    added = ("release regions = count(visits) by region", "release regions = count(visits) by region\n"
             "release kinds = count(visits) by kind")  # fmt: skip
    table = "place,region,kind\nnorth,Alps,old\nlake,Coast,old\nsouth,Alps,new\nbay,Coast,new\n"
    plan = of_chain(tmp_path, added, ("levels(region)", "levels(region, kind)"), ("== regions", two), places=table).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    generator = np.random.default_rng(1)
    noisy = {part.name: generator.normal(60, 60, (6, len(part.cells))).round() for part in plan.releases}
    made = agreed(plan, noisy)
    assert all(values.min() >= 0 and (values.sum(axis=1) == 300).all() for values in made.values())
    assert np.array_equal(made["places"], np.rint(made["places"]))
    assert np.array_equal(added_up(made["places"], np.array([0, 1, 0, 1, 2])), made["regions"])
    assert np.array_equal(added_up(made["places"], np.array([0, 0, 1, 1, 2])), made["kinds"])
    later = agreed(plan, noisy, 2, {name: values[:2] for name, values in made.items()})
    assert all(np.array_equal(later[name][2:], made[name][2:]) for name in made)


REFUSED = {
    "follows": ("== regions", "== regions, sum(places) == countries", "E0724", "already"),
    "two finest": ("== kinds }", "== kinds }\npostprocess spans { sum(spans) == all }", "E0724", "neither is a sum"),
    "three whole": (
        "== kinds }",
        "== kinds, sum(places) == spans, integer(places), places[\"a\"] <= places[\"c\"] }",
        "E0724",
        "three ways",
    ),
    "three whole, bounded": (
        "== kinds }",
        "== kinds, sum(places) == spans, integer(places) }\npostprocess spans { spans >= 0 }",
        "E0724",
        "three ways",
    ),
    "whole above": ("== sum(regions)", "== sum(regions), integer(regions)", "E0724", "these are not"),
    "totals": ("sum(kinds) == all", "sum(kinds) == all, sum(kinds) == 5, kinds >= 3", "E0607", ""),
    "margins": ("== kinds }", '== kinds, places["a"] + places["c"] + places["e"] >= 9 }', "E0607", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_agree_along_several_ways_is_refused(case, tmp_path):
    """With what to write."""
    old, new, code, words = REFUSED[case]
    text = THREE.replace(", sum(places) == spans", "").replace(old, new, 1)
    if case == "margins":
        text = text.replace("sum(kinds) == all }", 'sum(kinds) == all, kinds["old"] <= 8 }')
    with pytest.raises(PolicyError) as found:
        of_stream(tmp_path, text=text, places=SPANS)
    errors = [one for one in found.value.diagnostics if one.code.startswith("E")]
    assert {one.code for one in errors} == {code}
    assert words in errors[0].message
    assert all(one.help for one in errors)


@pytest.mark.parametrize("case", ["follows", "two finest", "whole above", "circle", "astride", "bounds"])
def test_a_plan_whose_levels_cannot_agree_so_is_none(case, tmp_path):
    """Whatever a hand writes: the plan is refused, with the reason."""
    plan = of_stream(tmp_path, text=ALONG).plan
    content = plan.model_dump(mode="json")
    link, releases = content["agreements"], {one["name"]: one for one in content["releases"]}

    def added(child, parent):
        link.append({"text": "more", "line": 1, "child": child, "parent": parent})

    if case == "follows":
        added("places", "countries")
    elif case == "two finest":
        link[:] = [one for one in link if (one["child"], one["parent"]) != ("places", "kinds")]
        link[:] = [one for one in link if one["child"] != "countries"]
        added("regions", "all")
        added("places", "all")
    elif case == "whole above":
        releases["kinds"]["integer"] = True
    elif case == "circle":
        added("kinds", "kinds")
    elif case == "astride":
        added("kinds", "regions")
    else:
        row = {"text": "x", "line": 1, "current": [[3, "1"]], "previous": [], "relation": ">=", "bound": "1"}
        releases["places"]["constraints"] = [row]
        releases["regions"]["constraints"] = [row | {"current": [[1, "1"]], "relation": "<=", "bound": "0"}]
    with pytest.raises(ValueError, match="already|neither|agree|whole|circle|belong|bounds"):
        type(plan).model_validate(content)
