"""Whether a user-level plan says that its noise drowns what there is to see."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.laboratory.simulation import simulate

POLICY = """\
policy visits "Visitors, every day"

stream visits {
  user     visitor
  time     seen_at
  step     1d
  horizon  120 steps
  start    "2026-01-01"
  population 600
}

release visitors = count(visits)

target user_level(epsilon = EPSILON, delta = 1e-9, neighbors = add_remove)

participation at_most(4 steps, enforced = keep_first)
mechanism gaussian

SIGNAL
"""
KNOWN_MEAN = "signal ar1(mean = 300, sd = 10, autocorrelation = 0.8)"
UNKNOWN_MEAN = "signal ar1(sd = 10, autocorrelation = 0.8)"
POLICIES = {"known": KNOWN_MEAN, "unknown": UNKNOWN_MEAN, "none": "deliver offline", "none at once": "deliver realtime"}


@pytest.fixture
def planned(tmp_path: Path):
    """`planned(name, epsilon)`: the plan, and what was found about its use."""

    def planned(name: str, epsilon: str):
        path = tmp_path / "visits.policy"
        path.write_text(POLICY.replace("SIGNAL", POLICIES[name]).replace("EPSILON", epsilon))
        compilation = compile_policy(path)
        found = [d for d in compilation.diagnostics if d.code.startswith("W07")]
        noted = [(n.code, n.message) for n in compilation.plan.notices if n.code.startswith("W07")]
        assert noted == [(d.code, d.message) for d in found]
        return compilation.plan, found

    return planned


@pytest.mark.law
@pytest.mark.parametrize(("name", "code"), [("known", "W0702"), ("unknown", "W0701"), ("none", "W0701")])
def test_noise_that_drowns_the_signal_is_found(planned, name, code):
    """A promise too strict for the stream is found at compile time, and noted in the plan; a weaker one is not."""
    _, found = planned(name, "0.01")
    assert [finding.code for finding in found] == [code]
    assert found[0].help
    assert not planned(name, "8")[1]


def test_without_a_signal_the_population_is_the_measure(planned):
    """Noise is held against the 600 users who can be there at most: found just above, silent just below."""
    for epsilon in ("0.005", "0.01", "0.02", "0.04"):
        plan, found = planned("none at once", epsilon)
        drowned = plan.releases[0].predicted.without_postprocessing ** 0.5 > 600
        assert bool(found) == drowned, epsilon
    assert planned("none at once", "0.005")[1]
    assert not planned("none at once", "0.04")[1]


def test_a_sum_is_held_against_what_the_population_can_add(tmp_path):
    """600 visitors of at most 20 minutes: 12,000, whichever end of the clamp is further from zero."""
    path = tmp_path / "visits.policy"
    for clamp in ("0 .. 20", "-20 .. 5"):
        text = POLICY.replace("count(visits)", f"sum(visits.minutes, clamp = {clamp})").replace("SIGNAL", "")
        drowned = []
        for epsilon in ("0.005", "0.04"):
            path.write_text(text.replace("EPSILON", epsilon))
            compilation = compile_policy(path)
            found = [d.message for d in compilation.diagnostics if d.code == "W0701"]
            error = compilation.plan.releases[0].predicted.without_postprocessing ** 0.5
            assert bool(found) == (error > 12_000), epsilon
            assert all("(1.2e+04 units of `minutes`)" in message for message in found)
            drowned.append(bool(found))
        assert drowned == [True, False]


@pytest.mark.law
def test_a_reader_of_a_drowned_release_learns_what_was_public(planned):
    """Where W0702 is found, published values are as far from the truth as the declared mean is; elsewhere nearer."""
    for epsilon, drowned in (("0.01", True), ("8", False)):
        plan, found = planned("known", epsilon)
        result = simulate(plan, 7, 20, [])
        truth = result.truth["visitors"][:, 0].astype(float)
        missed = result.example.series["visitors"].released[:, 0] - truth
        ratio = np.sqrt((missed**2).mean()) / np.sqrt(((truth - 300) ** 2).mean())
        assert (ratio > 0.8) == drowned == bool(found)
