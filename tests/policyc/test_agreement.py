"""Levels that agree: least squares against a dense solution, stated errors against runs, runs against the ledger."""

from __future__ import annotations

import csv
import math
from decimal import Decimal

import numpy as np
import pytest
from agreeing import AT_DELTA, NAMES, PLACES, POLICY, PURE, RHO, compiled, drawn_tree, written
from prompt import policyc

from policyc.diagnostics import PolicyError
from policyc.planning.measurements import Measurement
from policyc_check.users.claims import promised_user_level, setting_of, unit_of
from policyc_check.verify import verified_claims
from policyc_runtime.agreement import Tree
from policyc_runtime.estimation.parts import added_up
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import load_plan
from policyc_runtime.refusal import verify


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_two_passes_are_the_least_squares(levels, seed):
    """Of any tree and variances: values and variances of the dense weighted solution."""
    generator = np.random.default_rng(seed)
    tree = drawn_tree(generator, levels)
    size = len(tree.above[0])
    rows = [np.eye(size)]
    for own in tree.above:
        rows.append(added_up(rows[-1].T, own).T)  # each value of the level by the finest ones
    design = np.vstack(rows)
    variances = generator.uniform(0.2, 5, levels)
    weights = np.concatenate([np.full(len(part), 1 / v) for part, v in zip(rows, variances, strict=True)])
    noisy = [generator.normal(10, 5, (3, len(part))) for part in rows]
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    best = np.hstack(noisy) @ (weights[:, None] * design) @ covariance @ design.T
    found = tree.nearest(noisy, [np.full(3, v) for v in variances])
    assert np.allclose(np.hstack(found), best, rtol=1e-12, atol=1e-12)
    assert np.allclose(np.concatenate(tree.variances(variances.tolist())), np.diag(design @ covariance @ design.T))
    for digits in (1, 3, 6):
        rounded = tree.nearest(noisy, [np.full(3, v) for v in variances], [digits] * levels)
        for own, child, parent in zip(tree.above, rounded, rounded[1:], strict=False):
            for row in range(3):
                sums = [Decimal(0)] * parent.shape[1]
                for value, place in zip(child[row].tolist(), own.tolist(), strict=True):
                    sums[place] += Decimal(repr(value))
                assert sums == [Decimal(repr(value)) for value in parent[row].tolist()]
        away = max(np.abs(level - exact).max() for level, exact in zip(rounded, found, strict=True))
        assert away <= levels * 10.0**-digits * (1 + 1e-9)


def test_two_levels_have_the_known_variances():
    """A parent and its n parts: 1 / (1 / V + 1 / (n v)), and v (1 - v / (V + n v)) (DHC-A and many others)."""
    parts, v, above = 7, 2.0, 3.0
    child, parent = Tree(("a", "b"), (np.zeros(parts, np.int64),)).variances([v, above])
    assert parent == pytest.approx([1 / (1 / above + 1 / (parts * v))])
    assert child == pytest.approx([v * (1 - v / (above + parts * v))] * parts)


CASES = [
    (RHO, "gaussian()", "mean_squared_error"),
    (RHO, "gaussian()", "mean_absolute_error"),
    (PURE, "laplace()", "mean_squared_error"),
    (PURE, "laplace()", "mean_absolute_error"),
    (AT_DELTA, "auto", "mean_squared_error"),
]


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_stated_errors_are_those_of_runs(case, tmp_path):
    """Every level within 5 %, over simulated users; none errs more than its noise; the promise is kept."""
    plan = compiled(tmp_path, *case).plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    found = {error.release: error for error in simulate(plan, 7, 150, ()).errors if error.chosen}
    for name in NAMES:
        predicted = plan.release_named(name).predicted
        squared = plan.objective == "mean_squared_error"
        error = found[name].mean_squared_error if squared else found[name].mean_absolute_error
        stderr = found[name].mean_squared_error_stderr if squared else found[name].mean_absolute_error_stderr
        assert abs(error - predicted.published) <= 0.05 * predicted.published + 3 * stderr, name
        assert stderr <= 0.03 * error
        alone = predicted.without_postprocessing * (1 + 1e-12)  # of the one that the whole promise is spent on
        assert predicted.published < alone + 3 * (predicted.stderr or 0.0)
        assert predicted.kind == ("simulated" if case[1] == "laplace()" and not squared else "expected")


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_the_promise_is_divided_so_that_published_values_err_least(case, tmp_path):
    """Moving a part of the promise from one release to another makes the sum of errors larger; also where one is alone.

    Its parts differ from those that are best where nothing agrees.
    """
    plan = compiled(tmp_path, *case).plan
    (promise,) = promised_user_level(plan)
    power = 2 if promise.__class__.__name__ == "UserRho" else 1
    alone = {
        part.name: Measurement(part.mechanism, setting_of(plan, part, promise), unit_of(plan, part))
        for part in plan.releases
    }
    noise = {name: float(entry.variances().mean()) for name, entry in alone.items()}

    def total(factors):
        """The sum of errors with noise changed by such factors of its standard deviation."""
        variances = {name: noise[name] * factors[name] ** 2 for name in noise}
        errors = [*plan.trees[0].variances([variances[name] for name in NAMES]), np.array([variances["kinds"]])]
        degree = 1 if case[2] == "mean_squared_error" else 0.5
        return sum(float((error**degree).mean()) for error in errors)

    spent = {name: (noise[name]) ** (-power / 2) for name in noise}  # in proportion to what each takes of the promise
    whole = sum(spent.values())
    best = total(dict.fromkeys(noise, 1.0))
    for giver in noise:
        for taker in noise:
            if giver == taker:
                continue
            moved = 0.05 * spent[giver]
            factors = dict.fromkeys(noise, 1.0)
            factors[giver] = ((spent[giver] - moved) / spent[giver]) ** (-1 / power)
            factors[taker] = ((spent[taker] + moved) / spent[taker]) ** (-1 / power)
            assert total(factors) >= best * (1 - 1e-3), (giver, taker)
    even = {name: (whole / len(noise) / spent[name]) ** (-1 / power) for name in noise}
    assert total(even) > best


def test_whose_errors_count_more_errs_less(tmp_path):
    """Places five times: their error falls, that of kinds rises, and the weighted sum is below that without weights."""
    found = []
    for words in ("mean_squared_error", "mean_squared_error(places = 5)"):
        plan = compiled(tmp_path, objective=words).plan
        found.append({release.name: release.predicted.published for release in plan.releases})
    even, heavy = found
    assert heavy["places"] < even["places"]
    assert heavy["kinds"] > even["kinds"]
    assert sum(heavy.values()) + 4 * heavy["places"] < sum(even.values()) + 4 * even["places"]
    assert sum(even.values()) < sum(heavy.values())


WINDOW = "target w_event(epsilon = 2, window = 5 steps{})"
PROMISES = {
    "one of users": f"target user_level({RHO}, neighbors = add_remove)",
    "several of steps": "target event_level(epsilon = 1)\n" + WINDOW.format(""),
    "users and steps": f"target user_level({AT_DELTA}, neighbors = replace)\n" + WINDOW.format(", delta = 1e-6"),
    "published again": WINDOW.format(""),
}
MECHANISMS = {"one of users": "gaussian()", "published again": "budget_absorption()"}
SLOW = ("users and steps", "published again")


@pytest.mark.parametrize("promises", [pytest.param(n, marks=[pytest.mark.law] if n in SLOW else []) for n in PROMISES])
def test_published_values_agree_to_the_last_digit_and_follow_from_the_ledger(promises, tmp_path):
    """A run in two pieces, of one promise and of several; the file's decimals add up; other values are refused."""
    text = POLICY.replace("target user_level(TARGET, neighbors = add_remove)", PROMISES[promises])
    written(tmp_path, mechanism=MECHANISMS.get(promises, "auto"), text=text)
    assert policyc("compile", "visits.policy", cwd=tmp_path).returncode == 0
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("3", "7"):
        arguments = ("--input", "e.csv", "--output", "o.csv", "--steps", steps)
        run = policyc("run", "visits.plan", *arguments, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    belongs = {line.split(",")[0]: line.split(",") for line in PLACES.splitlines()[1:]}
    released = {}
    for name in NAMES:
        with (tmp_path / f"o-{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        key = {"places": "place", "regions": "region", "countries": "country", "all": None}[name]
        released[name] = {(row["step"], row[key] if key else ""): Decimal(row["released"]) for row in rows}
    assert len(released["all"]) == 7
    for (step, place), _ in released["places"].items():
        _, region, country, _ = belongs[place]
        own = [p for p, line in belongs.items() if line[1] == region]
        assert sum(released["places"][step, p] for p in own) == released["regions"][step, region]
        own = {line[1] for line in belongs.values() if line[2] == country}
        assert sum(released["regions"][step, r] for r in own) == released["countries"][step, country]
        assert released["countries"][step, "X"] + released["countries"][step, "Y"] == released["all"][step, ""]
    verified = policyc("verify", "visits.plan", "--release", "o.csv", "--quick", "--allow-unchecked", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "what its estimator makes of the noisy ones, made to agree" in verified.stdout
    page = (tmp_path / "visits.plan" / "certificate.md").read_text()
    assert "are made to agree: each is the sum of those that belong to it" in page
    assert "`countries == sum(regions)` (line" in page


def test_a_ledger_whose_values_do_not_agree_is_refused(tmp_path):
    """Published values that are the noisy ones, with a chain of hashes of their own."""
    from policyc_runtime.estimates import agreed, published_values
    from policyc_runtime.publication import unexplained_value

    plan = compiled(tmp_path).plan
    generator = np.random.default_rng(3)
    noisy = {part.name: generator.normal(20, 5, (4, len(part.cells))).round() for part in plan.releases}
    made = agreed(plan, noisy)
    for part in plan.releases:
        published = published_values(plan, part, made[part.name], np.empty((0, len(part.cells))))
        asked = (plan, part, lambda steps, rows=made[part.name]: rows[:steps], 4)
        assert unexplained_value(*asked, published, [4] * 4, [""] * 4) is None
        if part.name in NAMES:
            assert unexplained_value(*asked, noisy[part.name], [4] * 4, [""] * 4) == 0
        later = agreed(plan, noisy, 2)[part.name]  # what a later block adds is the same
        assert np.array_equal(later[2:], made[part.name][2:])


@pytest.mark.parametrize("alter", ["twice", "circle", "no release", "astride", "same"])
def test_a_plan_whose_releases_cannot_agree_is_none(alter, tmp_path):
    """Whatever a hand writes: the plan is refused, with the reason."""
    plan = compiled(tmp_path).plan
    first, *others = plan.agreements
    agreements, releases = {
        "twice": ((*plan.agreements, first.model_copy(update={"parent": "countries"})), plan.releases),
        "circle": ((first.model_copy(update={"child": "all", "parent": "places"}), *plan.agreements), plan.releases),
        "no release": ((first.model_copy(update={"parent": "zones"}), *others), plan.releases),
        "astride": ((first.model_copy(update={"child": "kinds", "parent": "regions"}), *others), plan.releases),
        "same": ((first.model_copy(update={"child": "regions", "parent": "regions"}), *others[1:]), plan.releases),
    }[alter]
    altered = plan.model_copy(update={"agreements": agreements, "releases": releases})
    content = altered.model_dump(mode="json")
    with pytest.raises(ValueError, match="agree|adds up|add up|belong|circle|no count or sum|no release"):
        type(plan).model_validate(content)


def test_a_plan_that_agrees_otherwise_than_its_policy_is_refused(tmp_path):
    """The policy lets countries add up to all; the plan's own digest is right."""
    written(tmp_path)
    assert policyc("compile", "visits.policy", cwd=tmp_path).returncode == 0
    plan = load_plan(tmp_path / "visits.plan")
    altered = plan.model_copy(update={"agreements": plan.agreements[:2]}).sealed()
    verify(altered)  # which keeps the promise
    (tmp_path / "visits.plan" / "plan.json").write_text(altered.to_json())
    refused = policyc("verify", "visits.plan", "--quick", "--allow-unchecked", cwd=tmp_path)
    assert refused.returncode == 1
    assert "agreements" in refused.stdout + refused.stderr


REFUSED = {
    "cells": ("at_most(2 steps", "at_most(2 steps, cells_per_step = 3", "E0722"),
    "kinds of numbers": ("regions   = count(visits) by", "regions   = sum(visits.n, clamp = 0 .. 3) by", "E0722"),
    "a total": ("release all       = count(visits)", "release all       = prefix(countries)", "E0722"),
    "a window": ("all       = count(visits)\n", "all = window(now, 2 steps)\nrelease now = count(visits)\n", "E0722"),
    "astride": ("sum(places) == regions", "sum(places) == kinds }\npostprocess kinds { sum(kinds) == regions", "E0723"),
    "itself": ("by region\n", "by country\n", "E0723"),
    "one number": ("sum(countries) == all", "sum(countries) == all }\npostprocess all { sum(all) == kinds", "E0723"),
    "twice": ("sum(places) == regions", "sum(places) == regions, sum(places) == all", "E0724"),
    "again": ("sum(places) == regions", "sum(places) == regions, sum(places) == regions", "E0724"),
    "reach": ("== sum(regions)", "== sum(regions), regions >= 9 }\npostprocess all { all <= 8", "E0607"),
    "steps": ("mechanism gaussian()", "mechanism binary_tree()", "E0755"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_add_up_is_refused(case, tmp_path):
    """One finding each, which says what to write."""
    old, new, code = REFUSED[case]
    text = POLICY.replace("MECHANISM", "gaussian()")
    assert old in text
    with pytest.raises(PolicyError) as found:
        compiled(tmp_path, text=text.replace(old, new))
    assert [one.code for one in found.value.diagnostics if one.code.startswith("E")] == [code]
    assert all(one.help for one in found.value.diagnostics)


@pytest.mark.law
def test_a_total_of_values_that_agree_errs_by_all_their_steps(tmp_path):
    """Ten steps of regions: ten times the variance; a ratio of two that agree has no stated error."""
    more = "release tens = total(regions, 10 steps)\nrelease share = ratio(places, regions)\n"
    plan = compiled(tmp_path, text=POLICY + more).plan
    tens, share = plan.made
    assert tens.predicted.published == pytest.approx(10 * plan.release_named("regions").predicted.published)
    assert share.predicted is None
    found = {error.release: error for error in simulate(plan, 3, 100, ()).errors if error.chosen}["tens"]
    assert found.mean_squared_error == pytest.approx(tens.predicted.published, rel=0.05 + 3 * 0.05)
    assert math.isfinite(found.mean_squared_error_stderr)
