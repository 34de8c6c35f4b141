"""Policies to start from: for every promise, with columns of a file or without, asked for or said."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from prompt import policyc

from policyc import compile_policy
from policyc.cli import init
from policyc.emit.event_columns import read_columns, read_span
from policyc.emit.starter import PROMISES, Starter
from policyc.semantics.checked import check_file
from policyc_check.errors import KernelError
from policyc_runtime.files import write_text

HEAD = ["tailnum", "departed at", "origin", "note"]
ROWS = [
    ["N1", "2025-03-09T08:30:00", "SECRETVILLE", "8"],
    ["N2", "2025-03-04T23:59:59", "", "x"],
    ["N1", "2025-03-05T00:00:00Z", "PLACE", ""],
]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return written(tmp_path / "events.csv", [HEAD, *ROWS])


def written(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def codes(path: Path) -> list[str]:
    return [finding.code for finding in check_file(path)[3]]


@pytest.mark.parametrize("promise", PROMISES)
def test_check_says_exactly_what_is_still_to_be_written(promise, events, tmp_path):
    """The example of every promise has nothing to fill in but a chain's source; with a column also its cells."""
    chain = ["W0402"] * (promise == "alpha_dpt")
    for number, (words, expected) in enumerate(
        [
            ((), chain),
            (("--cells", "A, B ,C"), chain),
            (("--columns-from", events, "--cell", "origin"), ["W0201", *chain]),
            (("--columns-from", events, "--cell", "origin", "--cells", 'A,"B\\'), chain),
            *([(("--columns-from", events), [])] if promise != "alpha_dpt" else []),
        ]
    ):
        done = policyc("init", f"p{number}", "--promise", promise, *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert codes(tmp_path / f"p{number}.policy") == expected
        assert policyc("fmt", "--check", f"p{number}.policy", cwd=tmp_path).returncode == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("promise", "named"), [*product(reversed(PROMISES), [False, True])])
def test_what_is_written_compiles_as_it_stands(promise, named, events, tmp_path):
    """Every promise has a plan at once, and the plan makes that promise."""
    words = ("--columns-from", events, *(("--cell", "origin") if promise == "alpha_dpt" else ())) if named else ()
    assert policyc("init", "p", "--promise", promise, *words, cwd=tmp_path).returncode == 0
    plan = compile_policy(tmp_path / "p.policy").plan
    assert [target.kind for target in plan.targets] == [promise]
    assert plan.stream.user_column == ("tailnum" if named else "user_id")


def test_names_and_days_are_read_and_nothing_else(events, tmp_path):
    """Columns and whole days around the times are in the policy; no other value of the file is, nor on the screen."""
    done = policyc("init", "p", "--columns-from", events, "--cell", "origin", cwd=tmp_path)
    text = (tmp_path / "p.policy").read_text()
    for value in ("SECRETVILLE", "PLACE", "N1", "N2", "08:30", "23:59"):
        assert value not in text + done.stdout + done.stderr
    stream = check_file(tmp_path / "p.policy")[2].stream
    assert (stream.user, stream.time, stream.cell.column) == ("tailnum", "departed at", "origin")
    assert (stream.start, stream.step_text, stream.horizon) == ("2025-03-04", "1h", 6 * 24)


def test_gzip_and_parquet_say_the_same(events, tmp_path):
    """The kind of file makes no difference."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    zipped = tmp_path / "zipped.csv.gz"
    zipped.write_bytes(gzip.compress(events.read_bytes()))
    moments = np.array([row[1].rstrip("Z") for row in ROWS], dtype="M8[us]")
    table = pa.table({**{name: [row[i] for row in ROWS] for i, name in enumerate(HEAD)}, "departed at": moments})
    pq.write_table(table, tmp_path / "typed.parquet")
    for file in (zipped, tmp_path / "typed.parquet"):
        columns = read_columns(file)
        assert (columns.names, columns.user, columns.time) == (tuple(HEAD), "tailnum", "departed at")
        assert read_span(file, "departed at").first_day == "2025-03-04"


@pytest.mark.parametrize(
    ("first", "last", "start", "step", "steps"),
    [
        ("2025-03-04", "2025-03-04", "2025-03-04", "1h", 24),
        ("2025-03-04T23:00", "2025-04-03", "2025-03-04", "1h", 31 * 24),
        ("2025-03-04", "2025-04-04", "2025-03-01", "1d", 61),
        ("2024-01-31", "2024-12-31T23:59:59", "2024-01-01", "1d", 366),
        ("2020-06-05", "2025-12-01", "2020-06-01", "1w", 292),
        ("1900-01-01", "2025-12-31", "1900-01-01", "1w", 6575),
    ],
)
def test_days_or_months_lie_around_all_times(first, last, start, step, steps, tmp_path):
    """Up to 31 days are whole days, more are whole months, in at most so many steps where they are weeks or less."""
    file = written(tmp_path / "e.csv", [["user", "at"], ["a", last], ["b", first]])
    starter = Starter("user_level", "user", "at", None, (), read_span(file, "at"))
    (tmp_path / "p.policy").write_text(starter.text("p"))
    stream = check_file(tmp_path / "p.policy")[2].stream
    assert (stream.start, stream.step_text, stream.horizon) == (start, step, steps)
    begin, end = np.datetime64(start), np.datetime64(first)
    assert begin <= end
    assert np.datetime64(last) < begin + steps * {"1h": 1, "1d": 24, "1w": 168}[step] * np.timedelta64(1, "h")


@pytest.mark.parametrize("many", [1, 2, 3, 7, 12, 40])
def test_a_chain_of_any_number_of_cells_is_one(many, tmp_path):
    """Rows of the example's chain sum to 1, exactly."""
    cells = tuple(f"c{i}" for i in range(many))
    (tmp_path / "p.policy").write_text(Starter(cells=cells).text("p"))
    assert codes(tmp_path / "p.policy") == ["W0402"]


@pytest.mark.parametrize(
    ("rows", "words", "code", "told"),
    [
        (ROWS, (), "E0811", "may be data"),
        ([HEAD, *ROWS], ("--user", "pilot"), "E0808", "`tailnum`, `departed at`"),
        ([HEAD, *ROWS], (), "E0808", "--cell COLUMN"),
        ([HEAD, *ROWS], ("--cell", "origin", "--time", "note"), "E0812", "--time COLUMN"),
        ([["who", "departed at", "origin"], *([*row[:3]] for row in ROWS)], (), "E0808", "--user COLUMN"),
        ([["user", "from", "to", "x"], *([r[0], r[1], r[1], ""] for r in ROWS)], (), "E0808", "--time COLUMN"),
        ([["user", "user", "at"]], (), "E0811", "one name"),
        ([["SECRET name", "SECRET illness"], ["bob", "flu"]], (), "E0808", "may be one of data"),
        ([["user", "at", "x"]], ("--time", "at", "--cell", "x"), "E0816", ""),
    ],
)
def test_what_cannot_be_told_is_refused_with_what_to_say(rows, words, code, told, tmp_path):
    """One message with the place; no value of a row stands in it, and nothing is written."""
    file = written(tmp_path / "events.csv", rows)
    done = policyc("init", "p", "--columns-from", file, *words, cwd=tmp_path)
    assert done.returncode == 1
    assert f"error[{code}]" in done.stderr
    assert told in done.stderr
    assert str(file) in done.stderr
    assert "SECRET" not in done.stderr
    assert not (tmp_path / "p.policy").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--cell", "origin"),
        ("--promise", "secrecy"),
        ("--cells", "A,A"),
        ("--cells", "A,elsewhere"),
        ("--cells", "A,\x1b[2J"),
        ("--columns-from", "events.csv", "--cell", "tailnum"),
    ],
)
def test_wrong_usage_writes_nothing(words, events, tmp_path):
    """Exit code 2."""
    assert policyc("init", "p", *words, cwd=tmp_path).returncode == 2
    assert not (tmp_path / "p.policy").exists()


def test_a_missing_file_is_one_message(tmp_path):
    """As for every command that reads data."""
    done = policyc("init", "p", "--columns-from", "nowhere.csv", cwd=tmp_path)
    assert (done.returncode, "error[E0810]" in done.stderr) == (1, True)


@contextlib.contextmanager
def typed(text: str) -> Iterator[None]:
    """A terminal on which somebody types."""
    with pytest.MonkeyPatch.context() as terminal:
        terminal.setattr(init, "_at_a_terminal", lambda: True)
        terminal.setattr("sys.stdin", io.StringIO(text))
        yield


def test_a_terminal_is_asked_what_no_option_says(events, tmp_path):
    """Promise, file, columns and cells; what the names tell is offered."""
    with typed(f"4\n{events}\n\n\norigin\nEWR, JFK\n"):
        done = policyc("init", "asked", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "everything that one user ever does" in done.stderr
    policy = check_file(tmp_path / "asked.policy")[2]
    assert policy.stream.cell.cells == ("EWR", "JFK")
    with typed("5\n\n"):  # there are four; then Enter takes the first, and no file
        assert policyc("init", "again", cwd=tmp_path).returncode != 0
    with typed("\n\n"):
        assert policyc("init", "plain", cwd=tmp_path).returncode == 0
    assert (tmp_path / "plain.policy").read_text() == Starter().text("plain")


def test_who_stops_answering_has_written_nothing(events, tmp_path):
    """The end of what is typed ends the command."""
    with typed(f"4\n{events}\n"):
        assert policyc("init", "p", cwd=tmp_path).returncode == 1
    assert not (tmp_path / "p.policy").exists()


def test_a_policy_that_exists_stays_before_anything_is_asked(tmp_path):
    """Also where it appears in between."""
    kept = tmp_path / "p.policy"
    kept.write_text("mine")
    with typed(""):
        refused = policyc("init", "p", cwd=tmp_path)
    assert (refused.returncode, "exists already" in refused.stderr) == (1, True)
    with pytest.raises(FileExistsError):
        write_text(kept, "other", first=True)
    assert kept.read_text() == "mine"


def test_a_span_of_no_moments_is_refused(events):
    """A column of text has none."""
    with pytest.raises(KernelError, match="does not hold moments"):
        read_span(events, "origin")
