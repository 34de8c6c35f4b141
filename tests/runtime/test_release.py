"""A plan and data make a release that reads back exactly."""

from __future__ import annotations

import datetime
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from plans import make_counts, make_plan, make_release, row

from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.plan.schedule import BudgetSegment
from policyc_runtime import output_place
from policyc_runtime.errors import DataError, LedgerError, ReleaseError
from policyc_runtime.files import is_full
from policyc_runtime.ledger_file import guarded
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.output_place import output_paths
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.release_rows import read_release
from policyc_runtime.released_file import release_claims, verify_release
from policyc_runtime.schedule import Schedule
from policyc_runtime.sources import StepCounts

EVENTS = "tailnum,departed_at,origin\na,2013-01-01T08:00:00,EWR\nb,2013-01-02T08:00:00,JFK\n"


def test_a_release_satisfies_the_constraints(tmp_path: Path) -> None:
    """Published values are whole, not negative and add up; noisy ones are whole numbers as drawn."""
    done = release(make_plan(), make_counts(50), tmp_path / "l", pin=None)
    assert done.is_release
    assert done.released.dtype == done.noisy.dtype == np.int64
    assert (done.released >= 0).all()
    assert (done.released.sum(axis=1) == 20).all()
    assert (done.cells, done.name, len(done.steps)) == (("EWR", "JFK", "LGA", "away"), "parked", 50)


def test_noise_has_the_plans_scale(tmp_path: Path) -> None:
    """Over 8,000 draws the variance is the mechanism's, within five standard errors."""
    plan, counts = make_plan(horizon=2000), make_counts(2000)
    noise = (release(plan, counts, tmp_path / "l", randomness=SimulationRandomness(1), pin=None).noisy - counts).ravel()
    part = plan.releases[0]
    variance = part.mechanism.variance(part.schedule.scales(1)[0])
    assert abs(noise.var() / variance - 1) < 5 * np.sqrt(5 / noise.size)
    assert abs(noise.mean()) < 5 * np.sqrt(variance / noise.size)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("integer", [True, False])
def test_a_file_reads_back_exactly(tmp_path: Path, suffix: str, integer: bool) -> None:
    """Every number, whole or not, comes back as it was, and verification against the ledger holds."""
    plan = make_plan(integer=integer, start="2013-01-01")
    path = tmp_path / f"out{suffix}"
    done = release(plan, make_counts(30), tmp_path / "l", output=path, pin=None)
    assert write_release(done, path) == [path]
    found = read_release(path, "origin")
    assert np.array_equal(found.noisy, done.noisy.ravel())
    assert np.array_equal(found.released, done.released.ravel())
    assert found.cells == list(done.cells) * 30
    verify_release(plan, tmp_path / "l", path)
    assert all(claim.holds for claim in release_claims(plan, tmp_path / "l", path))
    assert {place.name for place in tmp_path.iterdir()} == {"l", "l.seal", "private", path.name}


def test_the_columns_are_the_promised_ones(tmp_path: Path) -> None:
    """Step, time, the cell column, noisy, released; the time is the moment the step begins."""
    events = tmp_path / "events.csv"
    events.write_text(EVENTS)
    plan = make_plan(start="2013-01-01")
    write_release(release(plan, events, tmp_path / "l", steps=2, pin=None), tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "step,time,origin,noisy,released"
    assert lines[5].startswith("1,2013-01-02T00:00:00,EWR,")
    assert len(lines) == 9
    plain = make_plan(cells=None, chains=(), population=None, start="2013-01-01")
    write_release(release(plain, events, tmp_path / "m", steps=2, pin=None), tmp_path / "plain.csv")
    assert (tmp_path / "plain.csv").read_text().splitlines()[0] == "step,time,noisy,released"


def test_later_events_extend_a_release(tmp_path: Path) -> None:
    """The start and the values of the first run stay; events that are gone from a released step are a change."""
    events, path, plan = tmp_path / "events.csv", tmp_path / "l", make_plan(start="2013-01-01")
    events.write_text(EVENTS)
    first = release(plan, events, path, steps=4, pin=None)
    events.write_text(EVENTS + "a,2013-01-06T08:00:00,LGA\n")
    second = release(plan, events, path, steps=6, pin=None)
    assert np.array_equal(second.noisy[:4], first.noisy)
    assert second.times[:4] == first.times
    assert len(second.steps) == 6
    events.write_text(EVENTS)
    with pytest.raises(LedgerError) as caught:
        release(plan, events, path, steps=6, pin=None)
    assert caught.value.message == "the input has no rows for step 5 any more"
    assert "run once with the whole history from step 0 on and `--continued`" in str(caught.value.help)


def test_an_altered_release_is_found(tmp_path: Path) -> None:
    """One changed value, a missing row, rows in another order, more rows: each is named."""
    plan, path = make_plan(), tmp_path / "out.csv"
    write_release(release(plan, make_counts(3), tmp_path / "l", pin=None), path)
    lines = path.read_text().splitlines()
    step, time, cell, noisy, released = lines[6].split(",")
    changed = [*lines[:6], ",".join((step, time, cell, noisy, str(int(released) + 1))), *lines[7:]]
    swapped = [*lines[:6], lines[7], lines[6], *lines[8:]]
    for broken, place in (
        (changed, "line 7, step 1, cell `JFK`"),
        (lines[:-1], "line 13, step 2, cell `away`"),
        (swapped, "line 7, step 1, cell `JFK`"),
        ([*lines, lines[-1]], "line 14, step 3, cell `EWR`"),
        (lines[:1], "out.csv"),
    ):
        path.write_text("\n".join(broken) + "\n")
        with pytest.raises(ReleaseError) as caught:
            verify_release(plan, tmp_path / "l", path)
        assert caught.value.code == "E0827"
        assert (caught.value.where or "").endswith(place)
        assert caught.value.help
    path.write_text("\n".join(lines[:9]) + "\n")
    assert verify_release(plan, tmp_path / "l", path) == (2, 3, True)
    values, written = release_claims(plan, tmp_path / "l", path)
    assert (values.holds, values.detail, written.holds) == (True, "steps 0 to 1 of 3 compared", True)


def test_the_bytes_of_parquet_are_compared_where_one_duckdb_wrote_them(tmp_path: Path) -> None:
    """A file that says in both places that another version made it has its values compared, and says so."""
    plan, path = make_plan(), tmp_path / "out.parquet"
    write_release(release(plan, make_counts(3), tmp_path / "l", pin=None), path)
    assert verify_release(plan, tmp_path / "l", path) == (3, 3, True)
    version = duckdb.__version__.encode()
    other = b"9" + version[1:]
    content = path.read_bytes()
    path.write_bytes(content.replace(b"v" + version, b"v" + other))
    with pytest.raises(ReleaseError, match="not written as a run writes it"):
        verify_release(plan, tmp_path / "l", path)
    path.write_bytes(content.replace(version, other))
    assert verify_release(plan, tmp_path / "l", path) == (3, 3, False)
    assert [claim.holds for claim in release_claims(plan, tmp_path / "l", path)] == [True, None]


def test_several_releases_go_to_a_file_each(tmp_path: Path) -> None:
    """Files are named after the releases, and each is checked."""
    plan = make_plan(releases=(make_release("present", by=None), make_release("parked")), start="2013-01-01")
    events, path = tmp_path / "events.csv", tmp_path / "out.csv"
    events.write_text(EVENTS)
    done = release(plan, events, tmp_path / "l", steps=2, output=path, pin=None)
    assert write_release(done, path) == list(output_paths(done.series, path).values())
    assert (tmp_path / "out-present.csv").exists()
    assert (tmp_path / "out-parked.csv").exists()
    verify_release(plan, tmp_path / "l", path)
    assert done.series["present"].noisy.shape == (2, 1)


def test_simulated_values_say_so_and_are_refused(tmp_path: Path) -> None:
    """Seeded noise marks every row of the file, and verification refuses it."""
    plan = make_plan()
    release(plan, make_counts(2), tmp_path / "l", pin=None)
    done = release(plan, make_counts(2), tmp_path / "s", randomness=SimulationRandomness(3), pin=None)
    for name in ("out.csv", "out.parquet"):
        write_release(done, tmp_path / name)
        assert read_release(tmp_path / name, "origin").simulated
        with pytest.raises(ReleaseError) as caught:
            verify_release(plan, tmp_path / "l", tmp_path / name)
        assert caught.value.code == "E0828"
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert all(line.endswith(",NOT A RELEASE") for line in lines[1:])


def test_step_limits_hold_and_real_time_does_not_look_ahead(tmp_path: Path) -> None:
    """`x - previous(x) <= 3` holds over transactions; in real time a longer stream starts with the same values."""
    limits = tuple(row({cell: 1}, "<=", 3, {cell: -1}) for cell in range(4))
    for delivery in ("realtime", "offline"):
        plan = make_plan(delivery=delivery, constraints=(*limits, *(row({cell: 1}, ">=", 0) for cell in range(4))))
        seeds = [SimulationRandomness(5) for _ in range(2)]
        done = release(plan, make_counts(12), tmp_path / delivery, randomness=seeds[0], steps_a_transaction=5, pin=None)
        assert (np.diff(done.released, axis=0) <= 3).all()
        if delivery == "realtime":
            short = release(plan, make_counts(5), tmp_path / "s", randomness=seeds[1], steps_a_transaction=5, pin=None)
            assert np.array_equal(short.released, done.released[:5])


def test_nothing_is_spent_on_what_cannot_be_written(tmp_path: Path) -> None:
    """A wrong suffix or a missing directory is refused before the ledger exists."""
    for output in (tmp_path / "out.json", tmp_path / "no" / "out.csv"):
        with pytest.raises(ReleaseError) as caught:
            release(make_plan(), make_counts(2), tmp_path / "l", output=output, pin=None)
        assert caught.value.code == "E0826"
    assert not (tmp_path / "l").exists()


def test_nothing_is_spent_where_the_output_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory without leave to write, and a file in place of one, are refused before the ledger exists."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "access", lambda place, _: Path(place) != tmp_path / "locked")
    (tmp_path / "locked").mkdir()
    for name in ("locked", "file"):
        with pytest.raises(ReleaseError) as caught:
            release(make_plan(), make_counts(2), tmp_path / "l", output=tmp_path / name / "out.csv", pin=None)
        assert caught.value.code == "E0826"
    assert not (tmp_path / "l").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("ledger", [True, False])
@pytest.mark.parametrize("name", ["events.csv", "notes.csv", "empty.csv", "other.csv", "simulated.csv", "bad.parquet"])
def test_only_a_release_of_the_plan_is_written_over(tmp_path: Path, name: str, ledger: bool) -> None:
    """The input, an unrelated file, another plan's output, a simulation: kept, with and without a ledger."""
    plan = make_plan(start="2013-01-01")
    events, path = tmp_path / "events.csv", tmp_path / name
    events.write_text(EVENTS)
    if name in {"notes.csv", "empty.csv", "bad.parquet"}:
        path.write_text("" if name == "empty.csv" else "to do\nnothing\n")
    if name == "other.csv":
        write_release(
            release(
                make_plan(cells=None, chains=(), population=None, start="2013-01-01"),
                events,
                tmp_path / "o",
                steps=2,
                pin=None,
            ),
            path,
        )
    if name == "simulated.csv":
        write_release(
            release(plan, events, tmp_path / "s", randomness=SimulationRandomness(3), steps=2, pin=None), path
        )
    if ledger:
        release(plan, events, tmp_path / "l", steps=2, pin=None)
    before = path.read_bytes()
    with pytest.raises(ReleaseError) as caught:
        release(plan, events, tmp_path / "l", output=path, steps=2, pin=None)
    assert (caught.value.code, caught.value.message) == ("E0826", "this file exists and is no release of this plan")
    assert path.read_bytes() == before
    assert (tmp_path / "l").exists() == ledger


def test_an_output_that_may_not_be_read_is_not_called_another_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can see what it is: leave to read it is what is missing, and nothing is drawn."""
    path = tmp_path / "o.csv"
    path.write_text("step,time,noisy,released\n")
    monkeypatch.setattr(output_place.os, "access", lambda file, how: file != path)
    with pytest.raises(ReleaseError) as caught:
        release(make_plan(), make_counts(5), tmp_path / "l", output=path, pin=None)
    assert (caught.value.code, caught.value.message) == ("E0826", "this file exists and may not be read")
    assert not (tmp_path / "l").exists()


def test_a_plan_that_was_altered_is_not_run(tmp_path: Path) -> None:
    """The plan is verified before anything else."""
    plan = make_plan().model_copy(update={"compiler": "somebody"})
    with pytest.raises(PlanRejectedError):
        release(plan, make_counts(2), tmp_path / "l", pin=None)
    assert not (tmp_path / "l").exists()


def test_steps_without_a_release_are_refused_where_nothing_fills_them(tmp_path: Path) -> None:
    """A schedule with empty steps needs an estimator that fills them."""
    part = make_release()
    segment = part.schedule.segments[0]
    sparse = BudgetSegment(
        epsilons=(*segment.epsilons, 0), scales=(*segment.scales, 0), expected_errors=(1.0, 1.0), repeats=2
    )
    part = part.model_copy(update={"schedule": Schedule(name="sparse", segments=(sparse,))})
    with pytest.raises(KernelError) as caught:
        release(make_plan(horizon=4, releases=(part,)), make_counts(2), tmp_path / "l", pin=None)
    assert caught.value.code == "E0829"


def test_bad_data_spends_nothing(tmp_path: Path) -> None:
    """After a refusal of the data the ledger has no entry, and a good run follows."""
    with pytest.raises(DataError):
        release(make_plan(), -make_counts(2), tmp_path / "l", pin=None)
    assert len(release(make_plan(), make_counts(2), tmp_path / "l", pin=None).steps) == 2


def test_more_steps_than_the_plan_has_are_refused_at_the_option(tmp_path: Path) -> None:
    """The data is not to blame, be it events or counts, and however short."""
    events = tmp_path / "events.csv"
    events.write_text(EVENTS)
    for data in (events, make_counts(2)):
        with pytest.raises(DataError) as caught:
            release(make_plan(), data, tmp_path / "l", steps=366, pin=None)
        assert (caught.value.code, caught.value.where) == ("E0815", "--steps 366")
        assert "the plan has 365 steps" in caught.value.message


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    """Progress is told after every transaction, and ends complete."""
    told: list[tuple[int, int]] = []
    release(
        make_plan(),
        make_counts(7),
        tmp_path / "l",
        progress=lambda *done: told.append(done),
        steps_a_transaction=3,
        pin=None,
    )
    assert told == [(3, 7), (6, 7), (7, 7)]


def test_noise_is_kept_when_no_values_can_be_published(tmp_path):
    """A step whose values cannot be made keeps its noise: the next run draws nothing and refuses with the reason."""
    rows = (row({0: 1}, ">=", 10, {0: -1}), row({0: 1}, "<=", 15))  # grows by 10 a step, up to 15: not for long
    plan = make_plan(delivery="realtime", constraints=rows)
    counts, book = make_counts(6), tmp_path / "ledger.sqlite"
    kept = []
    for _ in range(2):
        with pytest.raises(ReleaseError) as refused:
            release(plan, counts, book, steps_a_transaction=1, pin=None)
        assert refused.value.code == "E0830"
        with LedgerReader.open_read_only(book) as ledger:
            kept.append([(entry.step, entry.noisy, entry.published) for entry in ledger.entries])
    assert kept[0] == kept[1]
    assert kept[0][-1][2] == "null"
    assert kept[0][-1][1] != "null"


def test_where_no_values_can_be_published_a_file_is_refused_in_the_same_words(tmp_path):
    """The step is named, whether values were written before it or not."""
    rows = (row({0: 1}, ">=", 10, {0: -1}), row({0: 1}, "<=", 15))
    plan, counts, out = make_plan(delivery="realtime", constraints=rows), make_counts(6), tmp_path / "out.csv"
    given = {"output": out, "pin": None, "randomness": SimulationRandomness(1), "steps_a_transaction": 1}
    write_release(release(plan, counts, tmp_path / "l", steps=1, **given), out)
    said = []
    for _ in range(2):
        with pytest.raises(ReleaseError) as refused:
            release(plan, counts, tmp_path / "l", **given)
        said.append((refused.value.code, refused.value.message.rpartition(" ")[0]))
    assert said[1] == ("E0830", "no published values could be made for step")


def test_runs_that_begin_together_count_steps_from_one_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that comes second, told another start of the stream, is refused; so no moment has two steps."""
    module, plan, ledger = sys.modules["policyc_runtime.release"], make_plan(horizon=10), tmp_path / "l"
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("tailnum,departed_at,origin\na,2013-01-05T08:00:00,EWR\n")
    second.write_text("tailnum,departed_at,origin\na,2013-01-12T08:00:00,EWR\n")
    read = module.read_events

    def read_while_another_run_begins(*given: object, **named: object) -> object:
        monkeypatch.setattr(module, "read_events", read)
        found = read(*given, **named)
        release(plan, first, ledger, start="2013-01-05", steps=1, pin=None)
        return found

    monkeypatch.setattr(module, "read_events", read_while_another_run_begins)
    with pytest.raises(LedgerError, match="start of the stream"):
        release(plan, second, ledger, start="2013-01-12", steps=1, pin=None)
    assert len(release(plan, first, ledger, steps=1, pin=None).steps) == 1


def test_a_table_in_memory_begins_no_ledger(tmp_path: Path) -> None:
    """What is neither a file nor an array of counts is called what it is, before anything is written."""

    class DataFrame:
        """As pandas has one: rows of events, no array."""

    with pytest.raises(DataError, match="a DataFrame is neither a file, nor a table, nor counts"):
        release(make_plan(), DataFrame(), tmp_path / "l", pin=None)  # type: ignore[arg-type]
    row = {"tailnum": "a", "departed_at": "2013-01-11T08:00:00"}
    record = np.array([tuple(row.values())], dtype=[(name, "U20") for name in row])
    columns = {name: [value] for name, value in row.items()}
    for events in ([row], [tuple(row.values())], columns, record, b"tailnum", np.array([np.datetime64("2013-01-11")])):
        with pytest.raises(DataError, match="of events is neither a file, nor a table, nor counts"):
            release(make_plan(), events, tmp_path / "l", pin=None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="^an int is neither a file, nor a table, nor counts") as refused:
        release(make_plan(), 3, tmp_path / "l", pin=None)  # type: ignore[arg-type]
    assert "a LazyFrame after `.collect()`" in str(refused.value.help)
    assert not list(tmp_path.iterdir())


def test_fewer_steps_than_are_released_are_refused(tmp_path: Path) -> None:
    """A run that asks for fewer steps leaves the file with all of them, says so, and asks for nothing of the ledger."""
    plan, ledger, output = make_plan(), tmp_path / "l", tmp_path / "out.csv"
    write_release(release(plan, make_counts(8), ledger, output=output, pin=None), output)
    before = output.read_bytes()
    with pytest.raises(DataError, match="3 steps were asked for, and 8 are released already") as refused:
        release(plan, make_counts(8), ledger, steps=3, output=output, pin=None)
    assert (refused.value.code, output.read_bytes()) == ("E0886", before)
    assert len(release(plan, make_counts(8), ledger, steps=8, output=output, pin=None).times) == 8


def test_a_full_disk_is_called_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system, sqlite and duckdb say of it is understood; the refusal says what is kept, and then it is."""
    with Path("/dev/full").open("wb") as device, pytest.raises(OSError, match="space") as of_system:
        device.write(bytes(1 << 20))
    connection = sqlite3.connect(tmp_path / "small")
    connection.execute("PRAGMA max_page_count = 2")
    with pytest.raises(sqlite3.OperationalError) as of_sqlite:
        connection.executescript("CREATE TABLE a (b); CREATE TABLE c (d);")
    connection.close()
    with pytest.raises(duckdb.Error) as of_duckdb:
        duckdb.sql("COPY (SELECT * FROM range(100000)) TO '/dev/full' (FORMAT csv, USE_TMP_FILE false)")
    assert all(is_full(error.value) for error in (of_system, of_sqlite, of_duckdb))
    assert not is_full(PermissionError(13, "Permission denied"))

    plan, ledger, output = make_plan(), tmp_path / "l", tmp_path / "out.csv"
    done = release(plan, make_counts(8), ledger, output=output, pin=None)
    with monkeypatch.context() as full:
        full.setattr("policyc_runtime.output.place", lambda *_: raise_(of_system.value))
        with pytest.raises(ReleaseError) as refused:
            write_release(done, output)
    assert (refused.value.code, refused.value.because, output.exists()) == ("E0826", "the disk is full", False)
    assert "in the ledger" in str(refused.value.help)
    for error in (of_system.value, of_sqlite.value):
        with pytest.raises(LedgerError) as stopped, guarded(ledger):
            raise error
        assert (stopped.value.code, stopped.value.because) == ("E0820", "the disk is full")
    again = release(plan, make_counts(8), ledger, output=output, pin=None)
    assert np.array_equal(again.noisy, done.noisy)


def raise_(error: Exception) -> None:
    raise error


def test_steps_that_another_run_released_meanwhile_are_not_called_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two first runs at once one releases each step; the other says that it found them."""
    plan, counts = make_plan(), make_counts(5)
    module = sys.modules["policyc_runtime.release"]  # the package has a function of that name
    read, others = module._read, []

    def read_and_run_another(*arguments: object) -> StepCounts:
        if not others:
            others.append(None)
            others.append(release(plan, counts[:4], tmp_path / "l", pin=None))
        return read(*arguments)

    monkeypatch.setattr(module, "_read", read_and_run_another)
    done = release(plan, counts, tmp_path / "l", pin=None)
    assert (others[1].before, len(others[1].times)) == (0, 4)
    assert (done.before, len(done.times)) == (4, 5)
    assert release(plan, counts, tmp_path / "l", pin=None).before == 5


@pytest.mark.parametrize(("name", "value"), [("gaps", "zeros"), ("engine", "oracle"), ("steps", "3"), ("steps", True)])
def test_what_a_type_checker_would_refuse_begins_nothing(name: str, value: Any, tmp_path: Path) -> None:
    """A word that is not known meant another one: zeros for gaps, Postgres for any other engine."""
    plan = make_plan()
    with pytest.raises((ValueError, TypeError), match=name):
        release(plan, make_counts(3), tmp_path / "ledger", pin=None, **{name: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", [datetime.date(2024, 3, 29), datetime.datetime(2024, 3, 29), np.datetime64("2024")])
def test_a_start_is_a_text(moment: Any, tmp_path: Path) -> None:
    """What is none is named, with the way to make one, before a ledger is begun."""
    with pytest.raises(TypeError, match=f"start is the text .* not a {type(moment).__name__}"):
        release(make_plan(), make_counts(3), tmp_path / "ledger", pin=None, start=moment)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["fleet.plan", None, object()])
def test_what_is_no_plan_is_named(given: Any, tmp_path: Path) -> None:
    """A directory's name, or what `compile_policy` gives: what to write is said, and no ledger is begun."""
    with pytest.raises(TypeError, match=rf"not a {type(given).__name__}: `load_plan\(directory\)`"):
        release(given, make_counts(3), tmp_path / "ledger", pin=None)
    assert list(tmp_path.iterdir()) == []
