"""`--quiet` says nothing when all is well; `--json` says what the words say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prompt import policyc

POLICIES = Path(__file__).parents[2] / "policies"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("quiet")
    for name in ("fleet.policy", "fleet_transitions.csv", "departures_january.csv.gz"):
        shutil.copy(POLICIES / name, folder)
    done = policyc("compile", "fleet.policy", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "compiled.json").write_text(done.stdout)
    return folder


def test_quiet_commands_say_nothing_and_do_the_same(fleet):
    """Every command that does something, in the order of a user's day; then one that is not quiet says it again."""
    run = ("run", "fleet.plan", "--input", "departures_january.csv.gz", "--steps", 3, "--output", "parked.csv")
    for words in (
        ("check", "fleet.policy"),
        ("fmt", "fleet.policy"),
        run,
        ("verify", "fleet.plan", "--quick", "--allow-unchecked", "--release", "parked.csv"),
        ("report", "fleet.plan", "--quick", "--release", "parked.csv"),
        ("certificate", "fleet.plan"),
        ("simulate", "fleet.plan", "--events", "events.csv", "--steps", 2),
        ("init", "new"),
    ):
        done = policyc(*words, "--quiet", cwd=fleet)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), words
    assert all((fleet / name).exists() for name in ("parked.csv", "parked.report.html", "events.csv", "new.policy"))
    assert "released 3 of 365 steps" in policyc(*run, cwd=fleet).stdout


def test_errors_are_said_all_the_same(fleet):
    done = policyc("run", "nowhere.plan", "--input", "x.csv", "--output", "y.csv", "-q", cwd=fleet)
    assert done.returncode == 1
    assert "error[E" in done.stderr


def test_records_say_what_the_words_say(fleet):
    """Of a compilation its certificate, of a run what is out, of a simulation its errors."""
    compiled = json.loads((fleet / "compiled.json").read_text())
    assert compiled["certificate"] == json.loads((fleet / "fleet.plan" / "certificate.json").read_text())
    words = ("run", "fleet.plan", "--input", "departures_january.csv.gz", "--steps", 3, "--output", "out.csv")
    done = json.loads(policyc(*words, "--json", cwd=fleet).stdout)
    assert (done["released"], done["of"], done["new"] + done["from_before"]) == (3, 365, 3)
    assert (done["files"], done["first"]) == (["out.csv"], "2013-01-01T00:00:00")
    assert done["plan_digest"] == compiled["plan_digest"]
    simulated = json.loads(policyc("simulate", "fleet.plan", "--repeat", 1, "--json", cwd=fleet).stdout)
    table = policyc("simulate", "fleet.plan", "--repeat", 1, cwd=fleet).stdout
    (chosen,) = (error for error in simulated["errors"] if error["chosen"])
    (line,) = (line for line in table.splitlines() if line.endswith("<- the plan's"))
    words = line.split()
    typical = words.index(f"{chosen['mean_squared_error'] ** 0.5:.4g}")
    assert words[typical + 1] == f"{chosen['mean_squared_error']:.4g}"
    assert chosen["mean_squared_error_stderr"] is None
    assert simulated["simulated"] is True


@pytest.mark.law
def test_nothing_else_is_printed_where_constraints_take_a_solver(tmp_path):
    """Standard output may be counts that the next program reads: a library that prints its name there spoils them."""
    text = (POLICIES / "fleet.policy").read_text().replace("365 steps", "2 steps")
    text = text.replace("integer(parked)", 'parked["EWR"] - 3 * parked["LGA"] <= 4_000')
    (tmp_path / "solved.policy").write_text(text)
    shutil.copy(POLICIES / "fleet_transitions.csv", tmp_path)
    (tmp_path / "events.csv").write_text("tailnum,departed_at,origin\nN1,2013-01-01T08:00:00,LGA\n")
    for words in (
        ("check", "solved.policy"),
        ("compile", "solved.policy"),
        ("run", "fleet.plan", "--input", "events.csv", "--steps", 1, "--output", "parked.csv"),
    ):
        command = [sys.executable, "-m", "policyc", *map(str, words), "--quiet"]  # the library prints past sys.stdout
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), words
