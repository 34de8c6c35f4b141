"""Levels that agree under alpha-DP_T: what they tell by enumeration, what they err by dense solutions, and runs."""

from __future__ import annotations

import csv
import itertools
import math
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest
from agreeing import drawn_tree
from prompt import policyc
from scipy.linalg import null_space

from policyc import PolicyError, compile_policy
from policyc_check.verify import verified_claims
from policyc_runtime.agreement import Bounds, Tree
from policyc_runtime.estimates import agreed, as_independent, published_values
from policyc_runtime.estimation.parts import added_up
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.publication import unexplained_value
from policyc_runtime.randomness import SimulationRandomness

PLACES = "place,region\nnorth,Alps\nlake,Coast\nsouth,Alps\nbay,Coast\n"
POLICY = """policy visits "Visits of places and regions, which agree"
stream visits {
  user account  time at  cell place in file("places.csv") levels(region) otherwise "away"
  step 1d  horizon 6 steps  population 300  start "2026-01-01"
}
release places  = count(visits) by place
release regions = count(visits) by region
target alpha_dpt(alpha = 2.0)
correlation markov(forward = [[0.6, 0.1, 0.1, 0.1, 0.1], [0.05, 0.7, 0.05, 0.15, 0.05], [0.1, 0.1, 0.6, 0.1, 0.1],
  [0.1, 0.2, 0.1, 0.5, 0.1], [0.1, 0.05, 0.1, 0.05, 0.7]], initial = [0.1, 0.5, 0.1, 0.2, 0.1], evidence = "counted")
budget quantified
estimate mle()
postprocess places { sum(places) == regions }
"""
BELONGS = (0, 1, 0, 1, 2)
USERS = "user_level(epsilon = 2, delta = 1e-6, neighbors = replace)"
LAPLACE = "budget quantified\nmechanism laplace()"


def compiled(folder, *changes, text=POLICY, places=PLACES):
    (folder / "places.csv").write_text(places)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "visits.policy").write_text(text)
    return compile_policy(folder / "visits.policy")


def leaked(plan, chain, initial, *ways, shrunk=1.0):
    """What all values of all steps tell of one at most, nats, by all outputs; noise times `shrunk`.

    A ratio of probabilities moves only while a noisy value lies between the true ones: 0 and 1, of one user. `ways`: of
    every level above, what states belong to.
    """
    size = len(initial)
    levels = [np.eye(size), *(np.eye(max(of) + 1)[list(of)] for of in ways)]
    steps = []
    for scales in zip(*(part.schedule.scales(plan.stream.horizon) for part in plan.releases), strict=True):
        step = np.ones((1, size))
        for true, scale in zip(levels, scales, strict=True):
            outputs = np.array(list(itertools.product((0, 1), repeat=true.shape[1])))
            told = np.exp(-np.abs(outputs[:, None] - true).sum(axis=2) / (float(scale) * shrunk))
            step = (step[:, None] * told).reshape(-1, size)
        steps.append(step)  # (outputs, states)
    worst = 0.0
    for at in range(len(steps)):
        before = reduce(lambda past, told: np.unique(((past[:, None] * told) @ chain).reshape(-1, size), axis=0),
                        steps[:at], initial[None])  # fmt: skip
        after = np.ones((1, size))
        for told in reversed(steps[at + 1 :]):
            after = np.unique((told[:, None] * after @ chain.T).reshape(-1, size), axis=0)
        prior = initial @ np.linalg.matrix_power(chain, at)
        for one, other in itertools.permutations(range(size), 2):
            parts = [before / prior, steps[at], after]  # given the state, past, present and future are independent
            worst = max(worst, sum(math.log((part[:, one] / part[:, other]).max()) for part in parts))
    return worst


@pytest.mark.parametrize("ways", [[(0, 1, 0)], [(0, 1, 0), (0, 0, 1)]])
def test_all_that_levels_tell_of_one_step_is_what_is_promised(ways, tmp_path):
    """Every output of three steps, every pair of values; noise of four fifths tells more, and its plan is refused."""
    chain = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    initial = np.array([0.5, 0.3, 0.2])
    text = (
        POLICY.replace("horizon 6", "horizon 3").replace("alpha = 2.0", "alpha = 1.0").replace(' otherwise "away"', "")
    )
    old = text[text.index("forward") : text.index("evidence")]
    text = text.replace(old, f"forward = {chain.tolist()}, initial = {initial.tolist()}, ")
    text = text.replace("budget quantified", LAPLACE).replace("== regions }", "== regions, sum(places) == population }")
    if len(ways) == 2:
        text = text.replace("levels(region)", "levels(region, kind)")
        text = text.replace("== regions,", "== regions, sum(places) == kinds,")
        text = text.replace("by region\n", "by region\nrelease kinds = count(visits) by kind\n")
    (tmp_path / "places.csv").write_text("place,region,kind\nnorth,Alps,old\nlake,Coast,old\nsouth,Alps,new\n")
    (tmp_path / "visits.policy").write_text(text)
    plan = compile_policy(tmp_path / "visits.policy").plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    assert 0.9 < leaked(plan, chain, initial, *ways) <= 1.0
    assert leaked(plan, chain, initial, *ways, shrunk=0.8) > 1.0
    for index, release in enumerate(plan.releases):
        segment = release.schedule.segments[1]
        less = segment.model_copy(update={"scales": tuple(scale * 4 / 5 for scale in segment.scales)})
        segments = (release.schedule.segments[0], less, *release.schedule.segments[2:])
        releases = list(plan.releases)
        releases[index] = release.model_copy(
            update={"schedule": release.schedule.model_copy(update={"segments": segments})}
        )
        weak = plan.model_copy(update={"releases": tuple(releases)}).sealed()
        assert not all(claim.holds for claim in verified_claims(weak))


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_two_passes_below_a_known_total_are_the_least_squares(levels, seed):
    """Values, and variances: of independent noise, and of noise that adds up to zero, as a dense solution has them."""
    generator = np.random.default_rng(seed)
    tree = drawn_tree(generator, levels)
    while min(len(tree.above[0]), int(tree.above[-1].max()) + 1) < 2:  # one value has no noise that adds up to zero
        tree = drawn_tree(generator, levels)
    tree = Tree(tree.names, tree.above, total=90.0)
    size = len(tree.above[0])
    rows = [np.eye(size)]
    for own in tree.above:
        rows.append(added_up(rows[-1].T, own).T)
    own = generator.uniform(0.2, 5, levels)
    inverse = [np.eye(len(part)) / v for part, v in zip(rows, own, strict=True)]
    basis, some = null_space(np.ones((1, size))), np.full(size, 90.0 / size)
    precision = sum(basis.T @ part.T @ weight @ part @ basis for part, weight in zip(rows, inverse, strict=True))
    noisy = [generator.normal(10, 5, (3, len(part))) for part in rows]
    towards = [basis @ np.linalg.solve(precision, basis.T @ p.T @ w) for p, w in zip(rows, inverse, strict=True)]
    found = tree.nearest(noisy, [np.full(3, v) for v in own])
    for row in range(3):
        parts = zip(towards, noisy, rows, strict=True)
        best = some + sum(towards_one @ (values[row] - part @ some) for towards_one, values, part in parts)
        for level, part in zip(found, rows, strict=True):
            np.testing.assert_allclose(level[row], part @ best, rtol=1e-10, atol=1e-10)
    balanced = [v * (np.eye(len(p)) - 1 / len(p)) for p, v in zip(rows, own, strict=True)]
    for noise in ([v * np.eye(len(p)) for p, v in zip(rows, own, strict=True)], balanced):
        covariance = sum(one @ part @ one.T for one, part in zip(towards, noise, strict=True))
        for level, part in zip(tree.variances(own.tolist()), rows, strict=True):
            np.testing.assert_allclose(level, np.diag(part @ covariance @ part.T), rtol=1e-9, atol=1e-12)
    for part, v in zip(rows, own, strict=True):
        each = v * (1 - 1 / len(part))  # the variance of one value
        assert as_independent(each, len(part), balanced=True) == pytest.approx(v)
    whole = tree.nearest(noisy, [np.full(3, v) for v in own], [0] * levels)
    for level, parents in zip(whole, [*tree.above, np.zeros(whole[-1].shape[1], np.int64)], strict=True):
        above = [*whole[1:], np.full((3, 1), 90.0)][[id(one) for one in whole].index(id(level))]
        assert np.array_equal(added_up(level, parents), above)


def test_values_below_a_known_total_keep_bounds():
    """As a program has them, level by level, from the top down."""
    generator = np.random.default_rng(4)
    own = np.array([0, 1, 0, 1, 2])
    free = Bounds(np.zeros(5), np.full(5, np.inf), True), Bounds(np.zeros(3), np.full(3, np.inf), True)
    tree = Tree(("places", "regions"), (own,), free, 20.0)
    noisy = [generator.normal(4, 6, (50, 5)).round(), generator.normal(7, 6, (50, 3)).round()]
    places, regions = tree.nearest(noisy, [np.full(50, 9.0), np.full(50, 4.0)], tree.units)
    assert np.array_equal(added_up(places, own), regions)
    assert (regions.sum(axis=1) == 20).all()
    assert min(places.min(), regions.min()) == 0
    assert np.array_equal(places, np.rint(places))


CASES = {
    "balanced": (),
    "laplace": (("budget quantified", LAPLACE),),
    "known total": (("budget quantified", LAPLACE), ("== regions }", "== regions, sum(places) == population }")),
    "bounds": (("== regions }", "== regions, places >= 0, integer(places) }"),),
    "absolute": (("budget quantified", "budget quantified\nobjective mean_absolute_error"),),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES)
def test_stated_errors_are_those_of_runs(case, tmp_path):
    """Of simulated users, at both levels, and less than each level's noise; values add up to the population."""
    plan = compiled(tmp_path, *CASES[case]).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    assert plan.trees[0].total == (None if case == "laplace" else 300)
    squared = plan.objective == "mean_squared_error"
    for error in simulate(plan, 3, 200, ()).errors:
        if not error.chosen:
            continue
        predicted = plan.release_named(error.release).predicted
        found, stderr = (
            (error.mean_squared_error, error.mean_squared_error_stderr)
            if squared
            else (error.mean_absolute_error, error.mean_absolute_error_stderr)
        )
        assert abs(found - predicted.published) <= 3 * stderr + 3 * (predicted.stderr or 0) + 0.02 * found, (
            error.release
        )
        assert stderr <= 0.05 * found
        assert not squared or predicted.published <= predicted.without_postprocessing * (1 + 1e-9)
        assert predicted.kind == ("simulated" if case in ("bounds", "absolute") else "expected")


@pytest.mark.law
@pytest.mark.parametrize("total", [None, 300])
def test_levels_with_who_is_absent_agree_where_all_of_a_user_is_promised(total, tmp_path):
    """`otherwise` is a value of both levels; a public number of users is below nothing but itself."""
    text = POLICY[: POLICY.index("correlation")].replace("alpha_dpt(alpha = 2.0)", USERS)
    text += 'participation at_most(4 steps, assumed = "so it is")\npostprocess places { sum(places) == regions }\n'
    if total is not None:
        text = text.replace("== regions }", "== regions, sum(places) == population }")
    plan = compiled(tmp_path, text=text).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    assert plan.trees[0].total == total
    for error in simulate(plan, 3, 300, ()).errors:
        if error.chosen:
            predicted = plan.release_named(error.release).predicted
            room = 4 * error.mean_squared_error_stderr + 0.02 * error.mean_squared_error
            assert abs(error.mean_squared_error - predicted.published) <= room, error.release
            assert predicted.published < predicted.without_postprocessing


def test_levels_that_agree_err_less_than_levels_by_themselves(tmp_path):
    """At the same promise, with the parts of every budget that are best for each."""
    alone = compiled(tmp_path, ("{ sum(places) == regions }", "{ places >= -1000 }"))
    agreeing = compiled(tmp_path)
    for one, other in zip(agreeing.plan.releases, alone.plan.releases, strict=True):
        assert 0.3 < one.predicted.published / other.predicted.published < 0.4


@pytest.mark.law
def test_files_add_up_and_verify_finds_them_again(tmp_path):
    """A run in two pieces; every decimal; a value that is moved within its region is refused."""
    compiled(tmp_path).save(tmp_path / "visits.plan")
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("2", "6"):
        run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    found = []
    for name in ("places", "regions"):
        with (tmp_path / f"o-{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        cells = len(rows) // 6
        found.append([[Decimal(row["released"]) for row in rows[t * cells : (t + 1) * cells]] for t in range(6)])
    for places, regions in zip(*found, strict=True):
        sums = [Decimal(0)] * 3
        for value, region in zip(places, BELONGS, strict=True):
            sums[region] += value
        assert sums == regions
        assert sum(regions) == 300
    verified = policyc("verify", "visits.plan", "--release", "o.csv", "--quick", "--allow-unchecked", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "made to agree" in verified.stdout
    page = (tmp_path / "visits.plan" / "certificate.md").read_text()
    assert "are made to agree: each is the sum of those that belong to it" in page
    assert "add up to 300" in page


def test_a_ledger_of_other_values_is_refused(tmp_path):
    """Also where both levels agree in it."""
    plan = compiled(tmp_path).plan
    scales = [list(part.schedule.scales(4)) for part in plan.releases]
    raw = [np.array([[60, 60, 60, 60, 60]] * 4), np.array([[120, 120, 60]] * 4)]
    noisy = {
        part.name: part.mechanism.add_noise(one, scale, SimulationRandomness(3)).astype(float)
        for part, one, scale in zip(plan.releases, raw, scales, strict=True)
    }
    made = agreed(plan, noisy)
    part = plan.releases[0]
    published = published_values(plan, part, made["places"], np.empty((0, 5)))
    asked = (plan, part, lambda steps: made["places"][:steps], 4)
    assert unexplained_value(*asked, published, [4] * 4, [""] * 4) is None
    moved = published + np.array([[0] * 5, [1, 0, -1, 0, 0], [0] * 5, [0] * 5])
    assert unexplained_value(*asked, moved, [4] * 4, [""] * 4) == 1
    assert part.balanced


@pytest.mark.parametrize("alter", ["steps without a value", "two totals"])
def test_a_plan_that_cannot_agree_is_none(alter, tmp_path):
    """Whatever a hand writes."""
    plan = compiled(tmp_path, ("== regions }", "== regions, sum(places) == population }")).plan
    places, regions = plan.releases
    if alter == "steps without a value":
        segment = regions.schedule.segments[0]
        none = segment.model_copy(update={"epsilons": (Decimal(0),), "scales": (Decimal(0),)})
        schedule = regions.schedule.model_copy(update={"segments": (none, *regions.schedule.segments[1:])})
        regions = regions.model_copy(update={"schedule": schedule})
    else:
        places = places.model_copy(
            update={"constraints": (places.constraints[0].model_copy(update={"bound": Decimal(90)}),)}
        )
    content = plan.model_copy(update={"releases": (places, regions)}).model_dump(mode="json")
    with pytest.raises(ValueError, match="agrees, and is no count|add up to all that is said"):
        type(plan).model_validate(content)


REFUSED = {
    "late": (("estimate mle()", "deliver within(2 steps)\nestimate smoother()"), "E0752"),
    "away": (("{ sum(places) == regions }", "{ sum(places) == all }\nrelease all = count(visits)"), "E0723"),
    "totals": (
        ("regions }", "regions, sum(places) == population }\npostprocess regions { sum(regions) == 9 }"),
        "E0607",
    ),
    "no whole total": (("== regions }", "== regions, 2 * sum(places) == 601 }"), "E0607"),
    "population": (("== regions }", "== regions, places <= 1 }"), "E0607"),
    "several": (
        ("regions }", 'regions, places["north"] + places["south"] >= 99 }\npostprocess regions { regions <= 98 }'),
        "E0607",
    ),
    "one way": (
        ("== regions }", '== regions, places >= 0, places["north"] - previous(places["north"]) >= 90 }'),
        "E0607",
    ),
    "gaps": (("budget quantified", "budget sparse"), "E0760"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_agree_is_refused(case, tmp_path):
    """One finding each, which says what to write."""
    change, code = REFUSED[case]
    with pytest.raises(PolicyError) as found:
        compiled(tmp_path, change)
    (error,) = [one for one in found.value.diagnostics if one.code.startswith("E")]
    assert error.code == code
    assert error.help
