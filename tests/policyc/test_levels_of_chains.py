"""Counts at levels under alpha-DP_T: from the policy to the run, what it errs, its model, what is told and refused."""

from __future__ import annotations

import csv
import importlib.util
import json
import re

import numpy as np
import pytest
from prompt import policyc

from policyc import compile_policy
from policyc.emit import verify_directory
from policyc.emit.blocks.public_numbers import unprotected
from policyc_check.steps.chains import Chain
from policyc_check.verify import verified_claims
from policyc_runtime.estimation.count_process import CountProcess, Mixture
from policyc_runtime.estimation.flows import Group, most_probable_flows
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.groups import law_of
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.sources import read_counts, read_events

PLACES = "place,region\nnorth,Alps\nlake,Coast\nsouth,Alps\nbay,Coast\n"
POLICY = """policy visits "Visits of places and regions"
stream visits {
  user account  time at  cell place in file("places.csv") levels(region) otherwise "away"
  step 1d  horizon 12 steps  population 300  start "2026-01-01"
}
release places  = count(visits) by place
release regions = count(visits) by region
target alpha_dpt(alpha = 2.0)
correlation markov(forward = [[0.6, 0.1, 0.1, 0.1, 0.1], [0.05, 0.7, 0.05, 0.15, 0.05], [0.1, 0.1, 0.6, 0.1, 0.1],
  [0.1, 0.2, 0.1, 0.5, 0.1], [0.1, 0.05, 0.1, 0.05, 0.7]], initial = [0.1, 0.5, 0.1, 0.2, 0.1], evidence = "counted")
deliver DELIVER
estimate ESTIMATE
budget BUDGET
postprocess places { sum(places) == population, places >= 0, integer(places) }
postprocess regions { sum(regions) == population, regions >= 0, integer(regions) }
"""
OF = (0, 1, 0, 1, 2)


def compiled(folder, estimate="auto", budget="quantified", deliver="offline", text=POLICY):
    (folder / "places.csv").write_text(PLACES)
    words = {"ESTIMATE": estimate, "BUDGET": budget, "DELIVER": deliver}
    (folder / "visits.policy").write_text(re.sub("ESTIMATE|BUDGET|DELIVER", lambda word: words[word[0]], text))
    return compile_policy(folder / "visits.policy")


def test_levels_share_every_step(tmp_path):
    """What all releases spend at a step is the schedule's budget, and less noise at a level is refused."""
    plan = compiled(tmp_path, "mle()").plan
    assert all(claim.holds for claim in verified_claims(plan))
    places, regions = plan.releases
    assert (places.cells, regions.cells) == (("north", "lake", "south", "bay", "away"), ("Alps", "Coast", "away"))
    listed = [entry["words"] for entry in unprotected(plan) if entry["name"] in ("cells", "level")]
    assert listed[0] == "the list of 5 values of `place`"  # `away` is a value of each
    assert listed[1].startswith("the list of 3 values of `region`, and which `place` belongs")
    spent = [sum(pair) for pair in zip(*(one.schedule.epsilons(12) for one in plan.releases), strict=True)]
    assert float(max(spent)) == pytest.approx(float(plan.claims.largest_budget), rel=1e-12)
    assert float(plan.claims.total_leakage) == pytest.approx(2.0, rel=1e-6)
    segment = regions.schedule.segments[0]
    less = segment.model_copy(update={"scales": tuple(scale * 9 / 10 for scale in segment.scales)})
    schedule = regions.schedule.model_copy(update={"segments": (less, *regions.schedule.segments[1:])})
    weak = plan.model_copy(update={"releases": (places, regions.model_copy(update={"schedule": schedule}))}).sealed()
    assert not all(claim.holds for claim in verified_claims(weak))


def test_a_user_is_counted_where_its_place_belongs(tmp_path):
    """The last event of a day says where; who has none, or one elsewhere, is away at every level."""
    plan = compiled(tmp_path, "mle()").plan
    rows = ["a,2026-01-01T08:00:00,north", "a,2026-01-01T09:00:00,bay", "b,2026-01-01T08:00:00,south"]
    rows += ["c,2026-01-02T08:00:00,north", "d,2026-01-02T08:00:00,nowhere"]
    (tmp_path / "events.csv").write_text("\n".join(["account,at,place", *rows]) + "\n")
    counts = read_events(tmp_path / "events.csv", plan, steps=2).counts
    assert counts["places"].tolist() == [[0, 0, 1, 1, 298], [1, 0, 0, 0, 299]]
    assert counts["regions"].tolist() == [[1, 1, 298], [1, 0, 299]]


def test_ready_counts_of_places_are_added_up(tmp_path):
    """Everybody is in one place: what belongs together follows from it."""
    plan = compiled(tmp_path, "mle()").plan
    counts = [[1, 2, 3, 4, 290], [0, 5, 0, 5, 290]]
    cells = plan.stream.cell.states
    rows = [f"{t},{cell},{n}" for t, row in enumerate(counts) for cell, n in zip(cells, row, strict=True)]
    (tmp_path / "counts.csv").write_text("\n".join(["step,place,count", *rows]) + "\n")
    found = read_counts(tmp_path / "counts.csv", plan).counts
    assert found["places"].tolist() == counts
    assert found["regions"].tolist() == [[4, 6, 290], [0, 10, 290]]


@pytest.mark.sampled(2, laws=3)
@pytest.mark.parametrize(
    ("estimate", "deliver"),
    [
        ("mle()", "realtime"),
        ("smoother()", "offline"),
        ("filter()", "realtime"),
        ("filter()", "within(2 steps)"),
        ("map(prior = initial)", "realtime"),
        ("map(prior = uniform)", "realtime"),
        ("map(prior = frequency)", "realtime"),
        ("joint_map()", "offline"),
    ],
)
def test_errors_at_a_level_are_as_predicted(estimate, deliver, tmp_path):
    """Simulated users of the chain, through every estimator: within a tenth and four standard errors.

    What is believed of the first values alone is foretold coarsely where their noise is large, by cell as well.
    """
    room = 0.5 if "frequency" in estimate else 0.1
    plan = compiled(tmp_path, estimate, deliver=deliver).plan
    rows = [error for error in simulate(plan, 5, 60, ()).errors if error.chosen]
    assert [error.release for error in rows] == ["places", "regions"]
    for error in rows:
        predicted = plan.release_named(error.release).predicted.published
        assert abs(error.mean_squared_error - predicted) < 4 * error.mean_squared_error_stderr + room * predicted


def test_regions_of_places_that_are_alike_move_as_a_chain_of_their_own():
    """Where regions are a chain by themselves, what is expected of them, and its error, are those of that chain."""
    forward = np.array([[0.5, 0.2, 0.2, 0.1], [0.2, 0.5, 0.1, 0.2], [0.1, 0.2, 0.4, 0.3], [0.2, 0.1, 0.3, 0.4]])
    regions = Chain(np.array([[0.7, 0.3], [0.3, 0.7]]))
    level = Mixture([Chain(forward)], [1.0], (0, 0, 1, 1))
    scales = np.array([3.0, 0.0, 5.0, 3.0, 9.0])
    noisy = np.random.default_rng(1).normal(50, 9, (5, 2))
    noisy[:, 1] = 100 - noisy[:, 0]
    one, other = CountProcess.of(100.0, level), CountProcess.of(100.0, regions)
    assert (one.states, one.cells) == (4, 2)
    for delay in (None, 0, 2):
        a, b = Posterior(one, scales, delay), Posterior(other, scales, delay)
        np.testing.assert_allclose(a.variances(), b.variances(), rtol=1e-9)
        np.testing.assert_allclose(a.means(noisy), b.means(noisy), rtol=1e-9)
    belongs = np.eye(2)[[0, 0, 1, 1]]
    best = most_probable_flows([Group(np.full(4, 0.25), forward, 100.0)], noisy[:, None], scales, belongs)
    same = most_probable_flows([Group(np.full(2, 0.5), regions.forward, 100.0)], noisy[:, None], scales)
    np.testing.assert_allclose(best.counts, same.counts, rtol=1e-5)
    assert best.flows.sum(axis=(2, 3)) == pytest.approx(np.full((4, 1), 100.0))


def test_levels_of_groups_are_sums_over_both(tmp_path):
    """Groups of known sizes, and places that belong together: states are those of every group."""
    (first, *_) = re.findall(r"correlation markov.*?evidence = \"counted\"\)", POLICY, re.S)
    shared = [
        first.replace("evidence", f"share = {part}, evidence") + f" for {name}"
        for name, part in (("a", 0.4), ("b", 0.6))
    ]
    plan = compiled(tmp_path, "smoother()", text=POLICY.replace(first, "\n".join(shared))).plan
    law = law_of(plan, plan.releases[1])
    assert (law.states, law.values, law.cells) == (10, 3, 5)
    alone = compiled(tmp_path, "smoother()").plan  # two groups on one chain vary less: their sizes are known
    both = zip(plan.releases, alone.releases, strict=True)
    assert all(0.9 < one.predicted.published / other.predicted.published < 1 + 1e-12 for one, other in both)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "estimate", ["joint_map()", "map(prior = initial)", "map(prior = uniform)", "map(prior = frequency)"]
)
def test_the_model_finds_what_the_run_publishes(estimate, tmp_path):
    """At the level too, from the same noisy values, by a solver."""
    pytest.importorskip("pyomo")
    plan_directory = compiled(tmp_path, estimate).save(tmp_path / "visits.plan")
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert all(claim.holds is not False for claim in verify_directory(plan_directory))
    with (tmp_path / "o-regions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    noisy: dict = {}
    for row in rows:
        noisy.setdefault(int(row["step"]), {})[row["region"]] = float(row["noisy"])
    spec = importlib.util.spec_from_file_location("levels_model", plan_directory / "map_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    values, _, _ = module.optimum_regions(noisy)
    assert {(t, cell): value for t, found in values.items() for cell, value in found.items()} == {
        (int(row["step"]), row["region"]): float(row["released"]) for row in rows
    }


@pytest.mark.law
def test_levels_are_run_verified_attacked_and_certified(tmp_path):
    """From the command line; pages have a row of each level, and the attack tells places of different regions apart."""
    directory = compiled(tmp_path).save(tmp_path / "visits.plan")
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("5", "12"):
        run = policyc("run", "visits.plan", "--input", "e.csv", "--output", "o.csv", "--steps", steps, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    verified = policyc("verify", "visits.plan", "--release", "o.csv", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    content = json.loads((directory / "certificate.json").read_text())
    assert [(row["by"], row["of_a_user"]) for row in content["data"]["levels"]] == [("place", "1"), ("region", "1")]
    audited = policyc("audit", "visits.plan", "--runs", "500", cwd=tmp_path)
    assert audited.returncode == 0, audited.stdout + audited.stderr


def test_levels_without_end_are_planned_where_the_recursion_has_no_bound(tmp_path):
    """Whoever moves on along a ring is shown by pairs of places: infinite bounds of the recursion are not added up."""
    old = POLICY[POLICY.index("forward") : POLICY.index("evidence")]
    ring = "forward = [[0.6, 0.4, 0, 0], [0, 0.6, 0.4, 0], [0, 0, 0.6, 0.4], [0.4, 0, 0, 0.6]], initial = stationary, "
    text = POLICY.replace(old, ring).replace("horizon 12 steps", "horizon unbounded")
    text = text.replace("deliver DELIVER", "deliver realtime\nmechanism laplace()").replace(
        "estimate ESTIMATE", "estimate mle()"
    )
    (tmp_path / "places.csv").write_text("place,region\nnorth,Alps\nlake,Coast\nsouth,Alps\n")
    (tmp_path / "visits.policy").write_text(
        text.replace("budget BUDGET", "budget auto").replace("alpha = 2", "alpha = 1")
    )
    plan = compile_policy(tmp_path / "visits.policy").plan
    assert {claim.holds for claim in verified_claims(plan)} == {True}
