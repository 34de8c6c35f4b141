"""Weights of errors: more of the promise for releases whose errors count more, as the closed forms say."""

from __future__ import annotations

import pytest

from policyc import compile_policy
from policyc.diagnostics import PolicyError

POLICY = """policy visits "Visitors of places, and of all"

stream visits {
  user     visitor
  time     at
  cell     place in {"A", "B", "C"}
  step     1h
  horizon  20 steps
  start    "2026-01-01"
}

release places = count(visits) by place
release all    = count(visits)
release tens   = total(all, 10 steps)

target TARGET

deliver   realtime
objective OBJECTIVE
"""
USER = 'user_level(rho = 0.1, neighbors = add_remove)\nparticipation at_most(2 steps, assumed = "so it is")\n'
USER += "mechanism gaussian()\nestimate none()"
STEPS = "event_level(epsilon = 1.0)\nmechanism laplace()\nestimate none()"


def compiled(folder, target, objective):
    (folder / "visits.policy").write_text(POLICY.replace("TARGET", target).replace("OBJECTIVE", objective))
    return compile_policy(folder / "visits.policy").plan


def test_variances_are_as_the_roots_of_weights(tmp_path):
    """Rho parts p = D^2 / (2 s^2), errors w / p: least for p as the root of w; nine times w, a third of s^2."""
    even = compiled(tmp_path, USER, "mean_squared_error")
    places, every = (float(release.mechanism.stddev) ** 2 for release in even.releases)
    assert places == pytest.approx(every, rel=1e-6)
    heavy = compiled(tmp_path, USER, "mean_squared_error(places = 9)")
    places, every = (float(release.mechanism.stddev) ** 2 for release in heavy.releases)
    assert every / places == pytest.approx(3, rel=1e-6)
    absolute = compiled(tmp_path, USER, "mean_absolute_error(all = 8)")  # w / sqrt(p): p as w^(2/3)
    places, every = (float(release.mechanism.stddev) ** 2 for release in absolute.releases)
    assert places / every == pytest.approx(4, rel=1e-6)


def test_budgets_of_steps_are_divided_by_weights(tmp_path):
    """Laplace noise: errors n w / part^2, least for parts as cube roots."""
    plan = compiled(tmp_path, STEPS, "mean_squared_error(all = 24)")
    places, every = (float(release.schedule.segments[0].epsilons[0]) for release in plan.releases)
    even = compiled(tmp_path, STEPS, "mean_squared_error")
    was = [float(release.schedule.segments[0].epsilons[0]) for release in even.releases]
    assert every / places == pytest.approx(24 ** (1 / 3) * was[1] / was[0], rel=0.03)
    assert places + every == pytest.approx(sum(was), rel=1e-6)
    assert "where errors of `all` 24 times count" in plan.sharing


REFUSED = {
    "mean_squared_error(places = 0)": "E0209",
    "mean_squared_error(places = many)": "E0208",
    "mean_squared_error(2)": "E0208",
    "mean_squared_error(cities = 2)": "E0204",
    "mean_squared_error(tens = 2)": "E0204",
    "median_error(places = 2)": "E0205",
}


@pytest.mark.parametrize("objective", REFUSED)
def test_weights_are_of_releases(objective, tmp_path):
    """Each fault has one finding, with what to write."""
    with pytest.raises(PolicyError) as found:
        compiled(tmp_path, USER, objective)
    (one,) = (one for one in found.value.diagnostics if one.code.startswith("E"))
    assert one.help
    assert one.code == REFUSED[objective]
