"""Events become the counts they should, and everything else is refused with its place."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plans import make_plan, make_release

from policyc_runtime.errors import DataError
from policyc_runtime.sources import StepCounts, read_events

HEADER = "tailnum,departed_at,origin,dest\n"
MARKER = "N0SECRET"
NEW_YEAR = 1_356_998_400_000_000  # 2013-01-01


def write(directory: Path, rows: str, name: str = "events.csv", header: str = HEADER) -> Path:
    path = directory / name
    path.write_text(header + rows, encoding="utf-8")
    return path


def read(path: Path, plan: Any = None, steps: int = 1, **options: Any) -> StepCounts:
    """Counts from the first of January 2013 on."""
    return read_events(path, plan or make_plan(), start=NEW_YEAR, steps=steps, **options)


def refusal(path: Path, plan: Any = None, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read_events(path, plan or make_plan(start="2013-01-01"), **options)
    error = caught.value
    said = " ".join(filter(None, (error.message, error.where, error.because, error.help)))
    assert MARKER not in said, "a refusal quoted data"
    return error


def test_the_last_cell_of_a_step_counts(tmp_path: Path) -> None:
    """A user seen in two cells of one step is in the later one, whatever the order of the rows."""
    rows = ["a,2013-01-01T20:00:00,JFK,x", "a,2013-01-01T08:00:00,EWR,x", "b,2013-01-01T09:00:00,EWR,x"]
    for order in (rows, rows[::-1]):
        counts = read(write(tmp_path, "\n".join(order) + "\n"))
        assert counts.counts["parked"].tolist() == [[1, 1, 0, 18]]


def test_a_tie_goes_to_the_first_cell(tmp_path: Path) -> None:
    """Two cells at the same moment: the one listed first in the policy, whatever the order of the rows."""
    rows = ["a,2013-01-01T08:00:00,LGA,x", "a,2013-01-01T08:00:00,JFK,x"]
    for order in (rows, rows[::-1]):
        assert read(write(tmp_path, "\n".join(order))).counts["parked"].tolist() == [[0, 1, 0, 19]]


def test_the_same_event_twice_counts_once(tmp_path: Path) -> None:
    """A repeated row changes neither the counts nor the digest."""
    row = "a,2013-01-01T08:00:00,EWR,x\n"
    once, twice = (read(write(tmp_path, row * times)) for times in (1, 2))
    assert once.counts["parked"].tolist() == twice.counts["parked"].tolist() == [[1, 0, 0, 19]]
    assert once.digests == twice.digests


def test_steps_without_events_are_everyone_absent(tmp_path: Path, clock: Callable[[str], None]) -> None:
    """Gaps are steps like others, `steps` asks for exactly so many, and without it all are read that are over."""
    path = write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\na,2013-01-03T08:00:00,JFK,x\n")
    absent, all_steps = [0, 0, 0, 20], [[1, 0, 0, 19], [0, 0, 0, 20], [0, 1, 0, 19]]
    assert read(path, steps=3).counts["parked"].tolist() == all_steps
    assert read(path, steps=2).counts["parked"].tolist() == all_steps[:2]
    assert read(path, steps=4).counts["parked"].tolist() == [*all_steps, absent]
    clock("2013-01-04T13:00:00Z")
    for least, steps in ((0, all_steps), (4, [*all_steps, absent])):
        found = read_events(path, make_plan(start="2013-01-01"), at_least=least)
        assert found.counts["parked"].tolist() == steps


def test_counts_equal_a_plain_loop(tmp_path: Path) -> None:
    """Random events, counted by a dictionary, give the same numbers from CSV, gzipped CSV and Parquet."""
    import duckdb

    draw = random.Random(5)
    events = [
        (
            f"u{draw.randrange(15)}",
            f"2013-01-{draw.randrange(1, 20):02}T{draw.randrange(24):02}:{draw.randrange(60):02}:00",
        )
        for _ in range(400)
    ]
    rows = [(user, moment, draw.choice(["EWR", "JFK", "LGA", "BOS"])) for user, moment in events]
    last: dict[tuple[str, str], tuple[str, int]] = {}
    order = ["BOS", "LGA", "JFK", "EWR"]
    for user, moment, cell in rows:
        key = (user, moment[:10])
        last[key] = max(last.get(key, ("", 0)), (moment, order.index(cell)))
    expected = np.zeros((19, 4), dtype=int)
    for (_, day), (_, cell_index) in last.items():
        expected[int(day[8:]) - 1, 3 - cell_index] += cell_index > 0
    expected[:, 3] = 20 - expected[:, :3].sum(axis=1)
    plain = write(tmp_path, "".join(f"{user},{moment},{cell},x\n" for user, moment, cell in rows))
    zipped = tmp_path / "events.csv.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    parquet = tmp_path / "events.parquet"
    duckdb.sql(f"COPY (FROM read_csv('{plain}')) TO '{parquet}'")
    found = [read(path, steps=19) for path in (plain, zipped, parquet)]
    for counts in found:
        assert counts.counts["parked"].tolist() == expected.tolist()
        assert counts.digests == found[0].digests


@pytest.mark.parametrize(
    ("row", "code", "place"),
    [
        (f"{MARKER},2013-01-02T08:00:00,BOS,x", "E0814", "line 3"),
        (f"{MARKER},2013-01-02T08:00:00,,x", "E0814", "line 3"),
        (f"{MARKER},31/01/2013,EWR,x", "E0812", "line 3"),
        (f"{MARKER},,EWR,x", "E0812", "line 3"),
        (f"{MARKER},infinity,EWR,x", "E0812", "line 3"),
        (f",2013-01-02T08:00:00,{MARKER},x", "E0813", "line 3"),
        (f" ,2013-01-02T08:00:00,{MARKER},x", "E0813", "line 3"),
        (f"{MARKER},2014-01-01T00:00:00,EWR,x", "E0815", "line 3"),
        (f"{MARKER},2013-01-02", "E0810", "line 3"),
        (f'"{MARKER},2013-01-02T08:00:00,EWR,x', "E0810", "line 3"),
    ],
)
def test_a_bad_row_is_named_and_not_quoted(tmp_path: Path, row: str, code: str, place: str) -> None:
    """Each kind of bad row is refused with its code and place, and none of its values."""
    plan = make_plan(otherwise=None, population=None, chains=([[0.8, 0.1, 0.1]] * 3,), start="2013-01-01")
    path = write(tmp_path, f"a,2013-01-01T08:00:00,EWR,x\n{row}\nb,2013-01-03T08:00:00,EWR,x\n")
    error = refusal(path, plan)
    assert error.code == code
    assert error.where is not None
    assert error.where.endswith(place)


def test_a_place_is_the_line_of_a_file_or_the_row_of_a_table(tmp_path: Path) -> None:
    """The header, quoted line breaks and empty lines count as an editor counts them; Parquet has rows alone."""
    import duckdb

    plan = make_plan(otherwise=None, population=None, chains=([[0.8, 0.1, 0.1]] * 3,))
    rows = '"a\n1",2013-01-01T08:00:00,EWR,x\n\nb,2013-01-01T08:00:00,BOS,x\n'
    path, zipped, parquet = write(tmp_path, rows), tmp_path / "e.csv.gz", tmp_path / "e.parquet"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    duckdb.sql(f"COPY (FROM read_csv('{path}')) TO '{parquet}'")
    for file, place in ((path, "line 5"), (zipped, "line 5"), (parquet, "row 2")):
        assert refusal(file, plan).where == f"{file}: {place}"


def test_an_event_before_the_start_is_refused(tmp_path: Path) -> None:
    """The start of the plan, or of the first run, is where the stream begins."""
    path = write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\n")
    assert refusal(path, make_plan(start="2013-01-02")).code == "E0815"
    assert refusal(path, make_plan(), start=1357084800_000_000).code == "E0815"


def test_an_unknown_cell_is_otherwise_where_there_is_one(tmp_path: Path) -> None:
    """With `otherwise`, who is in a cell outside the policy is not in any of its cells."""
    path = write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\na,2013-01-01T09:00:00,BOS,x\n")
    assert read(path).counts["parked"].tolist() == [[0, 0, 0, 20]]


def test_data_without_any_cell_of_the_policy_are_refused(tmp_path: Path) -> None:
    """Cells that are all spelt otherwise are a mistake, not users who are all elsewhere."""
    path = write(tmp_path, f"a,2013-01-01T08:00:00,ewr,x\nb,2013-01-02T09:00:00,{MARKER},x\n")
    error = refusal(path)
    assert error.code == "E0814"
    assert "spelling" in (error.help or "")


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_columns_that_other_marks_separate_are_one_clear_message(tmp_path: Path, mark: str) -> None:
    """A file with semicolons or tabs is told to be written with commas, not that a column was misspelt."""
    path = write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\n")
    path.write_text(path.read_text().replace(",", mark))
    error = refusal(path)
    assert error.code == "E0811"
    assert "not separated by commas" in str(error)


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    """The columns that are there are listed in the file's order, and a near one is suggested."""
    error = refusal(write(tmp_path, "a,2013-01-01,EWR,x\n", header="tailnum,departed,origin,dest\n"))
    assert error.code == "E0811"
    assert error.because == "the columns are `tailnum`, `departed`, `origin`, `dest`"
    assert "`departed`" in (error.help or "")


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """Of two columns with the policy's name neither is taken; other names may repeat."""
    header = "tailnum,departed_at,origin,origin\n"
    error = refusal(write(tmp_path, "a,2013-01-01,EWR,JFK\n", header=header))
    assert (error.code, error.message) == ("E0811", "there are several columns `origin`, which is the policy's cell")
    again = write(tmp_path, "a,2013-01-01,EWR,x,y\n", header="tailnum,departed_at,origin,dest,dest\n")
    assert read(again).counts["parked"].tolist() == [[1, 0, 0, 19]]


def test_a_file_without_header_is_not_quoted(tmp_path: Path) -> None:
    """A first row of data is not listed as if it were column names."""
    assert refusal(write(tmp_path, "", header=f"{MARKER},2013-01-01T08:00:00,EWR\n")).code == "E0811"


@pytest.mark.parametrize(
    ("name", "content", "code", "reason"),
    [
        ("e.csv", b"", "E0816", "nothing"),
        ("e.csv", HEADER.encode(), "E0816", "nothing"),
        ("e.csv", HEADER.encode() + b"N\xe90,2013-01-01,EWR,x\n", "E0810", "UTF-8"),
        ("e.csv", b"\xff\xfe" + HEADER.encode("utf-16-le"), "E0810", "UTF-8"),
        ("e.parquet", b"PAR1 and then nothing", "E0810", "Parquet"),
        ("e.parquet", HEADER.encode(), "E0810", "Parquet"),
        ("e.csv.gz", b"\x1f\x8b\x08\x00 broken", "E0810", "end"),
        ("e.json", b"{}", "E0810", "suffix"),
    ],
)
def test_an_unreadable_file_says_why(tmp_path: Path, name: str, content: bytes, code: str, reason: str) -> None:
    """Empty, of another encoding, truncated, of another kind: each with its own reason."""
    path = tmp_path / name
    path.write_bytes(content)
    error = refusal(path)
    assert error.code == code
    assert reason in (error.because or "")


def test_a_truncated_parquet_is_refused(tmp_path: Path) -> None:
    """Half a Parquet file is not read as far as it goes."""
    import duckdb

    path = tmp_path / "e.parquet"
    duckdb.sql(f"COPY (SELECT 'a' AS tailnum, DATE '2013-01-01' AS departed_at, 'EWR' AS origin) TO '{path}'")
    assert read(path).counts["parked"].tolist() == [[1, 0, 0, 19]]
    path.write_bytes(path.read_bytes()[:-40])
    assert refusal(path).code == "E0810"


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    """Neither is an empty file."""
    assert refusal(tmp_path / "none.csv").because == "there is no such file"
    assert refusal(tmp_path).because == "no Parquet file lies in this folder"


def test_a_parquet_time_must_be_a_time(tmp_path: Path) -> None:
    """Whole numbers are not guessed to be seconds."""
    import duckdb

    path = tmp_path / "e.parquet"
    duckdb.sql(f"COPY (SELECT 'a' AS tailnum, 1356998400 AS departed_at, 'EWR' AS origin) TO '{path}'")
    assert refusal(path).code == "E0812"


def test_byte_order_mark_quotes_and_line_ends_are_read(tmp_path: Path) -> None:
    """A BOM, CRLF, quoted commas and quoted line breaks are well-formed CSV."""
    path = tmp_path / "events.csv"
    rows = 'tailnum,departed_at,origin\r\n"a,1",2013-01-01T08:00:00,EWR\r\n"b\r\n2",2013-01-01T08:00:00,EWR\r\n'
    path.write_bytes(b"\xef\xbb\xbf" + rows.encode())
    assert read(path).counts["parked"].tolist() == [[2, 0, 0, 18]]


def test_an_offset_is_honoured(tmp_path: Path) -> None:
    """A time with an offset is the moment it names; one without is taken as written."""
    path = write(tmp_path, "a,2013-01-01T23:30:00-02:00,EWR,x\nb,2013-01-02T01:30:00,EWR,x\n")
    assert read(path, steps=2).counts["parked"].tolist() == [[0, 0, 0, 20], [2, 0, 0, 18]]


NO_TIMES = (
    *("epoch", "EPOCH", " epoch ", "infinity", "2013-01-01T08:00+99:00", "2013-01-01 08:00:00-24"),
    *("2013-01-01T08:00:00.5 +2400", "2013-01-01T08:00:00+02:60", "2013-01-01T08:00:00-0260"),
)
TIMES = (
    *("2013-01-01T08:00:00+23:59", "2013-01-01T08:00:00-0530", "2013-01-01 08:00:00.25-23:59:59"),
    *("2013-01-01", "2013-01-31", "2013/12/31", "2013-01-01 08:00:00 Europe/Berlin"),
)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("time", [*NO_TIMES, *TIMES])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_words_and_offsets_that_no_place_has_are_no_moments(tmp_path: Path, time: str, suffix: str) -> None:
    """What `start` refuses as a moment data do not have either: a reader would not know what it means."""
    import duckdb

    path = write(tmp_path, f"a,2013-01-01T08:00:00,EWR,x\nb,{time},EWR,x\n")
    if suffix == "parquet":
        duckdb.sql(f"COPY (FROM read_csv('{path}', all_varchar = true)) TO '{tmp_path / 'e.parquet'}'")
        path = tmp_path / "e.parquet"
    if time in TIMES:
        assert sum(map(bool, read_events(path, make_plan(start="2012-12-31", horizon=366), steps=366).digests)) in {
            1,
            2,
        }
        return
    error = refusal(path)
    assert error.code == "E0812"
    assert str(error.where).endswith("line 3" if suffix == "csv" else "row 2")


def test_no_event_says_when_a_stream_starts(tmp_path: Path) -> None:
    """Whoever came first would move every step, whatever is promised: the plan or the run says it."""
    error = refusal(write(tmp_path, "a,2013-01-03T08:00:00,EWR,x\n"), make_plan(), steps=1)
    assert (error.code, "--start" in str(error.help)) == ("E0865", True)


def test_users_must_fit_the_population(tmp_path: Path) -> None:
    """More users than the population, be it over many steps, or fewer where everyone must be somewhere, are refused."""
    apart = "".join(f"u{user},2013-01-0{user + 1}T08:00:00,EWR,x\n" for user in range(3))
    assert (
        "in the data"
        in refusal(write(tmp_path, apart, "apart.csv"), make_plan(population=2, start="2013-01-01"), steps=1).message
    )
    rows = "".join(f"u{user},2013-01-01T08:00:00,EWR,x\n" for user in range(3))
    path = write(tmp_path, rows)
    assert "in the data" in refusal(path, make_plan(population=2, start="2013-01-01"), steps=1).message
    everywhere = {"otherwise": None, "chains": ([[0.8, 0.1, 0.1]] * 3,)}
    assert (
        "in no cell at step 0"
        in refusal(path, make_plan(population=4, start="2013-01-01", **everywhere), steps=1).message
    )
    assert read(path, make_plan(population=3, **everywhere)).counts["parked"].tolist() == [[3, 0, 0]]


def test_more_users_than_the_population_move_no_count_by_more(tmp_path: Path) -> None:
    """Once a step is out they count: whoever of three is where, one who moves moves two counts by one each."""
    plan = make_plan(population=1, start="2013-01-01")
    steps = []
    for cell in ("EWR", "JFK", "LGA", "BOS", None):
        rows = "".join(f"u{user},2013-01-01T08:00:00,EWR,x\n" for user in range(2))
        rows += f"moved,2013-01-01T09:00:00,{cell},x\n" if cell else ""
        steps.append(read(write(tmp_path, rows), plan, steps=1, at_least=1).counts["parked"][0])
    assert [step.tolist() for step in steps[2:]] == [[2, 0, 1, -2], [2, 0, 0, -1], [2, 0, 0, -1]]
    assert all(abs(one - other).sum() <= 2 and one.sum() == 1 for one in steps for other in steps)


def test_absence_needs_a_public_population(tmp_path: Path) -> None:
    """The number of users in the data is not public, so it does not stand in for the population."""
    error = refusal(
        write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\n"), make_plan(population=None, start="2013-01-01"), steps=1
    )
    assert error.code == "E0817"


def test_one_number_a_step_is_the_users_in_a_cell(tmp_path: Path) -> None:
    """Without `by` users present are counted; who is elsewhere is not."""
    plan = make_plan(releases=(make_release("present", by=None), make_release("parked")))
    path = write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\nb,2013-01-01T08:00:00,BOS,x\nc,2013-01-01T08:00:00,JFK,x\n")
    counts = read(path, plan).counts
    assert counts["present"].tolist() == [[2]]
    assert counts["parked"].tolist() == [[1, 1, 0, 18]]


def test_a_change_that_leaves_the_counts_alone_changes_the_digest(tmp_path: Path) -> None:
    """Two users who swap cells are another data set."""
    first = write(tmp_path, "a,2013-01-01T08:00:00,EWR,x\nb,2013-01-01T08:00:00,JFK,x\n", "one.csv")
    second = write(tmp_path, "b,2013-01-01T08:00:00,EWR,x\na,2013-01-01T08:00:00,JFK,x\n", "two.csv")
    one, two = (read(path) for path in (first, second))
    assert one.counts["parked"].tolist() == two.counts["parked"].tolist()
    assert one.digests != two.digests


@pytest.mark.law
def test_ten_million_rows_are_read(tmp_path: Path) -> None:
    """1e7 rows are counted right in the memory of a laptop; the row number of a bad one is exact."""
    import duckdb

    path = tmp_path / "big.parquet"
    duckdb.sql(
        "COPY (SELECT if(i = 7654320, 'stranger', 'user' || (hash(i) % 200000)) AS tailnum, "
        "TIMESTAMP '2013-01-01' + to_milliseconds(i * 3153) AS departed_at, "
        "if(i = 7654320, 'BOS', ['EWR', 'JFK', 'LGA'][(1 + hash(i * 7) % 3)::BIGINT]) AS origin "
        f"FROM range(10000000) r(i)) TO '{path}'"
    )
    begin = time.perf_counter()
    counts = read(path, make_plan(population=200_001), steps=365).counts["parked"]
    print(f"1e7 rows in {time.perf_counter() - begin:.1f} s")
    (first_day,) = duckdb.sql(
        f"SELECT count(DISTINCT tailnum) FROM '{path}' WHERE departed_at < DATE '2013-01-02'"
    ).fetchall()[0]
    assert counts[0].tolist()[3] == 200_001 - first_day
    assert counts.shape == (365, 4)
    assert (counts.sum(axis=1) == 200_001).all()
    plan = make_plan(otherwise=None, population=None, chains=([[0.8, 0.1, 0.1]] * 3,))
    assert (refusal(path, plan).where or "").endswith("row 7654321")


GOOD = b"a,2013-01-01T20:00:00,JFK,x\n"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("bad", "code", "said"),
    [
        (b"N0SECRET\xf6,2013-01-01T20:00:00,JFK,x\n", "E0810", "not UTF-8"),
        (b"N0SECRET\0,2013-01-01T20:00:00,JFK,x\n", "E0810", "NUL character"),
        (b"N0SECRET,2013-01-01T20:00:00,JFK,x,x\n", "E0810", "another number of columns"),
        (b"N0SECRET,2013-01-01T20:00:00\n", "E0810", "another number of columns"),
        (b"N0SECRET,2013-02-30T20:00:00,JFK,x\n", "E0812", "belongs to no step"),
        (b",2013-01-01T20:00:00,JFK,N0SECRET\n", "E0813", "whose it is"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_its_line(
    bad: bytes, code: str, said: str, zipped: bool, tmp_path: Path
) -> None:
    """Wherever it stands, the refusal has its line in the file, and not one value of it."""
    for before in (0, 1, 30, 5000):
        content = HEADER.encode() + GOOD * before + bad + GOOD * 3
        path = tmp_path / f"events.csv{'.gz' * zipped}"
        path.write_bytes(gzip.compress(content) if zipped else content)
        error = refusal(path)
        assert (error.code, error.where) == (code, f"{path}: line {before + 2}")
        assert said in str(error.because)


def test_a_first_row_that_cannot_be_read_is_named_by_its_line(tmp_path: Path) -> None:
    """Names of columns without a closing quote, or not in UTF-8, stand in line 1; empty lines before count."""
    for before in (0, 2):
        for names in (b'"tailnum,departed_at,origin\n', b"tailnum,departed_at,origin,gr\xf6\xdfe\n"):
            (tmp_path / "events.csv").write_bytes(b"\n" * before + names + GOOD)
            error = refusal(tmp_path / "events.csv")
            assert (error.code, error.where) == ("E0810", f"{tmp_path / 'events.csv'}: line {before + 1}")


def test_rows_that_say_nothing_are_told_from_a_file_without_any(tmp_path: Path) -> None:
    """An empty file, one with names alone, and one whose every row has an unknown cell have a message each."""
    path = tmp_path / "events.csv"
    path.write_bytes(b"")
    assert refusal(path).message == "the file is empty"
    path.write_text(HEADER)
    assert refusal(path).message == "there are no rows below the names of the columns"
    path.write_text(HEADER + "a,2013-01-01T20:00:00,N0SECRET,x\n" * 3)
    error = refusal(path)
    assert (error.code, error.where) == ("E0814", f"{path}: line 2 and every row below")
