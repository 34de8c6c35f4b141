"""The commands, run as a user runs them: output, files, exit codes."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from prompt import policyc
from typer.main import get_command

from policyc.cli import app
from policyc.cli.exit import guarded
from policyc.emit.run_summary import render_run, run_record
from policyc_runtime import ledger_file, ledger_reader
from policyc_runtime.ledger_seal import read_seal
from policyc_runtime.plan import load_plan
from policyc_runtime.published_values import Release, Series
from policyc_runtime.sources.tables import connect

COMMANDS = "compile check fmt run verify show simulate explain init certificate sign diff leakage explore".split()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, gallery) -> Path:
    """A folder with the gallery in it and the fleet policy compiled and run on the shipped extract."""
    folder = tmp_path_factory.mktemp("fleet")
    for file in filter(Path.is_file, gallery.iterdir()):
        shutil.copy(file, folder / file.name)
    with (folder / "fleet.policy").open("a") as policy:
        policy.write("budget quantified()\nestimate mle()\n")  # soon planned
    assert policyc("compile", "fleet.policy", cwd=folder).returncode == 0
    ran = policyc(
        "run",
        "fleet.plan",
        "--input",
        "departures_january.csv.gz",
        "--steps",
        "28",
        "--output",
        "parked.csv",
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, tmp_path):
    """`policyc COMMAND --help` exits 0 and shows how the command is used."""
    shown = policyc(command, "--help", cwd=tmp_path)
    assert shown.returncode == 0
    assert f"policyc {command} " in shown.stdout.split("Usage")[1].replace("Usage", "", 1)


def test_a_run_releases_the_steps_of_the_input(fleet):
    """28 days of the extract are released: four values a day that add up to the population and are whole numbers."""
    rows = [line.split(",") for line in (fleet / "parked.csv").read_text().splitlines()]
    assert rows[0] == ["step", "time", "origin", "noisy", "released"]
    assert len(rows) == 1 + 28 * 4
    for step in range(28):
        values = [int(row[4]) for row in rows[1:] if row[0] == str(step)]
        assert sum(values) == 4037
        assert min(values) >= 0


def test_running_again_gives_the_same_file(fleet):
    """A second run draws nothing: the output is the same to the byte."""
    again = policyc(
        "run", "fleet.plan", "--input", "departures_january.csv.gz", "--steps", "28", "--output", "again.csv", cwd=fleet
    )
    assert again.returncode == 0
    assert (fleet / "again.csv").read_bytes() == (fleet / "parked.csv").read_bytes()


def test_verify_prints_one_line_a_claim(fleet):
    """All claims of plan, certificate, ledger and release hold; exit 0."""
    checked = policyc("verify", "fleet.plan", "--release", "parked.csv", cwd=fleet)
    assert checked.returncode == 0, checked.stdout
    lines = checked.stdout.splitlines()
    assert lines[-1] == f"{len(lines) - 1} claims hold"
    assert all(line.startswith("holds ") for line in lines[:-1])
    assert any("released values are exactly the ledger's" in line for line in lines)


@pytest.mark.parametrize(
    "name", ["plan.json", "certificate.html", "certificate.json", "certificate.md", "map_model.py"]
)
def test_verify_names_what_was_altered(fleet, tmp_path, name):
    """One changed character in any artefact: exit 1, and the line that fails is named on standard error."""
    copy = tmp_path / "fleet.plan"
    shutil.copytree(fleet / "fleet.plan", copy)
    text = (copy / name).read_text()
    (copy / name).write_text(text.replace("4037", "4038", 1) if "4037" in text else text + "#")
    checked = policyc("verify", copy, cwd=tmp_path)
    assert checked.returncode == 1
    assert "error[E08" in checked.stderr


def test_a_changed_input_is_refused_with_the_reason(fleet, tmp_path):
    """One event moved to another cell of a released step: exit 1, the step is named, no value is printed."""
    import gzip

    lines = gzip.decompress((fleet / "departures_january.csv.gz").read_bytes()).decode().splitlines()
    lines[-1] = lines[-1].rsplit(",", 1)[0] + (",EWR" if not lines[-1].endswith("EWR") else ",JFK")
    (tmp_path / "changed.csv").write_text("\n".join(lines) + "\n")
    shutil.copytree(fleet / "fleet.plan", tmp_path / "fleet.plan")
    again = policyc("run", "fleet.plan", "--input", "changed.csv", "--steps", "28", "--output", "out.csv", cwd=tmp_path)
    assert again.returncode == 1
    assert "error[E08" in again.stderr
    assert "27" in again.stderr
    assert lines[-1].split(",")[0] not in again.stderr
    assert not (tmp_path / "out.csv").exists()


def test_a_lost_ledger_fails_verification_and_another_one_is_refused(fleet, tmp_path):
    """With key, seal or pin left, `verify` says that the ledger is lost, as `run` does, `--ledger` or not."""
    plan = tmp_path / "fleet.plan"
    shutil.copytree(fleet / "fleet.plan", plan)
    (plan / "ledger.sqlite").unlink()
    data = ("--input", fleet / "departures_january.csv.gz", "--output", "out.csv")
    for left in ("private/ledger.sqlite.key", "ledger.sqlite.seal", "ledger.pin"):
        for arguments in (("verify", plan), ("run", plan, *data), ("run", plan, *data, "--ledger", "new.sqlite")):
            done = policyc(*arguments, cwd=tmp_path)
            assert done.returncode == 1
            assert "error[E0822]" in done.stderr
            assert "the ledger is lost" in done.stderr
        (plan / left).unlink()
    assert policyc("verify", plan, cwd=tmp_path).returncode == 0
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.law
def test_a_policy_is_corrected_after_a_refused_run(fleet, tmp_path):
    """A run without data leaves nothing that keeps a corrected policy out of the same directory."""
    for name in ("fleet.policy", "fleet_transitions.csv", "departures_january.csv.gz"):
        shutil.copy(fleet / name, tmp_path / name)
    assert policyc("compile", "fleet.policy", cwd=tmp_path).returncode == 0
    out = ("--output", "parked.csv")
    assert policyc("run", "fleet.plan", "--input", "no.csv", *out, cwd=tmp_path).returncode == 1
    policy = tmp_path / "fleet.policy"
    policy.write_text(policy.read_text().replace("alpha = 1.0", "alpha = 1.5"))
    assert policyc("compile", "fleet.policy", cwd=tmp_path).returncode == 0
    assert policyc("verify", "fleet.plan", cwd=tmp_path).returncode == 0
    ran = policyc("run", "fleet.plan", "--input", "departures_january.csv.gz", *out, "--steps", "2", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert policyc("verify", "fleet.plan", "--release", "parked.csv", cwd=tmp_path).returncode == 0


def test_show_has_one_row_a_step_in_every_format(fleet):
    """CSV and JSON have the named columns; total leakage never exceeds 1."""
    table = policyc("show", "fleet.plan", cwd=fleet).stdout.splitlines()
    rows = policyc("show", "fleet.plan", "--format", "csv", cwd=fleet).stdout.splitlines()
    records = json.loads(policyc("show", "fleet.plan", "--format", "json", cwd=fleet).stdout)
    assert rows[0] == "t,epsilon,scale,backward_leakage,forward_leakage,total_leakage,expected_error"
    assert table[0].split()[-3:] == ["typical_error", "expected_error", "(squared)"]
    typical, squared = map(float, table[1].split()[-2:])
    assert typical == pytest.approx(squared**0.5)
    assert len(rows) == len(table) == 366
    assert len(records) == 365
    assert all(float(row.split(",")[5]) <= 1.0 for row in rows[1:])


def test_compile_shows_each_stage(fleet):
    """`--emit tree|policy|plan` prints the stage and writes nothing."""
    for stage, word in (("tree", "PolicyHeader"), ("policy", "MarkovCorrelation"), ("plan", '"policyc-plan"')):
        shown = policyc("compile", "traffic.policy", "--emit", stage, cwd=fleet)
        assert shown.returncode == 0
        assert word in shown.stdout
    assert not (fleet / "traffic.plan").exists()


def test_findings_come_as_text_json_and_sarif(fleet):
    """`check` exits 1 on an error and shows it in the format asked for."""
    bad = fleet / "bad.policy"
    bad.write_text((fleet / "traffic.policy").read_text().replace("0.80, 0.10", "0.70, 0.10"))
    text = policyc("check", "bad.policy", cwd=fleet)
    assert text.returncode == 1
    assert "error[E0401]" in text.stderr
    (record,) = json.loads(policyc("check", "bad.policy", "--format", "json", cwd=fleet).stdout)
    assert record["code"] == "E0401"
    sarif = json.loads(policyc("check", "bad.policy", "--format", "sarif", cwd=fleet).stdout)
    assert sarif["version"] == "2.1.0"
    assert sarif["runs"][0]["results"][0]["ruleId"] == "E0401"


def test_fmt_checks_and_rewrites(fleet):
    """`fmt --check` exits 1 on a policy that is not in canonical form; after `fmt` it exits 0."""
    messy = fleet / "messy.policy"
    messy.write_text((fleet / "traffic.policy").read_text().replace("deliver   offline", "deliver      offline"))
    assert policyc("fmt", "--check", "messy.policy", cwd=fleet).returncode == 1
    assert policyc("fmt", "messy.policy", cwd=fleet).returncode == 0
    assert policyc("fmt", "--check", "messy.policy", cwd=fleet).returncode == 0


def test_fewer_steps_than_are_out_are_refused(fleet, tmp_path):
    """`--steps` below what was released would leave out what is paid for: a refusal, and no file."""
    data, out = ("--input", "departures_january.csv.gz"), ("--output", tmp_path / "two.csv")
    again = policyc("run", "fleet.plan", *data, *out, "--steps", "2", cwd=fleet)
    assert again.returncode == 1
    assert "error[E0886]" in again.stderr
    assert "ask for 28 or more" in again.stderr
    assert not (tmp_path / "two.csv").exists()


@pytest.mark.parametrize("process", ["declared chain", "no chain", "declared chain, counts 16 times as dispersed"])
def test_a_run_says_what_it_means_that_another_process_was_used(fleet, process):
    """Where the values move otherwise than the declared chain says, the summary says so, and what dispersed means."""
    series = Series(
        "parked", None, ("",), *np.zeros((2, 1, 1), dtype=np.int64), np.zeros(1, dtype=np.bool_), (process,)
    )
    said = render_run(load_plan(fleet / "fleet.plan"), Release({"parked": series}, ("2013-01-01",), True), [])
    assert f"process used: {process} at step 0" in said
    assert ("move otherwise than the" in said) == (process != "declared chain")
    assert ("vary more" in said) == ("dispersed" in process)
    plan, later = load_plan(fleet / "fleet.plan"), Release({"parked": series}, ("2013-01-08",), True, first=7)
    assert f"process used at the steps that were read: {process} at step 7" in render_run(plan, later, [])
    assert run_record(plan, later, [])["processes_from_step"] == 7


@pytest.mark.parametrize("command", ["compile", "run", "verify", "simulate"])
def test_an_interrupted_command_says_so_and_exits_1(command, fleet, tmp_path, capsys, monkeypatch):
    """Ctrl-C within a command is answered in words, as anywhere else."""
    monkeypatch.chdir(fleet)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("policyc_runtime.plan.load_plan", interrupted)
    monkeypatch.setattr("policyc.pipeline.compile_policy", interrupted)
    monkeypatch.setattr("policyc.compile_policy", interrupted)
    given = {
        "compile": ["fleet.policy", "-o", str(tmp_path / "x.plan")],
        "run": ["fleet.plan", "--input", "departures_january.csv.gz", "--output", str(tmp_path / "o.csv")],
    }
    arguments = [command, *given.get(command, ["fleet.plan"])]
    assert guarded(lambda: app(arguments, standalone_mode=True)) == 1
    assert (
        capsys.readouterr().err == "interrupted; what was drawn or written before is kept, run the same command again\n"
    )


def test_too_little_memory_is_no_internal_error(capsys):
    """What runs out of memory says so, and what to do, and exits 1."""
    assert guarded(lambda: np.ones(2**59)) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: memory is short\n  = help: ")
    assert "`ulimit -v`" in said


@pytest.mark.law
def test_an_interrupt_is_no_internal_error_while_data_are_read(capsys):
    """Ctrl-C in the middle of a query says what it was and exits 1, as anywhere else."""
    connection = connect()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        long = "SELECT sum(hash(range)) FROM range(1500000000)"  # seconds: the query looks up seldom
        assert guarded(lambda: connection.execute(long)) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.startswith("interrupted; ")


def test_a_plan_may_be_named_by_its_file(fleet):
    """`fleet.plan/plan.json` means `fleet.plan`."""
    by_file = policyc("show", "fleet.plan/plan.json", cwd=fleet)
    assert by_file.returncode == 0
    assert by_file.stdout == policyc("show", "fleet.plan", cwd=fleet).stdout
    assert "claims hold" in policyc("verify", "fleet.plan/plan.json", cwd=fleet).stdout


def test_simulate_refuses_an_altered_plan_and_a_bad_output_before_it_starts(fleet, tmp_path):
    """No errors are foretold from a plan that was altered, and no work is done for a file that cannot be written."""
    shutil.copytree(fleet / "fleet.plan", tmp_path / "other.plan")
    plan = tmp_path / "other.plan" / "plan.json"
    plan.write_text(plan.read_text().replace('"horizon": 365', '"horizon": 364', 1))
    assert "E0803" in policyc("simulate", "other.plan", cwd=tmp_path).stderr
    refused = policyc("simulate", "fleet.plan", "--output", "sim.txt", cwd=fleet)
    assert refused.returncode == 1
    assert refused.stdout == ""


@pytest.mark.law
def test_simulate_is_marked_and_compares_estimators(fleet):
    """A simulation says NOT A RELEASE, and shows every estimator beside the prior alone; a seed repeats it."""
    first = policyc("simulate", "traffic.policy", "--seed", "5", "--repeat", "2", "--output", "sim.csv", cwd=fleet)
    assert first.returncode == 0, first.stderr
    for word in ("NOT A RELEASE", "prior alone", "joint_map()"):
        assert word in first.stdout
    assert policyc("simulate", "traffic.policy", "--seed", "5", "--repeat", "2", cwd=fleet).stdout in first.stdout
    assert "NOT A RELEASE" in (fleet / "sim.csv").read_text()
    refused = policyc("verify", "fleet.plan", "--release", "sim.csv", cwd=fleet)
    assert refused.returncode == 1
    (fleet / "departures.csv").write_bytes(gzip.decompress((fleet / "departures_january.csv.gz").read_bytes()))
    for name, said in (
        ("departures.csv", "error[E0827]: this claim fails in departures.csv"),
        ("departures_january.csv.gz", "no run writes values to such a file; its suffix is none of .csv, .parquet"),
        ("missing.csv", "there is no such file; check the name"),
    ):
        refused = policyc("verify", "fleet.plan", "--quick", "--allow-unchecked", "--release", name, cwd=fleet)
        assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
    assert "no run wrote this file" not in refused.stderr


def test_init_writes_a_policy_that_compiles(tmp_path):
    """`policyc init` writes a policy that compiles, says what is still to be written, and never overwrites one."""
    assert policyc("init", "first", cwd=tmp_path).returncode == 0
    assert policyc("fmt", "--check", "first.policy", cwd=tmp_path).returncode == 0
    assert policyc("compile", "first.policy", cwd=tmp_path).returncode == 0
    checked = policyc("check", "first.policy", cwd=tmp_path)
    assert checked.returncode == 0
    assert "W0402" in checked.stdout + checked.stderr, "its evidence is a placeholder"
    assert policyc("init", "first", cwd=tmp_path).returncode == 1
    assert policyc("init", "no good", cwd=tmp_path).returncode == 1


def test_explain_prints_the_page(tmp_path):
    """`explain` prints a code's page; an unknown code suggests near ones and exits 2."""
    assert policyc("explain", "e0401", cwd=tmp_path).stdout.startswith("# E0401")
    unknown = policyc("explain", "E0499", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "did you mean" in unknown.stderr
    begun = policyc("explain", "E03", cwd=tmp_path).stderr
    assert begun.split("did you mean ")[1].startswith("E0301, E0302")
    assert "E04" not in begun
    far = policyc("explain", "E9999", cwd=tmp_path)
    assert (far.returncode, "did you mean" in far.stderr) == (2, False)
    assert "as in `error[E0401]`" in far.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "missing.policy"),
        ("check", "missing.policy"),
        ("verify", "missing.plan"),
        ("show", "missing.plan"),
        ("run", "missing.plan", "--input", "a.csv", "--output", "b.csv"),
        ("simulate", "missing.policy"),
        ("fmt", "missing.policy"),
    ],
)
def test_a_missing_file_is_one_clear_message(arguments, tmp_path):
    """Missing files exit 1 with one finding that has a remedy, and no traceback."""
    failed = policyc(*arguments, cwd=tmp_path)
    assert failed.returncode == 1
    assert "error[E" in failed.stderr
    assert "= help:" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_wrong_usage_exits_2(tmp_path):
    """An unknown command or a missing option is a usage error."""
    assert policyc("publish", cwd=tmp_path).returncode == 2
    assert policyc("run", "x.plan", cwd=tmp_path).returncode == 2
    gaps = policyc("run", "x.plan", "--input", "e.csv", "--output", "o.csv", "--gaps", "zero", cwd=tmp_path)
    assert gaps.returncode == 2
    assert "with `--counts`" in gaps.stderr
    (tmp_path / "e.csv").write_text("a,b\n")
    swapped = policyc("run", "e.csv", "--input", "x.plan", "--output", "o.csv", cwd=tmp_path)
    assert (swapped.returncode, "e.csv is a file: name the directory" in swapped.stderr) == (2, True)
    for option in ("--ledger", "--account"):
        address = (option, "postgresql://me:S3CRET@host/db")
        away = policyc("run", "x.plan", "--input", "e.csv", "--output", "o.csv", *address, cwd=tmp_path)
        assert (away.returncode, "name a file of this machine" in away.stderr, "S3CRET" in away.stderr) == (
            2,
            True,
            False,
        )


def test_a_certificate_is_signed_and_checked(fleet):
    """A key is made, signs, and is found again by `verify`; without a key to sign with, usage is shown (2)."""
    shutil.copytree(fleet / "fleet.plan", fleet / "signed.plan")
    for arguments in (
        ("--new-key", "officer.pem"),
        ("signed.plan", "--key", "officer.pem", "--name", "Ada Bell", "--yes"),
    ):
        done = policyc("sign", *arguments, cwd=fleet)
        assert done.returncode == 0, done.stderr
    checked = policyc("verify", "signed.plan", "--signed-by", "officer.pem.pub", cwd=fleet)
    assert checked.returncode == 0, checked.stdout
    unsigned = policyc("verify", "fleet.plan", "--signed-by", "officer.pem.pub", cwd=fleet)
    assert unsigned.returncode == 1
    assert "error[E0873]" in unsigned.stderr
    assert policyc("sign", "fleet.plan", cwd=fleet).returncode == 2


def test_who_signs_says_who_and_when(fleet):
    """The page has name, role, organisation and day (today in UTC unless said); without a name it is usage (2)."""
    shutil.copytree(fleet / "fleet.plan", fleet / "named.plan")
    assert policyc("sign", "--new-key", "named.pem", cwd=fleet).returncode == 0
    told = ("sign", "named.plan", "--key", "named.pem", "--yes")
    unnamed = policyc(*told, cwd=fleet)
    assert unnamed.returncode == 2
    assert "--name" in unnamed.stderr
    refused = policyc(*told, "--name", "Ada\x1b[2J", cwd=fleet)
    assert refused.returncode == 1
    assert "error[E0885]" in refused.stderr
    assert "\x1b" not in refused.stderr
    assert not (fleet / "named.plan" / "certificate.dsse.json").exists()
    before = datetime.now(UTC).date().isoformat()
    done = policyc(*told, "--name", "Ada Bell", "--role", "officer", "--organisation", "Town", cwd=fleet)
    assert done.returncode == 0, done.stderr
    days = (before, datetime.now(UTC).date().isoformat())
    text = (fleet / "named.plan" / "certificate.md").read_text()
    assert any(f"Signed by Ada Bell, officer, Town, on {day}, with the key" in text for day in days)
    again = policyc(*told, "--name", "Ada Bell", "--date", "2026-11-21", cwd=fleet)
    assert again.returncode == 0, again.stderr
    assert "Signed by Ada Bell, on 2026-11-21, with" in (fleet / "named.plan" / "certificate.md").read_text()


def test_the_first_page_is_shown_before_it_is_signed(fleet, monkeypatch):
    """Where nobody can be asked, `--yes` says that it was read (2); who answers no has signed nothing (1)."""
    shutil.copytree(fleet / "fleet.plan", fleet / "asked.plan")
    assert policyc("sign", "--new-key", "asked.pem", cwd=fleet).returncode == 0
    told = ("sign", "asked.plan", "--key", "asked.pem", "--name", "Ada Bell", "--purpose", "open data")
    unasked = policyc(*told, cwd=fleet)
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    monkeypatch.setattr("policyc.cli.documents._is_read", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    refused = policyc(*told, cwd=fleet)
    assert refused.returncode == 1
    assert "What is promised" in refused.stdout
    assert "Do you, Ada Bell, sign this" in refused.stdout
    assert not (fleet / "asked.plan" / "certificate.dsse.json").exists()
    made = ("sign", "asked.plan", "--new-key", "refused.pem", "--name", "Ada Bell")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    again = policyc(*made, cwd=fleet)
    assert (again.returncode, "the new key is removed" in again.stderr) == (1, True)
    assert list(fleet.glob("refused.pem*")) == []  # a key that signed nothing, of which nobody thinks
    assert (fleet / "asked.pem").exists()  # one that was there stays
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert policyc(*told, cwd=fleet).returncode == 0
    assert "Purpose: open data." in (fleet / "asked.plan" / "certificate.md").read_text()


def test_a_weaker_plan_exits_1_and_trouble_exits_2(fleet):
    """`diff` of a plan with itself exits 0; of two where the second promises less, 1; of no plan, 2."""
    (fleet / "louder.policy").write_text((fleet / "fleet.policy").read_text().replace("alpha = 1.0", "alpha = 1.5"))
    assert policyc("compile", "louder.policy", "-o", "louder.plan", cwd=fleet).returncode == 0
    assert policyc("diff", "fleet.plan", "fleet.plan", cwd=fleet).returncode == 0
    weaker = policyc("diff", "fleet.plan", "louder.plan", "--json", cwd=fleet)
    assert weaker.returncode == 1
    assert json.loads(weaker.stdout)["weaker"] is True
    assert policyc("diff", "louder.plan", "fleet.plan", cwd=fleet).returncode == 0
    assert policyc("diff", "fleet.plan", "nowhere.plan", cwd=fleet).returncode == 2


def test_verification_as_json(fleet):
    """`verify --json` has one record a claim; a plan that fails exits 1 and says which."""
    done = policyc("verify", "fleet.plan", "--release", "parked.csv", "--json", cwd=fleet)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["holds"] is True
    assert {"claim", "holds", "detail", "where", "code"} == set(told["claims"][0])
    shutil.copytree(fleet / "fleet.plan", fleet / "altered.plan")
    (fleet / "altered.plan" / "steps.csv").write_text("step\n")
    done = policyc("verify", "altered.plan", "--json", cwd=fleet)
    assert done.returncode == 1
    assert next(claim["code"] for claim in json.loads(done.stdout)["claims"] if claim["holds"] is False) == "E0803"


def test_a_claim_whose_check_did_not_run_is_not_counted_as_one_that_holds(fleet):
    """After a run that was killed: every claim has its line, in words and for programs, and says what was found."""
    seal = fleet / "fleet.plan" / "ledger.sqlite.seal"
    written = seal.read_text()
    seal.write_text(read_seal(seal)._replace(sha256="").text)
    done = policyc("verify", "fleet.plan", cwd=fleet)
    told = json.loads(policyc("verify", "fleet.plan", "--json", cwd=fleet).stdout)
    seal.write_text(written)
    assert done.returncode == 1  # what could not be checked is no success
    lines = done.stdout.splitlines()
    marks = {True: "holds", False: "FAILS", None: "not checked"}
    assert [line[:11].strip() for line in lines[:-1]] == [marks[claim["holds"]] for claim in told["claims"]]
    unchecked = [claim for claim in told["claims"] if claim["holds"] is None]
    assert [Path(claim["where"]).name for claim in unchecked] == ["ledger.sqlite.seal"]
    assert lines[-1] == f"{len(told['claims']) - 1} claims hold, 1 not checked"
    assert (told["holds"], told["not_checked"]) == (False, 1)


def examples() -> list[str]:
    """Every line of every help text that is a command."""
    group = get_command(app)
    commands = list(group.commands.values())
    commands += [command for one in commands for command in getattr(one, "commands", {}).values()]
    texts = [group.help or "", *(command.help or "" for command in commands)]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip().startswith("policyc ")]


@pytest.mark.parametrize("line", examples())
def test_the_examples_of_the_help_are_commands(line: str) -> None:
    """Every line that the help shows has all that its command asks for, and nothing that it does not know."""
    name, *arguments = shlex.split(re.split(r"   +| > ", line)[0])[1:]
    command = get_command(app).commands[name]
    while hasattr(command, "commands"):
        name, *arguments = arguments
        command = command.commands[name]
    context = command.make_context(name, arguments)
    assert context.params


def test_a_ledger_that_is_held_is_waited_for_once(fleet, tmp_path, monkeypatch):
    """`verify --release` says that the ledger is busy, and does not open it again for the file."""
    shutil.copytree(fleet / "fleet.plan", tmp_path / "fleet.plan")
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.2)
    opened = []
    connected = ledger_file.connect
    monkeypatch.setattr(ledger_reader, "connect", lambda uri: opened.append(uri) or connected(uri))
    holder = sqlite3.connect(tmp_path / "fleet.plan" / "ledger.sqlite", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    checked = policyc("verify", "fleet.plan", "--quick", "--release", fleet / "parked.csv", cwd=tmp_path)
    holder.close()
    assert checked.returncode == 1
    assert "error[E0824]" in checked.stderr
    assert len(opened) == 1


@pytest.mark.parametrize(("said", "threads"), [(None, "1"), ("2", "2")])
def test_matrices_take_one_thread_unless_more_are_asked_for(monkeypatch, tmp_path, said, threads):
    """Threads of small matrices wait for each other, beside other work for long."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", said or "")
    if said is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    assert policyc("--version", cwd=tmp_path).returncode == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == threads
