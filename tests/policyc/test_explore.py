"""Explorations: every number is what compiling that very policy says, by whichever way it is shown."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from functools import cache
from itertools import combinations, pairwise, product
from math import log
from pathlib import Path

import pytest
from prompt import policyc

from policyc import PolicyError, compile_policy
from policyc.exploration import points, processes
from policyc.exploration.alteration import Alterable
from policyc.exploration.axes import Axis, axes_of, length_of, length_text
from policyc.exploration.points import settings_of
from policyc.exploration.worker import outcome
from policyc.semantics.checked import check_file

VISITS = """policy visits "Visits </script><b>to</b> places"

stream visits {
  user     account
  time     arrived_at
  cell     place in {"A", "B"}
  step     1d
  horizon  24 steps
  start    "2020-01-01"
}

release places = count(visits) by place
release all_visits = count(visits)
release weekly = total(all_visits, 6 steps)

target user_level(epsilon = 1.5, delta = 0, neighbors = add_remove)
participation at_most(4 steps, spacing = 2 steps, enforced = keep_first)  # of the stream
budget parts(places = 1.0, all_visits = 0.5)
mechanism laplace()
estimate none()
deliver realtime
"""
TARGET = "target user_level(epsilon = 1.5, delta = 0, neighbors = add_remove)"
BOUND = "at_most(4 steps, spacing = 2 steps, enforced = keep_first)"
HALF = {"epsilon = 1.5": "epsilon = 0.75", "places = 1.0": "places = 0.5", "all_visits = 0.5": "all_visits = 0.25"}
FINER = {"1d\n": "12h\n", "24 steps": "48 steps", BOUND: BOUND.replace("4", "8").replace("= 2", "= 1"), "6 ": "12 "}
WEEK = {TARGET: TARGET[:-1] + ", per = 7d)", BOUND: BOUND[:-1] + ", per = 7d)"}
WRITTEN: dict[tuple[str, ...], dict[str, str]] = {  # what a person would write for a setting, word by word
    (): {},
    ("epsilon 0.75",): HALF,
    ("bound 8 steps",): {BOUND: BOUND.replace("4 steps", "8 steps")},
    ("step 12h",): FINER,
    ("period 7d",): WEEK,
    ("period 1d",): {key: text.replace("7d", "1d").replace("4 steps", "1 steps") for key, text in WEEK.items()},
    ("epsilon 0.75", "bound 2 steps", "period 7d"): HALF
    | {
        TARGET.replace("1.5", "0.75"): WEEK[TARGET].replace("1.5", "0.75"),
        BOUND: WEEK[BOUND].replace("4 steps", "2 steps"),
    },
}

GRID = [word for one in ("epsilon=0.75", "bound=2,8", "step=12h", "period=7d") for word in ("--values", one)]


@cache
def once(text: str, name: str) -> dict:
    """What a process says of a text that names no files; all tests ask for the same ones."""
    return outcome(text, name, Path())


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are planned in the process of the tests."""

    def planned(texts, name, _folder, seconds, _progress):
        return [once(text, name) if seconds or not at else None for at, text in enumerate(texts)]

    monkeypatch.setattr(points, "planned", planned)


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.policy"
    path.write_text(VISITS)
    return path


def explored(folder: Path, *words: object) -> dict:
    done = policyc("explore", "visits.policy", "--json", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def replaced(changes: dict[str, str]) -> str:
    text = VISITS
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    return text


@pytest.mark.parametrize("setting", WRITTEN, ids=", ".join)
def test_stated_errors_are_those_of_the_policy_that_a_person_would_write(setting, here, visits, tmp_path):
    """Altered by hand and compiled by the command: the same numbers, in the plan and in the summary."""
    told = dict(word.split(" ", 1) for word in setting)
    (tmp_path / "written.policy").write_text(replaced(WRITTEN[setting]))
    summary = policyc("compile", "written.policy", "-o", "written.plan", cwd=tmp_path)
    assert summary.returncode == 0, summary.stderr
    plan = json.loads((tmp_path / "written.plan" / "plan.json").read_text())
    words = [f"{name}={value.removesuffix(' steps')}" for name, value in told.items()] or ["epsilon=0.75"]
    found = explored(tmp_path, *(word for one in words for word in ("--values", one)))
    declared = {axis["name"]: axis["values"][axis["declared"]] for axis in found["axes"]}
    (point,) = [point for point in found["points"] if point["setting"] == declared | told]
    for stated, release in zip(point["releases"], plan["releases"], strict=True):
        assert stated["error"] == release["predicted"]["published"]
        assert f"expected   about {stated['typical']} {stated['unit']} off" in summary.stdout
    lines = replaced(WRITTEN[setting]).splitlines()
    assert [" ".join(line.split()) for line in point["writes"]] == [
        " ".join(line.split()) for line in lines if line not in VISITS.splitlines()
    ]


@pytest.mark.sampled(0, laws=2)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("departures", {"epsilon": [Decimal(2)], "period": [length_of("7d")]}),
        ("fleet", {"alpha": [Decimal(2), Decimal(400)]}),
        ("bikeshare", {"epsilon": [Decimal(2)], "bound": [100]}),
        ("checkins", {"epsilon": [Decimal(1)], "step": [length_of("15min"), length_of("7min")]}),
        ("speeds", {"bound": [8], "step": [length_of("5min")]}),
        ("wards", {"window": [12]}),
    ],
)
def test_every_point_of_the_gallery_is_what_compile_says(name, values, gallery, tmp_path):
    """Planned by other processes; each text compiled here has the same errors, or the same refusal."""
    found = points.explore(gallery / f"{name}.policy", values, 600)
    assert not found.late
    assert found.points[found.declared].releases
    _, parsed, policy, _ = check_file(gallery / f"{name}.policy")
    altered = Alterable(parsed, policy, found.axes)
    for file in gallery.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    for point in found.points.values():
        if point.refused is not None and not point.refused["code"]:
            continue
        (tmp_path / "altered.policy").write_text(altered.text(point.setting))
        try:
            plan = compile_policy(tmp_path / "altered.policy").plan
        except PolicyError as error:
            assert point.refused is not None
            assert point.refused["code"] in {finding.code for finding in error.diagnostics}
            continue
        for stated, release in zip(point.releases, plan.releases, strict=True):
            assert stated["error"] == pytest.approx(release.predicted.published, rel=1e-9)
            assert stated["mechanism"] == release.mechanism.described()


def test_a_policy_as_it_stands_is_its_own_text(visits, gallery):
    """Nothing is altered where nothing moves; and whatever moves, the text is one that can be read."""
    for path in (visits, *gallery.glob("*.policy"), *(gallery / "deployments").glob("*.policy")):
        _, parsed, policy, _ = check_file(path)
        axes, _ = axes_of(policy)
        altered = Alterable(parsed, policy, axes)
        declared = settings_of(axes)[0]
        assert altered.text(declared) == parsed.source.text
        assert altered.writes(declared) == []


def bound_of(text: str, folder: Path) -> tuple[int, int]:
    (folder / "bound.policy").write_text(text)
    bound = check_file(folder / "bound.policy")[2].participation
    return bound.steps, bound.spacing


@pytest.mark.parametrize(("steps", "spacing"), [(1, 1), (2, 1), (3, 2), (4, 1), (2, 3)])
@pytest.mark.parametrize("step", ["6h", "12h", "2d", "4d"])
def test_no_user_within_the_bound_is_beyond_the_altered_one(step, steps, spacing, tmp_path):
    """Every user of eight days with one event a quarter of a day, at most, counted in steps of another length."""
    path = tmp_path / "p.policy"
    text = VISITS.replace("24 steps", "8 steps").replace("6 steps", "4 steps")
    path.write_text(text.replace(BOUND, f"at_most({steps} steps, spacing = {spacing} steps, enforced = keep_first)"))
    _, parsed, policy, _ = check_file(path)
    axes, _ = axes_of(policy, {"step": [length_of(step)]})
    (axis,) = axes
    altered = Alterable(parsed, policy, axes).text((1 - axis.declared,))
    most, apart = bound_of(altered, tmp_path)
    quarters = length_of(step) // length_of("6h")
    parts = (1, 2, 3) if quarters < 4 else (1,)  # of a day in which a user is there, at each of its quarters
    for number in range(1, steps + 1):
        for days in combinations(range(8), number):
            if any(later - day < spacing for day, later in pairwise(days)):
                continue
            for kept in product(*[parts] * number if number <= 2 else [(1,)] * number):
                events = [4 * day + quarter for day, count in zip(days, kept, strict=True) for quarter in range(count)]
                found = sorted({event // quarters for event in events})
                assert len(found) <= most
                assert all(later - first >= apart for first, later in pairwise(found))


@pytest.mark.parametrize("period", ["1d", "2d", "4d", None])
@pytest.mark.parametrize(("steps", "per"), [(1, "2d"), (2, "2d"), (1, "1d"), (3, "4d"), (5, None)])
def test_no_user_within_the_bound_is_beyond_that_of_another_period(steps, per, period, tmp_path):
    """Every user of eight days who keeps the bound in each of its periods keeps the altered one in the other's."""
    said = "" if per is None else f", per = {per}"
    text = VISITS.replace("24 steps", "8 steps").replace("6 steps", "4 steps")
    text = text.replace(BOUND, f"at_most({steps} steps{said}, enforced = keep_first)")
    (tmp_path / "p.policy").write_text(text.replace("add_remove)", f"add_remove{said})"))
    _, parsed, policy, _ = check_file(tmp_path / "p.policy")
    axes, _ = axes_of(policy, {"period": [None if period is None else length_of(period)]})
    if not axes:
        return  # it is the policy's own
    most, _ = bound_of(Alterable(parsed, policy, axes).text((1 - axes[0].declared,)), tmp_path)
    days = 8 if period is None else int(period[0])
    own = 8 if per is None else int(per[0])
    for presence in product((0, 1), repeat=8):
        if all(sum(presence[at : at + own]) <= steps for at in range(0, 8, own)):
            assert all(sum(presence[at : at + days]) <= most for at in range(0, 8, days))


def test_refusals_are_shown_with_code_and_reason(here, visits, tmp_path):
    """What the compiler refuses has no number; what is no policy says why."""
    done = policyc(
        "explore", "visits.policy", "--values", "epsilon=400", "--values", "step=5d", "--values", "bound=30",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"400 +- +- +refused: E0311: ", done.stdout)
    assert re.search(r"30 steps +- +- +refused: E0502: ", done.stdout)
    assert "refused: `6 steps` would be no whole number of steps of 5d" in done.stdout


def test_the_table_has_the_numbers_of_the_points(here, visits, tmp_path):
    """Text and JSON say the same; the policy's own row is marked."""
    lines = policyc("explore", "visits.policy", *GRID, cwd=tmp_path).stdout.splitlines()
    found = explored(tmp_path, *GRID)
    declared = {axis["name"]: axis["values"][axis["declared"]] for axis in found["axes"]}
    assert [axis["name"] for axis in found["axes"]] == ["epsilon", "bound", "step", "period"]
    for axis in found["axes"]:
        head = next(i for i, line in enumerate(lines) if line.strip().startswith(axis["name"]))
        for row, value in enumerate(axis["values"], 1):
            (point,) = [p for p in found["points"] if p["setting"] == declared | {axis["name"]: value}]
            words = re.split(r"  +", lines[head + row].strip())
            assert words[0].removesuffix(" (policy)") == value
            assert words[0].endswith("(policy)") == (value == declared[axis["name"]])
            assert words[1:3] == [release["typical"] for release in point["releases"]]


def test_what_is_dropped_is_the_statistics_share_or_said_in_words(here, visits, tmp_path):
    """Recounted user by user; of other steps and periods the statistic says nothing."""
    (tmp_path / "survey.csv").write_text("steps,users\n1,50\n6,30\n20,20\n")
    users = [1] * 50 + [6] * 30 + [20] * 20
    found = explored(tmp_path, *GRID, "--steps-per-user", "survey.csv")
    assert "survey.csv says" in found["dropping"]
    for point in found["points"]:
        if point["setting"]["step"] != "1d" or point["setting"]["period"] != "all steps":
            assert point["dropped"] is None
            continue
        bound = int(point["setting"]["bound"].split()[0])
        dropped = sum(1 for steps in users for step in range(steps) if step >= bound)
        assert float(point["dropped"].removesuffix(" %")) == pytest.approx(100 * dropped / sum(users), rel=5e-3)
    without = explored(tmp_path, *GRID)
    assert {point["dropped"] for point in without["points"]} == {None}
    assert "only the data say" in without["dropping"]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "steps,users\n", "steps,users\n0,3\n", "steps,users\n1.5,3\n",
                                  "steps,users\n1,-3\n", "steps,users\n1,x\n", "steps,users\n1,2\n1,3\n",
                                  "steps,users\n1\n", "steps,users\n3,0\n"])  # fmt: skip
def test_a_statistic_that_is_none_is_refused(text, visits, tmp_path):
    """One message with the place, before anything is planned."""
    (tmp_path / "survey.csv").write_text(text)
    done = policyc("explore", "visits.policy", "--steps-per-user", "survey.csv", cwd=tmp_path)
    assert done.returncode == 1
    assert "error[E0900]" in done.stderr
    assert "--> survey.csv" in done.stderr
    assert "= help:" in done.stderr


def page_of(folder: Path, *words: object) -> tuple[str, dict]:
    done = policyc("explore", "visits.policy", "--output", "out", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    page = (folder / "out" / "explore.html").read_text(encoding="utf-8")
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return page, json.loads(match[1])


def test_the_page_moves_over_the_points_and_nothing_else(here, visits, tmp_path):
    """Every setting of the sliders has what the file of numbers has; heights are logarithms of the errors."""
    (tmp_path / "survey.csv").write_text("steps,users\n1,50\n6,30\n")
    page, data = page_of(tmp_path, *GRID, "--steps-per-user", "survey.csv")
    found = json.loads((tmp_path / "out" / "explore.json").read_text(encoding="utf-8"))
    assert len(data["points"]) == len(found["points"])
    heights = []
    for point in found["points"]:
        at = [axis["values"].index(point["setting"][axis["name"]]) for axis in found["axes"]]
        told = data["points"][" ".join(map(str, at))]
        assert told["writes"] == point["writes"]
        assert told["dropped"] == point["dropped"]
        for shown, height, stated in zip(told["releases"], told["heights"], point["releases"], strict=True):
            rest = [stated[key] for key in ("noise", "mechanism", "estimator")]
            assert shown == [f"{stated['typical']} {stated['unit']}", *rest]
            heights.append((stated["name"], log(stated["error"]), float(height)))
    for name in {name for name, _, _ in heights}:
        placed = sorted((error, height) for one, error, height in heights if one == name)
        (low, bottom), (high, top) = placed[0], placed[-1]
        for error, height in placed:  # on one line from the least to the largest
            assert height == pytest.approx(bottom + (error - low) / (high - low) * (top - bottom), abs=0.11)
    assert page.count("<script") == 2
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?:""", page)
    assert "<b>to</b>" not in page


def test_a_page_may_be_a_file(here, visits, tmp_path):
    """`--output FILE.html` writes the page alone."""
    done = policyc("explore", "visits.policy", "-o", "page.html", "--values", "epsilon=1", cwd=tmp_path)
    assert "page.html: written" in done.stdout
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not (tmp_path / "out").exists()


def test_what_there_was_no_time_for_is_said(here, visits, tmp_path):
    """The policy itself is always planned; all else has no number, in the table and on the page."""
    done = policyc("explore", "visits.policy", "--seconds", 0, "-o", "out", cwd=tmp_path)
    assert done.returncode == 0
    found = json.loads((tmp_path / "out" / "explore.json").read_text(encoding="utf-8"))
    assert [point["planned"] for point in found["points"]].count(True) == 1
    assert done.stdout.count("not planned: the time was over") == sum(len(a["values"]) - 1 for a in found["axes"])
    assert "Totals, ratios, means and changes are made of these" in done.stdout
    late = sum(not point["planned"] for point in found["points"])
    assert f"For {late} of {len(found['points'])} settings there was no time in 0 seconds" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--values", "alpha=1"), 1, "error[E0901]"),
        (("--values", "colour=1"), 2, "colour"),
        (("--values", "epsilon=many"), 2, "epsilon=0.5"),
        (("--values", "bound=0"), 2, "bound=50"),
        (("--values", "step=fast"), 2, "step=1h"),
        (("--values", "step=1y"), 2, "step=1h"),
        (("--values", "period=-1d"), 2, "period=7d"),
        (("--seconds", "-1"), 2, "seconds"),
        (("--values", "bound=" + ",".join(map(str, range(1, 14)))), 2, "leave some out"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_planned(words, code, told, visits, tmp_path):
    """With what to write."""
    done = policyc("explore", "visits.policy", *words, cwd=tmp_path)
    assert done.returncode == code
    assert told in done.stderr


def test_a_policy_with_errors_is_refused_as_by_check(visits, tmp_path):
    """Nothing is explored around a policy that is none."""
    visits.write_text(VISITS.replace("at_most(4", "at_most(400"))
    done = policyc("explore", "visits.policy", cwd=tmp_path)
    assert (done.returncode, "error[E0502]" in done.stderr) == (1, True)


def test_what_cannot_be_altered_says_why(gallery, tmp_path):
    """A chain is of one step; a stream without a start has no periods."""
    fleet = check_file(gallery / "fleet.policy")[2]
    assert [axis.name for axis in axes_of(fleet)[0]] == ["alpha"]
    assert "correlation" in axes_of(fleet)[1]["step"]
    wards = check_file(gallery / "wards.policy")[2]
    assert [axis.name for axis in axes_of(wards)[0]] == ["alpha", "epsilon", "window"]
    (tmp_path / "p.policy").write_text(VISITS.replace('  start    "2020-01-01"\n', ""))
    assert "start" in axes_of(check_file(tmp_path / "p.policy")[2])[1]["period"]


def test_nearest_settings_come_first():
    """The policy itself, then one thing alone, by how far, then promise and bound, then what has another step."""
    axes = [Axis("a", "bound", (1, 2, 3), 1), Axis("b", "amount", (1, 2, 3, 4), 0)]
    found = settings_of(axes)
    assert found[0] == (1, 0)
    assert set(found[1:4]) == {(0, 0), (2, 0), (1, 1)}
    assert found[4:6] == [(1, 2), (1, 3)]
    assert len(found) == 12 == len(set(found))
    found = settings_of([*axes, Axis("c", "step", (1, 2), 0)])
    assert {setting[2] for setting in found[7:13]} == {0}
    assert {setting[2] for setting in found[13:]} == {1}


@pytest.mark.parametrize("text", ["1ms", "90min", "36h", "1d", "7d"])
def test_lengths_are_written_as_they_are_read(text):
    """In the largest unit that divides them."""
    assert length_of(length_text(length_of(text))) == length_of(text)


def processes_of(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Processes that run another program than the planner."""
    monkeypatch.setattr(processes, "COMMAND", ("-c", program))


ECHO = """import json, sys, time
for line in sys.stdin:
    text = json.loads(line)["text"]
    if text == "end":
        sys.exit()
    time.sleep(30 if text == "slow" else 0)
    print(json.dumps({"refused": None, "releases": [text], "warnings": []}), flush=True)
"""


@pytest.mark.parametrize("seconds", [0, 2])
def test_processes_end_with_the_time_and_one_that_fails_leaves_the_others(seconds, monkeypatch, tmp_path):
    """What was planned is at its place; a process that ends gives no plan; what is late is none."""
    processes_of(monkeypatch, ECHO)
    told: list[tuple[int, int]] = []
    texts = ["first", "end", *map(str, range(9)), "slow"]
    found = processes.planned(texts, "p", tmp_path, seconds, lambda *done: told.append(done))
    assert found[0] == {"refused": None, "releases": ["first"], "warnings": []}
    assert found[-1] is None
    if seconds:
        assert found[1] is not None
        assert "ended before it was done" in found[1]["refused"]["message"]
        assert [one["releases"] for one in found[2:-1] if one] == [[str(n)] for n in range(9)]
        assert [done for done, _ in told] == sorted(done for done, _ in told)
        assert told[-1][0] >= 11 / 12 * told[-1][1]
    else:
        assert found[1:] == [None] * 11


@pytest.mark.law
def test_the_command_plans_in_processes_of_its_own(visits, tmp_path):
    """Without anything replaced: the same points as in this process."""
    found = explored(tmp_path, "--values", "epsilon=0.5,3", "--values", "bound=1,2")
    assert len(found["points"]) == 9
    assert all(point["releases"] for point in found["points"])
    for point in found["points"]:
        text = VISITS.replace("at_most(4", f"at_most({point['setting']['bound'].split()[0]}")
        factor = Decimal(point["setting"]["epsilon"]) / Decimal("1.5")
        for part in ("epsilon = 1.5", "places = 1.0", "all_visits = 0.5"):
            name, number = part.split(" = ")
            text = text.replace(part, f"{name} = {Decimal(number) * factor:f}")
        here = outcome(text, "visits.policy", tmp_path)
        assert [r["error"] for r in here["releases"]] == pytest.approx(
            [r["error"] for r in point["releases"]], rel=1e-9
        )
