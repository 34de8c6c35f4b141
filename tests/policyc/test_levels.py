"""Cells that belong to others at levels, from the policy to the run: every level counts by itself."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from prompt import policyc

from policyc import compile_policy
from policyc.diagnostics import PolicyError, Source
from policyc.syntax import parse_policy
from policyc.syntax.format import format_policy
from policyc_check.errors import PlanFormatError
from policyc_check.plan.plan import load_plan as load_checked
from policyc_check.verify import verified_claims
from policyc_runtime.errors import DataError
from policyc_runtime.plan import load_plan
from policyc_runtime.refusal import verify
from policyc_runtime.sources import read_counts, read_events

PLACES = """place,region,country
a,R1,X
b,R1,X
c,R2,X
d,R3,Y
"""
POLICY = """policy visits "Visits of places, regions and countries"

stream visits {
  user     account
  time     at
  cell     place in file("places.csv") levels(region, country)
  step     1h
  horizon  2 steps
  start    "2026-01-01"
}

release places    = count(visits) by place
release regions   = count(visits) by region
release countries = count(visits) by country
release first     = count(visits, cells_per_step = 1) by region
release spent     = sum(visits.money, clamp = 0 .. 1) by country

target user_level(TARGET, neighbors = NEIGHBORS)

participation at_most(STEPS, cells_per_step = 2, enforced = keep_first)

mechanism MECHANISM
estimate  none()
deliver   realtime
"""
PURE, RHO, AT_DELTA = "epsilon = 2, delta = 0", "rho = 0.5", "epsilon = 1, delta = 1e-6"


def compiled(folder, target=RHO, mechanism="gaussian()", neighbors="add_remove", steps="1 step", text=POLICY):
    (folder / "places.csv").write_text(PLACES)
    words = {"TARGET": target, "MECHANISM": mechanism, "NEIGHBORS": neighbors, "STEPS": steps}
    for word, value in words.items():
        text = text.replace(word, value)
    (folder / "visits.policy").write_text(text)
    return compile_policy(folder / "visits.policy")


def counts_of(folder, plan, events):
    """Counts of events (hour, minute, user, place, money)."""
    lines = [f"{who},2026-01-01T{hour:02}:{minute:02}:00,{place},{money}" for hour, minute, who, place, money in events]
    (folder / "events.csv").write_text("\n".join(["account,at,place,money", *lines]) + "\n")
    return read_events(folder / "events.csv", plan, steps=2).counts


def test_a_user_counts_once_in_what_its_cells_belong_to(tmp_path):
    """Of three places the first two count; two of one region count once there, with the value of the first."""
    plan = compiled(tmp_path).plan
    events = [
        (0, 1, "u", "b", 1), (0, 2, "u", "a", 0.5), (0, 3, "u", "d", 1), (0, 4, "v", "c", 0.5), (0, 5, "v", "d", 0.25),
        (1, 1, "w", "a", 0.5), (1, 2, "w", "a", 1), (1, 3, "w", "c", 1),
    ]  # fmt: skip
    found = counts_of(tmp_path, plan, events)
    assert found["places"].tolist() == [[1, 1, 1, 1], [1, 0, 1, 0]]
    assert found["regions"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert found["countries"].tolist() == [[2, 1], [1, 0]]
    assert found["first"].tolist() == [[1, 1, 0], [1, 0, 0]]
    grid = float(plan.release_named("spent").query.grid)
    assert (found["spent"] * grid).tolist() == [[1.5, 0.25], [0.5, 0]]


def every_unit():
    """All that one user can do in two hours with at most three events in each, with the most that it can add."""
    hours = [places for size in range(4) for places in product("abcd", repeat=size)]
    return [[(0, n, "u", p, 1) for n, p in enumerate(one)] for one in hours if one]


def vectors(folder, plan, users):
    """Of every user alone what it adds to all values of all levels, (users, values), in units, and by release."""
    rows = []
    for user in users:
        counts = counts_of(folder, plan, user)
        rows.append(np.concatenate([counts[release.name].ravel() for release in plan.releases]))
    sizes = [2 * len(release.cells) for release in plan.releases]
    return np.array(rows), np.repeat(np.arange(len(sizes)), sizes)


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """What all users of one hour add to all levels, all differences of two of them, and which values are of which."""
    folder = tmp_path_factory.mktemp("every")
    plan = compiled(folder).plan
    some = {tuple(p for _, _, _, p, _ in user): user for user in every_unit()}
    alone, which = vectors(folder, plan, list(some.values()))
    alone = np.unique(alone, axis=0)
    pairs = np.unique(np.array([one - other for one, other in combinations(alone, 2)]), axis=0)
    return {"add_remove": alone, "replace": pairs}, which


@pytest.mark.sampled(1)
@pytest.mark.parametrize("neighbors", ["add_remove", "replace"])
def test_no_user_learns_more_of_all_levels_than_is_promised(neighbors, moved, tmp_path):
    """All users, and pairs of users, against the promise: exactly for epsilon and rho, by the curve at a delta.

    With a hundredth less noise somebody would be told more than the check states.
    """
    apart, which = moved[0][neighbors], moved[1]
    pure = compiled(tmp_path, PURE, "laplace()", neighbors).plan
    scales = [Fraction(release.mechanism.scale) for release in pure.releases]
    losses = [sum(Fraction(abs(int(x))) / scales[r] for x, r in zip(row, which, strict=True)) for row in apart]
    assert max(losses) <= 2
    rho = compiled(tmp_path, RHO, "gaussian()", neighbors).plan
    squares = np.array([float(release.mechanism.stddev) ** 2 for release in rho.releases])[which]
    lost = (apart**2 / (2 * squares)).sum(axis=1).max()
    assert lost <= 0.5
    at_delta = compiled(tmp_path, AT_DELTA, "gaussian()", neighbors).plan
    squares = np.array([float(release.mechanism.stddev) ** 2 for release in at_delta.releases])[which]
    mu = math.sqrt((apart**2 / squares).sum(axis=1).max())
    assert gaussian_delta(mu, 1.0) <= 1e-6
    if neighbors == "add_remove":  # somebody in two places of two countries is all that noise was made for
        assert max(losses) > 2 * Fraction(99, 100)
        assert lost > 0.5 * 0.99
        assert gaussian_delta(mu * 1.01, 1.0) > 1e-6


def gaussian_delta(mu, epsilon):
    def normal(x):
        return 0.5 * math.erfc(-x / math.sqrt(2))

    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


def test_losses_of_levels_add_up(tmp_path):
    """`m / b` of each level, m being cells or, if fewer, values of the level; parts of the promise are kept exactly."""
    parts = "budget parts(places = 1, regions = 0.4, countries = 0.4, first = 0.1, spent = 0.1)"
    plan = compiled(tmp_path, PURE, "laplace()", text=POLICY + parts + "\n").plan
    spread = {"places": 2, "regions": 2, "countries": 2, "first": 1, "spent": 2 * 1000}
    part = {"places": 1, "regions": 0.4, "countries": 0.4, "first": 0.1, "spent": 0.1}
    for release in plan.releases:
        assert float(release.mechanism.scale) == pytest.approx(spread[release.name] / part[release.name], rel=1e-9)
    assert {claim.holds for claim in verified_claims(plan)} == {True}


def test_a_level_with_fewer_values_than_cells_count_is_moved_in_each_once(tmp_path):
    """Four places of a user are in at most two countries."""
    text = POLICY.replace("cells_per_step = 2", "cells_per_step = 4")
    plan = compiled(tmp_path, text=text).plan
    assert [int(release.l1_sensitivity) for release in plan.releases[:4]] == [4, 3, 2, 1]


@pytest.mark.parametrize("alter", ["cells", "column", "noise", "several"])
def test_a_plan_that_says_other_of_a_level_is_refused(alter, tmp_path):
    """Values that are not those of the level, a level that is none, less noise, more cells of a user than it hides."""
    plan = compiled(tmp_path).plan
    places, regions, *others = plan.releases
    query, mechanism = regions.query, regions.mechanism
    update = {
        "cells": {"cells": ("R1", "R2", "R4")},
        "column": {"query": query.model_copy(update={"by": "zone"})},
        "noise": {"mechanism": mechanism.model_copy(update={"stddev": mechanism.stddev * 99 / 100})},
        "several": {"query": query.model_copy(update={"cells_per_step": 3})},
    }[alter]
    altered = plan.model_copy(update={"releases": (places, regions.model_copy(update=update), *others)})
    with pytest.raises(Exception, match="plan refused"):
        verify(altered.sealed())


@pytest.mark.parametrize("of", [[0, 0, 1], [0, 0, 1, 3], [0, 0, 1, 1]])
def test_a_level_says_of_every_cell_what_it_belongs_to(of, tmp_path):
    """Shorter than the cells, beyond the names, or with a name to which nothing belongs: no plan that is run."""
    compiled(tmp_path).save(tmp_path / "visits.plan")
    plan = load_plan(tmp_path / "visits.plan")
    cell = plan.stream.cell
    levels = (cell.levels[0].model_copy(update={"of": tuple(of)}), *cell.levels[1:])
    stream = plan.stream.model_copy(update={"cell": cell.model_copy(update={"levels": levels})})
    altered = plan.model_copy(update={"stream": stream}).sealed()
    (tmp_path / "visits.plan" / "plan.json").write_text(altered.to_json())
    with pytest.raises(PlanFormatError) as found:
        load_plan(tmp_path / "visits.plan")
    assert "does not say what every cell belongs to" in found.value.because
    assert load_checked(tmp_path / "visits.plan").stream.cell.levels[0].of == tuple(of)  # of no concern to privacy


def test_two_levels_have_two_names(tmp_path):
    """A level that stands twice would be counted by one of them and named by the other."""
    compiled(tmp_path).save(tmp_path / "visits.plan")
    plan = load_plan(tmp_path / "visits.plan")
    cell = plan.stream.cell
    again = cell.levels[0].model_copy(update={"of": cell.levels[0].of[::-1]})
    stream = plan.stream.model_copy(update={"cell": cell.model_copy(update={"levels": (*cell.levels, again)})})
    (tmp_path / "visits.plan" / "plan.json").write_text(plan.model_copy(update={"stream": stream}).sealed().to_json())
    with pytest.raises(PlanFormatError) as found:
        load_plan(tmp_path / "visits.plan")
    assert "two levels have the name" in found.value.because


def test_a_ratio_is_to_what_a_cell_belongs_to(tmp_path):
    """Places by their regions, regions by their countries; nothing by a level that cuts through it."""
    text = POLICY + "release share = ratio(places, regions, times = 100)\nrelease part = ratio(regions, countries)\n"
    from policyc_runtime.made_values import made_values

    plan = compiled(tmp_path, text=text).plan
    values = {
        "places": np.array([[5, 5, 6, 7]]), "regions": np.array([[10, 6, 0]]), "countries": np.array([[20, 5]]),
    }  # fmt: skip
    made = made_values(plan, {**values, "first": values["regions"], "spent": values["countries"]})
    assert made["share"].tolist() == [[50.0, 50.0, 100.0, None]]
    assert made["part"].tolist() == [[0.5, 0.3, 0.0]]
    with pytest.raises(PolicyError, match="E0233") as found:
        compiled(tmp_path, text=POLICY + "release no = ratio(countries, regions)\n")
    assert "`X` of `countries` belongs to several of `regions`" in str(found.value)


def test_ready_counts_do_not_say_what_a_level_counts(tmp_path):
    """Of one level they do, where that is the only release; else the message says why not."""
    head, tail = POLICY[: POLICY.index("release")], POLICY[POLICY.index("target") :]
    tail = tail.replace("enforced = keep_first", 'assumed = "so few"')
    plan = compiled(tmp_path, text=f"{head}release regions = count(visits) by region\n{tail}").plan
    rows = ["step,region,count", *(f"{t},R{r},{t + r}" for t in range(2) for r in (1, 2, 3))]
    (tmp_path / "counts.csv").write_text("\n".join(rows) + "\n")
    assert read_counts(tmp_path / "counts.csv", plan).counts["regions"].tolist() == [[1, 2, 3], [2, 3, 4]]
    both = "release regions = count(visits) by region\nrelease countries = count(visits) by country\n"
    plan = compiled(tmp_path, text=f"{head}{both}{tail}").plan
    with pytest.raises(DataError, match="ready counts cannot serve") as found:
        read_counts(tmp_path / "counts.csv", plan)
    assert "counts once in what they belong to" in found.value.because


@pytest.mark.law
def test_levels_are_run_continued_verified_and_compared(tmp_path):
    """From the command line: events of its own, two runs of new rows, a simulation, an audit, other levels."""
    compiled(tmp_path)
    assert policyc("compile", "visits.policy", cwd=tmp_path).returncode == 0
    assert policyc("simulate", "visits.plan", cwd=tmp_path).returncode == 0
    assert policyc("simulate", "visits.plan", "--events", "e.csv", cwd=tmp_path).returncode == 0
    for steps in ("1", "2"):
        arguments = ("--input", "e.csv", "--output", "o.csv", "--steps", steps, "--continued")
        run = policyc("run", "visits.plan", *arguments, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    assert (tmp_path / "o-regions.csv").read_text().startswith("step,time,region,noisy,released")
    verified = policyc("verify", "visits.plan", "--release", "o.csv", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    audited = policyc("audit", "visits.plan", "--runs", "300", cwd=tmp_path)
    assert audited.returncode == 0, audited.stdout + audited.stderr
    page = (tmp_path / "visits.plan" / "certificate.md").read_text()
    assert "in each `region` (once each, in however many `place` of it)" in page
    assert "the list of 3 values of `region`, and which `place` belongs to which" in page.lower()
    (tmp_path / "places.csv").write_text(PLACES.replace("c,R2", "c,R1"))
    assert policyc("compile", "visits.policy", "--output", "new.plan", cwd=tmp_path).returncode == 0
    compared = policyc("diff", "visits.plan", "new.plan", cwd=tmp_path)
    assert compared.returncode == 1
    assert "region (2 values" in compared.stdout


def test_the_certificate_sets_levels_side_by_side(tmp_path):
    """Standard deviations are those of the noise as drawn, four places of a user being in at most two countries."""
    text = POLICY.replace("cells_per_step = 2", "cells_per_step = 4")
    parts = "budget parts(places = 0.8, regions = 0.4, countries = 0.4, first = 0.2, spent = 0.2)\n"
    compiled(tmp_path, PURE, "laplace()", text=text + parts).save(tmp_path / "visits.plan")
    content = json.loads((tmp_path / "visits.plan" / "certificate.json").read_text())
    rows = {row["release"]: row for row in content["data"]["levels"]}
    moved = {"places": 4, "regions": 3, "countries": 2, "first": 1}
    part = {"places": 0.8, "regions": 0.4, "countries": 0.4, "first": 0.2}
    for name, cells in moved.items():
        scale = cells / part[name]
        shrunk = math.exp(-1 / scale)
        stddev = math.sqrt(2 * shrunk) / (1 - shrunk)
        assert rows[name]["of_a_user"] == str(cells)
        assert float(rows[name]["noise_stddev"]) == pytest.approx(stddev, rel=5e-3)
        assert float(rows[name]["expected_error"]) == pytest.approx(stddev, rel=5e-3)
    assert [row["by"] for row in rows.values()] == ["place", "region", "country", "region", "country"]
    page = (tmp_path / "visits.plan" / "certificate.html").read_text()
    assert "Of which one user is in at most" in page


FAULTS = {
    "twice": ("levels(region, country)", "levels(region, region)", "E0203"),
    "the cell": ("levels(region, country)", "levels(region, place)", "E0203"),
    "a column of the file": ("levels(region, country)", 'levels(region, "Time")', "E0720"),
    "a set": ('file("places.csv") levels', '{"a", "b"} levels', "E0720"),
    "otherwise": ("levels(region, country)", 'levels(region, country) otherwise "R1"', "E0215"),
    "no level": ("count(visits) by country", "count(visits) by land", "E0220"),
    "too many cells": ("cells_per_step = 1", "cells_per_step = 5", "E0508"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_levels_that_have_no_meaning_are_refused(case, tmp_path):
    """One finding each, with what to write."""
    old, new, code = FAULTS[case]
    assert old in POLICY
    with pytest.raises(PolicyError) as found:
        compiled(tmp_path, text=POLICY.replace(old, new))
    codes = [one.code for one in found.value.diagnostics if one.code.startswith("E")]
    assert codes[0] == code
    assert all(one.help for one in found.value.diagnostics)


FILES = {
    "place,region\na,R1\n": "no column `country`",
    "place,region,region,country\na,R1,R1,X\n": "several columns `region`",
    "place,region,country\na,R1\n": "has 2 columns in the line of `a`",
    "place,region,country\na,,X\n": "an empty field in the line of `a`",
    "place,region,country\n": "the cell has no values",
    "place,region,country\na,R1,X\na,R1,X\n": "cell `a` is listed twice",
    'place,region,country\na,R1,"X\nb,R2,X\n': "is not CSV",
    'place,region,country\na,"R\n1",X\n': "invisible character U+000A",
}


@pytest.mark.parametrize("content", FILES)
def test_files_that_do_not_say_what_cells_belong_to_are_refused(content, tmp_path):
    """Each fault is named with its line."""
    compiled(tmp_path)
    (tmp_path / "places.csv").write_text(content)
    with pytest.raises(PolicyError) as found:
        compile_policy(tmp_path / "visits.policy")
    assert FILES[content] in found.value.diagnostics[0].message


def test_columns_of_the_file_may_stand_in_any_order_with_others_beside(tmp_path):
    """Names with commas in quotes, columns that nobody asks for, blanks around names."""
    compiled(tmp_path)
    (tmp_path / "places.csv").write_text('country,note,"place", region\nX,1,"a, b",R2\nY,2,c,R1\nX,,d,R2\n')
    cell = compile_policy(tmp_path / "visits.policy").plan.stream.cell
    assert cell.cells == ("a, b", "c", "d")
    assert [(level.column, level.cells, level.of) for level in cell.levels] == [
        ("region", ("R2", "R1"), (0, 1, 0)),
        ("country", ("X", "Y"), (0, 1, 0)),
    ]


def test_many_levels_are_formatted_on_lines_of_their_own():
    """A list that does not fit on a line has one level a line, and comments stay beside them."""
    names = [f"level_of_places_{n}" for n in range(8)]
    field = f'cell place in file("p.csv") levels({", ".join(names)}) otherwise "x"'
    text = (
        f'policy p "x"\nstream s {{ user u time t {field} step 1h horizon 2 steps }}\nrelease r = count(s) by place\n'
    )
    formatted = format_policy(parse_policy(Source("p", text)))
    assert "    level_of_places_7,\n  ) otherwise" in formatted
    assert format_policy(parse_policy(Source("p", formatted))) == formatted
    assert max(map(len, formatted.splitlines())) <= 100
