"""What the gallery's policies state as their error is what runs of them have, on real data and on simulated users."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release

DATA = Path(__file__).parent.parent / "data" / "daily_counts.csv"


def daily(column: str) -> np.ndarray:
    """Real counts of 59 days, (59, 1)."""
    with DATA.open() as lines:
        return np.array([[int(row[column])] for row in csv.DictReader(lines)])


@pytest.mark.law
def test_bicycles_have_the_error_that_is_stated(compiled_gallery, tmp_path):
    """Real rentals through the release itself: within 10 % of the statement, which is for the whole year."""
    plan, counts = compiled_gallery("bikeshare").plan, daily("bikes")
    part = plan.releases[0]
    assert part.predicted.kind in ("expected", "simulated")
    squares = []
    for turn in range(60):
        done = release(plan, counts, tmp_path / f"l{turn}", randomness=SimulationRandomness(turn), pin=None)
        squares.append(((done.released - counts) ** 2).mean())
    assert np.mean(squares) == pytest.approx(part.predicted.published, rel=0.1)


def test_the_papers_own_setting_states_a_bound_that_real_rentals_exceed(gallery, tmp_path):
    """With weight 0.5 and a process that is learned, rentals err many times the error of a stream that stands still."""
    text = (gallery / "bikeshare.policy").read_text()
    start, stop = text.index("signal"), text.index("deliver")
    place = tmp_path / "bikeshare.policy"
    text = text[:start] + "signal ar1(learned = true)\n" + text[stop:]
    place.write_text(text.replace("lmmse()", "lmmse(weight = 0.5)"))
    plan, counts = compile_policy(place).plan, daily("bikes")
    predicted = plan.releases[0].predicted
    assert predicted.kind == "at_least"
    done = release(plan, counts, tmp_path / "l", randomness=SimulationRandomness(1), pin=None)
    assert ((done.released - counts) ** 2).mean() > 5 * predicted.published


@pytest.mark.law
def test_departures_have_the_noise_that_is_stated(gallery, compiled_gallery, tmp_path):
    """Real departures: noisy values err as stated, published ones do not err more; nothing is known of their gain."""
    plan, counts = compiled_gallery("departures").plan, daily("aircraft")[:28]
    events = gallery / "departures_january.csv.gz"
    part = plan.releases[0]
    assert part.predicted.kind == "noise"
    noisy, published = [], []
    for turn in range(12):
        done = release(plan, events, tmp_path / f"l{turn}", randomness=SimulationRandomness(turn), steps=28, pin=None)
        noisy.append(np.abs(done.noisy - counts).mean())
        published.append(np.abs(done.released - counts).mean())
    assert np.mean(noisy) == pytest.approx(part.predicted.published, rel=0.1)
    assert np.mean(published) < 1.05 * np.mean(noisy)


@pytest.mark.law
@pytest.mark.parametrize("name", ["fleet", "traffic", "wards"])
def test_users_of_a_declared_chain_have_the_error_that_is_stated(compiled_gallery, name):
    """Users drawn from the chain, exact noise, the plan's estimator: within 5 % over the whole horizon."""
    require_stated(compiled_gallery(name).plan, 40)


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize(
    ("users", "others"),
    [
        (3, {"alpha = 1.0": "alpha = 5.0", "offline": "realtime"}),
        (8, {"288 steps": "60 steps"}),
        (12, {"stationary": "[1, 0, 0]", "288 steps": "40 steps", "offline": "within(2 steps)"}),
        (20, {"mean_squared_error": "mean_absolute_error", "offline": "realtime"}),
    ],
)
def test_few_users_have_the_error_that_is_stated(gallery, users, others, tmp_path):
    """Where counts are so small that they meet their bounds, errors are those of simulated users: within 5 %."""
    text = (gallery / "traffic.policy").read_text().replace("population  200", f"population {users}")
    for said, instead in others.items():
        assert said in text
        text = text.replace(said, instead)
    (tmp_path / "traffic.policy").write_text(text)
    plan = compile_policy(tmp_path / "traffic.policy").plan
    predicted = plan.releases[0].predicted
    assert predicted.kind == "simulated"
    assert predicted.stderr is not None
    assert predicted.stderr < 0.015 * predicted.published
    require_stated(plan, 80)


def test_checkins_have_at_least_the_error_that_is_stated(compiled_gallery):
    """Visitors who come at random err more than those of a stream that stands still."""
    plan = compiled_gallery("checkins").plan
    predicted = plan.releases[0].predicted
    assert predicted.kind == "at_least"
    (own,) = [error for error in simulate(plan, 3, 1, ()).errors if error.chosen]
    assert own.mean_absolute_error > predicted.published


def require_stated(plan: Plan, streams: int) -> None:
    """Fresh streams have the stated error within 5 % and two standard errors, which are less than 5 % themselves."""
    predicted = plan.releases[0].predicted
    (own,) = [error for error in simulate(plan, 3, streams, ()).errors if error.chosen]
    mean, stderr = own.mean_squared_error, own.mean_squared_error_stderr
    if plan.objective == "mean_absolute_error":
        mean, stderr = own.mean_absolute_error, own.mean_absolute_error_stderr
    assert predicted.kind in ("expected", "simulated")
    assert stderr < 0.025 * mean
    assert abs(mean - predicted.published) < 0.05 * predicted.published + 2 * stderr


@pytest.mark.law
def test_speeds_have_the_noise_that_is_stated_against_kept_events(compiled_gallery):
    """Of a count, a sum and a running total only kept events are promised an error; what is dropped is shown alone."""
    plan = compiled_gallery("speeds").plan
    assert {part.predicted.kind for part in plan.releases} <= {"noise", "expected"}
    result = simulate(plan, 3, 1, [])
    dropped = {error.release: error for error in result.errors if error.estimator == "dropping alone"}
    for part in plan.releases:
        (own,) = [error for error in result.errors if error.chosen and error.release == part.name]
        assert own.mean_squared_error > 0.5 * dropped[part.name].mean_squared_error
