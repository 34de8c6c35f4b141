"""Plans that share the account of their data set, through the command line."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from policyc.cli.account import _left, _number
from policyc_runtime import load_plan, release
from policyc_runtime.account import Account
from policyc_runtime.errors import LedgerError
from policyc_runtime.ledger_reader import LedgerReader

POLICY = """policy {name} "rides of a day"

stream trips {{
  user     rider
  time     at
  step     1d
  horizon  6 steps
  start    "2026-01-01"
  dataset  city
}}

release rides = count(trips)

target user_level(epsilon = {epsilon}, delta = 1e-6, neighbors = add_remove)
participation at_most(6 steps, assumed = "there are six days")
"""
PROMISE = "user_level(epsilon = 2.0, delta = 1e-6, neighbors = add_remove)"


def policyc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "policyc", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def city(tmp_path: Path) -> Path:
    for name, epsilon in (("first", "1.0"), ("second", "1.2"), ("third", "1.5")):
        (tmp_path / f"{name}.policy").write_text(POLICY.format(name=name, epsilon=epsilon))
    rows = [f"r{user},2026-01-0{1 + (user + day) % 6}T08:00:00" for user in range(60) for day in range(3)]
    (tmp_path / "trips.csv").write_text("rider,at\n" + "\n".join(rows) + "\n")
    done = policyc(tmp_path, "account", "new", "city.account", "--dataset", "city", "--promise", PROMISE)
    assert done.returncode == 0, done.stderr
    return tmp_path


def run(folder: Path, name: str, *more: str) -> subprocess.CompletedProcess[str]:
    return policyc(folder, "run", f"{name}.plan", "--input", "trips.csv", "--output", f"{name}.csv", *more)


def shown(folder: Path) -> dict[str, object]:
    done = policyc(folder, "account", "show", "city.account", "--json")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_two_plans_fit_and_a_third_does_not(city: Path) -> None:
    for name in ("first", "second"):
        assert policyc(city, "compile", f"{name}.policy", "--account", "city.account").returncode == 0
    refused = policyc(city, "compile", "third.policy", "--account", "city.account")
    assert (refused.returncode, "error[E0894]: data set `city` has not so much left" in refused.stderr) == (1, True)
    together = re.search(r"they tell together, which would be ([0-9.]+) nats at delta 0.000001", refused.stderr)
    assert together is not None, refused.stderr
    assert 2.0 < float(together[1]) < 1.0 + 1.2 + 1.5, "composed, and not added"
    assert not (city / "third.plan").exists()

    without = run(city, "first")
    assert (without.returncode, "error[E0896]: the account of data set `city` is not named" in without.stderr) == (
        1,
        True,
    )
    assert "or begin one: `policyc account new FILE" in without.stderr
    assert not (city / "first.csv").exists()
    assert run(city, "first", "--account", "city.account").returncode == 0
    assert run(city, "first", "--account", "city.account").returncode == 0
    without = run(city, "first")  # a new account would know nothing of what was drawn
    assert "help: name the one in which this plan was entered when it ran first" in without.stderr
    found = shown(city)
    assert found["spent"] == pytest.approx(1.0, abs=1e-3)
    assert [entry["what"] for entry in found["entries"]] == ["requested", "requested", "spent"]  # type: ignore[attr-defined]

    assert policyc(city, "compile", "third.policy").returncode == 0  # a plan that nobody has entered
    refused = run(city, "third", "--account", "city.account")
    assert (refused.returncode, "E0894" in refused.stderr) == (1, True)
    assert not (city / "third.csv").exists()

    second = next(one["plan"] for one in found["plans"] if one["policy"] == "second")  # type: ignore[attr-defined]
    assert policyc(city, "account", "withdraw", "city.account", second[:12]).returncode == 0
    taken_back = policyc(city, "account", "withdraw", "city.account", "first.plan")
    assert (taken_back.returncode, "what was drawn cannot be taken back" in taken_back.stderr) == (1, True)
    assert shown(city)["requested"] == 0
    told = policyc(city, "account", "show", "city.account").stdout
    assert "first: rides of a day" in told
    assert "second" not in told


@pytest.mark.law
def test_what_is_shown_is_rounded_against_those_who_spend(city: Path) -> None:
    """As for programs: what plans tell is no less, and what is left no more."""
    assert policyc(city, "compile", "first.policy", "--account", "city.account").returncode == 0
    assert run(city, "first", "--account", "city.account", "--steps", "6").returncode == 0
    assert policyc(city, "compile", "second.policy", "--account", "city.account").returncode == 0
    found = shown(city)
    told = policyc(city, "account", "show", "city.account").stdout
    spent, requested, left = (
        float(re.findall(rf"{name} +([0-9.]+)", told)[-1]) for name in ("spent", "requested", "left")
    )
    for text, exact, up in (
        (spent, found["spent"], True),
        (requested, found["requested"], True),
        (left, found["left"], False),
    ):
        assert isinstance(exact, float)
        assert text >= exact if up else text <= exact
        assert text == pytest.approx(exact, rel=1e-5)
    assert (_number(0.3333333), _number(0.4999996), _number(0.3), _number(None)) == (
        "0.333334",
        "0.5",
        "0.3",
        "no limit",
    )
    assert (_left(0.3333339), _left(0.4999996), _left(0.3), _left(0.0)) == ("0.333333", "0.499999", "0.3", "0")


def test_verify_adds_up_again(city: Path) -> None:
    policyc(city, "compile", "first.policy", "--account", "city.account")
    run(city, "first", "--account", "city.account")
    held = policyc(city, "verify", "first.plan", "--account", "city.account")
    assert held.returncode == 0, held.stderr
    assert "together keep its promise" in held.stdout
    unnamed = policyc(city, "verify", "first.plan")
    assert (unnamed.returncode, "not checked  all plans on data set `city`" in unnamed.stdout) == (1, True)
    assert policyc(city, "account", "verify", "city.account").returncode == 0

    auditor = city / "auditor"
    auditor.mkdir()
    for name in ("city.account", "first.csv"):
        shutil.copy(city / name, auditor)
    shutil.copytree(city / "first.plan", auditor / "first.plan", ignore=shutil.ignore_patterns("private"))
    without_data = policyc(auditor, "verify", "first.plan", "--account", "city.account", "--release", "first.csv")
    assert (without_data.returncode, "together keep its promise" in without_data.stdout) == (0, True)
    assert policyc(auditor, "account", "verify", "city.account").returncode == 0
    assert policyc(auditor, "account", "show", "city.account").stdout.count("of 2.0 nats at delta 0.000001\n") == 1

    policyc(city, "account", "new", "other.account", "--dataset", "city", "--promise", PROMISE)
    other = policyc(city, "verify", "first.plan", "--account", "other.account")
    assert (other.returncode, "E0891" in other.stderr) == (1, True)
    late = run(city, "first", "--account", "other.account")
    assert (late.returncode, "does not know of what this plan has released" in late.stderr) == (1, True)


@pytest.mark.law
def test_simulated_events_spend_nothing(city: Path) -> None:
    policyc(city, "compile", "first.policy")
    assert policyc(city, "simulate", "first.plan", "--events", "made.csv").returncode == 0
    made = policyc(city, "run", "first.plan", "--input", "made.csv", "--output", "made_out.csv")
    assert made.returncode == 0, made.stderr
    assert shown(city)["entries"] == []


@pytest.mark.parametrize("mark", ["", "yes", "NOT A RELEASE"])
def test_real_events_beside_simulated_ones_are_none(city: Path, mark: str) -> None:
    """Or with a column of that name: refused before anything is drawn, and without the column they are run."""
    policyc(city, "compile", "first.policy")
    names, *rows = (city / "trips.csv").read_text().splitlines()
    marks = ["NOT A RELEASE"] * (len(rows) - 1) + [mark]
    (city / "made.csv").write_text(
        "\n".join([f"{names},Simulated", *map(",".join, zip(rows, marks, strict=True))]) + "\n"
    )
    command = ("run", "first.plan", "--output", "first.csv", "--account", "city.account")
    made = policyc(city, *command, "--input", "made.csv")
    assert (made.returncode, "error[E0896]" in made.stderr) == ((0, False) if mark == "NOT A RELEASE" else (1, True))
    assert shown(city)["entries"] == []
    if made.returncode:
        assert policyc(city, *command, "--input", "trips.csv").returncode == 0
        assert len(shown(city)["entries"]) == 1  # type: ignore[arg-type]


def test_real_events_that_were_refused_are_not_released_with_simulated_ones(city: Path) -> None:
    """Nothing of them was taken in: not even by a run that goes on with rows that are all marked, or with none."""
    policyc(city, "compile", "first.policy")
    names, *rows = (city / "trips.csv").read_text().splitlines()
    (city / "bad.csv").write_text("\n".join([f"{names},simulated", *(f"{row},x" for row in rows)]) + "\n")
    (city / "none.csv").write_text(f"{names},simulated\n")
    command = ("run", "first.plan", "--output", "first.csv", "--continued", "--steps", "2")
    refused = policyc(city, *command, "--input", "bad.csv")
    assert (refused.returncode, "error[E0896]" in refused.stderr) == (1, True)
    assert not list((city / "first.plan").glob("*ledger*"))
    assert not (city / "first.plan" / "private").exists()
    honest = policyc(city, *command, "--input", "trips.csv", "--account", "city.account")
    assert (honest.returncode, len(shown(city)["entries"])) == (0, 1), honest.stderr  # type: ignore[arg-type]
    later = policyc(city, *command, "--input", "none.csv")
    assert later.returncode == 1


def test_a_killed_run_is_charged_once(city: Path) -> None:
    """Killed anywhere between the account's commit and the end: the next run goes on, and nothing is charged twice."""
    policyc(city, "compile", "first.policy")
    command = [*"run first.plan --input trips.csv --output first.csv --account city.account".split()]
    for wait in (0.0, 0.02, 0.05):
        process = subprocess.Popen([sys.executable, "-m", "policyc", *command], cwd=city, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not _charged(city) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
    assert run(city, "first", "--account", "city.account").returncode == 0
    assert len(shown(city)["entries"]) == 1  # type: ignore[arg-type]
    assert policyc(city, "verify", "first.plan", "--account", "city.account", "--release", "first.csv").returncode == 0


def _charged(folder: Path) -> int:
    connection = sqlite3.connect(f"{(folder / 'city.account').as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        return int(connection.execute("SELECT count(*) FROM entry").fetchone()[0])
    finally:
        connection.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("new", "a", "--dataset", "city", "--promise", "alpha_dpt(alpha = 1.0)"), "E0896"),
        (("new", "a", "--dataset", "city", "--promise", "user_level(epsilon = 1)"), "E02"),
        (("new", "a", "--dataset", "city", "--promise", "nothing"), "error["),
        (("new", "a", "--dataset", "city", "--promise", "event_level(epsilon = 1)\nrelease a = count(b)"), "error["),
        (("new", "a", "--dataset", "c ty", "--promise", "event_level(epsilon = 1)"), "E0103"),
        (("new", "city.account", "--dataset", "city", "--promise", "event_level(epsilon = 1)"), "E0890"),
        (("new", "no/where", "--dataset", "city", "--promise", "event_level(epsilon = 1)"), "make the directory"),
        (("show", "first.policy"), "E0890"),
        (("show", "missing"), "E0890"),
        (("withdraw", "city.account", "00"), "E0895"),
        *(
            (
                ("new", "a", "--dataset", "city", "--promise", f"user_level(epsilon = 1, {rest}, neighbors = replace)"),
                said,
            )
            for rest, said in (("delta = 1", "E0305"), ("delta = 2", "E0305"), ("delta = 0.5", "E0310"))
        ),
    ],
)
def test_what_cannot_be_done_is_said(city: Path, arguments: tuple[str, ...], said: str) -> None:
    done = policyc(city, "account", *arguments)
    assert done.returncode == 1, done.stdout
    assert said in done.stderr
    assert "help" in done.stderr
    assert not (city / "a").exists()


def test_an_edited_policy_says_what_its_earlier_text_requests(city: Path) -> None:
    """Until somebody withdraws it, it counts; compiled again as it is, nothing is said."""
    for epsilon, says in (("1.0", False), ("1.0", False), ("0.7", True)):
        (city / "first.policy").write_text(POLICY.format(name="first", epsilon=epsilon))
        done = policyc(city, "compile", "first.policy", "--account", "city.account")
        assert (done.returncode, "counts an earlier plan of `first`" in done.stdout) == (0, says), done.stdout
    command = done.stdout.splitlines()[-1].rpartition("`policyc ")[2].partition("`")[0].split()
    assert policyc(city, *command).returncode == 0
    assert [one["alone"] for one in shown(city)["plans"]] == [pytest.approx(0.7, rel=1e-5)]  # type: ignore[attr-defined]
    done = policyc(city, "compile", "second.policy", "--account", "city.account")
    assert (done.returncode, "counts an earlier" in done.stdout) == (0, False)


def test_a_policy_without_a_data_set_has_no_account(city: Path) -> None:
    (city / "first.policy").write_text((city / "first.policy").read_text().replace("  dataset  city\n", ""))
    done = policyc(city, "compile", "first.policy", "--account", "city.account")
    assert (done.returncode, "error[E0896]: the policy names no data set" in done.stderr) == (1, True)
    assert policyc(city, "compile", "first.policy").returncode == 0
    checked = policyc(city, "verify", "first.plan", "--quick", "--allow-unchecked", "--account", "city.account")
    assert (checked.returncode, "error[E0896]" in checked.stderr, "None" in checked.stdout) == (1, True, False)
    assert "names no data set: verify it without `--account`" in checked.stdout


@pytest.mark.law
def test_another_data_set_is_a_difference(city: Path) -> None:
    (city / "third.policy").write_text((city / "first.policy").read_text().replace("  dataset  city\n", ""))
    policyc(city, "compile", "first.policy", "-o", "with.plan")
    policyc(city, "compile", "third.policy", "-o", "without.plan")
    for old, new, word in (("with.plan", "without.plan", "weaker"), ("without.plan", "with.plan", "stronger")):
        told = policyc(city, "diff", old, new).stdout
        assert any("whose account it shares" in line and word in line.lower() for line in told.splitlines()), told


def test_of_two_copies_of_a_plan_one_goes_on(city: Path) -> None:
    """The other one, whose ledger lacks what was drawn since, draws nothing; `verify` says so of it."""
    policyc(city, "compile", "first.policy")
    assert run(city, "first", "--account", "city.account", "--steps", "2").returncode == 0
    shutil.copytree(city / "first.plan", city / "copy.plan")
    assert run(city, "copy", "--account", "city.account", "--steps", "2").returncode == 0  # nothing new: no other noise
    assert run(city, "first", "--account", "city.account", "--steps", "4").returncode == 0
    (city / "copy.csv").unlink()
    refused = run(city, "copy", "--account", "city.account", "--steps", "4")
    assert (refused.returncode, "error[E0848]" in refused.stderr) == (1, True), refused.stderr
    assert "it lacks what was drawn on a copy of it, says `city.account`" in refused.stderr
    assert not (city / "copy.csv").exists()
    with LedgerReader.open_read_only(city / "copy.plan" / "ledger.sqlite") as book:
        assert book.steps == 2
    for name, code in (("copy", 1), ("first", 0)):
        told = policyc(city, "verify", f"{name}.plan", "--quick", "--allow-unchecked", "--account", "city.account")
        assert (told.returncode, "lacks entries of which the account knows" in told.stdout) == (code, code == 1)
    assert run(city, "first", "--account", "city.account", "--steps", "6").returncode == 0


def test_of_two_copies_that_draw_at_once_one_publishes(city: Path) -> None:
    """Noise of both is drawn; what the slower one drew is never seen, however often it runs."""
    policyc(city, "compile", "first.policy")
    account, data = city / "city.account", city / "trips.csv"
    plan = load_plan(city / "first.plan")
    release(plan, data, city / "first.plan" / "ledger.sqlite", steps=2, account=account)
    shutil.copytree(city / "first.plan", city / "copy.plan")

    def meanwhile(done: int, _: int) -> None:
        if done == 4:
            copy = load_plan(city / "copy.plan")
            release(copy, data, city / "copy.plan" / "ledger.sqlite", steps=4, account=account)

    with pytest.raises(LedgerError, match="not as its last run left it") as refused:
        release(plan, data, city / "first.plan" / "ledger.sqlite", steps=4, account=account, progress=meanwhile)
    assert (refused.value.code, str(refused.value.help).endswith("nothing was published")) == ("E0848", True)
    with pytest.raises(LedgerError, match="not as its last run left it"):
        release(plan, data, city / "first.plan" / "ledger.sqlite", steps=4, account=account)
    assert release(plan, data, city / "copy.plan" / "ledger.sqlite", steps=6, account=account, pin=None).steps.stop == 6


def test_an_account_of_an_earlier_version_learns_how_far_ledgers_are(city: Path) -> None:
    policyc(city, "compile", "first.policy")
    with sqlite3.connect(city / "city.account") as connection:
        connection.execute("DROP TABLE reached")
    assert run(city, "first", "--account", "city.account", "--steps", "2").returncode == 0
    with sqlite3.connect(city / "city.account") as connection:
        connection.execute("DROP TABLE reached")
    told = policyc(city, "verify", "first.plan", "--quick", "--account", "city.account").stdout
    assert "no run told the account how far it came: run the plan again" in told
    assert run(city, "first", "--account", "city.account", "--steps", "2").returncode == 0
    told = policyc(city, "verify", "first.plan", "--quick", "--account", "city.account").stdout
    assert "no copy of this ledger has released other steps (it has the 2 entries" in told
    with Account.open(city / "city.account") as account:
        assert account.reached("another") is None
        for change in ("DELETE FROM reached", "UPDATE reached SET entries = entries"):
            with pytest.raises(sqlite3.IntegrityError):
                account._connection.execute(change)


def test_a_killed_commit_is_looked_at_as_it_was_before(city: Path) -> None:
    """Whoever only looks undoes it in a copy: the file and what lies beside it stay as they are."""
    policyc(city, "compile", "first.policy", "--account", "city.account")
    before = policyc(city, "account", "show", "city.account").stdout
    code = (
        "import os, sqlite3\n"
        "connection = sqlite3.connect('city.account', isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "connection.execute(\"INSERT INTO plan VALUES ('x', ?)\", ['y' * 10**6])\n"  # more than is kept in memory
        "os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=city, check=False)
    assert (city / "city.account-journal").stat().st_size > 0
    files = {name: (city / name).read_bytes() for name in ("city.account", "city.account-journal")}
    done = policyc(city, "account", "show", "city.account")
    assert (done.returncode, done.stdout) == (0, before), done.stderr
    assert policyc(city, "account", "verify", "city.account").returncode == 0
    assert {name: (city / name).read_bytes() for name in files} == files
    assert run(city, "first", "--account", "city.account").returncode == 0
    assert shown(city)["requested"] == 0


def test_what_is_refused_requests_nothing(city: Path) -> None:
    policyc(city, "compile", "first.policy", "--account", "city.account")
    run(city, "first", "--account", "city.account")
    (city / "first.policy").write_text(POLICY.format(name="first", epsilon="0.5"))
    refused = policyc(city, "compile", "first.policy", "--account", "city.account")
    assert (refused.returncode, "E0807" in refused.stderr) == (1, True)
    assert shown(city)["requested"] == 0


def test_a_withdrawn_request_decides_nothing(city: Path) -> None:
    """Nor which users an account is about: others may be asked for once it is taken back, by the name of its policy."""
    wrong = (city / "second.policy").read_text().replace("rider", "user_id")
    (city / "second.policy").write_text(wrong)
    policyc(city, "compile", "second.policy", "--account", "city.account")
    refused = policyc(city, "compile", "first.policy", "--account", "city.account")
    assert "nobody can tell that they are the same" in refused.stderr
    assert policyc(city, "account", "withdraw", "city.account", "second.plan").returncode == 0
    assert policyc(city, "compile", "first.policy", "--account", "city.account").returncode == 0
    assert policyc(city, "account", "verify", "city.account").returncode == 0


def test_a_pipe_in_place_of_its_journal_is_not_waited_for(city: Path) -> None:
    policyc(city, "compile", "first.policy", "--account", "city.account")
    os.mkfifo(city / "city.account-journal")
    for refused in (run(city, "first", "--account", "city.account"), policyc(city, "account", "show", "city.account")):
        assert (refused.returncode, "error[E0890]" in refused.stderr) == (1, True)
        assert "city.account-journal" in refused.stderr
        assert "it is a pipe, a socket or a device" in refused.stderr
    assert not (city / "first.csv").exists()


def test_an_account_that_is_gone_is_not_begun_again(city: Path) -> None:
    """A new one would have everything left."""
    policyc(city, "compile", "first.policy", "--account", "city.account")
    run(city, "first", "--account", "city.account")
    for change in (lambda file: file.write_bytes(b""), lambda file: file.unlink()):
        change(city / "city.account")
        refused = run(city, "first", "--account", "city.account")
        assert (refused.returncode, "error[E0890]" in refused.stderr) == (1, True)
        assert "help: restore the newest copy of the account; never begin a new one" in refused.stderr
    told = policyc(city, "account", "verify", "city.account").stdout
    assert "FAILS" in told
    assert "there is no account here" in told
