"""`policyc leakage` as people run it: files of others, good and bad, what is printed and written, and exit codes."""

from __future__ import annotations

import csv
import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from prompt import policyc

from policyc.diagnostics.pages import read_page

PAGE = """stream stays {
  user   patient
  time   at
  cell   ward in {"A", "B"}
  step   1h
  horizon 10 steps
}
correlation markov(
  forward  = [[0.8, 0.2], [0.2, 0.8]],
  initial  = stationary,
  evidence = "an example",
)
"""
GROUPS = PAGE.replace(")\n", ") for some\n") + (
    'correlation markov(forward = [[0.9, 0.1], [0.3, 0.7]], initial = stationary, evidence = "an example") for others\n'
)
SPENT = "step,epsilon\n" + "".join(f"{t},0.1\n" for t in range(1, 11))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a page of movement and ten budgets."""
    (tmp_path / "wards.policy").write_text(PAGE)
    (tmp_path / "groups.policy").write_text(GROUPS)
    (tmp_path / "spent.csv").write_text(SPENT)
    return tmp_path


@pytest.fixture(scope="module")
def plans(tmp_path_factory, gallery) -> Path:
    """A folder with the gallery and a plan of Algorithm 3."""
    folder = tmp_path_factory.mktemp("plans")
    for file in filter(Path.is_file, gallery.iterdir()):
        shutil.copy(file, folder / file.name)
    text = (folder / "traffic.policy").read_text()
    (folder / "traffic.policy").write_text(text + "budget quantified()\nestimate mle()\n")
    done = policyc("compile", "traffic.policy", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def numbers(folder: Path, *words: object) -> dict:
    done = policyc("leakage", *words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_forms_of_budgets_say_the_same(folder):
    """CSV with and without names, with steps in any order or twice, `show`'s columns, and JSON: the same leakage."""
    forms = {
        "bare.csv": "0.1\n" * 10,
        "named.csv": "epsilon\n" + "0.1\n" * 10,
        "mixed.csv": "epsilon;x\n".replace(";", ",") + "0.1,a\n" * 10,
        "shown.csv": "t,epsilon,scale\n" + "".join(f"{t},0.1,10\n" for t in range(10)),
        "twice.csv": "step,budget\n" + "".join(f"{t},0.05\n{t},0.05\n" for t in range(9, -1, -1)),
        "windows.csv": "﻿epsilon\r\n" + "0.1\r\n" * 10,
        "list.json": "[" + ", ".join(["0.1"] * 10) + "]",
        "records.json": json.dumps([{"step": t, "epsilon": 0.1} for t in range(10)]),
        "under.json": json.dumps({"epsilon": [0.1] * 10}),
    }
    expected = None
    for name, text in forms.items():
        (folder / name).write_text(text, encoding="utf-8")
        found = numbers(folder, "--budgets", name, "--policy", "wards.policy")
        del found["budgets"]["source"]
        expected = expected or found
        assert found == expected
    assert expected["windows"][0]["none"] == {"nats": 0.1, "step": 0}


def test_a_step_without_a_row_had_no_release(folder):
    """Gaps between steps are steps with budget 0, which still leak; steps are numbered as the file numbers them."""
    (folder / "gaps.csv").write_text("step,epsilon\n3,0.5\n6,0.5\n")
    found = numbers(folder, "--budgets", "gaps.csv", "--policy", "wards.policy")
    assert found["steps"]["first"] == 3
    assert found["steps"]["epsilon"] == [0.5, 0.0, 0.0, 0.5]
    assert min(found["steps"]["total_leakage"]) > 0.1
    assert found["windows"][0]["both"]["step"] in (3, 6)


def test_what_is_printed(folder):
    """The paragraph, the tables of tolerances and of growth, and the steps; exit 1 above what is tolerated."""
    done = policyc("leakage", "--budgets", "spent.csv", "--policy", "wards.policy", "--alpha", "0.35", cwd=folder)
    assert done.returncode == 1
    out = " ".join(done.stdout.split())
    assert done.stderr == ""
    assert "Every step was promised to tell at most 0.1 nats about one value of one person" in out
    assert "50 %) is at most 52.5 % sure" in out
    assert "All values of one person together, at all 10 steps, tell at most 1 nats" in out
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["event:", "any", "1", "step", "0.1"] in [row[:5] for row in rows]
    assert ["user:", "all", "10", "steps", "1", "1", "1", "1"] in rows
    assert "no chain kept for all 10 steps" in out
    kept = re.search(r"both kept for the first (\d) of 10 steps", out)
    assert kept is not None
    shorter = policyc("leakage", "--budgets", "spent.csv", "--policy", "wards.policy", "--alpha", "1", cwd=folder)
    assert shorter.returncode == 0
    (folder / "kept.csv").write_text("0.1\n" * int(kept.group(1)))
    words = ("--policy", "wards.policy", "--alpha", "0.35")
    assert policyc("leakage", "--budgets", "kept.csv", *words, cwd=folder).returncode == 0
    (folder / "more.csv").write_text("0.1\n" * (int(kept.group(1)) + 1))
    assert policyc("leakage", "--budgets", "more.csv", *words, cwd=folder).returncode == 1


@pytest.mark.parametrize("knows", ["both", "backward", "forward", "none"])
def test_only_what_is_asked_for_is_shown(folder, knows):
    """`--knows` leaves one adversary, whose leakage decides about alpha too."""
    one = numbers(folder, "--budgets", "spent.csv", "--policy", "wards.policy", "--knows", knows)
    all_four = numbers(folder, "--budgets", "spent.csv", "--policy", "wards.policy")
    assert one["windows"] == [{"steps": row["steps"], knows: row[knows]} for row in all_four["windows"]]
    done = policyc(
        "leakage", "--budgets", "spent.csv", "--policy", "wards.policy", "--knows", knows, "--alpha", "0.3", cwd=folder
    )
    assert done.returncode == (1 if knows == "both" else 0)
    for other in {"backward", "forward", "both"} - {knows}:
        assert other not in done.stdout.splitlines()[-1]
        assert f" {other}\n" not in done.stdout


def test_groups_and_their_largest(folder):
    """Each group of a policy has its row; what is said is about the worst."""
    found = numbers(folder, "--budgets", "spent.csv", "--policy", "groups.policy")
    names = [chain["name"] for chain in found["of_each_chain"]]
    assert names == ["some", "others"]
    largest = [chain["about_one_step"]["both"]["nats"] for chain in found["of_each_chain"]]
    assert found["windows"][0]["both"]["nats"] == max(largest)
    assert f"`{names[largest.index(max(largest))]}`" in found["meaning"]


def test_a_chain_of_one_state_tells_of_one_step_what_it_spends(folder):
    """There is no other value to tell apart, and no pair of states to account for."""
    (folder / "one.csv").write_text("a\n1\n")
    done = policyc("leakage", "--budgets", "spent.csv", "--forward", "one.csv", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "0.100001" in policyc("leakage", "--budgets", "spent.csv", "--forward", "one.csv", cwd=folder).stdout


def test_a_group_without_correlation(folder):
    """Its steps leak what they spend, beside a group with a chain."""
    page = PAGE.replace(")\n", ") for some\n") + 'correlation none(evidence = "drawn by lot") for others\n'
    (folder / "mixed.policy").write_text(page)
    found = numbers(folder, "--budgets", "spent.csv", "--policy", "mixed.policy")
    some, others = found["of_each_chain"]
    assert others["name"] == "others"
    assert {adversary["nats"] for adversary in others["about_one_step"].values()} == {0.1}
    assert found["windows"][0]["both"] == some["about_one_step"]["both"]


def test_budgets_that_count_twice(folder):
    """Budgets for a person added or removed count twice where a value is replaced."""
    twice = numbers(folder, "--budgets", "spent.csv", "--policy", "wards.policy", "--neighbors", "add_remove")
    (folder / "double.csv").write_text(SPENT.replace("0.1", "0.2"))
    direct = numbers(folder, "--budgets", "double.csv", "--policy", "wards.policy")
    assert twice["steps"] == direct["steps"]


def test_files_are_written(folder):
    """`--output` writes a page, numbers and steps, `--picture` an SVG; the numbers are those that `--json` prints."""
    words = ("--budgets", "spent.csv", "--policy", "wards.policy", "--alpha", "2")
    done = policyc("leakage", *words, "--output", "out.leakage", "--picture", "leakage.svg", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "out.leakage").iterdir()) == [
        "leakage.html",
        "leakage.json",
        "steps.csv",
    ]
    stored = json.loads((folder / "out.leakage" / "leakage.json").read_text())
    assert stored == numbers(folder, *words)
    with (folder / "out.leakage" / "steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["total_leakage"]) for row in rows] == stored["steps"]["total_leakage"]
    assert [row["step"] for row in rows] == [str(t) for t in range(1, 11)]
    page = (folder / "out.leakage" / "leakage.html").read_text()
    assert page.count("<svg") == 3
    assert not re.search(r"<script|https?://(?!www\.w3)", page)
    ET.fromstring((folder / "leakage.svg").read_text())
    again = numbers(folder, "--budgets", "out.leakage/steps.csv", "--policy", "wards.policy")
    assert again["steps"] == stored["steps"]


def test_names_of_others_cannot_break_the_page(folder):
    """What a file calls its users stands as text in the page, and moves no cursor of a terminal."""
    name = "<script>x</script>\x1b[2J"
    (folder / "users.json").write_text(json.dumps({name: [[0.9, 0.1], [0.2, 0.8]], "b": [[0.5, 0.5], [0.5, 0.5]]}))
    done = policyc("leakage", "--budgets", "spent.csv", "--chains", "users.json", "--output", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "<script" not in (folder / "out" / "leakage.html").read_text()


def test_a_plan_says_all_itself(plans):
    """A plan's own budgets through its own chain leak what it claims: both bound every pair by itself."""
    found = numbers(plans, "--budgets", "traffic.plan")
    claimed = json.loads((plans / "traffic.plan" / "plan.json").read_text())["claims"]["total_leakage"]
    published = numbers(plans, "--budgets", "traffic.plan", "--lags", "1")
    assert found["windows"][0]["both"]["nats"] == pytest.approx(float(claimed), rel=1e-7)
    assert found["windows"][0]["both"]["nats"] <= 1 < published["windows"][0]["both"]["nats"]
    by_policy = numbers(plans, "--budgets", "traffic.plan/plan.json", "--policy", "traffic.policy")
    assert by_policy["steps"]["total_leakage"] == pytest.approx(found["steps"]["total_leakage"], rel=1e-9)
    shown = policyc("show", "traffic.plan", "--format", "csv", cwd=plans)
    (plans / "shown.csv").write_text(shown.stdout)
    as_table = numbers(plans, "--budgets", "shown.csv", "--policy", "traffic.policy")
    assert as_table["steps"] == by_policy["steps"]
    rows = list(csv.DictReader(shown.stdout.splitlines()))
    leaked = [float(row["total_leakage"]) for row in rows]
    assert max(leaked) == pytest.approx(float(claimed), rel=1e-9)
    assert max(found["steps"]["total_leakage"]) == pytest.approx(max(leaked), rel=1e-7)


def test_a_plan_of_another_stream_is_refused(plans):
    """Chains of one stream say nothing of another: E0899, with what differs."""
    done = policyc("leakage", "--budgets", "traffic.plan", "--policy", "fleet.policy", cwd=plans)
    assert done.returncode == 1
    assert "error[E0899]: the plan is of another stream" in done.stderr
    assert "`passages`" in done.stderr
    assert "`departures`" in done.stderr


def test_a_plan_without_budgets_of_steps_is_refused(tmp_path):
    """Noise for all that a user does has no budgets of steps: E0897 says where to read what it promises."""
    page = PAGE[: PAGE.index("correlation")].replace("step   1h", "step 1h\n  population 50")
    (tmp_path / "all.policy").write_text(
        f'policy all "stays"\n{page}release n = count(stays) by ward\n'
        "target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)\n"
        "participation at_most(4 steps, enforced = keep_first)\nmechanism gaussian()\nestimate none()\n"
    )
    assert policyc("compile", "all.policy", cwd=tmp_path).returncode == 0
    done = policyc("leakage", "--budgets", "all.plan", cwd=tmp_path)
    assert done.returncode == 1
    assert "error[E0897]: `n` has noise for the whole stream" in done.stderr


def test_a_promise_for_independent_steps_is_judged_by_a_chain(folder):
    """A plan that takes steps as independent keeps its windows, by its own rule; through a chain a step leaks more."""
    page = PAGE[: PAGE.index("correlation")].replace("step   1h", "step 1h\n  population 50")
    (folder / "wards.policy").write_text(PAGE.replace("step   1h", "step 1h\n  population 50"))
    (folder / "windows.policy").write_text(
        f'policy windows "stays"\n{page}release n = count(stays) by ward\n'
        "target w_event(epsilon = 2.0, window = 4 steps)\nmechanism budget_distribution()\n"
        'correlation none(evidence = "drawn by lot")\n'
    )
    assert policyc("compile", "windows.policy", cwd=folder).returncode == 0
    alone = numbers(folder, "--budgets", "windows.plan", "--window", "4")
    chained = numbers(folder, "--budgets", "windows.plan", "--policy", "wards.policy", "--window", "4")
    for found in (alone, chained):
        assert found["windows"][1]["none"]["nats"] == 2
    assert alone["windows"][0]["both"] == alone["windows"][0]["none"]
    assert chained["windows"][0]["both"]["nats"] > 1.2 * alone["windows"][0]["none"]["nats"]
    assert chained["windows"][1]["both"]["nats"] > 2


def test_an_altered_plan_is_refused(plans, tmp_path):
    """Budgets of a plan that was altered need not be what was spent."""
    text = (plans / "traffic.plan" / "plan.json").read_text()
    (tmp_path / "plan.json").write_text(text.replace('"population": 200', '"population": 201'))
    done = policyc("leakage", "--budgets", "plan.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "error[E0803]" in done.stderr


BAD_BUDGETS = {
    "nothing": ("", "empty"),
    "names alone": ("step,epsilon\n", "no row"),
    "negative": ("epsilon\n0.1\n-0.1\n", "negative"),
    "nan": ("epsilon\n0.1\nnan\n", "`nan` is not a number"),
    "nan first": ("nan\n0.1\n", "`nan` is not a number"),
    "inf": ("epsilon\ninf\n", "`inf` is not a number"),
    "huge": ("epsilon\n1e7\n", "promises nothing"),
    "huge exponent": ("epsilon\n1e99999\n", "not a number"),
    "tiny": ("epsilon\n1e-9999\n", "below 1e-100"),
    "long": ("epsilon\n" + "1" * 100_000 + "\n", "not a number"),
    "words": ("epsilon\n0.1\nlow\n", "`low` is not a number"),
    "empty value": ("step,epsilon\n1,\n", "not a number"),
    "two columns": ("0.1,0.2\n", "which holds the budgets"),
    "other names": ("step,rho\n1,0.1\n", "no column is called `epsilon`"),
    "two budgets": ("epsilon,budget\n1,1\n", "more than one column"),
    "ragged": ("step,epsilon\n1,0.1\n2\n", "a row has 1 values"),
    "truncated": ('step,epsilon\n1,0.1\n2,"0.', "not CSV"),
    "bad step": ("step,epsilon\n1.5,0.1\n", "no number of a step"),
    "negative step": ("step,epsilon\n-1,0.1\n", "no number of a step"),
    "dates": ("step,epsilon\n2020-01-01,0.1\n", "no number of a step"),
    "far steps": ("step,epsilon\n0,0.1\n99999999999,0.1\n", "at most 1,000,000"),
    "binary": ("epsilon\n0.1\0\n", "NUL"),
    "json cut": ("[0.1, 0.2", "not JSON"),
    "json nan": ("[NaN]", "`NaN` is not a number"),
    "json inf": ("[Infinity]", "not a number"),
    "json words": ('["0.1"]', "not a number"),
    "json true": ("[true]", "not a number"),
    "json mixed": ('[0.1, {"epsilon": 0.1}]', "some entries are numbers"),
    "json empty": ("[]", "no list"),
    "json object": ('{"a": 1}', "no list `epsilon`"),
    "json twice": ('{"epsilon": [1], "epsilon": [2]}', "stands there twice"),
    "json deep": ("[" * 5_000 + "]" * 5_000, "5,000 deep"),
    "json huge": ("[1e400]", "promises nothing"),
    "json negative": ("[-1]", "negative"),
}


@pytest.mark.parametrize("name", BAD_BUDGETS)
def test_bad_budgets_are_one_message(folder, name):
    """Each is one finding with its place and remedy, exit 1, and nothing is written."""
    text, expected = BAD_BUDGETS[name]
    (folder / "bad.csv").write_text(text)
    done = policyc("leakage", "--budgets", "bad.csv", "--policy", "wards.policy", "--output", "out", cwd=folder)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("error[E0897]") == 1
    assert expected in done.stderr.splitlines()[0]
    assert "--> bad.csv" in done.stderr
    assert "= help: " in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 400
    assert not (folder / "out").exists()


BAD_CHAINS = {
    "sum.csv": ("user,from,to,probability\na,A,A,0.9\na,A,B,0.2\na,B,B,1\n", "E0898", "sum to 1.1"),
    "columns.csv": ("user,from,probability\na,A,1\n", "E0898", "the columns are"),
    "twice.csv": ("user,from,to,probability\na,A,A,1\na,A,A,1\n", "E0898", "stands there twice"),
    "negative.csv": ("user,from,to,probability\na,A,A,1.5\na,A,B,-0.5\na,B,B,1\n", "E0898", "no probability"),
    "nan.csv": ("user,from,to,probability\na,A,A,nan\n", "E0898", "not a number"),
    "nowhere.csv": ("user,from,to,probability\na,A,B,1\n", "E0898", "moves from `B`"),
    "cut.csv": ("user,from,to,probability\na,A\n", "E0898", "a row has 2 values"),
    "state.csv": ("user,from,to,probability\na,C,C,1\n", "E0899", "no state `C`"),
    "apart.csv": ("user,from,to,probability\na,A,A,1\na,B,B,1\n", "E0898", "more than one stationary law"),
    "nobody.csv": ("user,from,to,probability\n,A,A,1\n", "E0898", "who moves"),
    "small.csv": ("user,from,to,probability\na,A,A,1\na,A,B,1e-200\na,B,A,1\n", "E0898", "below 1e-100"),
    "shape.json": ('{"a": [[1, 0], [1]]}', "E0898", "as many lists"),
    "states.json": ('{"a": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}', "E0899", "3 states, and the stream has 2"),
    "words.json": ('{"a": [["1", 0], [0, 1]]}', "E0898", "not a number"),
    "fields.json": ('{"a": {"froward": [[1]]}}', "E0898", "not `froward`"),
    "list.json": ("[1]", "E0898", "no matrices by user"),
    "same.json": ('{"a": [[1]], "a": [[1]]}', "E0898", "stands there twice"),
}


@pytest.mark.parametrize("name", BAD_CHAINS)
def test_bad_chains_are_one_message(folder, name):
    """The same for chains of single users, which are on the states of the stream."""
    text, code, expected = BAD_CHAINS[name]
    (folder / name).write_text(text)
    done = policyc(
        "leakage", "--budgets", "spent.csv", "--policy", "wards.policy", "--chains", name, "--output", "out", cwd=folder
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.count(f"error[{code}]") == 1
    assert expected in done.stderr.splitlines()[0]
    assert "= help: " in done.stderr
    assert not (folder / "out").exists()


def test_bad_matrices_and_policies_are_findings(folder):
    """A matrix or a page that says nothing sensible has the finding that a policy has; missing files have theirs."""
    (folder / "sum.csv").write_text("0.9,0.2\n0.1,0.9\n")
    (folder / "three.csv").write_text("1,0,0\n0,1,0\n0,0,1\n")
    (folder / "two.csv").write_text("0.9,0.1\n0.1,0.9\n")
    (folder / "eye.csv").write_text("1,0\n0,1\n")
    (folder / "none.policy").write_text(PAGE[: PAGE.index("correlation")])
    spent = ("leakage", "--budgets", "spent.csv")
    for words, code in (
        ((*spent, "--forward", "sum.csv"), "E0401"),
        ((*spent, "--forward", "missing.csv"), "E0212"),
        ((*spent, "--forward", "two.csv", "--backward", "three.csv"), "E0899"),
        ((*spent, "--forward", "eye.csv"), "E0805"),
        ((*spent, "--policy", "none.policy"), "E0201"),
        ((*spent, "--policy", "missing.policy"), "E0101"),
        ((*spent, "--chains", "missing.csv"), "E0898"),
        (("leakage", "--budgets", "missing.csv", "--policy", "wards.policy"), "E0897"),
        (("leakage", "--budgets", "missing.plan/", "--policy", "wards.policy"), "E0897"),
        (("leakage", "--budgets", ".", "--policy", "wards.policy"), "E0897"),
        (("leakage", "--budgets", "/dev/zero", "--policy", "wards.policy"), "E0897"),
    ):
        done = policyc(*words, cwd=folder)
        assert done.returncode == 1, words
        assert f"error[{code}]" in done.stderr, (words, done.stderr)
        assert done.stdout == ""
        assert "= help: " in done.stderr
    assert numbers(folder, "--budgets", "spent.csv", "--forward", "eye.csv", "--backward", "eye.csv")
    for given, said in (("eye.csv", "--> eye.csv\n"), (".", "this is a folder\n  --> .\n")):
        for side in ("--forward", "--backward"):
            assert said in policyc(*spent, side, given, cwd=folder).stderr


def test_names_of_the_wrong_kind_are_told_apart(folder):
    """A directory without a plan, and a file where pages were to be written: one message each, nothing written."""
    refused = policyc("leakage", "--budgets", ".", cwd=folder)
    assert refused.returncode == 1
    assert "error[E0897]: there is no plan in this directory\n" in refused.stderr
    assert "help: give a plan" in refused.stderr
    words = ("leakage", "--budgets", "spent.csv", "--policy", "wards.policy", "--output", "spent.csv")
    wrong = policyc(*words, cwd=folder)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "a file is there: name a directory" in re.sub(r"[\s│]+", " ", wrong.stderr)
    assert (folder / "spent.csv").read_text() == SPENT


def test_wrong_usage_exits_2(folder):
    """Nothing about how people move, two things about it, and numbers out of range are usage errors."""
    spent = ("leakage", "--budgets", "spent.csv")
    for words in (
        ("leakage",),
        spent,
        (*spent, "--policy", "wards.policy", "--forward", "x.csv"),
        (*spent, "--chains", "x.csv", "--forward", "x.csv"),
        (*spent, "--policy", "wards.policy", "--alpha", "nan"),
        (*spent, "--policy", "wards.policy", "--alpha", "-1"),
        (*spent, "--policy", "wards.policy", "--alpha", "much"),
        (*spent, "--policy", "wards.policy", "--window", "0"),
        (*spent, "--policy", "wards.policy", "--knows", "all"),
        (*spent, "--policy", "wards.policy", "--lags", "0"),
        (*spent, "--policy", "wards.policy", "--picture", "x.png"),
    ):
        done = policyc(*words, cwd=folder)
        assert done.returncode == 2, words
        assert done.stdout == ""


@pytest.mark.parametrize("code", ["E0897", "E0898", "E0899"])
def test_the_pages_say_what_is_printed(folder, plans, code):
    """The wrong example of a page prints what the page shows, and the right one is fine."""
    page = read_page(code)
    if code == "E0899":
        (folder / "fleet.plan").symlink_to(plans / "traffic.plan")
        done = policyc("leakage", "--budgets", plans / "traffic.plan", "--policy", plans / "fleet.policy", cwd=folder)
        shape = page.split("error[")[1].split("\n")[0]
        swapped = shape.replace("departures", "*").replace("passages", "departures").replace("*", "passages")
        assert swapped in done.stderr
        return
    shutil.copy(folder / "wards.policy", folder / "traffic.policy")
    (folder / "spent.csv").write_text("0.1\n0.1\n")
    wrong, right = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    for example, fails in ((wrong, True), (right, False)):
        name = re.search(r"cat (\S+)", example)[1]
        content, rest = example.split("\n", 1)[1].split("$ policyc ", 1)
        (folder / name).write_text(content)
        command, _, shown = rest.partition("\n")
        done = policyc(*command.split(), cwd=folder)
        assert done.returncode == (1 if fails else 0), done.stderr
        assert shown.strip() in done.stderr
