"""`policyc follow` as a process: lines piped into it, the machine's clock, signals, a second one, and kills."""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
import typer
from scripted import VISITS, planned

from policyc import compile_policy
from policyc.cli.follow import _metrics_file, _output_files, _overdue, _properties, _require_open, _say, _standing
from policyc.planning.joint_promise import joint_promise
from policyc_runtime.account import Account
from policyc_runtime.errors import ReleaseError
from policyc_runtime.follow.arrivals import Arrivals
from policyc_runtime.follow.follower import Followed, Options
from policyc_runtime.follow.lock import followed_alone
from policyc_runtime.follow.metrics import FIRST
from policyc_runtime.follow.timetable import Timetable
from policyc_runtime.ledger_seal import PIN

COMMAND = [sys.executable, "-m", "policyc", "follow", "visits.plan", "--input", "-", "--lateness", "200ms"]

VISITS_OVERDUE = (
    "4 steps are overdue: they are published as soon as events that wait, if any, are read; "
    "to release them from events of their own, end this and `policyc run --continued --steps 4` first"
)


def compiled(folder: Path) -> Path:
    """A stream of 60 steps of two seconds each that begins now."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    text = VISITS.replace("2026-01-01T00:00:00Z", now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    (folder / "visits.policy").write_text(text.replace("step 1h", "step 2s").replace("horizon 4", "horizon 60"))
    compile_policy(folder / "visits.policy").save(folder / "visits.plan")
    return folder


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *more], cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def feed(process: subprocess.Popen[str], seconds: float) -> None:
    """A row every 50 ms, as long as somebody reads."""
    assert process.stdin is not None
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        now = datetime.datetime.now(datetime.UTC).isoformat()
        try:
            process.stdin.write(json.dumps({"person": "a", "at": now, "money": 1}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return
        time.sleep(0.05)


def feed_until(process: subprocess.Popen[str], published: Callable[[], bool]) -> None:
    """The same until something is there; a busy machine takes long to start, and a signal before that ends anything."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None and not published():
        feed(process, 0.5)


@pytest.mark.law
def test_signals_end_it_between_steps_and_a_second_one_is_refused(tmp_path):
    """Exit 0 on SIGTERM, what is out is whole and verifies; meanwhile another one on the plan has exit 1."""
    folder = compiled(tmp_path)
    process = started(folder, "--output", "out.parquet", "--output", "-")
    feed_until(process, (folder / "out-there.parquet").exists)
    feed(process, 5)
    second = started(folder, "--output", "other.parquet")
    assert (second.wait(60), "followed already" in second.communicate()[1]) == (1, True)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err.splitlines()[-1] == "ended: asked to"
    steps = [json.loads(line)["step"] for line in out.splitlines()]
    assert steps == sorted(steps)
    assert len(set(steps)) >= 2
    verify = [sys.executable, "-m", "policyc", "verify", "visits.plan", "--quick", "--allow-unchecked"]
    said = subprocess.run(
        [*verify, "--release", "out.parquet"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr


@pytest.mark.law
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_values_wait_for_their_moment_is_heard(number, tmp_path):
    """Their noise is in the ledger, and they are not out; killed instead, or asked to end, the next start publishes.

    Moments of publication are a pause apart from when the step closed: the next one is years away.
    """
    (tmp_path / "visits.policy").write_text(VISITS)
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    waiting = started(tmp_path, "--output", "out.csv", "--pause", "3650d")
    assert waiting.stdin is not None
    waiting.stdin.close()
    waiting.stdin = None
    until = time.monotonic() + 60
    while len(noise(tmp_path)) < 8 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1)
    drawn = noise(tmp_path)
    waiting.send_signal(number)
    waiting.communicate(timeout=20)
    assert waiting.returncode == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert list(tmp_path.glob("out*")) == []
    last = started(tmp_path, "--output", "out.csv")
    last.communicate("", timeout=60)
    assert last.returncode == 0
    assert {len(file.read_text().splitlines()) - 1 for file in tmp_path.glob("out-*.csv")} == {4}
    assert len(drawn) == 8
    assert noise(tmp_path) == drawn


def noise(folder: Path) -> list[tuple[int, str, str]]:
    """What the ledger has drawn, if it is there and nobody writes to it."""
    try:
        with closing(sqlite3.connect(f"file:{folder / 'visits.plan/ledger.sqlite'}?mode=ro", uri=True)) as ledger:
            return ledger.execute("SELECT step, release, noisy FROM entry ORDER BY number").fetchall()
    except sqlite3.OperationalError:
        return []


def test_overdue_steps_are_named_before_they_are_published(tmp_path):
    """Of a stream that begins in the past it is said how many steps are published at once, and the way around it."""
    (tmp_path / "visits.policy").write_text(VISITS)
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    for overdue in ([VISITS_OVERDUE], []):
        ended = subprocess.run(
            [*COMMAND, "--output", "out.csv"], cwd=tmp_path, input="", capture_output=True, text=True, check=False
        )
        assert (ended.returncode, [line for line in ended.stderr.splitlines() if "overdue" in line]) == (0, overdue)
    assert {len(file.read_text().splitlines()) - 1 for file in tmp_path.glob("out-*.csv")} == {4}
    for noted, fresh in ((4, ""), (3, ", step 3 just now: noise was drawn before"), (1, ", steps 1 to 3 just now")):
        with Arrivals(tmp_path / "visits.plan/ledger.sqlite", ("person", "at")) as arrivals:
            arrivals.note_published("out.csv", noted)
        ended = subprocess.run(
            [*COMMAND, "--output", "out.csv"], cwd=tmp_path, input="", capture_output=True, text=True, check=False
        )
        assert f"visits: 4 of 4 steps are published{fresh}" in ended.stderr, "of what an earlier start did not note"


def test_what_is_told_that_nobody_can_read_ends_nothing(tmp_path):
    """A full disk of logs, a closed pipe: values are published."""
    (tmp_path / "visits.policy").write_text(VISITS)
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    with Path("/dev/full").open("w") as full:
        subprocess.run([*COMMAND, "--output", "out.csv"], cwd=tmp_path, input="", stderr=full, text=True, check=True)
    assert {len(file.read_text().splitlines()) - 1 for file in tmp_path.glob("out-*.csv")} == {4}


def test_what_is_followed_is_not_run_meanwhile(tmp_path):
    """Steps that a run released would lack the rows that are still to come; when nobody follows any more, it runs."""
    (tmp_path / "visits.policy").write_text(VISITS)
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    (tmp_path / "events.csv").write_text("person,at,money\nu,2026-01-01T00:10:00Z,3\n")
    run = [sys.executable, "-m", "policyc", "run", "visits.plan", "--input", "events.csv", "--output", "o.csv"]
    with followed_alone(tmp_path / "visits.plan" / "ledger.sqlite"):
        refused = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (refused.returncode, "error[E0824]" in refused.stderr) == (1, True), refused.stderr
        assert "`policyc follow` takes in its events" in refused.stderr
        assert not (tmp_path / "visits.plan" / "ledger.sqlite").exists()
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode == 0


def test_a_start_is_proposed_from_which_few_steps_are_over(tmp_path):
    """Nothing of the past: all of it would be published at once, and the promise used up."""
    (tmp_path / "visits.policy").write_text(re.sub('start "[^"]+"', "", VISITS))
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    ended = subprocess.run(
        [*COMMAND, "--output", "out.csv"], cwd=tmp_path, input="", capture_output=True, text=True, check=False
    )
    assert (ended.returncode, "error[E0865]" in ended.stderr) == (1, True), ended.stderr
    proposed = datetime.datetime.fromisoformat(re.search("`--start ([^`]+)`", ended.stderr)[1])
    assert before < proposed.replace(tzinfo=datetime.UTC) <= datetime.datetime.now(datetime.UTC)
    taken = subprocess.run(
        [*COMMAND, "--output", "out.csv", "--start", proposed.isoformat()],
        cwd=tmp_path, input="", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (taken.returncode, "of 4 steps are published" in taken.stderr) == (0, True), taken.stderr


@pytest.mark.parametrize(("start", "begins"), [("2026-01-01", "began"), ("2999-01-01", "begins")])
def test_when_the_stream_begins_is_said(tmp_path, start, begins):
    (tmp_path / "visits.policy").write_text(VISITS.replace("2026-01-01", start))
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    ended = subprocess.run(
        [*COMMAND, "--output", "out.csv"], cwd=tmp_path, input="", capture_output=True, text=True, check=False
    )
    assert f"step 0 {begins} at {start}T00:00:00" in ended.stderr


@pytest.mark.parametrize(("pause", "code", "said"), [("0s", 2, "Invalid value for --pause"), ("1ms", 0, "warning: r")])
def test_a_pause_that_is_too_short_is_named(tmp_path, pause, code, said):
    """Without one the moment would tell how long counting took; with a short one it may."""
    (tmp_path / "visits.policy").write_text(VISITS)
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    command = [*COMMAND, "--output", "out.csv", "--pause"]
    for given, found in ((pause, (code, True)), ("1s", (0, False))):
        ended = subprocess.run([*command, given], cwd=tmp_path, input="", capture_output=True, text=True, check=False)
        assert (ended.returncode, said in ended.stderr) == found


def test_metrics_are_written_over_nothing_else(tmp_path):
    """A ledger, or anything that begins otherwise, stays as it is; an empty file and older metrics do not."""
    options = Options(tmp_path / "ledger.sqlite", tmp_path / PIN, None, None, 0, 1)
    for content, taken in ((b"SQLite format 3", False), (b"", True), (FIRST + b"lag_seconds x\n", True)):
        (tmp_path / "m").write_bytes(content)
        with nullcontext() if taken else pytest.raises(typer.BadParameter, match="holds no metrics"):
            assert _metrics_file(tmp_path / "m", [], options) == tmp_path / "m"
    assert _metrics_file(tmp_path / "new", [], options) == tmp_path / "new"
    assert _metrics_file(None, [], options) is None
    with pytest.raises(typer.BadParameter, match="values go to this file"):
        _metrics_file(tmp_path / "new", [tmp_path / "old", tmp_path / "new"], options)


PLACES = ("ledger.sqlite", "ledger.sqlite.seal", "ledger.sqlite-journal", PIN)
PRIVATE_PLACES = tuple(f"private/ledger.sqlite.{kind}" for kind in ("key", "history", "follow", "any"))


@pytest.mark.parametrize("name", [*PLACES, *PRIVATE_PLACES])
def test_metrics_and_values_do_not_go_where_the_ledger_is_kept(name, tmp_path):
    """Before anything is there: a plan would be lost before it begins."""
    plan = planned(tmp_path)
    options = Options(tmp_path / "ledger.sqlite", tmp_path / PIN, None, None, 0, 1)
    (tmp_path / "private").mkdir()
    with pytest.raises(typer.BadParameter, match="the ledger is kept there"):
        _metrics_file(tmp_path / name, [], options)
    options = options._replace(ledger=tmp_path / "o-there.csv")
    with pytest.raises(ReleaseError, match="the output cannot be written"):
        _output_files(plan, ["-", str(tmp_path / "o.csv")], options)


def test_metrics_do_not_go_to_any_file_of_the_values(tmp_path):
    plan = planned(tmp_path)
    options = Options(tmp_path / "ledger.sqlite", tmp_path / PIN, None, None, 0, 1)
    files = _output_files(plan, ["-", "kafka://host/topic", str(tmp_path / "o.csv")], options)
    assert len(files) == len(plan.releases) > 1
    for file in files:
        with pytest.raises(typer.BadParameter, match="values go to this file"):
            _metrics_file(file, files, options)


def test_metrics_go_to_ordinary_files(tmp_path):
    """A pipe or device is neither waited for nor replaced, and a link leads where it led."""
    options = Options(tmp_path / "ledger.sqlite", None, None, None, 0, 1)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("later")
    for name in ("pipe", "folder", "loop", "/dev/null"):
        with pytest.raises(typer.BadParameter, match="name another"):
            _metrics_file(tmp_path / name, [], options)
    assert _metrics_file(tmp_path / "link", [], options) == tmp_path / "later"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_starts_ends_it_with_a_word(number, tmp_path):
    """From the moment on at which the command begins, before all of it is read."""
    compiled(tmp_path)
    begun = "import policyc.cli, sys, time; sys.stderr.write('here\\n'); sys.stderr.flush(); policyc.cli.main()"
    for wait in (0.15, 0.3, 0.6):
        process = subprocess.Popen(
            [sys.executable, "-c", begun, *COMMAND[3:], "--output", "out.csv"],
            cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == "here\n"
        time.sleep(wait)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said.splitlines()[-1]) == (0, "ended: asked to")


def test_steps_are_overdue_or_not(tmp_path, capsys):
    """Where steps close later than they did, or a clock was set back, more are published than are due."""
    plan = planned(tmp_path)
    now = time.time_ns() // 1000
    for start, said in ((now - 10 * 3_600_000_000, True), (now - 3_600_000_000, False)):
        _say(plan, None, None, None, Timetable(plan, start, 0, 1), 3, 0)
        assert ("overdue" in capsys.readouterr().err) == said


def test_one_step_that_is_overdue_is_one():
    assert _overdue(1, 0) == (
        "1 step is overdue: it is published as soon as events that wait, if any, are read; "
        "to release it from events of its own, end this and `policyc run --continued --steps 1` first"
    )
    assert _overdue(1, 3) == "1 step is overdue: it is published as soon as events that wait, if any, are read"


def test_values_do_not_go_where_events_come_from(tmp_path):
    (tmp_path / "visits.policy").write_text(VISITS)
    compile_policy(tmp_path / "visits.policy").save(tmp_path / "visits.plan")
    topic = "kafka://host:9092/visits"
    command = [*COMMAND[:4], "visits.plan", "--input", topic, "--output", topic]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (refused.returncode, "events come from this topic" in refused.stderr) == (2, True)


def test_metrics_that_cannot_be_written_stop_nothing(tmp_path, capsys):
    """A folder in their place, or an account that is gone: one line says so, and values are published."""
    plan = planned(tmp_path)
    times = Timetable(plan, 0, 0, 1)
    (tmp_path / "m").mkdir()
    for metrics, account in (("m", None), ("new", tmp_path / "gone")):
        _say(plan, tmp_path / metrics, account, Followed(0, 1, 0, 0, 0), times, 1, 1)
        said = "Is a directory" if account is None else f"the account {account}: No such file or directory"
        assert f"warning: {tmp_path / metrics} is not written: {said}" in capsys.readouterr().err


def test_what_is_left_of_an_account_is_read_again_when_it_changes(tmp_path):
    """As `policyc account show` says it: all of it, and after a run the rest."""
    account = tmp_path / "halls.account"
    Account.create(account, joint_promise("halls", "user_level(epsilon = 3, delta = 1e-6, neighbors = add_remove)"))
    plan = planned(tmp_path, VISITS.replace("  step", "  dataset halls\n  step"))
    before = _standing(account, account.stat().st_mtime_ns)
    assert (before.left, before.spent) == (3.0, 0.0)
    with Account.open(account) as opened:
        opened.spend(plan, "a ledger", begun=False)
    after = _standing(account, account.stat().st_mtime_ns)
    assert after.left == pytest.approx(3 - after.spent, abs=1e-5)
    assert 0.5 < after.spent <= 1.00001


def test_properties_are_lines_of_text(tmp_path):
    """What is none is refused, with what to write."""
    (tmp_path / "p").write_text("# of the brokers\nsecurity.protocol = ssl\n\n")
    assert _properties(tmp_path / "p") == {"security.protocol": "ssl"}
    (tmp_path / "p").write_text("# of the brokers\n\nsasl.password N0SECRET\n")
    with pytest.raises(typer.BadParameter, match=r"line 3 has no `=`: write `name = value` a line$"):
        _properties(tmp_path / "p")
    (tmp_path / "p").write_bytes(b"\xff=1\n")
    with pytest.raises(typer.BadParameter, match="`name = value` a line"):
        _properties(tmp_path / "p")

    (tmp_path / "p").write_text("= N0SECRET\n")
    with pytest.raises(typer.BadParameter, match=r"line 1 has no name before its `=`: write `name = value` a line$"):
        _properties(tmp_path / "p")


def test_a_closed_standard_stream_is_refused():
    """Its number would be that of a file of the ledger, which values would be written to; or it goes the other way."""
    with pytest.raises(typer.BadParameter, match="closed"):
        _require_open(None, "--output", os.O_RDONLY)
    with open("/dev/null", "rb") as readable, open("/dev/null", "wb") as writable:  # noqa: PTH123
        for stream, never in ((readable, os.O_RDONLY), (writable, os.O_WRONLY)):
            with pytest.raises(typer.BadParameter, match="closed"):
                _require_open(stream, "--output", never)
            _require_open(stream, "--output", os.O_WRONLY - never)


@pytest.mark.law
def test_killed_at_random_moments_it_publishes_every_step_once(tmp_path):
    """SIGKILL five times while events come: lines on a file are each step's once, those of the ledger, in order."""
    folder = compiled(tmp_path)
    for turn in range(6):
        with (folder / "out.ndjson").open("a") as out:
            process = subprocess.Popen(
                [*COMMAND, "--output", "-", "--output", "out.csv"],
                cwd=folder, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            written = (folder / "out.ndjson").stat().st_size
            feed(process, 4 + 0.37 * turn)
            if turn == 5:
                feed_until(process, lambda size=written: (folder / "out.ndjson").stat().st_size > size)
            process.send_signal(signal.SIGKILL if turn < 5 else signal.SIGINT)
            _, err = process.communicate(timeout=60)
            assert process.returncode == (-9 if turn < 5 else 0), err
    lines = [json.loads(line) for line in (folder / "out.ndjson").read_text().splitlines()]
    places = [(line["step"], line["release"]) for line in lines]
    assert places == [(step, name) for step in range(len(places) // 2) for name in ("there", "spent")]
    verify = [sys.executable, "-m", "policyc", "verify", "visits.plan", "--quick", "--allow-unchecked"]
    said = subprocess.run([*verify, "--release", "out.csv"], cwd=folder, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
