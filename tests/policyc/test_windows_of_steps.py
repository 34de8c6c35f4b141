"""Promises about one step and windows for all that a step can hold: from the policy to a run in pieces, and a diff."""

from __future__ import annotations

import csv
import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from policyc import PolicyError, compile_policy
from policyc.cli import app
from policyc.emit import verify_directory
from policyc_check.users.claims import setting_of
from policyc_check.users.gaussian import gaussian_delta
from policyc_check.verify import verified_claims
from policyc_runtime.laboratory.simulation import simulate
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MeasuredRelease
from policyc_runtime.refusal import plan_claims
from policyc_runtime.sources import read_events

POLICY = """policy spend "Spending"
stream visits {{
  user     visitor
  time     seen_at
  cell     shop in file("shops.csv") levels(town)
  step     1d
  horizon  {horizon}
  start    "2026-01-01"
}}
release visitors = count(visits) by shop
release spent = sum(visits.amount, clamp = 0 .. 50) by town
release week = window(spent, 7 steps)
target {target}
{more}
correlation none(evidence = "days are far apart")
deliver realtime
"""
SHOPS = "shop,town\nA,Linz\nB,Linz\nC,Wien\n"
EVENT, WINDOW = "event_level(epsilon = 1.0)", "w_event(epsilon = 1.0, window = 3 steps, delta = 1e-6)"


def written(folder: Path, target: str, more: str = "", horizon: str = "10 steps") -> Path:
    """The policy and the file that it names."""
    (folder / "shops.csv").write_text(SHOPS)
    path = folder / "spend.policy"
    path.write_text(POLICY.format(target=target, more=more, horizon=horizon))
    return path


def planned(folder: Path, target: str, more: str = "", horizon: str = "10 steps") -> Plan:
    return compile_policy(written(folder, target, more, horizon)).plan


def events(folder: Path, days: range) -> Path:
    """Ten users with up to three events a day, of amounts beyond the clamp too."""
    generator = np.random.default_rng(1)
    rows = []
    for day, user in product(range(10), range(10)):
        for turn in range(int(generator.integers(4))):
            moment, shop = f"2026-01-{1 + day:02}T{8 + turn:02}:00:00", "ABC"[generator.integers(3)]
            rows.append((day, f"u{user},{moment},{shop},{generator.uniform(-9, 70):.2f}"))
    path = folder / f"{days.start}-{days.stop}.csv"
    path.write_text("\n".join(["visitor,seen_at,shop,amount", *(line for day, line in rows if day in days)]) + "\n")
    return path


def command(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", [EVENT, WINDOW])
def test_a_run_in_pieces_publishes_what_was_planned(target: str, tmp_path: Path) -> None:
    """New rows alone are enough, running again gives the same values, totals follow, and every claim holds."""
    plan = compile_policy(written(tmp_path, target)).save(tmp_path / "plan")
    out = tmp_path / "out.csv"
    for days in (range(4), range(4, 10)):
        piece = events(tmp_path, days)
        command("run", plan, "--input", piece, "--output", out, "--continued", "--steps", days.stop)
    once = {path.name: path.read_bytes() for path in tmp_path.glob("out*.csv")}
    assert len(once) == 3
    command("run", plan, "--input", events(tmp_path, range(10)), "--output", out, "--steps", 10)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("out*.csv")} == once
    values: dict[str, list[float]] = {}
    for name in ("spent", "week"):
        with (tmp_path / f"out-{name}.csv").open(newline="") as file:
            values[name] = [float(row["noisy"]) for row in csv.DictReader(file) if row["town"] == "Linz"]
    assert values["week"][-1] == pytest.approx(sum(values["spent"][-7:]), abs=1e-6)
    assert all(claim.holds is not False for claim in verify_directory(plan))


def test_every_step_counts_its_first_events_whatever_other_steps_have(tmp_path: Path) -> None:
    """Of each user and day one event counts, or the first two, clamped, and nothing is dropped for the steps before."""
    for more, most in (("", 1), ("participation at_most(1 steps, per_step = 2, enforced = keep_first)", 2)):
        plan = planned(tmp_path, EVENT, more)
        file = events(tmp_path, range(10))
        found = read_events(file, plan, steps=10)
        expected = np.zeros((10, 2))
        seen: dict[tuple[str, str], int] = {}
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                key = row["visitor"], row["seen_at"][:10]
                seen[key] = seen.get(key, 0) + 1
                if seen[key] <= most:
                    amount = min(max(float(row["amount"]), 0), 50)
                    expected[int(row["seen_at"][8:10]) - 1, int(row["shop"] == "C")] += amount
        np.testing.assert_allclose(found.counts["spent"] * 0.01, expected, atol=0.005 * 20)


def test_an_event_costs_what_one_step_costs(tmp_path: Path) -> None:
    """The losses of all releases in one step add up to epsilon, in exact fractions; less noise is refused."""
    plan = planned(tmp_path, EVENT)
    moved = {"visitors": 2, "spent": 2 * 5000}  # from one cell to another; 50 in units of 0.01
    scales = {part.name: Fraction(part.mechanism.scale) for part in plan.measured}  # type: ignore[attr-defined]
    lost = sum(Fraction(moved[name]) / scale for name, scale in scales.items())
    assert 1 - Fraction(1, 10**8) < lost <= 1
    for index, part in enumerate(plan.releases[:2]):
        assert isinstance(part, MeasuredRelease)
        less = part.mechanism.model_copy(update={"scale": part.mechanism.scale / 2})  # type: ignore[attr-defined]
        releases = list(plan.releases)
        releases[index] = part.model_copy(update={"mechanism": less})
        weak = plan.model_copy(update={"releases": tuple(releases)}).sealed()
        assert not all(claim.holds for claim in verified_claims(weak))


def test_squares_of_gaussian_noise_add_up_over_a_window(tmp_path: Path) -> None:
    """mu^2 of three steps in a row, both releases, by the continuous curve: within a thousandth of delta's size."""
    plan = planned(tmp_path, WINDOW, "mechanism gaussian()")
    moved = {"visitors": 2, "spent": 2 * 5000**2}
    square = sum(3 * moved[part.name] / float(part.mechanism.stddev) ** 2 for part in plan.measured)  # type: ignore[attr-defined]
    assert gaussian_delta(1.0, math.sqrt(square)) == pytest.approx(1e-6, rel=0.02)


def test_a_longer_window_than_the_stream_is_the_stream(tmp_path: Path) -> None:
    """And an endless stream has noise for the window, however long it goes on."""
    long = planned(tmp_path, "w_event(epsilon = 1.0, window = 99 steps, delta = 1e-6)")
    assert (long.targets[0].window, long.claims.user_level[0].beyond) == (10, ())  # type: ignore[union-attr]
    endless = planned(tmp_path, WINDOW, horizon="unbounded")
    assert endless.stream.horizon is None
    assert all(claim.holds for claim in verified_claims(endless))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("targets", 0, "window"), 4),
        (("targets", 0, "window"), None),
        (("targets", 0, "per"), 86_400_000),
        (("targets", 0, "epsilon"), "0.999"),
        (("targets", 0, "delta"), "9e-7"),
        (("participation", "per_step"), 2),
        (("participation",), None),
        (("releases", 1, "query", "high"), "51"),
        (("releases", 1, "query", "cells_per_step"), 2),
        (("releases", 0, "l1_sensitivity"), "0.5"),
        (("claims", "user_level", 0, "beyond", 0, "epsilon"), "1.0"),
        (("claims", "user_level", 0, "beyond"), []),
        (("claims", "user_level"), []),
        (("claims", "budget_sum"), "1.0"),
    ],
)
def test_a_plan_with_less_noise_than_its_window_needs_is_refused(path: tuple, value: object, tmp_path: Path) -> None:
    """Every number that the promise of a window rests on is recomputed."""
    plan = planned(tmp_path, WINDOW)
    assert all(claim.holds for claim in verified_claims(plan))
    content = json.loads(plan.to_json())
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    if value is None and path[0] == "targets":
        del place[path[-1]]
    try:
        altered = Plan.model_validate(content).sealed()
    except ValidationError:
        return  # it cannot be written down
    assert not all(claim.holds for claim in plan_claims(altered))


@pytest.mark.law
def test_without_a_start_the_first_run_is_told_it(tmp_path: Path) -> None:
    """Steps are hidden one by one whenever they begin; no event says when."""
    path = written(tmp_path, WINDOW)
    path.write_text("\n".join(line for line in path.read_text().split("\n") if not line.startswith("  start")))
    plan = compile_policy(path).save(tmp_path / "plan")
    file, out = events(tmp_path, range(10)), tmp_path / "out.csv"
    done = CliRunner().invoke(app, ["run", str(plan), "--input", str(file), "--output", str(out), "--steps", "10"])
    assert done.exit_code == 1
    assert not out.exists()
    command("run", plan, "--input", file, "--output", out, "--steps", 10, "--start", "2026-01-01")
    assert all(claim.holds is not False for claim in verify_directory(plan))


ABSENT = """policy rooms "Rooms"
stream seen {{
  user person
  time at
  cell room in {{"A", "B"}} otherwise "away"
  step 1d
  horizon {horizon}
  start "2026-01-01"
  population 5
}}
release there = count(seen) by room
target {target}
correlation none(evidence = "days are far apart")
deliver realtime
{more}
"""


@pytest.mark.parametrize(
    "target", ["event_level(epsilon = 1.0, delta = 1e-3)", WINDOW.replace("1e-6", "1e-3").replace("3 st", "2 st")]
)
def test_who_is_in_no_cell_is_counted_and_moves_no_more_than_noise_hides(target: str, tmp_path: Path) -> None:
    """All that one user may do in three days, through the run's own counting: the last event of a day says where."""
    policy = tmp_path / "rooms.policy"
    policy.write_text(ABSENT.format(horizon="3 steps", target=target, more="mechanism gaussian()"))
    plan = compile_policy(policy).plan
    (part,) = plan.measured
    setting = setting_of(plan, part, plan.targets[0])
    places = [(), ("A",), ("B",), ("elsewhere",), ("A", "B"), ("B", "elsewhere")]
    found = {}
    for course in product(range(len(places)), repeat=3):
        rows = ["other,2026-01-02T05:00:00,B"]
        rows += [
            f"one,2026-01-{day + 1:02}T{8 + turn:02}:00:00,{place}"
            for day, stay in enumerate(course)
            for turn, place in enumerate(places[stay])
        ]
        file = tmp_path / "rooms.csv"
        file.write_text("\n".join(["person,at,room", *rows]) + "\n")
        found[course] = read_events(file, plan, steps=3).counts["there"]
        assert (found[course].sum(axis=1) == 5).all()
    assert found[0, 4, 5].tolist() == [[0, 0, 5], [0, 2, 3], [0, 0, 5]]
    width = plan.targets[0].window  # type: ignore[union-attr]
    assert width is not None
    most = 0
    for one, other in combinations(found, 2):
        days = [day for day in range(3) if one[day] != other[day]]
        if days[-1] - days[0] < width:
            most = max(most, int(((found[one] - found[other]) ** 2).sum()))
    assert most == setting.changes * setting.shift**2 == 2 * width


def test_who_is_in_no_cell_is_released_or_refused(tmp_path: Path) -> None:
    """A run, its constraint, its verification; where one user moves more than two values of a step it is refused."""
    policy = tmp_path / "rooms.policy"
    words = {"horizon": "10 steps", "target": "event_level(epsilon = 1.0, delta = 1e-3)"}
    policy.write_text(ABSENT.format(**words, more="postprocess there { sum(there) == population, there >= 0 }"))
    plan = compile_policy(policy).save(tmp_path / "plan")
    rows = [f"u{user},2026-01-{day:02}T08:00:00,{'AB'[(user + day) % 2]}" for user in range(4) for day in range(1, 11)]
    (tmp_path / "rooms.csv").write_text("\n".join(["person,at,room", *rows]) + "\n")
    out = tmp_path / "out.csv"
    command("run", plan, "--input", tmp_path / "rooms.csv", "--output", out, "--steps", 10)
    with out.open(newline="") as file:
        released = [float(row["released"]) for row in csv.DictReader(file)]
    assert sum(released) == pytest.approx(50)
    assert all(claim.holds is not False for claim in verify_directory(plan))
    for more in (
        'participation at_most(1 steps, per_step = 2, assumed = "x")',
        "release g = sum(seen.spent, clamp = 0 .. 9) by room",
    ):
        policy.write_text(ABSENT.format(**words, more=more))
        with pytest.raises(PolicyError) as refused:
            compile_policy(policy)
        assert [d.code for d in refused.value.diagnostics if d.code.startswith("E")] == ["E0314"]
    policy.write_text(
        ABSENT.format(horizon="10 steps", target="event_level(epsilon = 1.0, neighbors = add_remove)", more="")
    )
    with pytest.raises(PolicyError, match="follows from the other cells"):
        compile_policy(policy)


def test_pages_say_what_is_promised_and_what_is_left_of_more(tmp_path: Path) -> None:
    """The promise is of its window, steps are taken as independent, and more steps lose as many times as much."""
    plan = planned(tmp_path, EVENT)
    directory = compile_policy(tmp_path / "spend.policy").save(tmp_path / "plan")
    content = json.loads((directory / "certificate.json").read_text())
    (promise,) = content["promises"]
    assert (promise["kind"], promise["name"]) == ("event_level", "event-level differential privacy")
    assert promise["unit_of_privacy"] == "all events of one user in one step of 1 day"
    assert promise["conditional_on"][0] == "Independent steps"
    assert "however" not in promise["adversary"]
    page = (directory / "certificate.md").read_text()
    left = dict(re.findall(r"([\d.]+) nats at (\d+) steps", page))
    assert left == {"2": "2", "4": "4", "10": "10"}
    assert [point.epsilon for point in plan.claims.user_level[0].beyond] == [Decimal(2), Decimal(4), Decimal(10)]
    assert "the first of a user's steps" not in page
    assert command("certificate", directory)


def test_promises_of_steps_are_compared_whatever_accounts_for_them(tmp_path: Path) -> None:
    """A delta weakens a promise, and more than counts under the same promise changes nothing of it."""
    plans = {}
    for name, target in {"event": EVENT, "delta": EVENT.replace(")", ", delta = 1e-6)"), "window": WINDOW}.items():
        (tmp_path / name).mkdir()
        plans[name] = compile_policy(written(tmp_path / name, target)).save(tmp_path / name / "plan")
    done = CliRunner().invoke(app, ["diff", str(plans["event"]), str(plans["delta"])])
    assert done.exit_code == 1
    assert "a larger delta promises less" in done.output
    back = CliRunner().invoke(app, ["diff", str(plans["delta"]), str(plans["event"])])
    assert "a larger delta promises less" not in back.output
    text = (tmp_path / "event" / "spend.policy").read_text()
    counts = "\n".join(line for line in text.split("\n") if not line.startswith(("release spent", "release week")))
    (tmp_path / "event" / "counts.policy").write_text(counts)
    budgets = compile_policy(tmp_path / "event" / "counts.policy")
    assert len(budgets.plan.scheduled) == 1
    same = CliRunner().invoke(app, ["diff", str(budgets.save(tmp_path / "counts.plan")), str(plans["event"])])
    assert "event_level" not in "\n".join(line for line in same.output.split("\n") if "weaker" in line.lower())


def test_simulated_errors_are_those_of_the_noise(tmp_path: Path) -> None:
    """Streams that nobody says more of: noisy values err by the noise that was planned."""
    plan = planned(tmp_path, EVENT, 'signal ar1(mean = 90, sd = 9, autocorrelation = 0.5, evidence = "e")')
    found = simulate(plan, 10, 10, (), steps=10)
    assert found.errors
