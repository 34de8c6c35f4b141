"""Levels that are estimated before they agree: what they err, publish, and what earlier runs have to do with it."""

from __future__ import annotations

import csv
from decimal import Decimal

import numpy as np
import pytest
from prompt import policyc
from test_agreement_of_steps import BELONGS, compiled

from policyc_check.verify import verified_claims
from policyc_runtime.estimates import agreed
from policyc_runtime.estimation.parts import added_up
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import load_plan

TOTAL = ("== regions }", "== regions, sum(places) == population }")


def named(estimate, *others):
    return (("estimate mle()", estimate), TOTAL, *others)


USERS = (
    "user_level(epsilon = 2, delta = 1e-6, neighbors = replace)",
    'participation at_most(4 steps, assumed = "so it is")\n',
)
CASES = {
    "filter": named("estimate filter()"),
    "auto": named("estimate auto"),
    "within": named("deliver within(2 steps)\nestimate filter()"),
    "smoother": named("deliver offline\nestimate smoother()"),
    "map": named("estimate map(prior = initial)"),
    "joint": named("deliver offline\nestimate joint_map()"),
    "whole": (*named("estimate filter()"), ("== regions,", "== regions, places >= 0, integer(places),")),
    "gaps": named("estimate filter()", ("budget quantified", "budget sparse")),
    "one total": (("estimate mle()", "estimate filter()"),),
    "absolute": named("estimate filter()\nobjective mean_absolute_error"),
    "several": (*named("estimate filter()"), ("== regions,", '== regions, places["lake"] + places["bay"] <= 140,')),
}


def checked_against_runs(plan, turns):
    """Stated errors are those of simulated users, and less than those of noisy levels."""
    assert {claim.holds for claim in verified_claims(plan)} == {True}
    squared = plan.objective == "mean_squared_error"
    for error in simulate(plan, 11, turns, ()).errors:
        if error.chosen:
            predicted = plan.release_named(error.release).predicted
            found, stderr = (
                (error.mean_squared_error, error.mean_squared_error_stderr)
                if squared
                else (error.mean_absolute_error, error.mean_absolute_error_stderr)
            )
            assert predicted.kind == "simulated"
            assert abs(found - predicted.published) <= 3.5 * (stderr**2 + predicted.stderr**2) ** 0.5, error.release


@pytest.mark.sampled(1, laws=2)
@pytest.mark.parametrize("case", CASES)
def test_stated_errors_are_those_of_runs(case, tmp_path):
    """Of simulated users, whatever the estimator, what is delivered when, and what else is asked."""
    plan = compiled(tmp_path, *CASES[case]).plan
    checked_against_runs(plan, 100)
    assert all(release.predicted.before_agreeing for release in plan.releases)


def test_an_estimate_of_every_level_errs_less_and_is_found(tmp_path):
    """At the same promise: `auto` takes what errs less, half as much here."""
    nearest, best = compiled(tmp_path, TOTAL).plan, compiled(tmp_path, *CASES["auto"]).plan
    for one, other in zip(nearest.releases, best.releases, strict=True):
        assert other.predicted.published < 0.8 * one.predicted.published
        assert other.estimator.name == "filter"


@pytest.mark.parametrize("case", ["filter", "whole"])
def test_earlier_steps_stay_when_later_ones_come(case, tmp_path):
    """What is made of all steps at once, of the first ones alone, and of the others then, is the same to the bit."""
    changes = [(old, new.replace("estimate filter()", "deliver realtime\nestimate filter()"))
               for old, new in CASES[case]]  # fmt: skip
    plan = compiled(tmp_path, *changes).plan
    generator = np.random.default_rng(3)
    noisy = {part.name: generator.normal(60, 9, (6, len(part.cells))).round() for part in plan.releases}
    whole = agreed(plan, noisy)
    first = agreed(plan, {name: values[:2] for name, values in noisy.items()})
    later = agreed(plan, noisy, 2, first)
    for name, values in whole.items():
        assert np.array_equal(values[:2], first[name])
        assert np.array_equal(values[2:], later[name][2:])
    assert np.allclose(added_up(whole["places"], np.array(BELONGS)), whole["regions"], atol=1e-9)
    assert np.allclose(whole["places"].sum(axis=1), 300, atol=1e-9)


def read(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return [Decimal(row["released"]) for row in csv.DictReader(file)]


RUNS = {
    "realtime": ("deliver realtime\nestimate filter()", ("2", "6")),
    "within": ("deliver within(2 steps)\nestimate filter()", ("4", "6")),
    "offline": ("deliver offline\nestimate smoother()", ("6",)),
    "series": ("deliver realtime\nestimate filter()", ("2", "6")),
    "demands": ("deliver realtime\nestimate filter()", ("2", "6")),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", RUNS)
def test_files_add_up_and_verify_finds_them_again(case, tmp_path):
    """Runs in pieces, of every delivery; every decimal; and a page that says what was done."""
    estimate, pieces = RUNS[case]
    changes = named(estimate)
    if case == "series":
        text = (tmp_path / "visits.policy", compiled(tmp_path).plan)[0].read_text()
        text = text[: text.index("correlation")].replace("alpha_dpt(alpha = 2.0)", USERS[0]) + USERS[1] + estimate
        text += "\npostprocess places { sum(places) == regions }\n"
        compiled(tmp_path, text=text).save(tmp_path / "visits.plan")
    else:
        if case == "demands":
            row = '== regions, places["north"] - previous(places["north"]) <= 3, places["lake"] <= places["bay"] + 40,'
            changes = (*changes, ("== regions,", row))
        compiled(tmp_path, *changes).save(tmp_path / "visits.plan")
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in pieces:
        run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    places, regions = read(tmp_path, "o-places"), read(tmp_path, "o-regions")
    assert len(places) == 5 * 6
    for step in range(6):
        sums = [Decimal(0)] * 3
        for value, region in zip(places[5 * step : 5 * step + 5], BELONGS, strict=True):
            sums[region] += value
        assert sums == regions[3 * step : 3 * step + 3]
        if case == "demands":
            assert places[5 * step + 1] <= places[5 * step + 3] + 40
            assert step == 0 or places[5 * step] - places[5 * step - 5] <= 3
    verified = policyc("verify", "visits.plan", "--release", "o.csv", "--quick", "--allow-unchecked", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "what its estimator makes of the noisy ones, made to agree" in verified.stdout
    page = (tmp_path / "visits.plan" / "certificate.md").read_text()
    assert "Every level is estimated by itself first" in page
    if case == "series":
        assert {part.predicted.kind for part in load_plan(tmp_path / "visits.plan").releases} == {"noise"}
