"""Streams to try user-level plans on: users keep their bounds, values follow the signal, and nothing is a release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc.pipeline import declared_signal
from policyc_runtime.estimation.signal import SeriesProcess
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.laboratory.streams import streams_of, taking_part, true_values
from policyc_runtime.plan import Plan

POLICY = """policy lane "Cars and their speed"
stream passages {{
  user plate
  time seen_at
  step 1min
  horizon 60 steps
}}
{releases}
target user_level(epsilon = 2.0, delta = 1e-6, neighbors = add_remove)
participation at_most(4 steps, per_step = 2, spacing = 10 steps, enforced = keep_first)
{signal}
deliver {deliver}
objective mean_squared_error
"""
SEVERAL = (
    "release cars = count(passages)\nrelease speed = sum(passages.speed, clamp = -10 .. 130)\n"
    "release so_far = prefix(cars)\nrelease lately = window(speed, 5 steps)"
)


def planned(folder: Path, releases: str = "release cars = count(passages)", **changed: str) -> Plan:
    parts = {"releases": releases, "signal": "", "deliver": "realtime", **changed}
    (folder / "lane.policy").write_text(POLICY.format(**parts))
    return compile_policy(folder / "lane.policy").plan


@pytest.mark.parametrize(("bound", "spacing"), [(1, 1), (5, 1), (4, 7), (9, 7), (30, 1)])
def test_users_keep_bound_and_spacing(bound: int, spacing: int) -> None:
    """Each takes part at least once, at most as often as allowed, and never too soon again."""
    found = taking_part(200, bound, spacing, 30, np.random.default_rng(1))
    times = found.sum(axis=1)
    assert times.min() >= 1
    assert times.max() == min(bound, -(-30 // spacing))
    assert all((np.diff(np.flatnonzero(row)) >= spacing).all() for row in found)


def test_users_who_exceed_an_enforced_bound_are_drawn_and_cut(tmp_path: Path) -> None:
    """No user counts more often than the bound allows, more events are drawn than count, and totals are of these.

    Where users are drawn evenly, for want of anything declared, nobody is told of a prior.
    """
    plan = planned(tmp_path, SEVERAL)
    streams, generator = streams_of(plan, 60), np.random.default_rng(2)
    assert streams.priors == {}
    for _ in range(10):
        drawn = streams.draw(generator)
        kept, every = true_values(plan, drawn.kept), true_values(plan, drawn.all)
        assert kept["cars"].sum() <= 1000 * 4 * 2
        assert kept["cars"].sum() < 0.8 * every["cars"].sum()
        assert (kept["cars"] <= every["cars"]).all()
        assert (kept["so_far"][-1] == kept["cars"].sum()).all()


def test_what_a_bound_drops_is_in_simulated_errors(tmp_path: Path) -> None:
    """The plan's own error against all events is at least that of dropping alone; the plan's number is of kept ones."""
    result = simulate(planned(tmp_path), 3, 3)
    dropping, own = result.errors[0], next(error for error in result.errors if error.chosen)
    assert dropping.estimator == "dropping alone"
    assert own.mean_squared_error > 0.9 * dropping.mean_squared_error > 2 * result.predicted["cars"]
    (line,) = [line for line in result.table_lines() if "predicts" in line]
    assert "against kept events" in line


@pytest.mark.law
def test_every_release_is_tried_and_marked(tmp_path: Path) -> None:
    """Every release has what dropping costs and the plan's own estimator; the same seed gives the same numbers."""
    plan = planned(tmp_path, SEVERAL)
    one, same, other = (simulate(plan, seed, 2, steps=40) for seed in (1, 1, 2))
    assert one.errors == same.errors != other.errors
    assert not one.example.is_release
    assert one.table_lines()[0].startswith("NOT A RELEASE")
    for release in plan.releases:
        found = [error for error in one.errors if error.release == release.name]
        assert found[0].estimator == "dropping alone"
        assert "prior alone" not in {error.estimator for error in found}
        assert sum(error.chosen for error in found) == 1
        assert one.truth[release.name].shape == (40, 1)


@pytest.mark.parametrize(("deliver", "steps"), [("realtime", 25), ("within(9 steps)", 20), ("offline", 60)])
def test_as_many_steps_are_simulated_as_the_plan_can_release(deliver: str, steps: int, tmp_path: Path) -> None:
    """A plan that takes blocks has whole ones, and one that takes all steps together has them all."""
    wanted = {"realtime": "gaussian()", "within(9 steps)": "dft()", "offline": "subsample(rate = 0.3)"}[deliver]
    plan = planned(tmp_path, deliver=deliver, signal=f"mechanism {wanted}")
    result = simulate(plan, 1, 1, steps=25)
    assert result.steps == steps
    assert np.isfinite(result.example.released).all()


def test_a_prediction_of_the_noise_alone_says_so(tmp_path: Path) -> None:
    """Without a signal nobody knows what the estimator gains, and the table does not pass the noise for the error."""
    result = simulate(planned(tmp_path), 3, 1)
    assert "noise alone" in result.limits["cars"]
    (line,) = [line for line in result.table_lines() if "predicts" in line]
    assert line.endswith("of the noise alone, against kept events (what post-processing gains is not known)")


@pytest.mark.law
def test_a_declared_signal_is_what_is_drawn_and_predicted(tmp_path: Path) -> None:
    """Values have its mean; the plan's error is near the predicted one, and the prior alone is worse."""
    signal = 'signal ar1(mean = 500, sd = 60, autocorrelation = 0.9, evidence = "counted")'
    plan = planned(tmp_path, signal=signal)
    process = declared_signal(tmp_path / "lane.policy", plan)
    assert process == SeriesProcess(60.0, 0.9, mean=500.0)
    result = simulate(plan, 3, 12, signal=process)
    prior, own = result.errors[0], next(error for error in result.errors if error.chosen)
    assert own.mean_squared_error == pytest.approx(result.predicted["cars"], rel=0.5)
    assert own.mean_squared_error < prior.mean_squared_error
    assert "declared signal" in result.table_lines()[1]
    assert not any("noise alone" in line for line in result.table_lines())


@pytest.mark.law
def test_a_pilot_is_found_beside_the_plan(tmp_path: Path) -> None:
    """From the plan's directory the public series is read again, and its own values are tried."""
    (tmp_path / "pilot.csv").write_text("\n".join(str(300 + 7 * (step % 9)) for step in range(60)))
    (tmp_path / "lane.policy").write_text(
        POLICY.format(
            releases="release cars = count(passages)",
            signal='signal pilot(file("pilot.csv"), evidence = "last year")',
            deliver="realtime",
        )
    )
    folder = compile_policy(tmp_path / "lane.policy").save(tmp_path / "lane.plan")
    plan = compile_policy(tmp_path / "lane.policy").plan
    series = declared_signal(folder, plan)
    result = simulate(plan, 1, 1, signal=series)
    assert result.truth["cars"][:, 0].tolist() == [300 + 7 * (step % 9) for step in range(60)]
    assert "pilot" in result.table_lines()[1]
    assert declared_signal(tmp_path / "nowhere.policy", plan) is None
