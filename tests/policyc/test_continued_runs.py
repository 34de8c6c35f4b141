"""A stream that comes in pieces: the bound holds over all runs, and what is published is that of one run."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_check.errors import KernelError
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_private import history_file
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.sources import read_events
from policyc_runtime.sources.history import History

POLICY = """
policy visits "visitors"
stream seen {{
  user person
  time at
  step 1h
  horizon 48 steps
  start "2026-01-01"
}}
release there = count(seen)
release spent = sum(seen.money, clamp = -5 .. 20)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(3 steps, per_step = 2, spacing = 2 steps, {how})
deliver {deliver}
objective mean_squared_error
"""


def planned(folder: Path, how: str = "enforced = keep_first", deliver: str = "realtime") -> Plan:
    (folder / "visits.policy").write_text(POLICY.format(how=how, deliver=deliver))
    return compile_policy(folder / "visits.policy").plan


@pytest.fixture
def rows() -> list[tuple[int, str]]:
    """Step and line of 900 events of 30 users, many more than the bound keeps."""
    generator = np.random.default_rng(5)
    found = []
    for _ in range(900):
        hour, user, minute = (int(n) for n in generator.integers((0, 0, 0), (48, 30, 60)))
        moment = f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:{minute:02}:00"
        found.append((hour, f"u{user},{moment},{generator.uniform(-9, 30):.2f}"))
    return found


def written(folder: Path, rows: list[tuple[int, str]], first: int, stop: int) -> Path:
    """The events of some steps, in a file."""
    path = folder / f"{first}-{stop}.csv"
    path.write_text("\n".join(["person,at,money", *(line for hour, line in rows if first <= hour < stop)]) + "\n")
    return path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["enforced = keep_first", 'assumed = "tickets"'])
@pytest.mark.parametrize("cuts", [[48], [1, 7, 30, 48], list(range(1, 49))])
def test_pieces_count_what_the_whole_counts(how, cuts, rows, tmp_path):
    """However the stream is cut, every step counts the same events, and the same is noted as dropped."""
    plan = planned(tmp_path, how)
    whole = read_events(written(tmp_path, rows, 0, 48), plan, steps=48)
    for first, stop in zip([0, *cuts], cuts, strict=False):
        with History(tmp_path / "l", plan) as history:
            found = history.read(written(tmp_path, rows, first, stop), start=None, steps=stop)
            history.keep()
    assert all(np.array_equal(found.counts[name], whole.counts[name]) for name in ("there", "spent"))
    assert (found.digests, found.dropped, found.start) == (whole.digests, whole.dropped, whole.start)


@pytest.mark.law
def test_no_user_is_kept_more_often_than_the_bound_over_all_runs(tmp_path):
    """One user in every step, one step a run: three steps count, as the rule going forward says."""
    plan = planned(tmp_path)
    one = [(hour, f"u,2026-01-{1 + hour // 24:02}T{hour % 24:02}:30:00,1") for hour in range(48)]
    for step in range(12):
        with History(tmp_path / "l", plan) as history:
            found = history.read(written(tmp_path, one, step, step + 1), start=None, steps=step + 1)
            history.keep()
    assert np.flatnonzero(found.counts["there"][:, 0]).tolist() == [0, 2, 4]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("deliver", ["realtime", "offline"])
def test_runs_on_new_rows_release_what_one_run_releases(deliver, rows, tmp_path):
    """Released in two runs a stream has all its steps, and its ledger takes the whole history just as well."""
    plan = planned(tmp_path, deliver=deliver)
    randomness = SimulationRandomness(7)
    whole = release(
        plan, written(tmp_path, rows, 0, 48), tmp_path / "w", steps=48, randomness=SimulationRandomness(7), pin=None
    )
    if deliver == "realtime":
        release(
            plan,
            written(tmp_path, rows, 0, 20),
            tmp_path / "l",
            continued=True,
            steps=20,
            randomness=randomness,
            pin=None,
        )
    else:
        book = Ledger.open(tmp_path / "l", plan, generator="simulation")
        with book, History(tmp_path / "l", plan, book) as history:
            history.read(written(tmp_path, rows, 0, 20), start=None, steps=20)
            history.keep()
    done = release(
        plan, written(tmp_path, rows, 20, 48), tmp_path / "l", continued=True, steps=48, randomness=randomness, pin=None
    )
    again = release(plan, written(tmp_path, rows, 0, 48), tmp_path / "l", steps=48, randomness=randomness, pin=None)
    for name in ("there", "spent"):
        assert done.series[name].released.shape == whole.series[name].released.shape
        assert np.array_equal(done.series[name].noisy, again.series[name].noisy)


def test_a_run_that_breaks_off_takes_nothing_in_twice(rows, tmp_path):
    """Taken in and not released, rows count once when they come again; not committed, they were never there."""
    plan = planned(tmp_path)
    path = written(tmp_path, rows, 0, 10)
    with History(tmp_path / "l", plan) as history:
        history.read(path, start=None, steps=10)
    with History(tmp_path / "l", plan) as history:
        assert history.steps == 0
        first = history.read(path, start=None, steps=10)
        history.keep()
    with History(tmp_path / "l", plan) as history:
        second = history.read(path, start=None, steps=10)
    assert all(np.array_equal(first.counts[name], second.counts[name]) for name in first.counts)
    assert first.dropped == second.dropped


def test_rows_that_changed_or_history_that_is_lost_stop_the_run(rows, tmp_path):
    """Other rows of a step that was taken in are refused; so are new rows when nobody knows the earlier ones."""
    plan = planned(tmp_path)
    release(plan, written(tmp_path, rows, 0, 10), tmp_path / "l", continued=True, steps=10, pin=None)
    with pytest.raises(LedgerError, match="step 9 changed"):
        release(
            plan,
            written(tmp_path, [*rows, (9, "u99,2026-01-01T09:59:00,1")], 0, 12),
            tmp_path / "l",
            continued=True,
            pin=None,
        )
    history_file(tmp_path / "l").unlink()
    with pytest.raises(LedgerError) as refused:
        release(plan, written(tmp_path, rows, 10, 20), tmp_path / "l", continued=True, steps=20, pin=None)
    assert refused.value.code == "E0825"
    done = release(plan, written(tmp_path, rows, 0, 20), tmp_path / "l", continued=True, steps=20, pin=None)
    assert len(done.times) == 20


def test_the_file_is_private_and_names_nobody(rows, tmp_path):
    """Only its owner may read it, and users stand in it by a keyed hash."""
    plan = planned(tmp_path)
    release(plan, written(tmp_path, rows, 0, 10), tmp_path / "l", continued=True, steps=10, pin=None)
    file = history_file(tmp_path / "l")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"u12" not in file.read_bytes()


def test_it_says_where_it_does_not_apply(rows, tmp_path):
    """Samples over all of a user's steps, counts where a bound is enforced, and another policy are refused."""
    path = written(tmp_path, rows, 0, 48)
    with pytest.raises(DataError, match="all rows"):
        release(planned(tmp_path, "enforced = keep_sample", "offline"), path, tmp_path / "s", continued=True, pin=None)
    plan = planned(tmp_path)
    with pytest.raises(DataError, match="cannot be enforced"):
        release(plan, path, tmp_path / "c", counts=True, continued=True, pin=None)
    release(plan, path, tmp_path / "l", continued=True, steps=10, pin=None)
    other = planned(tmp_path, "enforced = keep_first", "offline")
    with pytest.raises(KernelError) as refused:
        History(tmp_path / "l", other)
    assert refused.value.code == "E0840"


@pytest.mark.parametrize("kept", ["history", "steps"])
def test_what_was_kept_and_is_damaged_is_made_anew(rows, tmp_path, kept):
    """It is refused, with or without the whole history; moved away as is said, the whole history makes it anew."""
    plan, book = planned(tmp_path), tmp_path / "l"
    first_ten = release(plan, written(tmp_path, rows, 0, 10), book, steps=10, continued=True, pin=None).series
    file = history_file(book).with_suffix(f".{kept}")
    file.write_bytes(b"junk")
    for first in (0, 10):
        with pytest.raises(LedgerError) as refused:
            release(plan, written(tmp_path, rows, first, 20), book, steps=20, continued=True, pin=None)
        assert (refused.value.code, refused.value.where) == ("E0840", str(file))
    assert "`l.history` and `l.steps`; or move both away and run once with the whole history" in str(refused.value.help)
    for name in ("history", "steps"):
        file.with_suffix(f".{name}").rename(tmp_path / name)
    again = release(plan, written(tmp_path, rows, 0, 20), book, steps=20, continued=True, pin=None).series
    assert all(np.array_equal(again[name].noisy[:10], series.noisy) for name, series in first_ten.items())
    assert len(release(plan, written(tmp_path, rows, 20, 30), book, steps=30, continued=True, pin=None).steps) == 30


def test_new_rows_alone_are_told_of_the_way_to_bring_them(rows, tmp_path):
    """A run that misses the rows of earlier steps names `--continued`, and doing what it says works."""
    plan, book = planned(tmp_path), tmp_path / "l"
    release(plan, written(tmp_path, rows, 0, 10), book, steps=10, pin=None)
    with pytest.raises(LedgerError, match="no rows for step 0 any more") as refused:
        release(plan, written(tmp_path, rows, 10, 20), book, steps=20, pin=None)
    assert "run once with the whole history" in str(refused.value.help)
    assert "`--continued`" in str(refused.value.help)
    for first in (10, 15):
        with pytest.raises(LedgerError) as refused:
            release(plan, written(tmp_path, rows, first, 20), book, steps=20, continued=True, pin=None)
        assert refused.value.code == "E0825"
        assert "run once with the whole history from step 0 on and `--continued`" in str(refused.value.help)
    release(plan, written(tmp_path, rows, 0, 20), book, steps=20, continued=True, pin=None)
    assert len(release(plan, written(tmp_path, rows, 20, 30), book, steps=30, continued=True, pin=None).steps) == 30


def test_a_history_that_a_killed_run_had_told_the_ledger_of_is_put_in_its_place(rows, tmp_path, monkeypatch):
    """Killed between telling and placing, and again with a copy that is the same to the byte: placed once, no error."""
    plan, path = planned(tmp_path), written(tmp_path, rows, 0, 10)
    release(plan, path, tmp_path / "l", continued=True, steps=10, pin=None)
    with Ledger.open(tmp_path / "l", plan) as book, History(tmp_path / "l", plan, book) as history:
        coming = "0" * 64
        monkeypatch.setattr("policyc_runtime.sources.history.file_mark", lambda _: coming)
        with book.transaction():
            book.note_history(history._known, coming)
        history._found = (history._known, coming)
        history.keep()
        with book.transaction():
            assert book.history == (coming, "")


ALONE = """policy q "x"
stream s {{ user u time t cell c in {{"A", "B"}} otherwise "no"
  step 1d horizon 10 steps population 100 start "2026-01-05" }}
release present = count(s) by c
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace)
participation at_most(3 steps, {bound})
deliver realtime
"""


@pytest.mark.parametrize("rows", ["w,2026-01-06,A\n", "w,2026-01-06,elsewhere\n", ""], ids=["listed", "not", "none"])
@pytest.mark.parametrize("steps", [2, None])
def test_whoever_is_alone_in_new_rows_does_not_decide_whether_they_are_released(tmp_path, rows, steps, clock):
    """One user in a cell, in none of the listed ones, or not there at all: the step is published."""
    clock("2026-01-07T13:00")
    (tmp_path / "q.policy").write_text(ALONE.format(bound="enforced = keep_first"))
    plan = compile_policy(tmp_path / "q.policy").plan
    for number, content in enumerate(["v,2026-01-05,A\n", rows], 1):
        (tmp_path / "d.csv").write_text("u,t,c\n" + content)
        said = number if number == 1 else steps
        done = release(plan, tmp_path / "d.csv", tmp_path / "l", continued=True, steps=said, pin=None)
    assert len(done.steps) == 2


@pytest.mark.parametrize("rows", ["1,A,2\n", ""])
def test_new_counts_with_gaps_may_be_none(tmp_path, rows):
    without = ALONE.replace(' otherwise "no"', "").replace(" population 100", "")
    (tmp_path / "q.policy").write_text(without.format(bound='assumed = "so it is"'))
    plan = compile_policy(tmp_path / "q.policy").plan
    given = {"counts": True, "continued": True, "gaps": "zero", "pin": None}
    for number, content in enumerate(["0,A,1\n0,B,2\n", rows], 1):
        (tmp_path / "d.csv").write_text("step,c,count\n" + content)
        done = release(plan, tmp_path / "d.csv", tmp_path / "l", steps=number, **given)
    assert len(done.steps) == 2
