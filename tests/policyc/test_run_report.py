"""The report of a run: what it says is what the ledger, the released file and `verify` say, and nothing protected."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from prompt import policyc

from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.noise_tails import error_bounds
from policyc_runtime.plan import load_plan

POLICIES = Path(__file__).parents[2] / "policies"


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> Path:
    """Three weeks of the fleet, released."""
    folder = tmp_path_factory.mktemp("report")
    for name in ("fleet.policy", "fleet_transitions.csv", "departures_january.csv.gz"):
        shutil.copy(POLICIES / name, folder)
    assert policyc("compile", "fleet.policy", cwd=folder).returncode == 0
    words = ("--input", "departures_january.csv.gz", "--steps", 21, "--output", "parked.csv")
    assert policyc("run", "fleet.plan", *words, cwd=folder).returncode == 0
    done = policyc("report", "fleet.plan", "--release", "parked.csv", "--quick", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["parked.report.html", "parked.report.json"]
    return folder


def test_it_says_what_is_out_and_what_is_left(ran):
    """Steps, dates, the file's hash, the ledger's head: each from its own source."""
    said = json.loads((ran / "parked.report.json").read_text())
    rows = list(csv.DictReader((ran / "parked.csv").read_text().splitlines()))
    days = sorted({row["time"] for row in rows})
    assert said["steps"] == {"released": 21, "of": 365, "left": 365 - 21, "first": days[0], "last": days[-1]}
    assert said["files"][0]["sha256"] == hashlib.sha256((ran / "parked.csv").read_bytes()).hexdigest()
    with LedgerReader.open_read_only(ran / "fleet.plan" / "ledger.sqlite") as book:
        assert said["ledger"] == {"head": book.state.hash, "entries": 21}
    assert said["is_release"] is True
    page = (ran / "parked.report.html").read_text()
    assert "21 steps of 365: those that begin from 2013-01-01 00:00:00 to 2013-01-21 00:00:00." in page
    assert "344 steps may still be published" in page
    assert "<script" not in page


def test_claims_are_those_of_verify(ran):
    """One record a claim, as `verify --json` prints them."""
    words = ("--release", "parked.csv", "--quick", "--json", "--allow-unchecked")
    found = json.loads(policyc("verify", "fleet.plan", *words, cwd=ran).stdout)
    assert json.loads((ran / "parked.report.json").read_text())["claims"] == found["claims"]


def test_bands_lie_around_published_values_by_what_noise_leaves(ran):
    """Every point of every picture, from the released file and the plan's own bounds."""
    plan = load_plan(ran / "fleet.plan")
    bounds = error_bounds(plan, plan.releases[0], 0.05, 21)
    rows = list(csv.DictReader((ran / "parked.csv").read_text().splitlines()))
    pictures = json.loads((ran / "parked.report.json").read_text())["pictures"]
    assert [picture["title"] for picture in pictures] == [f"parked, origin {c}" for c in ("EWR", "JFK", "LGA", "away")]
    for picture in pictures:
        mine = [row for row in rows if picture["title"].endswith(row["origin"])]
        for line, field in zip(picture["series"], ("released", "noisy"), strict=False):
            assert [float(y) for _, y in line["points"]] == [float(row[field]) for row in mine]
        centers = np.array([float(row["released"]) for row in mine])
        low, high = np.array([[float(a), float(b)] for _, a, b in picture["band"]]).T
        assert np.allclose(low, centers - bounds, rtol=1e-5)
        assert np.allclose(high, centers + bounds, rtol=1e-5)
        assert float(picture["low"]) <= max(0.0, low.min())


def test_nothing_protected_is_in_it(ran):
    """No tail number of the data, no key of the ledger."""
    text = (ran / "parked.report.html").read_text() + (ran / "parked.report.json").read_text()
    assert not re.search(r"N[0-9]{3}[A-Z0-9]{2}", text)
    for key in (ran / "fleet.plan" / "private").iterdir():
        if key.suffix == ".key":
            assert key.read_bytes().hex() not in text


def test_an_altered_output_is_said_to_be(ran, tmp_path):
    """The report names the claim that fails, and the exit code is 1."""
    folder = tmp_path / "altered"
    shutil.copytree(ran, folder)
    text = (folder / "parked.csv").read_text()
    (folder / "parked.csv").write_text(re.sub(r"(0,2013-01-01T00:00:00,EWR,[0-9]+),([0-9]+)", r"\g<1>,1", text))
    done = policyc("report", "fleet.plan", "--release", "parked.csv", "--quick", cwd=folder)
    assert done.returncode == 1
    assert "this claim fails" in done.stderr
    assert re.search(r"<strong>1 of [0-9]+ claims fails\.</strong>", (folder / "parked.report.html").read_text())


def test_other_files_are_not_written_over(ran, tmp_path):
    """A file of that name that is no report stays; a report is replaced."""
    folder = tmp_path / "kept"
    shutil.copytree(ran, folder)
    assert policyc("report", "fleet.plan", "--release", "parked.csv", "--quick", cwd=folder).returncode == 0
    (folder / "parked.report.json").write_text("mine")
    before = (folder / "parked.report.html").read_bytes()
    done = policyc("report", "fleet.plan", "--release", "parked.csv", "--quick", cwd=folder)
    assert (done.returncode, "error[E0826]" in done.stderr) == (1, True)
    assert (folder / "parked.report.json").read_text() == "mine"
    assert (folder / "parked.report.html").read_bytes() == before
    (folder / "parked.report.json").unlink()
    (folder / "parked.report.json").mkdir()
    done = policyc("report", "fleet.plan", "--release", "parked.csv", "--quick", cwd=folder)
    assert (done.returncode, "error[E0826]" in done.stderr, "a directory is there" in done.stderr) == (1, True, True)
    assert (folder / "parked.report.html").read_bytes() == before
    (folder / "parked.report.json").rmdir()
    os.mkfifo(folder / "parked.report.json")  # nobody writes to it: whoever opens it waits without end
    done = policyc("report", "fleet.plan", "--release", "parked.csv", "--quick", cwd=folder)
    assert (done.returncode, "which is no report" in done.stderr) == (1, True)
    assert (folder / "parked.report.html").read_bytes() == before


def run_again(folder: Path, *words: str) -> str:
    before = ("--input", "departures_january.csv.gz", "--steps", 21, "--output", "parked.csv")
    done = policyc("run", "fleet.plan", *before, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_writes_it_beside_the_output_and_says_that_nothing_was_verified(ran, tmp_path):
    """The same as the command's but for the claims, and it is there again after a run that lost it."""
    folder = tmp_path / "beside"
    shutil.copytree(ran, folder)
    verified = json.loads((folder / "parked.report.json").read_text())
    (folder / "parked.report.json").unlink()
    assert "  parked.report.html: what is out" in run_again(folder)
    said = json.loads((folder / "parked.report.json").read_text())
    assert said["claims"] is None
    assert {**said, "claims": 0, "reported": 0} == {**verified, "claims": 0, "reported": 0}
    page = (folder / "parked.report.html").read_text()
    assert "Not verified yet." in page
    assert "claims hold" not in page


def test_a_run_leaves_a_report_that_is_still_right(ran, tmp_path):
    """What `verify` found stays beside what it was found of, unless a claim failed; nothing is written for nobody."""
    folder = tmp_path / "right"
    shutil.copytree(ran, folder)
    places = [folder / "parked.report.html", folder / "parked.report.json"]
    before = [path.read_bytes() for path in places]
    assert json.loads(run_again(folder, "--json"))["report"] == ["parked.report.html", "parked.report.json"]
    assert [path.read_bytes() for path in places] == before
    said = json.loads(before[1])
    said["claims"][0]["holds"] = False
    places[1].write_text(json.dumps(said))
    run_again(folder)
    assert json.loads(places[1].read_text())["claims"] is None
    for path in places:
        path.unlink()
    assert "report" not in run_again(folder, "--no-report")
    assert not any(path.exists() for path in places)


def test_where_no_report_can_be_nothing_is_drawn(ran, tmp_path):
    """A file of that name that is none: refused before noise is drawn, and run without a report."""
    assert policyc("compile", ran / "fleet.policy", "-o", tmp_path / "new.plan", cwd=tmp_path).returncode == 0
    (tmp_path / "out.report.html").write_text("mine")
    words = ("--input", ran / "departures_january.csv.gz", "--steps", 3, "--output", "out.csv")
    done = policyc("run", "new.plan", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("error[E0826]")) == (1, 1)
    assert "out.report.html" in done.stderr
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "new.plan" / "ledger.sqlite").exists()
    assert policyc("run", "new.plan", *words, "--no-report", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out.report.html").read_text() == "mine"


def test_what_is_not_there_is_one_message(ran, tmp_path):
    """No plan, no ledger, no output: each with its remedy, and no file."""
    assert policyc("compile", ran / "fleet.policy", "-o", tmp_path / "new.plan", cwd=tmp_path).returncode == 0
    for plan, output in (("nowhere.plan", "x.csv"), ("new.plan", "x.csv")):
        done = policyc("report", plan, "--release", output, "--quick", cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.count("error[E") == 1
        assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.report.*"))
