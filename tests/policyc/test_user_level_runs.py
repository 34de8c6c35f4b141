"""Promises about all events of a user: planned, verified, run with an enforced bound, and certified."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from policyc import compile_policy
from policyc.emit import verify_directory
from policyc.offers import calibrate
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.users.claims import setting_of, unit_of
from policyc_check.verify import verified_claims
from policyc_runtime import samplers
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.ledger_claims import claims_of, ledger_claims, require_claims
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.refusal import verify
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims
from policyc_runtime.sources import read_events

POLICY = """
policy visits "visitors"
stream seen {{
  user person
  time at
  step 1h
  horizon {horizon}
  start "2026-01-01"
}}
release there = count(seen)
{more}
target user_level(epsilon = {epsilon}, delta = 1e-6, neighbors = {neighbors})
participation at_most({bound} steps, {participation})
deliver {deliver}
objective mean_squared_error
{end}
"""


@pytest.fixture
def make(tmp_path):
    def plan_of(**changes: str) -> Plan:
        words = {
            "horizon": "48 steps",
            "more": "",
            "epsilon": "1.0",
            "neighbors": "add_remove",
            "bound": "4",
            "participation": "enforced = keep_first",
            "deliver": "realtime",
            "end": "",
        }
        path = tmp_path / "visits.policy"
        path.write_text(POLICY.format(**(words | changes)))
        return compile_policy(path).plan

    return plan_of


def events(directory: Path, rows: list[tuple[str, int, float]], name: str = "events.csv") -> Path:
    """Events as (person, hour, speed)."""
    path = directory / name
    lines = [f"{who},2026-01-{1 + hour // 24:02}T{hour % 24:02}:30:00,{speed}" for who, hour, speed in rows]
    path.write_text("\n".join(["person,at,speed", *lines]) + "\n")
    return path


def resealed(plan: Plan, content: dict) -> Plan:
    return Plan.model_validate_json(json.dumps(content)).sealed()


def test_plans_with_user_level_promises_verify_and_read_back(make, tmp_path):
    """Under either relation, bounded or not, enforced or assumed, realtime or offline, the kernel accepts the plan."""
    for changes in (
        {},
        {"neighbors": "replace"},
        {"horizon": "unbounded"},
        {"participation": 'assumed = "tickets"', "deliver": "offline"},
        {"participation": "per_step = 3, spacing = 5 steps, enforced = keep_first"},
        {"participation": "enforced = keep_sample", "deliver": "offline"},
        {"end": "mechanism laplace()"},
        {"end": "postprocess there { there >= 0, integer(there) }"},
    ):
        plan = make(**changes)
        (tmp_path / "plan.json").write_text(plan.to_json())
        assert load_plan(tmp_path) == plan
        assert all(claim.holds for claim in verified_claims(plan))


@pytest.mark.parametrize("wish", ["gaussian", "laplace"])
def test_noise_smaller_by_a_billionth_is_refused(make, wish):
    """Every stated noise parameter, a relative 1e-9 smaller, breaks the promise."""
    plan = make(end=f"mechanism {wish}()")
    content = json.loads(plan.to_json())
    mechanism = content["releases"][0]["mechanism"]
    field = "stddev" if wish == "gaussian" else "scale"
    mechanism[field] = str(Decimal(mechanism[field]) * (1 - Decimal("1e-9")))
    with pytest.raises(KernelError, match="delta recomputed"):
        verify(resealed(plan, content))


BY_CELL = """
policy visits "visitors by place"
stream seen {{
  user person
  time at
  cell place in {{"A", "B", "C"}}
  step 1h
  horizon 24 steps
  start "2026-01-01"
}}
release there = count(seen) by place
target user_level(epsilon = 0.5, delta = 1e-6, neighbors = {neighbors})
participation at_most(6 steps, per_step = 3, enforced = keep_first)
deliver {deliver}
mechanism {mechanism}
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mechanism", "deliver", "neighbors"),
    [
        ("dft(noise = laplace)", "offline", "add_remove"),
        ("dft(noise = laplace, coefficients = 5)", "within(7 steps)", "replace"),
        ("lmmse(noise = binomial, weight = 0.01)", "realtime", "add_remove"),
        ("lmmse(noise = binomial, weight = 0.01)", "realtime", "replace"),
    ],
)
def test_a_plan_with_noise_for_the_cells_of_one_event_is_refused(tmp_path, mechanism, deliver, neighbors):
    """What earlier versions took for enough noise is not, where a user is in several cells; one is told to compile."""
    path = tmp_path / "visits.policy"
    words = {"mechanism": mechanism, "deliver": deliver, "neighbors": neighbors}
    path.write_text(BY_CELL.format(**words), encoding="utf-8")
    plan = compile_policy(path).plan
    verify(plan)
    own, setting = plan.releases[0].mechanism, setting_of(plan, plan.releases[0], plan.targets[0])
    one_cell = replace(setting, cells=1) if own.name == "lmmse" else replace(setting, cells=1, replaced=False)
    options = {"noise": own.noise, **({"weight": own.weight} if own.name == "lmmse" else {})}
    weak = calibrate(type(own), one_cell, Decimal("0.5"), Decimal("1e-6"), options)
    assert weak.stddev < own.stddev
    released = plan.releases[0].model_copy(update={"mechanism": weak})
    with pytest.raises(PlanRejectedError, match="compile again") as refused:
        verify(plan.model_copy(update={"releases": (released,)}).sealed())
    assert refused.value.code == "E0843"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("participation", "bound"), 5),
        (("participation", "per_step"), 2),
        (("participation",), None),
        (("targets", 0, "epsilon"), "0.999999999"),
        (("targets", 0, "delta"), "9.99999999E-7"),
        (("targets", 0, "relation"), "replace_one"),
        (("claims", "user_level"), []),
        (("claims", "user_level", 0, "epsilon"), "0.999999999"),
        (("claims", "user_level", 0, "delta"), "9.99999999E-7"),
        (("claims", "user_level", 0, "beyond", 0, "epsilon"), "1.0"),
        (("claims", "user_level", 0, "beyond"), []),
        (("releases", 0, "l1_sensitivity"), "0.5"),
        (("releases", 0, "query"), {"kind": "prefix", "of": "there", "by": None}),
        (("releases", 0, "query", "kind"), "sum"),
        (("releases", 0, "mechanism"), {"name": "derived", "accounting": "none"}),
        (("releases", 0, "expected_errors", 0, "steps"), 47),
    ],
)
def test_a_resealed_plan_that_claims_more_is_refused(make, path, value):
    """A plan that was altered and sealed again is refused wherever its claims no longer hold."""
    content = json.loads(make().to_json())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises((KernelError, ValueError)):
        verify(resealed(make(), content))


@pytest.mark.law
def test_several_releases_share_the_promise(make):
    """A sum, a count, a running total and a window: together they keep it, and a little less noise does not."""
    more = (
        "release speed = sum(seen.speed, clamp = -10 .. 130)\nrelease so_far = prefix(there)\n"
        "release lately = window(there, 3 steps)"
    )
    plan = make(more=more, participation="spacing = 5 steps, enforced = keep_first", end="mechanism gaussian()")
    verify(plan)
    names = {part.name: part.mechanism.name for part in plan.releases}
    assert names == {"there": "gaussian", "speed": "gaussian", "so_far": "derived", "lately": "derived"}
    for index, part in enumerate(plan.releases):
        if part.mechanism.name == "derived":
            continue
        content = json.loads(plan.to_json())
        mechanism = content["releases"][index]["mechanism"]
        mechanism["stddev"] = str(Decimal(mechanism["stddev"]) * (1 - Decimal("1e-6")))
        with pytest.raises(KernelError, match="delta recomputed"):
            verify(resealed(plan, content))


def test_running_totals_and_windows_are_made_of_what_was_released(make, tmp_path):
    """Derived releases are exact functions of the noisy counts, and no noise is drawn for them."""
    more = "release so_far = prefix(there)\nrelease lately = window(there, 3 steps)"
    rows = [(f"p{number}", hour, 1.0) for number in range(40) for hour in range(number % 5, 48, 11)]
    done = release(make(more=more), events(tmp_path, rows), tmp_path / "l", steps=48, pin=None)
    noisy = done.series["there"].noisy
    assert (done.series["so_far"].noisy == np.cumsum(noisy, axis=0)).all()
    window = np.cumsum(noisy, axis=0) - np.vstack([np.zeros((3, 1), dtype=int), np.cumsum(noisy, axis=0)[:-3]])
    assert (done.series["lately"].noisy == window).all()


@pytest.mark.law
def test_a_run_in_pieces_verifies_and_draws_nothing_twice(make, tmp_path):
    """A longer file continues the run; what was released stays, and the ledger and the file verify."""
    plan = make(more="release speed = sum(seen.speed, clamp = 0 .. 130)", bound="2")
    rows = [(f"p{number}", hour, 31.5 + number) for number in range(30) for hour in range(number % 7, 48, 7)]
    first = events(tmp_path, [row for row in rows if row[1] < 20], "first.csv")
    out = tmp_path / "out.csv"
    early = release(plan, first, tmp_path / "l", output=out, steps=20, pin=None)
    write_release(early, out)
    done = release(plan, events(tmp_path, rows), tmp_path / "l", output=out, pin=None)
    write_release(done, out)
    for name in ("there", "speed"):
        assert (done.series[name].noisy[: len(early.steps)] == early.series[name].noisy).all()
        assert (done.series[name].released[: len(early.steps)] == early.series[name].released).all()
    again = release(plan, events(tmp_path, rows), tmp_path / "l", output=out, pin=None)
    assert (again.series["speed"].noisy == done.series["speed"].noisy).all()
    claims = [*ledger_claims(plan, tmp_path / "l"), *release_claims(plan, tmp_path / "l", out)]
    assert all(claim.holds for claim in claims)
    changed = [(who, hour, speed + 40 * (hour == 3)) for who, hour, speed in rows]
    with pytest.raises(LedgerError, match="changed after it was released"):
        release(plan, events(tmp_path, changed, "changed.csv"), tmp_path / "l", steps=48, pin=None)


def test_values_of_a_sum_lie_on_its_grid(make, tmp_path):
    """What is published of a sum is a whole number of grid steps, and reads back exactly from a file."""
    plan = make(more="release speed = sum(seen.speed, clamp = 0 .. 130)")
    rows = [(f"p{number}", number, 55.5) for number in range(48)]
    done = release(plan, events(tmp_path, rows), tmp_path / "l", pin=None)
    values = done.series["speed"].noisy
    assert (values * 10 == np.rint(values * 10)).all()
    (_, file) = write_release(done, tmp_path / "out.csv")
    with file.open() as handle:
        assert [float(row["noisy"]) for row in csv.DictReader(handle)] == values[:, 0].tolist()


def test_what_was_dropped_is_noted_beside_the_ledger_and_nowhere_else(make, tmp_path):
    """The private note has the numbers, is readable by the owner alone, and no output has it."""
    rows = [("often", hour, 1.0) for hour in range(10)] + [("once", 9, 1.0)]
    plan = make()
    done = release(plan, events(tmp_path, rows), tmp_path / "l", steps=10, randomness=SimulationRandomness(1), pin=None)
    note = tmp_path / "private" / "l.private.json"
    assert json.loads(note.read_text())["dropped"] == {"users": 1, "participations": 6, "events": 6}
    assert note.stat().st_mode & 0o077 == 0
    assert "dropped" not in repr(done)


def test_an_enforced_bound_needs_events(make, tmp_path):
    """Ready counts are refused where the bound must be enforced, and taken where it is assumed."""
    counts = np.full((5, 1), 7)
    with pytest.raises(DataError) as caught:
        release(make(), counts, tmp_path / "l", pin=None)
    assert caught.value.code == "E0837"
    assert release(make(participation='assumed = "tickets"'), counts, tmp_path / "m", pin=None).series[
        "there"
    ].noisy.shape == (
        5,
        1,
    )


def test_the_certificate_says_what_is_assumed_and_what_is_left(make, tmp_path):
    """Unit, delta, horizon and bound stand in the promise; an assumed bound is named on the first page."""
    for participation, words in (
        ("enforced = keep_first", "the run keeps the first"),
        ('assumed = "tickets"', "tickets"),
    ):
        make(participation=participation)
        directory = compile_policy(tmp_path / "visits.policy").save(tmp_path / participation[:7])
        assert all(claim.holds for claim in verify_directory(directory))
        content = json.loads((directory / "certificate.json").read_text())
        sentence = content["promises"][0]["sentence"]
        for word in ("all events", "1.0 nats", "48 steps", "at most 4 steps", "0.000001"):
            assert word in sentence
        assert words in json.dumps(content["assumptions"])
        assert ("assumed, not enforced" in content["assumptions"][0]["title"]) == (
            participation != "enforced = keep_first"
        )
        assert [row["steps"] for row in content["implied_bounds"]["rows"]] == ["4", "8", "16", "48", "4 each", "4 each"]
        assert "all of 8 steps in which a user takes part" in (directory / "certificate.md").read_text().lower()
        assert "nats for 2 names" in (directory / "certificate.md").read_text()


@pytest.mark.parametrize(
    ("population", "neighbors", "said"),
    [
        ("", "add_remove", None),
        ("population 150", "add_remove", "the true number is protected"),
        ("population 150", "replace", "150."),
    ],
)
def test_public_numbers_are_those_of_the_plan(tmp_path, population, neighbors, said):
    """What is published as it is, is what is assumed public: no clamps without a sum, no cells without a cell."""
    file = tmp_path / "visits.policy"
    file.write_text(
        f"""policy visits "Visitors"
stream visits {{ user visitor time at step 1h horizon 24 steps start "2024-01-01" {population} }}
release visitors = count(visits)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = {neighbors})
participation at_most(5 steps, enforced = keep_first)
"""
    )
    directory = compile_policy(file).save(tmp_path / "visits.plan")
    content = json.loads((directory / "certificate.json").read_text())
    (assumed,) = [a["statement"] for a in content["assumptions"] if a["id"] == "public_numbers"]
    (published,) = [n["text"] for n in content["not_covered"] if n["title"] == "Numbers published as they are"]
    assert assumed.startswith(
        "The population, the horizon and the start" if population else "The horizon and the start"
    )
    assert "clamp" not in assumed
    assert "cells" not in assumed
    assert ("population, 150" in published) == bool(population)
    assert said is None or said in published


@pytest.mark.parametrize(
    "participation",
    [
        "enforced = keep_first",
        "per_step = 2, spacing = 5 steps, enforced = keep_first",
        "per_step = 3, enforced = keep_sample",
    ],
)
def test_one_user_moves_the_counts_no_further_than_the_noise_hides(make, tmp_path, participation):
    """Without a user who is always there, no more values differ, and none by more, than the noise was made for."""
    deliver = "offline" if "sample" in participation else "realtime"
    plan = make(
        more="release speed = sum(seen.speed, clamp = -20 .. 130)", participation=participation, deliver=deliver
    )
    rng = np.random.default_rng(5)
    rows = [(f"p{rng.integers(9)}", int(rng.integers(48)), float(rng.normal(60, 90))) for _ in range(300)]
    heavy = [("heavy", hour, speed) for hour in range(48) for speed in (500.0, 480.0, 90.0, 131.0)]
    everybody = [[*rows, *heavy][place] for place in rng.permutation(len(rows) + len(heavy)).tolist()]
    with_user = read_events(events(tmp_path, everybody, "with.csv"), plan, steps=48)
    without = read_events(events(tmp_path, rows, "without.csv"), plan, steps=48)
    for part in plan.releases:
        moved = np.abs(with_user.counts[part.name] - without.counts[part.name])
        setting = setting_of(plan, part, plan.targets[0])
        assert (moved > 0).sum() == setting.changes
        assert 0 < moved.max() <= setting.shift


@pytest.mark.parametrize(
    ("mechanism", "sampler"),
    [
        ("gaussian", "discrete_gaussian"),
        ("laplace", "discrete_laplace"),
        ("binomial", "symmetric_binomial"),
        ("common_noise", "discrete_gaussian"),
    ],
)
def test_a_run_adds_noise_of_the_law_that_the_plan_states(make, tmp_path, monkeypatch, mechanism, sampler):
    """A number for every value is asked for, of the plan's parameter and no other, and that is what is published."""
    plan = make(horizon="12 steps", participation='assumed = "so it is"', end=f"mechanism {mechanism}()")
    asked, draw = [], getattr(samplers, sampler)

    def watched(parameter, count, randomness):
        asked.append((parameter, draw(parameter, count, randomness)))
        return asked[-1][1]

    monkeypatch.setattr(samplers, sampler, watched)
    counts = np.full((12, 1), 50)
    done = release(plan, counts, tmp_path / "l", randomness=SimulationRandomness(1), pin=None)
    drawn = plan.measured[0].mechanism
    (stated,) = vars(drawn.law).values()
    assert {parameter for parameter, _ in asked} == {stated}
    noise = (done.noisy - counts) * drawn.grid
    own = noise.ravel() - np.concatenate([numbers for _, numbers in asked])
    assert (own == own[0]).all()
    assert mechanism == "common_noise" or own[0] == 0


@pytest.mark.parametrize(
    ("release_name", "forged"), [("there", "[1.5]"), ("there", '["x"]'), ("so_far", "[1000000.0]"), ("there", "[1, 2]")]
)
def test_a_forged_record_is_found(make, tmp_path, release_name, forged):
    """A ledger whose records are none of the mechanism's, or whose totals do not follow from them, does not verify."""
    plan = make(more="release so_far = prefix(there)")
    rows = [(f"p{number}", number % 9, 1.0) for number in range(20)]
    release(plan, events(tmp_path, rows), tmp_path / "l", steps=9, pin=None)
    with LedgerReader.open_read_only(tmp_path / "l") as book:
        assert all(claim.holds for claim in claims_of(book, plan))
        place = next(i for i, entry in enumerate(book.entries) if (entry.step, entry.release) == (3, release_name))
        book.entries[place] = book.entries[place]._replace(noisy=forged)
        with pytest.raises(LedgerError):
            require_claims(book, plan)


def test_planning_never_sees_data(make, tmp_path):
    """A plan is made where no data exists, and twice the same."""
    assert [path.name for path in tmp_path.iterdir()] == []
    assert make().digest == make().digest


def test_the_plan_of_departures_runs_on_real_data(gallery, compiled_gallery, tmp_path):
    """The gallery's policy releases four weeks of real departures as whole numbers from 0."""
    plan = compiled_gallery("departures").plan
    events, randomness = gallery / "departures_january.csv.gz", SimulationRandomness(1)
    done = release(plan, events, tmp_path / "l", steps=28, output=tmp_path / "o.csv", randomness=randomness, pin=None)
    assert done.released.shape == (28, 1)
    assert done.released.dtype.kind == "i"
    assert 400 < done.released.mean() < 900


def test_a_sample_of_steps_needs_the_whole_stream(make):
    """`keep_sample` looks into the future: a resealed plan that delivers step by step with it is refused."""
    content = json.loads(make().to_json())
    content["participation"]["enforced"] = "keep_sample"
    with pytest.raises(KernelError, match="enforced by keep_sample"):
        verify(resealed(make(), content))


def test_beyond_the_bound_nothing_is_left_of_the_spacing(make):
    """Of 48 steps at least 12 apart there are 4; who takes part in 8 keeps no distance, and that is accounted for."""
    plan = make(participation="spacing = 12 steps, enforced = keep_first")
    assert setting_of(plan, plan.releases[0], plan.targets[0]).changes == 4
    assert setting_of(plan, plan.releases[0], plan.targets[0], 8).changes == 8


def test_replaced_users_move_a_sum_from_one_end_of_the_clamp_to_the_other(make):
    """Values between -20 and 130 differ by 150: a step of replaced users is hidden for at least that."""
    plan = make(more="release speed = sum(seen.speed, clamp = -20 .. 130)", neighbors="replace")
    speed = plan.release_named("speed")
    shift = setting_of(plan, speed, plan.targets[0]).shift
    assert shift * unit_of(plan, speed) >= 150


def test_the_order_of_rows_does_not_choose_which_events_count(make, tmp_path):
    """Of three events of one moment two count, the same two however the file is ordered."""
    plan = make(
        more="release speed = sum(seen.speed, clamp = -20 .. 130)", participation="per_step = 2, enforced = keep_first"
    )
    rows = [("one", 3, 10.0), ("one", 3, 50.0), ("one", 3, 90.0), ("two", 3, 20.0)]
    sums = {
        int(read_events(events(tmp_path, list(order)), plan, steps=5).counts["speed"].sum())
        for order in (rows, rows[::-1], [rows[1], rows[2], rows[3], rows[0]])
    }
    assert len(sums) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("releases", 0, "query", "by"), "place"),
        (("stream", "step_milliseconds"), 1),
        (("stream", "step_text"), "1d"),
        (("stream", "step_text"), "some time"),
        (("releases", 0, "mechanism", "stddev"), "1e-300"),
        (("participation", "spacing"), 0),
        (("participation", "per_step"), 2),
    ],
)
def test_a_resealed_plan_whose_words_are_not_its_numbers_is_refused(make, path, value):
    """Another length of a step than is said, cells that the stream does not have, noise that cannot be accounted."""
    content = json.loads(make().to_json())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises((KernelError, ValidationError)):
        verify(resealed(make(), content))
