"""What is made of released values: run in pieces, written, verified, and never paid for."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from policyc import compile_policy
from policyc.diagnostics import PolicyError
from policyc.emit.context import certificate_content
from policyc.emit.difference import compare_plans, is_weaker
from policyc.planning.declaration import differences
from policyc.semantics.checked import check_file
from policyc_check.claims import Claim
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.made_values import made_values
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.released_file import release_claims

USER_LEVEL = """
target user_level(epsilon = 2.0, delta = 1e-6, neighbors = {neighbors})
participation at_most(4 steps, assumed = "a card is valid for four hours")
"""
CHAIN = """
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.9, 0.1], [0.2, 0.8]], initial = stationary, evidence = "a survey")
"""
STREAM = """
policy visits "visitors"
stream seen {{
  user person
  time at
  cell shop in {{"north", "south"}}
  step 1h
  horizon {horizon} steps
  {population}
  start "2026-01-01"
}}
"""
HOURLY = "release hourly = count(seen) by shop\n"
DAILY = "release daily = total(hourly, 6 steps)\n"
MORE = """
release everywhere = count(seen)
release everywhere_daily = total(everywhere, 6 steps)
release weekly = total(daily, 12 steps)
release share = ratio(daily, everywhere_daily, times = 100)
release change = change(daily, baseline = median(every = 12 steps, steps = 0 .. 23))
"""
SPENT = """
release spent = sum(seen.money, clamp = 0 .. 20) by shop
release spent_daily = total(spent, 6 steps)
release basket = mean(spent_daily, daily)
"""

Make = Callable[..., Plan]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def plan_of(releases: str = HOURLY + DAILY, more: str = "", target: str = USER_LEVEL, horizon: int = 50) -> Plan:
        target = target.format(neighbors="add_remove")
        population = "population 400" if "alpha_dpt" in target or "replace" in target else ""
        path = tmp_path / "visits.policy"
        path.write_text(STREAM.format(horizon=horizon, population=population) + releases + target + more)
        return compile_policy(path).plan

    return plan_of


def counts(plan: Plan, steps: int, *, nobody: bool = False) -> Any:
    """Ready counts of the first steps; under a chain everybody is somewhere."""
    north = np.random.default_rng(3).integers(0, 90, (50, 1)) * (not nobody)
    other = 400 - north if plan.correlation.chains else north[::-1]
    shops = np.hstack([north, other])[:steps]
    found = {"hourly": shops, "everywhere": shops.sum(axis=1, keepdims=True)}
    return {part.name: found[part.name] for part in plan.releases}


def events(folder: Path) -> Path:
    """Some 800 purchases, of a card in at most four hours."""
    generator = np.random.default_rng(3)
    lines = ["person,at,shop,money"]
    for card in range(250):
        for hour in generator.choice(50, 4, replace=False).tolist():
            shop, money = generator.choice(["north", "south"]), generator.uniform(-1, 30)
            lines.append(f"c{card},2026-01-{1 + hour // 24:02}T{hour % 24:02}:30:00,{shop},{money:.2f}")
    path = folder / "events.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def run(plan: Plan, folder: Path, steps: int = 50, randomness: SimulationRandomness | None = None) -> Path:
    """Where the first steps are written, from ready counts, or from events where values are added up."""
    output = folder / "out.csv"
    sums = any(part.query.kind == "sum" for part in plan.releases)
    data = events(folder) if sums else counts(plan, steps)
    done = release(plan, data, folder / "l.sqlite", output=output, pin=None, randomness=randomness, steps=steps)
    write_release(done, output)
    return output


def claims(plan: Plan, folder: Path) -> list[Claim]:
    return list(release_claims(plan, folder / "l.sqlite", folder / "out.csv"))


WAYS = {
    "the noisy values": (USER_LEVEL, "mechanism gaussian()\nestimate none()"),
    "laplace": (USER_LEVEL, "mechanism laplace()\nestimate none()"),
    "the smoother": (USER_LEVEL, "mechanism gaussian()\nestimate smoother()"),
    "the filter, in real time": (USER_LEVEL, "deliver realtime\nmechanism gaussian()\nestimate filter()"),
    "values that wait": (USER_LEVEL, "deliver within(2 steps)\nmechanism gaussian()"),
    "constraints": (USER_LEVEL, "postprocess hourly { hourly >= 0, hourly <= 60.5, hourly - previous(hourly) <= 30 }"),
    "whole numbers": (USER_LEVEL, "mechanism laplace()\npostprocess hourly { hourly >= 0, integer(hourly) }"),
    "common noise": (USER_LEVEL, "mechanism common_noise()"),
    "tree": (USER_LEVEL, "mechanism binary_tree()"),
    "gaps": (USER_LEVEL, "mechanism subsample(rate = 0.3)\nestimate linear()"),
    "balanced": (CHAIN, "postprocess hourly { sum(hourly) == population, hourly >= 0, integer(hourly) }"),
    "every digit": (CHAIN, "estimate filter()\npostprocess hourly { sum(hourly) == population }"),
    "sparse": (CHAIN, "budget sparse(every = 4 steps)\npostprocess hourly { sum(hourly) == population }"),
}


@pytest.mark.sampled(2, laws=4)
@pytest.mark.parametrize("way", WAYS)
def test_hours_add_up_to_their_days_exactly(make: Make, tmp_path: Path, way: str) -> None:
    """Whoever adds up the published hours of a day, as they are printed, has the published day: after any estimator."""
    target, more = WAYS[way]
    plan = make(target=target, more=more)
    output = run(plan, tmp_path)
    hours, days = rows(output.with_stem("out-hourly")), rows(output.with_stem("out-daily"))
    assert len(days) == 2 * (len(hours) // 12)
    assert len(days) >= 10
    added: dict[tuple[int, str], Decimal] = {}
    for row in hours:
        place = (int(row["step"]) // 6 * 6, row["shop"])
        added[place] = added.get(place, Decimal(0)) + Decimal(row["released"])
    for row in days:
        assert Decimal(row["released"]) == added[int(row["step"]), row["shop"]]
        assert row["time"] == f"2026-01-{1 + int(row['step']) // 24:02}T{int(row['step']) % 24:02}:00:00"
    assert all(claim.holds for claim in claims(plan, tmp_path))


@pytest.mark.parametrize("spent", ["", pytest.param(SPENT, marks=pytest.mark.law)])
def test_everything_follows_from_what_is_published(make: Make, tmp_path: Path, spent: str) -> None:
    """Rows of totals, ratios, means and changes are those that a reader of the other files computes."""
    plan = make(HOURLY + DAILY + MORE + spent, more="mechanism gaussian()\nestimate none()")
    output = run(plan, tmp_path)

    def told(name: str) -> dict[tuple[int, str], float | None]:
        found = rows(output.with_stem(f"out-{name}"))
        return {(int(r["step"]), r.get("shop", "")): float(r["released"]) if r["released"] else None for r in found}

    daily, everywhere = told("daily"), told("everywhere_daily")
    assert sorted({step for step, _ in daily}) == list(range(0, 48, 6))
    for (step, shop), value in told("weekly").items():
        assert value == pytest.approx(sum(daily[step + hour, shop] or 0 for hour in (0, 6)))
    assert sorted({step for step, _ in told("weekly")}) == list(range(0, 48, 12))
    for place, value in told("share").items():
        assert value == pytest.approx(100 * (daily[place] or 0) / (everywhere[place[0], ""] or 0), abs=1e-6)
    if spent:
        sums = told("spent_daily")
        for place, value in told("basket").items():
            assert value == pytest.approx((sums[place] or 0) / (daily[place] or 0), abs=1e-6)
    assert sorted({step for step, _ in told("change")}) == [24, 30, 36, 42]
    for (step, shop), value in told("change").items():
        baseline = np.median([daily[step % 12 + 12 * turn, shop] for turn in (0, 1)])
        assert value == pytest.approx(100 * ((daily[step, shop] or 0) / baseline - 1), abs=1e-6)
    assert all(claim.holds for claim in claims(plan, tmp_path))


@pytest.mark.law
def test_runs_cut_anywhere_write_what_a_whole_run_writes(make: Make, tmp_path: Path) -> None:
    """Blocks that a run leaves half done are whole in a later one, and rows that are out never change."""
    plan = make(HOURLY + DAILY + MORE, more="deliver realtime\nmechanism gaussian()\nestimate none()")
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    whole.mkdir()
    pieces.mkdir()
    names = [one.name for one in plan.made]
    expected = run(plan, whole)
    known: dict[str, list[dict[str, str]]] = {name: [] for name in names}
    for steps in (1, 5, 6, 7, 18, 23, 24, 25, 30, 31, 49, 50):
        output = run(plan, pieces, steps)
        assert claims(plan, pieces)[0].holds
        for name in names:
            now = rows(output.with_stem(f"out-{name}"))
            assert now[: len(known[name])] == known[name]
            known[name] = now
    done = release(plan, counts(plan, 50), pieces / "l.sqlite", pin=None)
    again = made_values(plan, {name: one.released for name, one in done.series.items()})
    for name in names:
        assert (done.made[name].released == again[name]).all()
        assert [(r["step"], r["time"]) for r in known[name]] == [
            (r["step"], r["time"]) for r in rows(expected.with_stem(f"out-{name}"))
        ]


def test_nothing_more_is_drawn_spent_or_stored(make: Make, tmp_path: Path) -> None:
    """With and without what is made of it, a release has the same noise, claims, mechanism and ledger entries."""
    without = make(HOURLY + "release everywhere = count(seen)\n")
    plan = make(HOURLY + DAILY + MORE)
    assert len(plan.made) == 5
    assert plan.releases == without.releases
    assert plan.claims == without.claims
    found = []
    for number, one in enumerate((without, plan)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run(one, folder, randomness=SimulationRandomness(8))
        with LedgerReader.open_read_only(folder / "l.sqlite") as book:
            found.append([(e.step, e.release, e.noisy, e.published) for e in book.entries])
    assert found[0] == found[1]
    assert len(found[0]) == 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_altered_row_is_found(make: Make, tmp_path: Path, suffix: str) -> None:
    """One digit, one row less inside, one more at the end: verify names the file and the row."""
    plan = make(HOURLY + DAILY + MORE, more="mechanism gaussian()\nestimate none()")
    run(plan, tmp_path)
    done = release(plan, counts(plan, 50), tmp_path / "l.sqlite", pin=None)
    output = tmp_path / f"out{suffix}"
    write_release(done, output)
    assert all(claim.holds for claim in release_claims(plan, tmp_path / "l.sqlite", output))
    series = done.made["share"]
    for change in (series.released + np.eye(8, 2) * 1e-6, series.released[:0:-1], np.ma.vstack([series.released] * 2)):
        altered = {"share": type(series)(**{**vars(series), "released": change})}
        alone = type(done)({}, done.times * 2, done.is_release, made=altered)
        write_release(alone, output.with_stem("out-share"))
        found = next(release_claims(plan, tmp_path / "l.sqlite", output))
        assert found.holds is False
        assert found.code == "E0827"
        assert "share" in str(found.where) + found.detail
    write_release(done, output)
    file = output.with_stem("out-daily")
    if suffix == ".csv":
        text = file.read_text()
        file.write_text(text.replace(".0\n", ".00\n", 1) if ".0\n" in text else text + "\n")
        assert any(claim.holds is False for claim in release_claims(plan, tmp_path / "l.sqlite", output))


def test_a_file_of_something_else_is_not_written_over(make: Make, tmp_path: Path) -> None:
    """Before any noise is drawn, every place is looked at where something will be written."""
    plan = make()
    other = tmp_path / "out-daily.csv"
    other.write_text("step,time,shop,noisy,released\n")
    with pytest.raises(Exception, match="no release of this plan"):
        run(plan, tmp_path)
    assert other.read_text() == "step,time,shop,noisy,released\n"
    assert not list(tmp_path.glob("l.sqlite*"))


def test_a_denominator_below_one_leaves_the_field_empty(make: Make, tmp_path: Path) -> None:
    """Noisy counts of few users are often below 1: no ratio is made of them, and verify agrees."""
    plan = make(HOURLY + "release everywhere = count(seen)\nrelease share = ratio(hourly, everywhere)\n",
                more="mechanism gaussian()\nestimate none()")  # fmt: skip
    done = release(plan, counts(plan, 50, nobody=True), tmp_path / "l.sqlite", pin=None)
    write_release(done, tmp_path / "out.csv")
    divisors = done.series["everywhere"].released[:, 0]
    empty = [row["released"] == "" for row in rows(tmp_path / "out-share.csv")]
    assert empty == [value < 1 for value in divisors.tolist() for _ in range(2)]
    assert 5 < sum(empty) < 95
    assert all(claim.holds for claim in claims(plan, tmp_path))


def test_a_mean_by_the_population_is_of_a_public_number(make: Make, tmp_path: Path) -> None:
    """Where users are replaced their number is public, and divides a sum."""
    releases = "release spent = sum(seen.money, clamp = 0 .. 20)\nrelease each = mean(spent, population)\n"
    plan = make(releases, target=USER_LEVEL.replace("{neighbors}", "replace"))
    output = run(plan, tmp_path)
    spent, each = (rows(output.with_stem(f"out-{name}")) for name in ("spent", "each"))
    assert [float(r["released"]) for r in each] == pytest.approx([float(r["released"]) / 400 for r in spent], abs=1e-6)


def changed(plan: Plan, name: str, change: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(plan.to_json())
    part = next(part for part in told["made"] if part["name"] == name)
    for key, value in change.items():
        part[key] = {**part[key], **value} if isinstance(value, dict) else value
    return told


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("daily", {"steps": 5}),
        ("daily", {"first": 6}),
        ("daily", {"cells": ("north",)}),
        ("daily", {"query": {"by": None}}),
        ("weekly", {"steps": 9}),
        ("share", {"query": {"over": "everywhere"}}),
        ("share", {"query": {"over": "weekly"}}),
        ("share", {"query": {"of": "everywhere_daily", "over": "daily"}}),
        ("change", {"query": {"every": 9}}),
        ("change", {"query": {"every": 30}}),
        ("change", {"query": {"first": 3}}),
        ("change", {"first": 18}),
    ],
)
def test_a_plan_whose_rows_do_not_fit_is_not_read(make: Make, name: str, change: dict[str, Any]) -> None:
    """Blocks, cells, denominators and baselines are held against the rows of what they are made of."""
    plan = make(HOURLY + DAILY + MORE, more="mechanism gaussian()\nestimate none()")
    with pytest.raises(ValidationError, match="cannot be made of"):
        Plan.model_validate(changed(plan, name, change))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("daily", {"name": "hourly"}),
        ("daily", {"query": {"of": "share"}}),
        ("share", {"query": {"over": "nowhere"}}),
        ("share", {"query": {"over": None}}),
    ],
)
def test_what_is_made_of_anything_but_released_values_is_refused(make: Make, name: str, change: dict[str, Any]) -> None:
    """Nothing is made of what is not released before it, or of a protected number of users."""
    plan = make(HOURLY + DAILY + MORE, more="mechanism gaussian()\nestimate none()")
    with pytest.raises(ValidationError, match="cannot be made of"):
        Plan.model_validate(changed(plan, name, change))


def test_a_plan_is_held_against_what_its_policy_makes(make: Make, tmp_path: Path) -> None:
    """A total over other blocks than the policy says is not of this policy."""
    plan = make()
    other = make(HOURLY + "release daily = total(hourly, 12 steps)\n")
    _, _, policy, findings = check_file(tmp_path / "visits.policy")
    assert next(differences(policy, findings, other), None) is None
    plan = plan.model_copy(update={"policy": other.policy})
    assert next(differences(policy, findings, plan)).place.startswith("made.0")
    changes = compare_plans(plan, other)
    assert [(change.what, change.old, change.new) for change in changes if change.part == "release"] == [
        ("daily", "total(hourly, 6 steps)", "total(hourly, 12 steps)")
    ]
    assert not is_weaker(changes)


REFUSED = {
    "E0222": "release a = total(b, 2 steps)\nrelease b = total(a, 2 steps)\n",
    "E0204": "release a = total(nowhere, 2 steps)\n",
    "E0220": "release a = total(hourly, 2 steps) by shop\n",
    "E0206": "release a = change(hourly)\n",
    "E0205": "release a = change(hourly, baseline = mean(steps = 0 .. 3))\n",
    "E0209": "release a = ratio(hourly, hourly, times = 0)\n",
    "E0211": "release a = total(hourly, 1d)\n",
    "E0230": "release a = total(hourly, 51 steps)\n",
    "E0231": "release a = mean(hourly, hourly)\n",
    "E0232": "release a = total(hourly, 4 steps)\nrelease b = total(a, 6 steps)\n",
    "E0234": "release a = change(hourly, baseline = median(steps = 3 .. 49))\n",
    "E0235": "release a = ratio(hourly, population)\n",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_cannot_be_made_has_one_finding(make: Make, code: str) -> None:
    """Each mistake gives one finding with a place and a remedy, and no plan."""
    with pytest.raises(PolicyError) as caught:
        make(HOURLY + REFUSED[code])
    errors = [found for found in caught.value.diagnostics if found.code.startswith("E")]
    assert [found.code for found in errors] == [code]
    assert errors[0].help


@pytest.mark.parametrize("kind", ["prefix(daily)", "window(daily, 3 steps)", "total(share, 12 steps)"])
def test_shares_and_released_totals_are_not_added_up_further(make: Make, kind: str) -> None:
    """Running totals are made of noisy values, and shares do not add up."""
    share = (
        "release all = count(seen)\nrelease all_daily = total(all, 6 steps)\nrelease share = ratio(daily, all_daily)\n"
    )
    with pytest.raises(PolicyError, match="E0231"):
        make(HOURLY + DAILY + share + f"release a = {kind}\n")


DEPLOYED = {
    "mobility": """
policy mobility "Visits to public places, against five weeks before"
stream visits {
  user account  time arrived_at  cell place in {"parks, A", "parks, B"}  step 1d  horizon 70 steps  start "2020-01-01"
}
release counties = count(visits) by place
release change = change(counties, baseline = median(every = 7 steps, steps = 2 .. 36))
target user_level(epsilon = 0.44, delta = 0, neighbors = add_remove, per = 1d)
participation at_most(1 steps, per = 1d, cells_per_step = 2, enforced = keep_first)
mechanism laplace()
estimate none()
deliver realtime
""",
    "symptoms": """
policy symptoms "Searches for symptoms, by all searches"
stream searches {
  user account  time searched_at  cell query in {"fever", "cough"}  step 1d  horizon 28 steps  start "2020-01-01"
}
release s2 = count(searches) by query
release n2 = count(searches)
release shown = ratio(s2, n2, times = 100)
target user_level(epsilon = 1.68, delta = 0, neighbors = add_remove, per = 1d)
participation at_most(1 steps, per = 1d, enforced = keep_first)
mechanism laplace()
estimate none()
""",
    "load": """
policy load "Load shape, hourly"
stream meters { user customer  time read_at  step 1h  horizon 24 steps  population 4_948  start "2020-08-14" }
release observed = sum(meters.observed, clamp = 0 .. 27)
release predicted = sum(meters.predicted, clamp = 0 .. 27)
release shape = mean(observed, population)
target user_level(epsilon = 4.0, delta = 4.08e-8, neighbors = replace)
participation at_most(24 steps, assumed = "a meter is read once an hour")
mechanism gaussian()
estimate none()
""",
}


def deployed(name: str, folder: Path) -> tuple[Plan, dict[str, Any]]:
    """The plan of a published deployment, and what its certificate says of what is made of released values."""
    path = folder / "deployed.policy"
    path.write_text(DEPLOYED[name])
    made = compile_policy(path)
    content: dict[str, Any] = certificate_content(made.plan, {})
    return made.plan, content["made"][0]


def test_mobility_has_the_published_error_of_a_change(tmp_path: Path) -> None:
    """Two cells a person and day share 0.44 nats: b = 2/0.44, and a change errs by 100 b/B sqrt(2 + 0.3512 q^2)."""
    plan, told = deployed("mobility", tmp_path)
    b = 2 / 0.44
    assert plan.releases[0].predicted.published == pytest.approx(2 * b**2, rel=0.01)
    assert told["formula"] == "change(counties, baseline = median(every = 7 steps, steps = 2 .. 36))"
    numbers = [float(number) for number in re.findall(r"[am] = ([\d.]+)", told["accuracy"]["sentence"])]
    assert numbers == pytest.approx([b * math.sqrt(2), b * math.sqrt(0.3512)], rel=0.01)


def test_symptoms_have_the_first_order_error_of_a_ratio(tmp_path: Path) -> None:
    """The variance of a ratio is about (2 b_A^2 + r^2 2 b_B^2) / B^2, and a row is empty below one search."""
    plan, told = deployed("symptoms", tmp_path)
    a, b = (math.sqrt(part.predicted.published) for part in plan.releases)
    for row in told["accuracy"]["stated"]:
        denominator, error = (float(row[name].replace(",", "")) for name in ("denominator", "error_at_ratio_1"))
        assert error == pytest.approx(100 * math.hypot(a, b) / denominator, rel=0.01)
    assert "denominator is below 1" in told["empty"]


@pytest.mark.law
def test_the_load_shape_has_the_published_error_of_an_hour(tmp_path: Path) -> None:
    """Two sums with a clamp of 27 kWh have 250 kWh of noise, by 4,948 customers: 1.96 standard deviations are 0.1."""
    plan, told = deployed("load", tmp_path)
    (made,) = plan.made
    assert made.predicted is not None
    assert math.sqrt(made.predicted.published) == pytest.approx(250 / 4948, rel=0.01)
    assert 1.96 * math.sqrt(made.predicted.published) == pytest.approx(0.099, abs=0.001)
    assert told["formula"] == "mean(observed, population)"


@pytest.mark.law
def test_new_rows_carry_on_a_half_finished_block(make: Make, tmp_path: Path) -> None:
    """With `--continued` every file has the rows of all blocks that are whole by then, and those from before."""
    enforced = USER_LEVEL.replace('assumed = "a card is valid for four hours"', "enforced = keep_first")
    plan = make(HOURLY + DAILY, "deliver realtime\nmechanism gaussian()\nestimate none()", enforced)
    lines = events(tmp_path).read_text().splitlines()
    moments = [line.split(",")[1][:13] for line in lines[1:]]
    known: list[dict[str, str]] = []
    before = 0
    for steps in (4, 9, 20, 50):
        hours = [f"2026-01-{1 + hour // 24:02}T{hour % 24:02}" for hour in range(before, steps)]
        part = tmp_path / "part.csv"
        part.write_text(
            "\n".join([lines[0], *(line for line, m in zip(lines[1:], moments, strict=True) if m in hours)])
        )
        done = release(plan, part, tmp_path / "l.sqlite", pin=None, steps=steps, continued=True)
        write_release(done, tmp_path / "out.csv")
        now = rows(tmp_path / "out-daily.csv")
        assert len(now) == 2 * (steps // 6)
        assert now[: len(known)] == known
        assert all(claim.holds for claim in claims(plan, tmp_path))
        known, before = now, steps
