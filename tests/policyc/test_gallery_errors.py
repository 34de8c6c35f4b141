"""What the gallery's policies state as their error is what runs of them have, on real data and on simulated users."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.simulation import simulate

DATA = Path(__file__).parent.parent / "data" / "daily_counts.csv"


def daily(column: str) -> np.ndarray:
    """Real counts of 59 days, (59, 1)."""
    with DATA.open() as lines:
        return np.array([[int(row[column])] for row in csv.DictReader(lines)])


def test_bicycles_have_the_error_that_is_stated(gallery, tmp_path):
    """Real rentals through the release itself: within 10 % of the statement, which is for the whole year."""
    plan, counts = compile_policy(gallery / "bikeshare.policy").plan, daily("bikes")
    part = plan.releases[0]
    assert part.predicted.kind in ("expected", "simulated")
    squares = []
    for turn in range(60):
        done = release(plan, counts, tmp_path / f"l{turn}", randomness=SimulationRandomness(turn))
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
    done = release(plan, counts, tmp_path / "l", randomness=SimulationRandomness(1))
    assert ((done.released - counts) ** 2).mean() > 5 * predicted.published


def test_departures_have_the_noise_that_is_stated(gallery, tmp_path):
    """Real departures: noisy values err as stated, published ones do not err more; nothing is known of their gain."""
    plan, counts = compile_policy(gallery / "departures.policy").plan, daily("aircraft")[:28]
    events = gallery / "departures_january.csv.gz"
    part = plan.releases[0]
    assert part.predicted.kind == "noise"
    assert plan.drops
    noisy, published = [], []
    for turn in range(12):
        done = release(plan, events, tmp_path / f"l{turn}", randomness=SimulationRandomness(turn), steps=28)
        noisy.append(np.abs(done.noisy - counts).mean())
        published.append(np.abs(done.released - counts).mean())
    assert np.mean(noisy) == pytest.approx(part.predicted.published, rel=0.1)
    assert np.mean(published) < 1.05 * np.mean(noisy)


@pytest.mark.parametrize(("name", "least"), [("fleet", 0.9), ("traffic", 0.8)])
def test_users_of_a_declared_chain_have_the_error_that_is_stated(gallery, name, least):
    """Users drawn from the chain, exact noise, the plan's estimator: within 10 % over the whole horizon.

    Where users are so few that counts meet zero, as in traffic, errors are smaller than stated, and never larger.
    """
    plan = compile_policy(gallery / f"{name}.policy").plan
    predicted = plan.releases[0].predicted
    assert predicted.kind == "expected"
    result = simulate(plan, 3, 2, [])
    (own,) = [error for error in result.errors if error.chosen]
    assert least < own.mean_squared_error / predicted.published < 1.1


def test_speeds_have_the_noise_that_is_stated_against_kept_events(gallery):
    """Of a count, a sum and a running total only kept events are promised an error; what is dropped is shown alone."""
    plan = compile_policy(gallery / "speeds.policy").plan
    assert {part.predicted.kind for part in plan.releases} <= {"noise", "expected"}
    result = simulate(plan, 3, 1, [])
    dropped = {error.release: error for error in result.errors if error.estimator == "dropping alone"}
    for part in plan.releases:
        (own,) = [error for error in result.errors if error.chosen and error.release == part.name]
        assert own.mean_squared_error > 0.5 * dropped[part.name].mean_squared_error
