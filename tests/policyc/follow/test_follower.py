"""A plan that is kept running: steps close by the clock, each is released once, and counts are those of a run."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from scripted import BEGIN, HOUR, MOVING, SECOND, START, VISITS, Played, follow, planned

from policyc_runtime.errors import DataError, LedgerError, ReleaseError
from policyc_runtime.follow.arrivals import Arrivals
from policyc_runtime.follow.lines import LONGEST_LINE, Lines
from policyc_runtime.follow.lock import followed_alone
from policyc_runtime.follow.released_lines import released_lines
from policyc_runtime.follow.sinks import StandardOutput, _pieces
from policyc_runtime.follow.standard_input import StandardInput
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.published_values import Release
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.sources import read_events
from policyc_runtime.sources.history import History
from policyc_runtime.sources.moments import EPOCH, MICROSECOND, moment_of

COUNTED = VISITS.replace("release spent = sum(seen.money, clamp = -5 .. 20)\n", "")
END = (BEGIN + 5 * HOUR, "")


def moment(at: int) -> str:
    return (EPOCH + at * MICROSECOND).isoformat()


def events(count: int, seed: int = 5, people: int = 30) -> list[tuple[int, dict[str, str]]]:
    """When they happen, and what they say."""
    generator = np.random.default_rng(seed)
    found = []
    for at in sorted(int(n) for n in generator.integers(BEGIN, BEGIN + 4 * HOUR, count)):
        user, segment = generator.integers((0, 0), (people, 3))
        said = {"person": f"u{user}", "vehicle": f"u{user}", "at": moment(at), "seen_at": moment(at)}
        found.append((at, said | {"money": f"{generator.uniform(-9, 30):.2f}", "segment": "ABC"[segment]}))
    return found


def played(found: list[tuple[int, dict[str, str]]], **more: object) -> Played:
    return Played([*((at, json.dumps(said)) for at, said in found), END], **more)  # type: ignore[arg-type]


def whole(plan: Plan, folder: Path, found: list[tuple[int, dict[str, str]]]) -> dict[str, np.ndarray]:
    """What a run on a file of all events counts."""
    path = folder / "whole.csv"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, found[0][1])
        writer.writeheader()
        writer.writerows(said for _, said in found)
    return read_events(path, plan, steps=4).counts


def counted(plan: Plan, folder: Path) -> dict[str, np.ndarray]:
    """What was taken in over all steps."""
    with History(folder / "l", plan) as history:
        return history.counted(0, None).counts


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "out.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("policy", [COUNTED, MOVING])
def test_what_is_followed_counts_what_a_run_on_the_whole_counts(policy, tmp_path):
    """Bounds over all steps, the last cell of a step, users in none: the same, and every step is published once."""
    plan, found = planned(tmp_path, policy), events(80)
    told = follow(plan, tmp_path, played(found))
    assert [one.stop for one in told] == list(range(1, 5))
    same = whole(plan, tmp_path, found)
    assert all(np.array_equal(same[name], values) for name, values in counted(plan, tmp_path).items())
    assert [int(row["step"]) for row in rows(tmp_path)][:: len(plan.releases[0].cells)] == list(range(4))


@pytest.mark.law
def test_steps_close_by_the_clock_and_without_events(tmp_path):
    """Nobody comes in most hours: each is published a second after it closed, a minute after its end."""
    plan = planned(tmp_path)
    told = follow(plan, tmp_path, played(events(3)), sinks=[])
    closes = [BEGIN + (step + 1) * HOUR + 60 * SECOND for step in range(4)]
    assert [one.closed for one in told] == closes
    assert [one.published for one in told] == [at + SECOND for at in closes]


def test_rows_of_closed_steps_are_dropped_and_counted_privately(tmp_path):
    """A minute after its end a step takes no row any more; before that it does."""
    plan = planned(tmp_path)
    line = json.dumps({"person": "a", "at": moment(BEGIN + 5), "money": "3"})
    other = json.dumps({"person": "b", "at": moment(BEGIN + 6), "money": "3"})
    script = [(BEGIN + HOUR + 59 * SECOND, line), (BEGIN + HOUR + 61 * SECOND, other), END]
    follow(plan, tmp_path, Played(script), sinks=[])
    assert counted(plan, tmp_path)["there"][:, 0].tolist() == [1, *[0] * 3]
    with Arrivals(tmp_path / "l", ("person",)) as arrivals:
        assert (arrivals.number("taken"), arrivals.number("late"), arrivals.closed) == (1, 1, 4)
    with closing(sqlite3.connect(tmp_path / "private" / "l.arrivals" / "state.sqlite")) as state:  # as the guide says
        assert state.execute("SELECT value FROM number WHERE name = 'late'").fetchall() == [(1,)]
    assert not list((tmp_path / "private").rglob("*.csv"))


@pytest.mark.law
def test_rows_that_cannot_be_used_stop_nobody(tmp_path):
    """No JSON, no moment, nobody's, no number, before the start, beyond the horizon: counted, and the others count."""
    plan, at = planned(tmp_path), moment(BEGIN + 5)
    bad = ["{", "[]", '{"person": null}', *(json.dumps({"person": p, "at": t, "money": m}) for p, t, m in (
        ("a", "soon", "1"), (" ", at, "1"), ("a", at, "much"), ("a", moment(BEGIN - 5), "1"), ("a\0", at, "1"),
        ("a", moment(BEGIN + 4 * HOUR), "1"), ("a", at, "inf"), ("x" * 70_000, at, "1"),
    ))]  # fmt: skip
    good = json.dumps({"person": 7, "at": at, "money": 2.5})
    script = [(BEGIN + 10, line) for line in [*bad[:4], good, *bad[4:]]] + [END]
    follow(plan, tmp_path, Played(script), sinks=[])
    assert counted(plan, tmp_path)["there"].sum() == 1
    with Arrivals(tmp_path / "l", ("person",)) as arrivals:
        assert (arrivals.number("taken"), arrivals.number("unusable")) == (1, len(bad))


@pytest.mark.law
def test_a_user_written_in_two_ways_is_one(tmp_path):
    """`7` and `007`, in one step or in two, take part as one user, and stop nobody: one step is kept of its two."""
    plan = planned(tmp_path, VISITS.replace("at_most(3", "at_most(1"))
    script = [
        (BEGIN + 10 + hour * HOUR, json.dumps({"person": name, "at": moment(BEGIN + 5 + hour * HOUR), "money": 1}))
        for hour in range(0, 4, 2)
        for name in ("7", "007", " 7")
    ]
    follow(plan, tmp_path, Played([*script, END]), sinks=[])
    assert np.flatnonzero(counted(plan, tmp_path)["there"][:, 0]).tolist() == [0]


def test_a_user_of_the_past_who_is_written_in_another_way_stops_nobody(tmp_path):
    """A run on a file knows `007` and ` ada`; in lines that follow they are the same users, whose one step is over."""
    plan = planned(tmp_path, VISITS.replace("at_most(3", "at_most(1"))
    names = ("007", " ada")
    said = "".join(f"{name},{moment(BEGIN + 5)},1\n" for name in names)
    (tmp_path / "past.csv").write_text("person,at,money\n" + said)
    given = {"continued": True, "pin": None, "output": tmp_path / "out.csv", "randomness": SimulationRandomness(3)}
    write_release(release(plan, tmp_path / "past.csv", tmp_path / "l", steps=1, **given), tmp_path / "out.csv")
    script = [
        (BEGIN + hour * HOUR + 9, json.dumps({"person": name, "at": moment(BEGIN + hour * HOUR + 5), "money": 1}))
        for hour in (2, 3)
        for name in ("7", "007", "7.0", "ada", " ada", "bob")
    ]
    follow(plan, tmp_path, Played([*script, END], now=BEGIN + HOUR), sinks=[])
    assert counted(plan, tmp_path)["there"][:, 0].tolist() == [2, 0, 1, 0]  # `bob` alone


def test_more_users_than_the_population_stop_nobody(tmp_path):
    """Five of a population of two: all count, who is elsewhere is what is left, and released values add up to two."""
    plan = planned(tmp_path, MOVING.replace("200", "2") + "postprocess occupancy { sum(occupancy) == population }\n")
    lines = [json.dumps({"vehicle": f"u{n}", "seen_at": moment(BEGIN + n), "segment": "AB"[n % 2]}) for n in range(5)]
    told = follow(plan, tmp_path, Played([*((BEGIN + 10, line) for line in lines), END]))
    assert [one.stop for one in told] == list(range(1, 5))
    assert counted(plan, tmp_path)["occupancy"].tolist() == [[3, 2, -3], *[[0, 0, 2]] * 3]
    steps = np.array([row["released"] for row in rows(tmp_path)], dtype=float).reshape(4, 3)
    assert steps.sum(axis=1).tolist() == [2] * 4


def test_a_plan_that_one_missing_row_would_stop_is_refused(tmp_path):
    """Every user in a cell at each step, and their number public: nothing may be missing."""
    whole = MOVING.replace(' otherwise "away"', "").replace(
        "[[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]", "[[0.5, 0.5], [0.4, 0.6]]"
    )
    whole += "postprocess occupancy { sum(occupancy) == population }\n"
    with pytest.raises(DataError) as refused:
        follow(planned(tmp_path, whole), tmp_path, Played([END]))
    assert (refused.value.code, "otherwise" in str(refused.value.help)) == ("E0861", True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_ended_between_steps_it_goes_on(stop, tmp_path):
    """Ended after some steps and started again, from where the source was: the same counts, each step once."""
    plan, found = planned(tmp_path, COUNTED), events(80)
    told: list[int] = []
    first = played(found, positions=True)
    told += [one.stop for one in follow(plan, tmp_path, first, stopping=lambda: first.moment > BEGIN + stop * HOUR)]
    before = rows(tmp_path) if told else []
    told += [one.stop for one in follow(plan, tmp_path, played(found, positions=True, now=first.moment))]
    assert told == list(range(1, 5))
    assert rows(tmp_path)[: len(before)] == before
    same = whole(plan, tmp_path, found)
    assert all(np.array_equal(same[name], values) for name, values in counted(plan, tmp_path).items())


@pytest.mark.law
def test_what_waited_while_nobody_was_there_is_read_first(tmp_path):
    """Started hours late on a source with positions, no row is late, and all steps are published together."""
    plan, found = planned(tmp_path), events(80)
    told = follow(plan, tmp_path, played(found, positions=True, now=BEGIN + 9 * HOUR))
    assert [(one.first, one.stop) for one in told] == [(0, 4)]
    same = whole(plan, tmp_path, found)
    assert all(np.array_equal(same[name], values) for name, values in counted(plan, tmp_path).items())


def test_a_second_follow_is_refused(tmp_path):
    """As long as one follows; then the next one may."""
    plan = planned(tmp_path)
    with followed_alone(tmp_path / "l"), pytest.raises(LedgerError, match="followed already") as refused:
        follow(plan, tmp_path, Played([END]))
    assert refused.value.code == "E0824"
    with followed_alone(tmp_path / "l"), pytest.raises(LedgerError, match="followed already"):
        release(plan, tmp_path / "events.csv", tmp_path / "l", pin=None)  # a run from Python is none beside it, either
    with followed_alone(tmp_path / "l"):
        pass


@pytest.mark.parametrize(
    ("was", "becomes", "why"),
    [
        ("deliver realtime", "deliver offline", "the whole stream"),
        ("enforced = keep_first", "enforced = keep_sample", "those to come"),
    ],
)
def test_plans_that_wait_for_later_steps_are_refused(was, becomes, why, tmp_path):
    """Before anything is read or begun."""
    text = VISITS.replace(was, becomes)
    text = text.replace("deliver realtime", "deliver offline") if "sample" in becomes else text
    with pytest.raises(DataError) as refused:
        follow(planned(tmp_path, text), tmp_path, Played([END]))
    assert refused.value.code == "E0861"
    assert why in str(refused.value.because) or "offline" in str(refused.value.because)
    assert not (tmp_path / "l").exists()


def test_a_stream_without_start_asks_for_one(tmp_path):
    """No event may say it."""
    with pytest.raises(DataError) as refused:
        follow(planned(tmp_path, VISITS.replace(f'  start "{START}"\n', "")), tmp_path, Played([END]))
    assert refused.value.code == "E0865"


class Kept:
    """A sink that keeps what it was given."""

    name = "kept"

    def ready(self, release: Release, noted: int, pieces: ExitStack) -> None:
        self.release = release

    def publish(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_what_standard_output_has_is_not_repeated(tmp_path):
    """Whatever part of the lines was written and not noted, a file has them once: nothing, half a line, all of them."""
    kept = Kept()
    follow(planned(tmp_path), tmp_path, Played([END], now=BEGIN + 9 * HOUR), [kept])
    lines = [line.encode() for line in released_lines(kept.release, 0, 4)]
    whole, noted = b"".join(lines), b"".join(lines[:4])
    assert [json.loads(line)["step"] for line in lines] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(json.loads(lines[0])) == {"release", "step", "time", "noisy", "released", "simulated"}
    path = tmp_path / "o.ndjson"
    for begin in (b"", noted):
        for left in range(0, len(whole) - len(noted) + 1, 7):
            path.write_bytes(begin + whole[len(noted) : len(noted) + left])
            with path.open("ab") as out, ExitStack() as pieces:
                sink = StandardOutput(out.fileno())
                sink.ready(kept.release, 2, pieces)
                sink.publish()
            assert path.read_bytes() == begin + whole[len(noted) :]


@pytest.mark.law
def test_csv_lines_are_read_by_their_header(tmp_path):
    """Columns in any order, others ignored; a header without the policy's columns is refused."""
    plan = planned(tmp_path)
    script = [(BEGIN + 1, "x,money,at,person"), (BEGIN + 2, f'1,2,{moment(BEGIN)},"a, b"'), END]
    follow(plan, tmp_path, Played(script), sinks=[])
    assert counted(plan, tmp_path)["there"].sum() == 1
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="no one column `person`"):
        follow(plan, tmp_path / "other", Played([(BEGIN + 1, "who,at,money"), END]))


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "\0", "\ud800", "a\udc00"])
def test_who_sends_what_no_file_can_hold_stops_nobody(name, tmp_path):
    """Half of a surrogate pair, or the end of a row within a name: such a line is unusable, and others are counted."""
    plan = planned(tmp_path)
    rows = [{"person": who, "at": moment(BEGIN), "money": "1"} for who in (name, "ada")]
    follow(plan, tmp_path, Played([*((BEGIN + 1, json.dumps(row)) for row in rows), END]), sinks=[])
    assert counted(plan, tmp_path)["there"].sum() == 1


def test_a_first_line_that_is_no_row_is_refused_as_a_header():
    """A carriage return within it is no reason for another message."""
    with pytest.raises(DataError, match="no one column `person`"):
        Lines(("person", "at"), "standard input").fields([b"person,a\rt"])


@pytest.mark.parametrize("junk", [b'a","at":"2026"}', b'"}', b"k", b"\x01\x02,\x7f", b"\xff,\xfe"])
def test_what_a_stream_begins_with_by_chance_is_no_header(junk):
    """The rest of an object, or bytes: one that cannot be used, and what comes after it is read as what it is."""
    objects = Lines(("person", "at"), "standard input")
    assert objects.fields([junk, b'{"person": "a", "at": "t"}']) == ([("a", "t")], 1)
    rows = Lines(("person", "at"), "standard input")
    assert rows.fields([junk, "\ufeffat,person".encode(), b"t,a"]) == ([("a", "t")], 1)


@pytest.mark.parametrize("names", ["who;at", "who\tat", '"who","at"', "who|at"])
def test_a_header_of_other_columns_is_refused(names):
    with pytest.raises(DataError, match="no one column `person`"):
        Lines(("person", "at"), "standard input").fields([names.encode()])


def test_standard_output_that_takes_nothing_is_named():
    """A pipe whose reader is gone, and a device without room."""
    reading, writing = os.pipe()
    os.close(reading)
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123
        for descriptor, said in ((writing, "nobody reads it any more"), (full.fileno(), "No space left on device")):
            sink = StandardOutput(descriptor)
            sink._text = b"{}\n"
            with pytest.raises(ReleaseError) as refused:
                sink.publish()
            assert (refused.value.code, refused.value.where, refused.value.because) == (
                "E0826",
                "standard output",
                said,
            )
    os.close(writing)


def test_standard_output_that_does_not_wait_is_waited_for():
    """A pipe that its reader made so: all lines come, in order."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    sink = StandardOutput(writing)
    sink._text = b"".join(b"%d\n" % number for number in range(99_999))
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(lambda: b"".join(iter(lambda: os.read(reading, 1_000), b"")))
        sink.publish()
        os.close(writing)
        assert read.result() == sink._text
    os.close(reading)


def test_a_reader_that_pauses_is_not_waited_for_without_end():
    """What the pipe took are whole lines, and a start that goes on writes them again."""
    reading, writing = os.pipe()
    asked: list[int] = []
    sink = StandardOutput(writing, lambda: len(asked.append(1) or asked) > 1)
    sink._text = b"".join(b'{"step": %d, "released": 3.0}\n' % number for number in range(99_999))
    with pytest.raises(ReleaseError, match="cannot be written") as refused:
        sink.publish()
    assert (refused.value.code, len(asked)) == ("E0826", 2)
    os.close(writing)
    taken = b"".join(iter(lambda: os.read(reading, 2**16), b""))
    assert sink._text.startswith(taken)
    assert taken.endswith(b"\n")
    os.close(reading)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_lines_are_written_whole_where_they_fit(size):
    text = b"".join(b"x" * length + b"\n" for length in (0, 5, 6, 7, 4095, 9_000, 1)) + b"end"
    pieces = list(_pieces(text, size))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= size
    cut = [line for line in text.splitlines(keepends=True) if len(line) > size]
    assert sum(not piece.endswith(b"\n") for piece in pieces[:-1]) <= sum(len(line) // size for line in cut)


@pytest.mark.parametrize("running", [False, True])
def test_rows_that_were_damaged_since_are_found(running: bool, tmp_path: Path) -> None:
    """Any byte of what was taken in, wherever a flip leaves a row that could be read: at a start, and before a step."""
    columns = ("person", "at", "money")
    with Arrivals(tmp_path / "l", columns) as arrivals:
        arrivals.take({2: [("a", "2026-01-01T02:00:00Z", "3")]}, 0, {})
        arrivals.take({2: [("b", "2026-01-01T02:00:01Z", "4")], 3: [("c", "x", "")]}, 0, {})
    file = tmp_path / "private" / "l.arrivals" / "2.csv"
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole)
        with Arrivals(tmp_path / "l", columns) as arrivals:
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(LedgerError) as refused:
                arrivals.rows(3) if running else Arrivals(tmp_path / "l", columns)
        assert (refused.value.code, refused.value.where) == ("E0840", str(file))
    file.write_bytes(whole)
    with Arrivals(tmp_path / "l", columns) as arrivals:
        assert arrivals.rows(3).read_bytes() == whole
        arrivals.forget(3)


def test_what_an_earlier_build_took_in_goes_on(tmp_path: Path) -> None:
    """It kept no check values: rows are taken as they are, and held to them from then on."""
    columns = ("person", "at")
    with Arrivals(tmp_path / "l", columns) as arrivals:
        arrivals.take({1: [("a", "x")]}, 0, {})
    folder = tmp_path / "private" / "l.arrivals"
    with closing(sqlite3.connect(folder / "state.sqlite")) as state:
        state.execute("DROP TABLE mark")
    with Arrivals(tmp_path / "l", columns) as arrivals:
        arrivals.take({1: [("b", "y")]}, 0, {})
        assert arrivals.rows(2).read_text() == "person,at\na,x\nb,y\n"
    (folder / "1.csv").write_text("person,at\na,x\nb,z\n")
    with pytest.raises(LedgerError, match="cannot be used"):
        Arrivals(tmp_path / "l", columns)


def test_the_end_of_a_line_that_is_too_long_is_no_line():
    """Its beginning was counted, and nothing more of it comes in, also where the input ends with it."""
    reading, writing = os.pipe()
    source, found = StandardInput(reading), []
    for piece in (b"x" * (LONGEST_LINE - 1), b"yy", b"tail"):  # no more than a pipe holds
        os.write(writing, piece)
        found += source.read(0).lines
    os.close(writing)
    found += source.read(0).lines
    os.close(reading)
    assert source.ended
    assert found == [b"x" * (LONGEST_LINE - 1) + b"yy"]


def test_moments_are_read_as_a_run_reads_them():
    """The moment of a test is the one that the follower keeps."""
    assert moment_of(moment(BEGIN + 1)) == BEGIN + 1


def test_the_past_is_released_first_and_then_followed(tmp_path: Path) -> None:
    """By a run that takes in new rows; nothing is refused then, and the rest comes as it does."""
    plan = planned(tmp_path, COUNTED.replace("horizon 4", "horizon 30"))
    found = events(40)
    past = tmp_path / "past.csv"
    with past.open("w", newline="") as out:
        writer = csv.DictWriter(out, found[0][1])
        writer.writeheader()
        writer.writerows(said for _, said in found)
    given = {"continued": True, "pin": None, "output": tmp_path / "out.csv", "randomness": SimulationRandomness(3)}
    write_release(release(plan, past, tmp_path / "l", steps=25, **given), tmp_path / "out.csv")
    now = BEGIN + 26 * HOUR + 61 * SECOND
    follow(plan, tmp_path, Played([(now, "")], now=now))
    assert rows(tmp_path)[-1]["step"] == "25"


@pytest.mark.parametrize("closed", [2, 3])
def test_a_step_that_another_run_released_from_other_rows_stops_nobody(tmp_path: Path, closed: int) -> None:
    """What was taken in of it came too late, also where this was ended when it had closed it; the rest goes on."""
    plan = planned(tmp_path)
    said = {"person": "a", "at": moment(BEGIN + 2 * HOUR + 5), "money": "3"}
    first = Played([(BEGIN + 2 * HOUR + 10, json.dumps(said)), END], positions=True)
    follow(plan, tmp_path, first, stopping=lambda: first.moment > BEGIN + 2 * HOUR + 600 * SECOND)
    with Arrivals(tmp_path / "l", ("person", "at", "money")) as arrivals:
        assert (arrivals.closed, arrivals.number("taken")) == (2, 1)
        arrivals.close_steps(closed)
    fuller = tmp_path / "fuller.csv"
    with fuller.open("w", newline="") as out:
        writer = csv.DictWriter(out, said)
        writer.writeheader()
        writer.writerows([said, said | {"person": "b"}])
    given = {"continued": True, "pin": None, "output": tmp_path / "out.csv", "randomness": SimulationRandomness(3)}
    write_release(release(plan, fuller, tmp_path / "l", steps=3, **given), tmp_path / "out.csv")
    later = json.dumps(said | {"person": "c", "at": moment(BEGIN + 3 * HOUR + 5)})
    again = Played([*first.script[:1], (BEGIN + 3 * HOUR + 10, later), END], positions=True, now=BEGIN + 3 * HOUR)
    told = follow(plan, tmp_path, again)
    assert [(one.first, one.stop) for one in told] == [(3, 4)]
    assert counted(plan, tmp_path)["there"][:, 0].tolist() == [0, 0, 2, 1]
    with Arrivals(tmp_path / "l", ("person", "at", "money")) as arrivals:
        late = closed == 2
        assert (arrivals.number("taken"), arrivals.number("late")) == (2 - late, int(late))


def test_rows_without_what_says_that_they_were_taken_in_are_kept(tmp_path: Path) -> None:
    """Which file is named; the ledger is sound, and whoever restored it would draw again."""
    plan = planned(tmp_path)
    said = {"person": "a", "at": moment(BEGIN + 2 * HOUR + 5), "money": "3"}
    first = Played([(BEGIN + 2 * HOUR + 10, json.dumps(said)), END], positions=True)
    follow(plan, tmp_path, first, stopping=lambda: first.moment > BEGIN + 2 * HOUR + 600 * SECOND)
    state = tmp_path / "private" / "l.arrivals" / "state.sqlite"
    whole, page = state.read_bytes(), 4096
    pages = [whole[:at] + b"\xff" * page + whole[at + page :] for at in range(0, len(whole), page)]
    assert len(pages) == 9  # a table or an index each
    for damaged in (None, b"", b"garbage" * 99, whole[: 2 * page], *pages):
        state.unlink() if damaged is None else state.write_bytes(damaged)
        with pytest.raises(LedgerError) as refused:
            follow(plan, tmp_path, played([], positions=True, now=first.moment))
        assert (refused.value.code, refused.value.where) == ("E0840", str(state))
        assert (state.parent / "2.csv").is_file()


@pytest.mark.parametrize(
    "altered",
    [
        *(f"DROP TABLE {table}" for table in ("length", "position", "number", "published")),
        "UPDATE length SET bytes = 'many'",
        "UPDATE position SET next = x'00'",
        "UPDATE number SET value = -1",
        "UPDATE number SET value = 1.5",
        "INSERT INTO published VALUES ('there', 'all')",
        "INSERT INTO position VALUES (x'61', 1)",
    ],
)
def test_a_state_that_another_hand_wrote_is_refused(tmp_path: Path, altered: str) -> None:
    """Sound for sqlite, and yet not what was kept: nothing is taken for 0, and no row goes."""
    plan = planned(tmp_path)
    said = {"person": "a", "at": moment(BEGIN + 2 * HOUR + 5), "money": "3"}
    first = Played([(BEGIN + 2 * HOUR + 10, json.dumps(said)), END], positions=True)
    follow(plan, tmp_path, first, stopping=lambda: first.moment > BEGIN + 2 * HOUR + 600 * SECOND)
    state = tmp_path / "private" / "l.arrivals" / "state.sqlite"
    with closing(sqlite3.connect(state)) as open_state:
        assert open_state.execute(altered).rowcount != 0
        open_state.commit()
    with pytest.raises(LedgerError) as refused:
        follow(plan, tmp_path, played([], positions=True, now=first.moment))
    assert (refused.value.code, refused.value.where) == ("E0840", str(state))
    assert (state.parent / "2.csv").is_file()


def test_a_start_that_was_killed_between_its_tables_goes_on(tmp_path: Path) -> None:
    """Builds before made them one by one."""
    plan = planned(tmp_path)
    state = tmp_path / "private" / "l.arrivals" / "state.sqlite"
    state.parent.mkdir(parents=True)
    with closing(sqlite3.connect(state)) as begun:
        begun.execute("CREATE TABLE length (step INTEGER PRIMARY KEY, bytes INTEGER NOT NULL)")
    said = {"person": "a", "at": moment(BEGIN + 5), "money": "3"}
    follow(plan, tmp_path, Played([(BEGIN + 10, json.dumps(said)), END]))
    assert counted(plan, tmp_path)["there"][:, 0].tolist() == [1, 0, 0, 0]


def test_a_mark_of_the_order_of_bytes_takes_no_event(tmp_path: Path) -> None:
    """As a CSV line's, that of a first object."""
    plan = planned(tmp_path)
    said = json.dumps({"person": "a", "at": moment(BEGIN + 5), "money": "3"})
    follow(plan, tmp_path, Played([(BEGIN + 10, "\ufeff" + said), END]))
    assert counted(plan, tmp_path)["there"][:, 0].tolist() == [1, 0, 0, 0]


def test_a_stream_ends_with_its_input_however_short_its_steps_are(tmp_path: Path) -> None:
    """What is due then is published, and nothing more, even where one more step is over whenever one is published."""
    plan = planned(tmp_path, VISITS.replace("step 1h", "step 1s").replace("horizon 4", "horizon 600"))
    last = BEGIN + 10 * SECOND
    script = [(at, "") for at in range(BEGIN, last + 1, SECOND)]
    told = follow(plan, tmp_path, Played(script), lateness=SECOND, pause=2 * SECOND)
    assert 5 <= told[-1].stop <= 13
