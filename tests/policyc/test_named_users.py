"""One user has one name: in every file of a stream, and however a column of numbers was written."""

from __future__ import annotations

from pathlib import Path
from unicodedata import category

import duckdb
import pytest

from policyc import compile_policy
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.ledger_private import history_file
from policyc_runtime.plan import Plan
from policyc_runtime.release import release
from policyc_runtime.sources import read_events
from policyc_runtime.sources.engines.dialect import DUCKDB
from policyc_runtime.sources.history import History
from policyc_runtime.sources.names import BLANKS

POLICY = """
policy visits "visitors"
stream seen {
  user u
  time t
  step 1d
  horizon 10 steps
  start "2020-01-01"
}
release there = count(seen)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = add_remove)
participation at_most(2 steps, enforced = keep_first)
mechanism gaussian()
deliver realtime
objective mean_squared_error
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "visits.policy").write_text(POLICY)
    return compile_policy(tmp_path / "visits.policy").plan


def parquet(folder: Path, kind: str, *events: tuple[object, int]) -> Path:
    """Users, named by a column of this type, and the day of January on which each was seen."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    rows = ", ".join(f"({user!r}, DATE '2020-01-{day:02}')" for user, day in events)
    duckdb.sql(f"COPY (SELECT u::{kind} AS u, t FROM (VALUES {rows}) AS v(u, t)) TO '{path}'")
    return path


def csv(folder: Path, *events: tuple[str, int]) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    path.write_text("\n".join(["u,t", *(f"{user},2020-01-{day:02}" for user, day in events)]) + "\n")
    return path


def carried(folder: Path, plan: Plan, files: list[Path]) -> list[int]:
    """What the steps count, when each file brings two of them."""
    for index, path in enumerate(files):
        with History(folder / "l", plan) as history:
            found = history.read(path, start=None, steps=2 * index + 2)
            history.keep()
    return found.counts["there"][:, 0].tolist()


def refused(folder: Path, plan: Plan, files: list[Path]) -> DataError:
    with pytest.raises(DataError) as caught:
        carried(folder, plan, files)
    assert caught.value.code == "E0867"
    return caught.value


FIRST = ((7, 1), (7, 2), (8, 2))
LATER = ((7, 3), (7, 4))


@pytest.mark.parametrize(
    "kind", ["DOUBLE", "FLOAT", "DECIMAL(9, 1)", "BLOB", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "INTEGER[]"]
)
def test_a_column_whose_text_is_not_one_name_is_refused(kind: str, plan: Plan, tmp_path: Path) -> None:
    """Also in a first run: the number 7 reads "7.0" or "7" after its type, so that a user would have two names."""
    value = {"BLOB": "a", "DATE": "2020-01-01", "TIMESTAMP": "2020-01-01", "TIMESTAMPTZ": "2020-01-01"}.get(kind, 7)
    path = parquet(tmp_path, kind, ([7] if kind.endswith("[]") else value, 1))
    with pytest.raises(DataError) as caught:
        read_events(path, plan, steps=1)
    assert caught.value.code == "E0867"
    assert "VARCHAR" in str(caught.value.help)


@pytest.mark.parametrize("kind", ["DOUBLE", "VARCHAR", "UUID"])
def test_no_user_takes_part_more_often_under_another_type(kind: str, plan: Plan, tmp_path: Path) -> None:
    """Whole numbers, then the same as another type: the second run is refused, and nothing of it is taken in."""
    whole = "00000000-0000-0000-0000-000000000007" if kind == "UUID" else 7
    found = refused(tmp_path, plan, [parquet(tmp_path, "BIGINT", *FIRST), parquet(tmp_path, kind, (whole, 3))])
    assert "whole numbers" in f"{found.because} {found.message}" or kind == "DOUBLE"
    with History(tmp_path / "l", plan) as history:
        assert history.steps == 2


def test_text_after_whole_numbers_is_refused_in_csv_too(plan: Plan, tmp_path: Path) -> None:
    """A CSV file has text: "007" there and 7 here may be one user, and nobody can tell."""
    refused(tmp_path, plan, [parquet(tmp_path, "BIGINT", *FIRST), csv(tmp_path, ("007", 3))])


@pytest.mark.parametrize(
    "kinds", [("TINYINT", "BIGINT"), ("UINTEGER", "SMALLINT"), ("VARCHAR", "VARCHAR"), ("VARCHAR", "csv")]
)
def test_one_name_in_files_of_one_kind_is_one_user(kinds: tuple[str, str], plan: Plan, tmp_path: Path) -> None:
    """Whole numbers of any width, and text in CSV and Parquet, name the same users: the bound holds over the runs."""
    files = [
        csv(tmp_path, *((str(user), day) for user, day in events))
        if kind == "csv"
        else parquet(tmp_path, kind, *events)
        for kind, events in zip(kinds, (FIRST, LATER), strict=True)
    ]
    assert carried(tmp_path, plan, files) == [1, 2, 0, 0]


FILLERS = "\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters that show nothing
SPELLINGS = ["7.0", "7.", "007", "+7", "7 ", " 7", "7\t", "7\N{NO-BREAK SPACE}", "7\v", "7\x85", "7\u200b", "\ufeff7"]
SPELLINGS += [f"7{mark}" for mark in "\u200e\u202c\u00ad\u2061\u034f\u180f\ufe0f\u115f\u3164\x1b"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", SPELLINGS)
def test_one_number_written_in_two_ways_is_refused(text: str, plan: Plan, tmp_path: Path) -> None:
    """In one file, and in a later one: as a spreadsheet, a column with gaps or padding writes a number again."""
    with pytest.raises(DataError) as caught:
        read_events(csv(tmp_path, ("7", 1), ("8", 1), (text, 2)), plan, steps=2)
    assert (caught.value.code, str(caught.value.where)[-6:]) == ("E0867", "line 4")
    found = refused(tmp_path, plan, [csv(tmp_path, ("7", 1), ("8", 2)), csv(tmp_path, ("8", 3), (text, 3))])
    assert str(found.where).endswith("line 3")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", SPELLINGS)
def test_any_writing_is_a_name_when_it_is_the_only_one(text: str, plan: Plan, tmp_path: Path) -> None:
    """Names are not changed: padded or with zeros, in every file alike, they name users who keep their bound."""
    files = [csv(tmp_path, *((text, day) for _, day in events)) for events in (FIRST, LATER)]
    assert carried(tmp_path, plan, files) == [1, 1, 0, 0]
    refused(tmp_path, plan, [csv(tmp_path, ("7", 5))] * 3)


def test_zero_has_no_sign(plan: Plan, tmp_path: Path) -> None:
    refused(tmp_path, plan, [csv(tmp_path, ("0", 1)), csv(tmp_path, ("-0", 3))])


def test_what_nobody_sees_tells_no_users_apart() -> None:
    """All of Unicode that is a blank or a mark of format; NUL is in no text, and tags tell one flag from another."""
    unseen = {chr(code) for code in range(1, 0x110000) if category(chr(code)) in {"Zs", "Zl", "Zp", "Cf", "Cc"}}
    assert unseen - {chr(code) for code in range(0xE0020, 0xE0080)} <= set(BLANKS)
    assert not any(category(mark)[0] in "PSN" or mark.isalnum() for mark in set(BLANKS) - set(FILLERS))


def test_every_mark_is_cut_from_both_ends_and_from_nowhere_else() -> None:
    """Whatever else a name is made of, as Python cuts them: marks in a pattern mean themselves."""
    kept = [
        "",
        "a",
        "\\",
        "]",
        "^",
        "-",
        "[a]",
        "\N{WAVING WHITE FLAG}\u2060\N{WAVING WHITE FLAG}",
        *map(chr, range(1, 0x3100)),
    ]
    names = [
        before + name + after for name in kept for before, after in (("", ""), (" \xad", "\n"), ("", "\ufeff\u200e"))
    ]
    names += [mark + inner + mark for mark in BLANKS for inner in ("", "7", f"a{mark}b", f"a\n{mark}\n]")]
    cut = [said for (said,) in duckdb.execute(f"SELECT {DUCKDB.trimmed('unnest($1)', BLANKS)}", [names]).fetchall()]
    assert cut == [name.strip(BLANKS) for name in names]


@pytest.mark.parametrize(("header", "says"), [("who,t", "there is no column `u`"), ("u,u,t", "several columns `u`")])
def test_a_column_that_is_missing_is_named_in_continued_runs_too(
    header: str, says: str, plan: Plan, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n{'a,' * header.count(',')}2020-01-01\n")
    with pytest.raises(DataError, match=says) as error:
        carried(tmp_path, plan, [path])
    assert error.value.code == "E0811"


def test_other_texts_are_other_users(plan: Plan, tmp_path: Path) -> None:
    """What is no whole number is compared as it stands, blanks at its ends apart."""
    events = [(text, 1) for text in ("a7", "a07", "7.5", "7.50", "A7", "1e5", "100000", "-7", "7-0", "x y", "xy")]
    assert read_events(csv(tmp_path, *events), plan, steps=1).counts["there"].tolist() == [[11]]


def test_a_history_that_does_not_say_how_users_are_named_is_refused(plan: Plan, tmp_path: Path) -> None:
    """Earlier builds took users of any type in; nobody can tell which names they gave them."""
    import sqlite3

    carried(tmp_path, plan, [parquet(tmp_path, "BIGINT", *FIRST)])
    file = sqlite3.connect(history_file(tmp_path / "l"))
    file.execute("DELETE FROM meta WHERE name = 'names'")
    file.commit()
    file.close()
    with pytest.raises(LedgerError) as caught:
        carried(tmp_path, plan, [parquet(tmp_path, "BIGINT", *FIRST)])
    assert caught.value.code == "E0840"


def test_runs_in_pieces_count_a_user_as_often_as_the_bound_says(plan: Plan, tmp_path: Path) -> None:
    """As it was run: two steps of user 7 from a column of whole numbers, then two from one of floats."""
    folder = tmp_path / "run"
    folder.mkdir()
    release(plan, parquet(tmp_path, "BIGINT", *FIRST), folder / "l", continued=True, steps=2, pin=None)
    with pytest.raises(DataError) as caught:
        release(plan, parquet(tmp_path, "DOUBLE", *LATER), folder / "l", continued=True, steps=4, pin=None)
    assert caught.value.code == "E0867"
    done = release(plan, parquet(tmp_path, "INTEGER", *LATER), folder / "l", continued=True, steps=4, pin=None)
    assert len(done.steps) == 4


@pytest.mark.parametrize("kind", ["DOUBLE", "DECIMAL(9, 1)", "BLOB"])
def test_cells_too_are_compared_as_text_of_one_meaning(kind: str, plan: Plan, tmp_path: Path) -> None:
    """Cells are named by the policy: a column of floats would put "7.0" into `otherwise`, so it is refused."""
    (tmp_path / "c.policy").write_text(
        POLICY.replace("horizon", 'cell c in {"7", "8"}\n  horizon').replace("count(seen)", "count(seen) by c")
    )
    celled = compile_policy(tmp_path / "c.policy").plan
    path = tmp_path / "c.parquet"
    value = "'7'" if kind == "BLOB" else "7"
    duckdb.sql(f"COPY (SELECT 'a' AS u, DATE '2020-01-01' AS t, {value}::{kind} AS c) TO '{path}'")
    with pytest.raises(DataError) as caught:
        read_events(path, celled, steps=1)
    assert caught.value.code == "E0867"


@pytest.mark.parametrize(("per_step", "counted"), [(1, 1), (2, 2)])
def test_the_same_row_twice_is_one_event_where_the_last_says_the_cell_and_else_two(
    per_step: int, counted: int, tmp_path: Path
) -> None:
    """As the reference of the language says."""
    text = POLICY.replace("at_most(2 steps,", f"at_most(2 steps, per_step = {per_step},")
    (tmp_path / "visits.policy").write_text(text)
    plan = compile_policy(tmp_path / "visits.policy").plan
    assert read_events(csv(tmp_path, ("a", 1), ("a", 1)), plan, steps=1).counts["there"].tolist() == [[counted]]
