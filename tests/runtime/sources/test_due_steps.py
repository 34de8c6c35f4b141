"""How many steps a run releases when nobody says it: those that are over, and nothing that a wrong date would add."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from plans import make_counts, make_plan

from policyc import compile_policy
from policyc_check.errors import KernelError
from policyc_runtime.errors import DataError
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.plan import Plan
from policyc_runtime.release import release
from policyc_runtime.sources.due_steps import due_steps

Clock = Callable[[str], None]
FIRST = 1_356_998_400_000_000  # 2013-01-01
USER_LEVEL = """
policy visits "visitors"
stream seen {{
  user person
  time at
  step 1d
  horizon 365 steps
  {start}
}}
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(20 steps, enforced = keep_first)
deliver realtime
"""


def visits(folder: Path, start: str = 'start "2013-01-01"') -> Plan:
    (folder / "visits.policy").write_text(USER_LEVEL.format(start=start))
    return compile_policy(folder / "visits.policy").plan


def events(folder: Path, days: Iterable[int], header: str = "tailnum,departed_at,origin") -> Path:
    """One event a day of the year 2013, at noon."""
    moments = (np.datetime64("2013-01-01T12:00:00") + np.timedelta64(int(day), "D") for day in days)
    path = folder / "events.csv"
    path.write_text("\n".join([header, *(f"u{n},{moment},EWR" for n, moment in enumerate(moments))]) + "\n")
    return path


def rows_of(folder: Path, days: Iterable[int]) -> Path:
    return events(folder, days, "person,at,place")


def due(plan: Plan, occupied: Iterable[int], done: int = 0, *, zoned: bool = True) -> int:
    return due_steps(plan, FIRST, np.array(sorted(occupied)), done, "events.csv", zoned=zoned)


def test_one_wrong_date_spends_nothing(tmp_path: Path, clock: Clock) -> None:
    """Ten days and one row in December: refused before anything is drawn, and no number is said that events decided."""
    plan, book = make_plan(start="2013-01-01"), tmp_path / "l"
    data = events(tmp_path, [*range(10), 340])
    with pytest.raises(DataError, match="no event lies in steps 10 to 339") as refused:
        release(plan, data, book, pin=None)
    assert refused.value.code == "E0864"
    assert "--steps 10`" not in str(refused.value.help)
    assert "--steps 365`" in str(refused.value.help)
    with LedgerReader.open_read_only(book) as ledger:
        assert ledger.steps == 0
    assert len(release(plan, data, book, steps=10, pin=None).steps) == 10
    clock("2013-01-13T13:00:00Z")
    assert len(release(plan, events(tmp_path, range(12)), book, pin=None).steps) == 12, "the corrected file goes on"


def test_a_date_that_is_still_to_come_spends_nothing(tmp_path: Path, clock: Clock) -> None:
    """By the clock it is January: an event in December is a wrong date, with or without events between."""
    clock("2013-01-11T14:00:00")
    for days in ([*range(10), 340], range(300)):
        with pytest.raises(DataError, match="has not begun") as refused:
            release(make_plan(start="2013-01-01"), events(tmp_path, days), tmp_path / "l", pin=None)
        assert refused.value.code == "E0863"
        assert "10 steps are over" in str(refused.value.because)


def test_the_step_that_goes_on_waits(tmp_path: Path, clock: Clock) -> None:
    """Its rows are in the file already; it is released by the first run after its end, with what came later."""
    clock("2013-01-11T15:00:00Z")
    plan, data = make_plan(start="2013-01-01T00:00:00Z"), events(tmp_path, range(11))
    assert len(release(plan, data, tmp_path / "l", pin=None).steps) == 10
    data.write_text(data.read_text() + "late,2013-01-11T23:59:59,JFK\n")
    clock("2013-01-12T00:00:00Z")
    assert len(release(plan, data, tmp_path / "l", pin=None).steps) == 11


def test_nothing_is_over_yet(tmp_path: Path, clock: Clock) -> None:
    """Before the first step ends nothing is released, unless a number is said."""
    clock("2013-01-01T20:00:00Z")
    plan, data = make_plan(start="2013-01-01"), events(tmp_path, [0])
    with pytest.raises(DataError, match="no step is over yet"):
        release(plan, data, tmp_path / "l", pin=None)
    assert len(release(plan, data, tmp_path / "l", steps=1, pin=None).steps) == 1


@pytest.mark.parametrize(("start", "hours"), [("2013-01-01", 12), ("2013-01-01T00:00:00Z", 0)])
def test_without_a_zone_a_step_is_over_when_it_is_everywhere(
    start: str, hours: int, tmp_path: Path, clock: Clock
) -> None:
    """A day that nobody gave a zone is not over before it is over west of everybody."""
    plan, data = make_plan(start=start), events(tmp_path, [0, 1])
    clock(f"2013-01-02T{hours:02}:00:00Z")
    assert len(release(plan, data, tmp_path / "l", pin=None).steps) == 1


@pytest.mark.parametrize("promise", ["user level", "single steps"])
def test_no_user_decides_how_much_is_published_or_when_it_begins(promise: str, tmp_path: Path, clock: Clock) -> None:
    """Whatever is promised the steps are those that are over by the clock, whoever comes first or last."""
    clock("2013-02-01T13:00:00Z")
    plan = visits(tmp_path) if promise == "user level" else make_plan(start="2013-01-01", population=100)
    written = rows_of if promise == "user level" else events
    for days in (range(31), range(5, 26), [*range(26), 31]):
        book = tmp_path / f"l{sum(days)}"
        done = release(plan, written(tmp_path, days), book, pin=None)
        assert (len(done.steps), done.times[0]) == (31, "2013-01-01T00:00:00")


def test_a_file_that_ends_early_is_asked_about(tmp_path: Path, clock: Clock) -> None:
    """Three weeks between the last event and the clock are released only on demand."""
    clock("2013-02-20T13:00:00Z")
    plan = visits(tmp_path)
    with pytest.raises(DataError, match="no event lies in steps 29 to 49") as refused:
        release(plan, rows_of(tmp_path, range(29)), tmp_path / "l", pin=None)
    assert "--steps 29`" not in str(refused.value.help)  # no event may decide a number that is published
    assert "by the calendar" in str(refused.value.help)
    assert "--steps 50`" in str(refused.value.help)


def test_the_first_run_is_told_the_start_and_the_ledger_keeps_it(tmp_path: Path) -> None:
    """No event says it; a later run needs it no more, and may not say another."""
    plan, data, book = visits(tmp_path, ""), rows_of(tmp_path, range(3, 8)), tmp_path / "l"
    with pytest.raises(DataError, match="nobody says when step 0 begins"):
        release(plan, data, book, steps=8, pin=None)
    with pytest.raises(DataError, match="is not a moment"):
        release(plan, data, book, steps=8, start="January", pin=None)
    assert release(plan, data, book, steps=4, start="2013-01-02", pin=None).times[0] == "2013-01-02T00:00:00"
    assert release(plan, data, book, steps=5, pin=None).times[0] == "2013-01-02T00:00:00"
    assert len(release(plan, data, book, steps=6, start="2013-01-02", pin=None).steps) == 6
    with pytest.raises(KernelError, match="began the stream at another moment"):
        release(plan, data, book, steps=6, start="2013-01-01", pin=None)
    with pytest.raises(DataError, match="the policy says another start"):
        release(visits(tmp_path), data, tmp_path / "other", steps=6, start="2013-01-02", pin=None)


def test_new_rows_alone_are_told_the_start_once(tmp_path: Path, clock: Clock) -> None:
    """What is carried on keeps it as well, and steps without rows are released by the clock."""
    clock("2013-01-09T13:00:00Z")
    plan, book = visits(tmp_path, ""), tmp_path / "l"
    with pytest.raises(DataError, match="nobody says when step 0 begins"):
        release(plan, rows_of(tmp_path, range(1, 4)), book, continued=True, pin=None)
    done = release(plan, rows_of(tmp_path, range(1, 4)), book, continued=True, start="2013-01-01", pin=None)
    assert len(done.steps) == 8
    clock("2013-01-12T13:00:00Z")
    assert len(release(plan, rows_of(tmp_path, [9]), book, continued=True, pin=None).steps) == 11


def test_nights_and_weekends_are_no_wrong_dates(clock: Clock) -> None:
    """Half days and working days, five minutes a step: stretches that come again and again are usual."""
    plan = make_plan(horizon=None, step_milliseconds=300_000, otherwise="away")
    day = [
        288 * week * 7 + 288 * weekday + step for week in range(3) for weekday in range(5) for step in range(90, 200)
    ]
    clock(str(np.datetime64("2013-01-01") + np.timedelta64(5 * (max(day) + 1), "m")) + "Z")
    assert due(plan, day) == max(day) + 1
    clock("2013-03-08T00:00:00Z")
    with pytest.raises(DataError, match="no event lies in steps"):
        due(plan, [*day, max(day) + 40 * 288])


def test_a_gap_that_was_released_is_not_asked_about_again(clock: Clock) -> None:
    """Whoever said `--steps` once for a stretch need not say it at every later run."""
    plan, rows = make_plan(), [*range(10), 60]
    clock("2013-03-03T00:00:00Z")
    with pytest.raises(DataError, match="steps 10 to 59"):
        due(plan, rows, done=40)
    assert due(plan, rows, done=61) == 61
    clock("2013-03-04T00:00:00Z")
    assert due(plan, [*rows, 61], done=61) == 62


def test_a_wrong_start_is_asked_about() -> None:
    """A year without an event before the first one is a wrong date as well."""
    with pytest.raises(DataError, match="no event lies in steps 0 to 199"):
        due(make_plan(), range(200, 230))


def test_ready_counts_wait_for_the_end_of_their_step(tmp_path: Path, clock: Clock) -> None:
    """Their rows say the steps, and where a start is known the clock says which are over."""
    clock("2013-01-11T15:00:00Z")
    plan = make_plan(start="2013-01-01")
    assert len(release(plan, make_counts(11), tmp_path / "l", pin=None).steps) == 10
    assert len(release(plan, make_counts(11), tmp_path / "l", steps=11, pin=None).steps) == 11
    with pytest.raises(DataError, match="has not begun"):
        release(plan, make_counts(40), tmp_path / "other", pin=None)
    assert len(release(make_plan(), make_counts(40), tmp_path / "unknown", pin=None).steps) == 40, (
        "without a start no clock counts"
    )
