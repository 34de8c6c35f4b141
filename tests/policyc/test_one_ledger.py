"""Through the command line: a plan has one ledger, at its newest state, and runs what was signed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prompt import policyc

from policyc import compile_policy
from policyc.emit import sign, signatures, signing_keys

POLICY = """
policy visits "visitors"
stream seen {
  user person
  time at
  step 1h
  horizon 48 steps
  start "2026-01-01"
}
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, enforced = keep_first)
deliver realtime
objective mean_squared_error
mechanism gaussian()
estimate none()
"""
LEDGER, SEAL, PIN = "ledger.sqlite", "ledger.sqlite.seal", "ledger.pin"


def run(folder: Path, steps: int, *more: object, output: str = "out.csv") -> subprocess.CompletedProcess[str]:
    data = ("--input", "seen.csv", "--steps", steps, "--output", output)
    return policyc("run", "visits.plan", *data, *more, cwd=folder)


def is_refused(folder: Path, code: str, *ledger: object, steps: int = 6) -> bool:
    """By a run to another output, which draws and writes nothing, and by `verify`, which names it."""
    ran = run(folder, steps, *ledger, output="again.csv")
    checked = policyc("verify", "visits.plan", *ledger, cwd=folder)
    assert (ran.returncode, checked.returncode) == (1, 1), ran.stderr + checked.stderr
    assert ran.stderr.count("error[") == 1
    assert not (folder / "again.csv").exists()
    return f"error[{code}]" in ran.stderr and f"error[{code}]" in checked.stderr


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four steps released from new rows, with the older copy of three beside."""
    folder = tmp_path_factory.mktemp("visits")
    (folder / "visits.policy").write_text(POLICY)
    compile_policy(folder / "visits.policy").save(folder / "visits.plan")
    rows = [f"u{n % 7},2026-01-01T{n // 4:02}:{n % 4}5:00" for n in range(40)]
    (folder / "seen.csv").write_text("\n".join(["person,at", *rows]) + "\n")
    for steps in (3, 4):
        done = run(folder, steps, "--continued")
        assert done.returncode == 0, done.stderr
        if steps == 3:
            shutil.copytree(folder / "visits.plan", folder / "older")
    return folder


@pytest.fixture
def folder(begun: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "visits"))


def test_an_older_ledger_is_refused(folder: Path) -> None:
    """Put back alone, and with its seal and its private files, whatever output is named."""
    plan, older = folder / "visits.plan", folder / "older"
    shutil.copy(older / LEDGER, plan / LEDGER)
    assert is_refused(folder, "E0848")
    shutil.copy(older / SEAL, plan / SEAL)
    shutil.copytree(older / "private", plan / "private", dirs_exist_ok=True)
    assert is_refused(folder, "E0848")


def test_a_second_ledger_is_refused(folder: Path) -> None:
    """With the first one in the plan's directory, and with the first one elsewhere and `--ledger` forgotten."""
    assert "error[E0809]" in run(folder, 6, "--ledger", "second.sqlite", output="again.csv").stderr
    assert not (folder / "second.sqlite").exists()
    plan = folder / "visits.plan"
    for name in (LEDGER, SEAL):
        (plan / name).rename(folder / name)
    (plan / "private").rename(folder / "private")
    assert is_refused(folder, "E0822")
    assert is_refused(folder, "E0822", "--ledger", "second.sqlite")
    done = run(folder, 6, "--ledger", LEDGER)
    assert "2 new, 4 from before" in done.stdout, done.stderr


@pytest.mark.parametrize("way", ["visits.plan/../visits.plan", "linked"])
def test_the_plans_own_ledger_is_its_own_however_it_is_spelt(folder: Path, way: str) -> None:
    """By dots or by a link to its directory; another one, of the same name, is not."""
    (folder / "linked").symlink_to("visits.plan")
    done = run(folder, 6, "--continued", "--ledger", f"{way}/{LEDGER}")
    assert "2 new, 4 from before" in done.stdout, done.stderr
    assert policyc("verify", "visits.plan", "--ledger", f"{way}/{LEDGER}", cwd=folder).returncode == 0
    (folder / "elsewhere").mkdir()
    (folder / "linked").unlink()
    (folder / "linked").symlink_to("elsewhere")
    assert "error[E0809]" in run(folder, 7, "--ledger", f"linked/{LEDGER}", output="again.csv").stderr


@pytest.mark.law
def test_two_runs_at_once_publish_the_same(folder: Path) -> None:
    """Begun together, both end well, with the same values for the steps that one of them drew."""
    program = shutil.which("policyc", path=str(Path(sys.executable).parent))
    command = [str(program), "run", "visits.plan", "--input", "seen.csv", "--steps", "8", "--output"]
    both = [
        subprocess.Popen([*command, name], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in ("one.csv", "two.csv")
    ]
    said = [one.communicate(timeout=120)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()
    assert policyc("verify", "visits.plan", "--release", "one.csv", cwd=folder).returncode == 0


PAUSED = """
import sys
from importlib import import_module
from pathlib import Path
place = import_module("{place}")
known = place.{step}
def paused(*given):
    Path("reached").touch()
    Path("go_on").read_bytes()
    return known(*given)
place.{step} = paused
from policyc.cli import main
sys.exit(main())
"""


@contextmanager
def paused_run(folder: Path, step: str, steps: int, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that has released its steps, and waits before a step of its writing until the block ends."""
    os.mkfifo(folder / "go_on")
    given = ["--input", "seen.csv", "--steps", str(steps), "--output", "out.csv", *more]
    place, _, name = step.rpartition(".")
    command = [sys.executable, "-c", PAUSED.format(place=place, step=name), "run", "visits.plan", *given]
    with (folder / "said").open("w") as said, subprocess.Popen(command, cwd=folder, stderr=said) as process:
        try:
            while not (folder / "reached").exists():
                assert process.poll() is None, (folder / "said").read_text()
                time.sleep(0.01)
            yield process
            (folder / "go_on").write_bytes(b"")
            process.wait(timeout=60)
        finally:
            process.kill()


@pytest.mark.parametrize("more", [(), ("--continued",)])
def test_a_run_does_not_write_over_steps_that_another_released_meanwhile(folder: Path, more: tuple[str, ...]) -> None:
    """Of two at once on one output the one of fewer steps is refused, as it is after the other."""
    (folder / "out.csv").unlink(missing_ok=True)
    with paused_run(folder, "policyc_runtime.output.drafted_release", 6, *more) as fewer:
        assert run(folder, 8, *more).returncode == 0
        whole = (folder / "out.csv").read_bytes()
    assert fewer.returncode == 1
    assert "error[E0826]" in (folder / "said").read_text()
    assert "other runs have released more steps" in (folder / "said").read_text()
    assert (folder / "out.csv").read_bytes() == whole
    assert policyc("verify", "visits.plan", "--release", "out.csv", cwd=folder).returncode == 0


def test_a_run_releases_no_more_while_another_puts_its_file_in_place(folder: Path) -> None:
    """What was looked at before is then still so; a run that is killed there holds nobody up."""
    (folder / "out.csv").unlink(missing_ok=True)
    with paused_run(folder, "policyc_runtime.output.put_in_place", 6) as fewer:
        given = ("--input", "seen.csv", "--steps", "8", "--output", "out.csv")
        command = [sys.executable, "-m", "policyc", "run", "visits.plan", *given]
        with subprocess.Popen(command, cwd=folder) as more:
            with pytest.raises(subprocess.TimeoutExpired):
                more.wait(timeout=4)
            assert not (folder / "out.csv").exists()
            fewer.kill()
            assert more.wait(timeout=60) == 0
        (folder / "go_on").unlink()  # nobody reads it any more
    assert (folder / "out.csv").read_text().count("\n") == 9


def test_the_report_of_fewer_steps_does_not_take_the_place_of_one_of_more(folder: Path) -> None:
    """Of a run that came in between: the page tells of what lies beside it."""
    (folder / "out.csv").unlink(missing_ok=True)
    with paused_run(folder, "policyc.cli.releases.put_report", 6) as fewer:
        assert run(folder, 8).returncode == 0
        told = (folder / "out.report.json").read_bytes()
    assert fewer.returncode == 0
    assert (folder / "out.report.json").read_bytes() == told
    assert (folder / "out.csv").read_text().count("\n") == 9


@pytest.mark.parametrize("name", [SEAL, PIN])
def test_an_emptied_or_missing_seal_is_refused(folder: Path, name: str) -> None:
    """Of the seal and of the pin in the plan's directory."""
    file = folder / "visits.plan" / name
    file.write_text("")
    assert is_refused(folder, "E0848")
    file.unlink()
    assert is_refused(folder, "E0848")


def test_an_altered_history_is_refused(folder: Path) -> None:
    """Forgetting in which steps users were kept would let them take part more often than the bound allows."""
    history = folder / "visits.plan" / "private" / f"{LEDGER}.history"
    kept = history.read_bytes()
    with sqlite3.connect(history) as file:
        assert file.execute("DELETE FROM kept").rowcount > 0
    file.close()
    for done in (run(folder, 6, "--continued", output="again.csv"), policyc("verify", "visits.plan", cwd=folder)):
        assert done.returncode == 1
        assert "error[E0840]" in done.stderr
    assert not (folder / "again.csv").exists()
    shutil.copy(folder / "older" / "private" / history.name, history)
    assert "error[E0840]" in run(folder, 6, "--continued", output="again.csv").stderr
    history.write_bytes(kept)
    assert policyc("verify", "visits.plan", "--release", "out.csv", cwd=folder).returncode == 0


def test_a_directory_without_private_files_verifies(folder: Path) -> None:
    """The folder is its owner's alone, and what an auditor is given holds without it."""
    plan = folder / "visits.plan"
    private = plan / "private"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert {file.name for file in private.iterdir()} == {
        f"{LEDGER}.{end}" for end in ("key", "history", "steps", "private.json", "checkpoint")
    }
    assert {stat.S_IMODE(file.stat().st_mode) for file in private.iterdir()} == {0o600}
    shutil.rmtree(private)
    checked = policyc("verify", "visits.plan", "--release", "out.csv", cwd=folder)
    assert checked.returncode == 0, checked.stderr
    assert "only their owner can compare" in checked.stdout
    assert "error[E0822]" in run(folder, 6).stderr


def test_a_signed_directory_runs_only_what_was_signed(folder: Path) -> None:
    """Signed it runs; with another certificate than the signed one, or with signatures cut, it does not."""
    plan = folder / "visits.plan"
    signing_keys.new_key(folder / "officer")
    sign(plan, folder / "officer", str, signatures.Signer("Ada Bell", "2026-11-21"))
    assert "1 new, 4 from before" in run(folder, 5).stdout
    for name, change in (("certificate.json", b" "), ("certificate.dsse.json", b"")):
        content = (plan / name).read_bytes()
        (plan / name).write_bytes(content + change if change else content[:-40])
        ran = run(folder, 6, output="again.csv")
        assert ran.returncode == 1
        assert "error[E0873]" in ran.stderr
        (plan / name).write_bytes(content)
    assert "1 new, 5 from before" in run(folder, 6).stdout


def test_no_second_ledger_where_the_first_lies_in_the_directory(folder: Path) -> None:
    """Without its pin the plan's own ledger, or what is left of it, still says that there is one."""
    (folder / "visits.plan" / PIN).unlink()
    assert "error[E0809]" in run(folder, 6, "--ledger", "second.sqlite", output="again.csv").stderr
    (folder / "visits.plan" / LEDGER).unlink()
    (folder / "visits.plan" / SEAL).unlink()
    assert "error[E0822]" in run(folder, 6, "--ledger", "second.sqlite", output="again.csv").stderr


@pytest.mark.parametrize("kind", ["without tables", "emptied"])
def test_a_pinned_plan_takes_no_empty_database(folder: Path, kind: str) -> None:
    """A database without tables is no ledger that was never begun, where the plan's directory has a pin."""
    directory = folder / "visits.plan"
    pin = (directory / PIN).read_text()
    other = folder / "second.sqlite"
    if kind == "emptied":
        shutil.move(directory / LEDGER, other)
    shutil.rmtree(directory / "private")
    (directory / SEAL).unlink()
    with sqlite3.connect(other) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    (directory / LEDGER).unlink(missing_ok=True)
    done = run(folder, 6, "--ledger", "second.sqlite", output="again.csv")
    assert done.returncode == 1
    assert "error[E0822]" in done.stderr
    assert (directory / PIN).read_text() == pin


def test_of_two_first_runs_only_one_ledger_is_the_plans(folder: Path) -> None:
    """A run that began when the plan had no pin draws nothing once another run has pinned its own ledger."""
    pin = folder / "fresh.pin"
    from policyc_runtime.errors import LedgerError
    from policyc_runtime.ledger_seal import Seal, Seals

    for name in ("a", "b"):
        seal = Seal(name * 32, 0, "", 1, "f" * 64, "")
        seals = Seals(folder / f"{name}.sqlite", pin)
        if name == "a":
            seals.write(seal)
        else:
            with pytest.raises(LedgerError, match="another ledger"):
                seals.write(seal)
    assert '"ledger": "' + "a" * 32 in pin.read_text()
