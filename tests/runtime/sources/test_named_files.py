"""The file that is named is the file that is read and written, whatever its name looks like; nothing is left out."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import duckdb
import numpy as np
import pytest
from plans import make_counts, make_plan

from policyc_check.errors import KernelError
from policyc_runtime.errors import DataError, ReleaseError
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.output import write_release
from policyc_runtime.release import release
from policyc_runtime.released_file import verify_release
from policyc_runtime.sources import read_counts, read_events
from policyc_runtime.sources.csv_rows import look_through

HOSTILE = (
    "ev[1]", "a*", "who?", "it's", 'said "so"', "100%25", "two words", "größe", "-x", "two\nlines", "file:x", "{uuid}",
    "~", "$HOME", "a;b", "a\\b", "origin=JFK", "[!a]", "\udcff", "#frag",
)  # fmt: skip
ROWS = "tailnum,departed_at,origin\na,2013-01-01T08:00:00,{}\nb,2013-01-01T09:00:00,{}\n"


@pytest.fixture(autouse=True)
def among_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that patterns would find instead, and a folder to work in."""
    for name in ("ev1", "ab", "whoa", "1", "b"):
        (tmp_path / f"{name}.csv").write_text(ROWS.format("LGA", "LGA"))
    monkeypatch.chdir(tmp_path)


def counted(path: str | Path) -> list[list[int]]:
    """What the first of January counts."""
    return read_events(path, make_plan(start="2013-01-01"), steps=1).counts["parked"].tolist()


def refused(path: str | Path, **options: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read_events(path, make_plan(start="2013-01-01"), **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_named_file_is_read_and_no_other(name: str, suffix: str) -> None:
    """Brackets, stars, quotes, columns in folders: two aircraft at EWR are counted, from this file."""
    file = Path(name + suffix)
    text = ROWS.format("EWR", "EWR")
    if suffix == ".parquet":
        Path("plain.csv").write_text(text)
        duckdb.sql("COPY (FROM read_csv('plain.csv', all_varchar = true)) TO 'plain.parquet'")
        Path("plain.parquet").rename(file)
    else:
        file.write_bytes(gzip.compress(text.encode()) if suffix == ".csv.gz" else text.encode())
    for path in (file, str(file), file.absolute()):
        assert counted(path) == [[2, 0, 0, 18]]


def test_a_folder_that_looks_like_a_column_changes_no_column() -> None:
    """`origin=JFK/` is a folder; the column in the file counts."""
    folder = Path("origin=JFK")
    folder.mkdir()
    (folder / "x.csv").write_text(ROWS.format("EWR", "LGA"))
    assert counted(folder / "x.csv") == [[1, 0, 1, 18]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_outputs_and_ledgers_have_the_names_that_were_given(name: str, suffix: str) -> None:
    """A run, and the run after it, write there and nowhere else, and both files verify."""
    Path("place").mkdir()
    book, output = Path("place") / (name + ".sqlite"), Path("place") / (name + suffix)
    for steps in (3, 5):
        done = release(make_plan(), make_counts(5), book, steps=steps, output=output, pin=None)
        assert write_release(done, output) == [output]
    assert verify_release(make_plan(), book, output).steps == 5
    assert all(claim.holds for claim in ledger_claims(make_plan(), book))
    assert all(file.name.startswith((name, f".{name}")) for file in Path("place").iterdir() if file.is_file())


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("s3://bucket/key.csv", "s3://bucket/key.csv"),
        (Path("s3://bucket/key.csv"), "s3://bucket/key.csv"),
        ("http://127.0.0.1:9/x.csv", "http://127.0.0.1:9/x.csv"),
        ("hf://datasets/x.parquet", "hf://datasets/x.parquet"),
        ("file:///data/x.csv", "file:///data/x.csv"),
        ("postgresql://me:s3cr3t@h/d?table=t&password=s3cr3t", "postgresql://h/d"),
    ],
)
def test_nothing_is_fetched(path: str | Path, shown: str) -> None:
    """A URL is shown as it was written, without a password, and refused, as input and as output."""
    assert refused(path).where == shown
    with pytest.raises(KernelError) as caught:
        release(make_plan(), make_counts(2), "book", output=path, pin=None)
    assert caught.value.where == shown
    assert not Path("book").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe is not waited for, and an empty folder has no file."""
    os.mkfifo("pipe.csv")
    Path("folder.csv").mkdir()
    assert "not a file" in str(refused("pipe.csv").because)
    assert "no Parquet file" in str(refused("folder.csv").because)
    assert refused("/dev/stdin").code == "E0810"
    assert "no such file" in str(refused(tmp_path / "none.csv").because)


def rows(text: str | bytes, name: str = "x.csv") -> Path:
    content = text.encode() if isinstance(text, str) else text
    Path(name).write_bytes(content)
    return Path(name)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("more", ["", "c,2013-01-01T10:00:00,EWR\n"])
def test_a_row_that_is_too_long_is_not_passed_over(quoted: bool, more: str) -> None:
    """Forty million characters in the last field: the row counts or the file is refused."""
    long = '"' + "x\n" * 20_000_000 + '"' if quoted else "x" * 40_000_000
    file = rows(ROWS.format("EWR", "EWR") + f"c,2013-01-01T10:00:00,{long}\n{more}")
    assert refused(file).code == "E0810"
    counts = rows(f"step,origin,count,note\n0,EWR,2,\n0,JFK,2,\n0,LGA,2,\n0,away,14,\n1,EWR,2,{long}\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_counts(counts, make_plan())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ROWS.format("EWR", '"EWR'), "quoted value does not end"),
        (ROWS.format("EWR", "E\0WR"), "NUL character"),
        (ROWS.format("EWR", "EWR").encode("utf-16"), "not UTF-8"),
        (ROWS.format("EWR", "EWR") + "c,2013-01-01T10:00:00\n", "another number of columns"),
        (ROWS.format("EWR", "EWR") + "c,2013-01-01T10:00:00,EWR,1\n", "another number of columns"),
        (ROWS.format("EWR", "EWR").replace("\n", "\r\n", 2), "some rows end in CR LF and some in LF"),
        (ROWS.format("EWR", "EWR") + f"{'c' * 2_100_000},2013-01-01T10:00:00,EWR\n", "longer than two million bytes"),
    ],
)
def test_what_is_no_table_is_refused(text: str | bytes, reason: str) -> None:
    """Quotes that do not end, zero bytes, other encodings and ragged rows."""
    assert reason in str(refused(rows(text)).because)


@pytest.mark.parametrize("damage", ["cut", "checked", "filled", "parquet"])
def test_a_file_that_is_cut_off_is_refused(damage: str) -> None:
    """Half a gzip file, one with another checksum, half a Parquet file."""
    text = "tailnum,departed_at,origin\n" + "".join(f"u{n},2013-01-01T08:00:00,EWR\n" for n in range(5000))
    packed = gzip.compress(text.encode())
    if damage == "cut":
        file = rows(packed[: len(packed) // 2], "x.csv.gz")
    elif damage == "filled":
        file = rows(packed + bytes(100), "x.csv.gz")
        assert "something stands behind" in str(refused(file).because)
    elif damage == "checked":
        file = rows(packed[:-8] + b"\1\2\3\4" + packed[-4:], "x.csv.gz")
    else:
        duckdb.sql("COPY (SELECT 'a' AS tailnum) TO 'x.parquet'")
        file = rows(Path("x.parquet").read_bytes()[:-10], "x.parquet")
    assert refused(file).code == "E0810"


@pytest.mark.parametrize("begin", ["", "\n", "\n\n\n", "\r\n\r\n", "\ufeff", "\ufeff\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_empty_lines_marks_and_line_ends_change_nothing(begin: str, end: str) -> None:
    """Leading empty lines are no header, and a byte order mark is no letter of the first name."""
    text = begin + ROWS.format("EWR", "JFK").replace("\n", end)
    if "\r" in begin and end != "\r\n":
        return  # two kinds of line ends in one file are refused by the reader of tables
    if "\n" in begin and "\r" in end and "\r" not in begin:
        return
    assert counted(rows(text)) == [[1, 1, 0, 18]]


def test_rows_are_counted_as_a_reader_of_csv_counts_them() -> None:
    """Against Python's reader, on random texts of quotes, commas and line ends, in pieces of any size."""
    import csv

    generator = np.random.default_rng(3)
    words = ["a", "bb", '"x\ny"', '"q""q"', "", '"\r\n"']
    for _ in range(200):
        end = generator.choice(["\n", "\r\n"])
        lines = [",".join(generator.choice(words, 3)) for _ in range(generator.integers(1, 9))]
        text = end * int(generator.integers(0, 3)) + (end * int(generator.integers(1, 3))).join(lines)
        file = rows(text + end * int(generator.integers(0, 2)))
        with file.open(newline="") as handle:
            assert look_through(file, zipped=False).rows == sum(bool(row) for row in csv.reader(handle))


def test_many_columns_are_refused_at_once() -> None:
    """A hundred thousand columns, each of another name or all of one, take a moment."""
    for names in ([f"c{n}" for n in range(100_000)], ["c"] * 100_000):
        assert "columns" in str(refused(rows(",".join(names) + "\n")).because)
    wide = rows(",".join(["tailnum", "departed_at", "origin", *["c"] * 5000]) + "\n" + "a,2013-01-01,EWR" + "," * 5000)
    assert counted(wide) == [[1, 0, 0, 19]]


@pytest.mark.parametrize(
    "moment",
    ["12013-01-01T08:00:00", "294246-01-01", "0000-06-01", "0044-03-15 (BC)", "infinity", "9999-12-31T12:00:00"],
)
def test_no_date_is_beyond_the_calendar(moment: str) -> None:
    """Years that no output could show are refused with their line, before any noise."""
    error = refused(rows(ROWS.format("EWR", "EWR") + f"c,{moment},EWR\n"))
    assert (error.code, error.where) == ("E0812", "x.csv: line 4")


def test_steps_end_before_the_calendar_does() -> None:
    """A stream that begins late in the year 9999 has fewer steps than its horizon."""
    plan = make_plan(start="9999-12-20")
    assert len(release(plan, make_counts(5), "book", steps=5, pin=None).times) == 5
    with pytest.raises(DataError, match="beyond the year 9999"):
        release(plan, make_counts(40), "book", steps=40, pin=None)


def test_what_cannot_be_written_is_no_release(tmp_path: Path) -> None:
    """The folder of an output must be there, whatever it looks like."""
    with pytest.raises(ReleaseError):
        release(make_plan(), make_counts(2), "book", output=tmp_path / "*" / "x.csv", pin=None)
