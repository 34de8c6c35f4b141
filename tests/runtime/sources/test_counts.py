"""Ready counts are taken as they are, whole, or refused with their place."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from plans import make_counts, make_plan, make_release

from policyc_runtime import sources
from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.release import release
from policyc_runtime.sources import counts_of_array, read_events
from policyc_runtime.sources.step_counts import CountDigests, StepCounts
from policyc_runtime.sources.stored_counts import StoredCounts

GOOD = ["0,EWR,1", "0,JFK,2", "0,LGA,3", "0,away,14", "1,EWR,0", "1,JFK,0", "1,LGA,0", "1,away,20"]


def write(directory: Path, rows: list[str], header: str = "step,origin,count") -> Path:
    path = directory / "counts.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def told_of(read: Callable[[], StepCounts]) -> tuple[object, ...]:
    """What is found, or the refusal."""
    try:
        found = read()
    except DataError as error:
        return error.code, error.message, error.where, error.because, error.help
    counts = {name: values[:].tolist() for name, values in found.counts.items()}
    return found.start, found.steps, counts, list(found.digests)


def read_counts(path: Any, plan: Plan, **given: Any) -> StepCounts:
    """Read into memory, and kept on disk: alike, by slices, and in refusals."""
    with tempfile.TemporaryDirectory() as folder:
        expected = told_of(lambda: sources.read_counts(path, plan, **given))
        assert told_of(lambda: sources.read_counts(path, plan, **given, spill=Path(folder))) == expected
    return sources.read_counts(path, plan, **given)


def refusal(path: Any, plan: Plan | None = None) -> DataError:
    with pytest.raises(DataError) as caught:
        read_counts(path, plan or make_plan())
    return caught.value


def test_counts_are_read_in_any_order(tmp_path: Path) -> None:
    """Rows may stand in any order, the value column may have the release's name, and Parquet is read alike."""
    import duckdb

    expected = [[1, 2, 3, 14], [0, 0, 0, 20]]
    path = write(tmp_path, GOOD[::-1])
    assert read_counts(path, make_plan()).counts["parked"].tolist() == expected
    parquet = tmp_path / "counts.parquet"
    duckdb.sql(f"COPY (FROM read_csv('{path}')) TO '{parquet}'")
    assert read_counts(parquet, make_plan()).counts["parked"].tolist() == expected
    named = write(tmp_path, GOOD, "step,origin,parked")
    assert read_counts(named, make_plan()).counts["parked"].tolist() == expected
    assert read_counts(named, make_plan(), steps=1).counts["parked"].tolist() == expected[:1]


def test_counts_on_disk_are_those_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every slice, across pieces; where rows are not in order they are held."""
    monkeypatch.setattr("policyc_runtime.sources.stored_counts.PIECE", 7)
    plan, counts = make_plan(), make_counts(12)
    rows = [f"{step},{cell},{counts[step][at]}" for step in range(12) for at, cell in enumerate(plan.releases[0].cells)]
    held = read_counts(write(tmp_path, rows), plan).counts["parked"]
    stored = sources.read_counts(write(tmp_path, rows), plan, spill=tmp_path).counts["parked"]
    assert isinstance(stored, StoredCounts)
    assert held.tolist() == counts.tolist()
    assert len(stored) == 12
    assert all(stored[a:b].tolist() == held[a:b].tolist() for a in range(13) for b in range(14))
    assert "[" not in repr(stored)
    folder = tmp_path / "other"
    folder.mkdir()
    turned = sources.read_counts(write(tmp_path, rows[::-1]), plan, spill=folder).counts["parked"]
    assert not isinstance(turned, StoredCounts)
    assert turned.tolist() == held.tolist()
    many = [row.replace("7,JFK,", "7,JFK,100") for row in rows]
    assert "step 7" in refusal(write(tmp_path, many), plan).message


def test_one_number_a_step_needs_no_cell(tmp_path: Path) -> None:
    """A release without cells has one row a step."""
    plan = make_plan(cells=None, chains=(), population=None)
    assert read_counts(write(tmp_path, ["0,3", "1,4"], "step,count"), plan).counts["parked"].tolist() == [[3], [4]]


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        ((2, "0,LGA,-3"), "E0818", "line 4"),
        ((2, "0,LGA,2.5"), "E0818", "line 4"),
        ((2, "0,LGA,many"), "E0818", "line 4"),
        ((2, "0,LGA,"), "E0818", "line 4"),
        ((2, "0,LGA,nan"), "E0818", "line 4"),
        ((2, "0,LGA,1e300"), "E0818", "line 4"),
        ((2, "-1,LGA,3"), "E0818", "line 4"),
        ((2, "0.5,LGA,3"), "E0818", "line 4"),
        ((2, "0,BOS,3"), "E0814", "line 4"),
        ((2, "0,JFK,2"), "E0818", "line 4"),
        ((2, "999,LGA,3"), "E0815", "line 4"),
        ((7, "1,away,21"), "E0817", "counts.csv"),
        ((7, "1,away,19"), "E0817", "counts.csv"),
        ((7, "2,away,20"), "E0818", "counts.csv"),
    ],
)
def test_a_count_that_is_none_is_named(tmp_path: Path, change: tuple[int, str], code: str, place: str) -> None:
    """Each kind of wrong count is refused with its code and its row."""
    rows = list(GOOD)
    rows[change[0]] = change[1]
    error = refusal(write(tmp_path, rows))
    assert error.code == code
    assert (error.where or "").endswith(place)


def test_a_far_step_of_many_cells_is_named(tmp_path: Path) -> None:
    """Whose place among all counts has more than 64 bits."""
    cells = tuple(f"c{i}" for i in range(2_000))
    plan = make_plan(cells=cells, chains=(), population=None)
    rows = [*(f"0,{cell},1" for cell in cells), *(f"{2**53},{cell},1" for cell in cells)]
    assert refusal(write(tmp_path, rows), plan).code == "E0815"


def test_once_a_step_is_out_more_users_than_the_population_end_nothing(tmp_path: Path) -> None:
    """They count like all others, in a total and in cells, where `otherwise` is what is left: who moves changes two."""
    present = make_plan(releases=(make_release("present", by=None),))
    total = write(tmp_path, ["0,20", "1,21"], "step,count")
    assert refusal(total, present).code == "E0817"
    assert read_counts(total, present, at_least=1).counts["present"].tolist() == [[20], [21]]
    steps = []
    for here, away in ((19, 1), (20, 0), (21, 0), (22, 0)):
        path = write(tmp_path, [*GOOD[:5], f"1,JFK,{here}", "1,LGA,0", f"1,away,{away}"])
        steps.append(read_counts(path, make_plan(), at_least=1).counts["parked"][1])
        array = np.array([[1, 2, 3, 14], [0, here, 0, away]])
        assert counts_of_array(array, make_plan(), at_least=1).counts["parked"][1].tolist() == steps[-1].tolist()
    assert [step[-1] for step in steps] == [1, 0, -1, -2]
    assert all(abs(one - other).sum() == 2 and one.sum() == 20 for one, other in pairwise(steps))
    for wrong in ("1,away,21", "1,away,19"):
        with pytest.raises(DataError, match="do not add up"):
            read_counts(write(tmp_path, [*GOOD[:7], wrong]), make_plan(), at_least=1)


def test_counts_add_up_to_the_population(tmp_path: Path) -> None:
    """The words fit the policy: with `otherwise` a sum, without it users in too many or too few cells."""
    for count in (19, 21):
        error = refusal(write(tmp_path, [*GOOD[:7], f"1,away,{count}"]))
        assert error.message == "the counts of step 1 do not add up to the population"
        assert "`away` included" in (error.help or "")
    plan = make_plan(otherwise=None, population=6, chains=([[0.8, 0.1, 0.1]] * 3,))
    for count, words in ((2, "in no cell at step 0"), (4, "more users at step 0")):
        error = refusal(write(tmp_path, [*GOOD[:2], f"0,LGA,{count}"]), plan)
        assert words in error.message
        assert "otherwise" not in (error.because or "") or count == 2


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (slice(0, 7), "the count of cell `away` at step 1 is missing"),
        (slice(1, 8), "the count of cell `EWR` at step 0 is missing"),
        (slice(4, 8), "the count of cell `EWR` at step 0 is missing"),
    ],
)
def test_a_gap_is_named_by_step_and_cell(tmp_path: Path, kept: slice, message: str) -> None:
    """Every step from 0 on has every cell."""
    assert refusal(write(tmp_path, GOOD[kept])).message == message


def test_no_rows_and_no_column_are_refused(tmp_path: Path) -> None:
    """A header alone is no data, and a missing column is named."""
    assert refusal(write(tmp_path, [])).code == "E0816"
    assert refusal(write(tmp_path, GOOD, "step,origin,number")).code == "E0811"
    assert refusal(write(tmp_path, GOOD, "steps,origin,count")).code == "E0811"


def test_events_and_counts_are_told_apart(tmp_path: Path) -> None:
    """Each given for the other is refused with the word to write, or to leave out."""
    events = refusal(write(tmp_path, ["N1,2013-01-01,EWR"], "tailnum,departed_at,origin"))
    assert (events.code, events.message) == ("E0811", "the file has events, not ready counts")
    assert events.help == "run again without `--counts`"
    with pytest.raises(DataError) as counts:
        read_events(write(tmp_path, GOOD), make_plan())
    assert (counts.value.code, counts.value.message) == ("E0811", "the file has ready counts, not events")
    assert counts.value.help == "run again with `--counts`"


def test_counts_by_cell_say_how_many_are_in_any(tmp_path: Path) -> None:
    """Where everybody is in one cell at a step; how many are in any does not say where."""
    plan = make_plan(releases=(make_release("present", by=None), make_release("parked")))
    found = read_counts(write(tmp_path, GOOD), plan).counts
    assert found["parked"].tolist() == [[1, 2, 3, 14], [0, 0, 0, 20]]
    assert found["present"].tolist() == [[6], [0]]
    assert refusal(write(tmp_path, ["0,6", "1,0"], "step,count"), plan).code == "E0811"


def test_arrays_are_checked_like_files() -> None:
    """Counts in memory must be whole numbers of the right shape that fit the plan."""
    plan = make_plan()
    counts = make_counts(5)
    assert counts_of_array(counts, plan).counts["parked"].tolist() == counts.tolist()
    wrong: list[Any] = [
        counts[:, :3],
        counts.astype(float),
        -counts,
        np.zeros((0, 4), int),
        counts + 1,
        make_counts(400),
    ]
    for array in wrong:
        with pytest.raises(DataError):
            counts_of_array(array, plan)


@pytest.mark.parametrize(("since", "again"), [(0, {}), (0, {2}), (3, {1}), (3, {0, 2, 4}), (4, {0}), (4, {})])
def test_steps_of_which_something_is_told(since: int, again: Any) -> None:
    """They are those whose digest says something, found without asking for those of all others."""
    digests = CountDigests([np.arange(10).reshape(5, 2)], since, frozenset(np.array(list(again), dtype=np.int64)))
    assert [*digests.again, *range(since, 5)] == [step for step, digest in enumerate(digests) if digest]
    assert all(type(step) is int for step in digests.again)  # sqlite knows no other
    for some in (slice(0, 5), slice(1, 4), slice(4, 2), slice(3, None)):
        assert digests[some] == list(digests)[some]
    assert digests[-1] == digests[4] == "counts|8,9"


@pytest.mark.parametrize("header", ["step,step,count", "step,step,at"])
def test_a_column_that_comes_twice_is_what_is_said(tmp_path: Path, header: str) -> None:
    """Before what else is missing; and it stands in the list of columns."""
    found = refusal(write(tmp_path, ["0,0,3"], header))
    assert (found.code, found.message) == (
        "E0811",
        "there are several columns `step`, which is the policy's step (from 0)",
    )
    listed = refusal(write(tmp_path, ["0,3,3"], "step,count,count"), make_plan(cells=None, chains=(), population=None))
    assert "several columns `count`" in listed.message
    missing = refusal(write(tmp_path, ["0,a,a"], "step,near,near"))
    assert "the columns are `step`, `near`" in (missing.because or "")


def test_counts_that_are_masked_or_of_uneven_rows_are_refused():
    """A mask says that a count is not known; filling it in would be a guess."""
    masked = np.ma.masked_array([[1, 1, 0, 18]] * 2, mask=[[0, 0, 0, 0], [0, 1, 0, 0]])
    for counts, said in ((masked, "masked"), ([[1, 2, 3, 4], [1, 2]], "shape")):
        with pytest.raises(DataError, match=said) as refused:
            counts_of_array({"parked": counts}, make_plan())
        assert refused.value.code == "E0818"
    whole = np.ma.masked_array([[1, 1, 0, 18]], mask=False)
    assert counts_of_array(whole, make_plan()).counts["parked"].tolist() == [[1, 1, 0, 18]]


def test_gaps_of_an_array_are_those_of_a_table(tmp_path):
    """Steps after its last row, and masked counts, are 0 where that is said; there are as many as of a file."""
    plan = make_plan(start="2013-01-01", population=None, horizon=8)
    masked = np.ma.masked_array([[1, 1, 0, 18]] * 2, mask=[[0, 0, 0, 0], [0, 1, 0, 0]])
    with pytest.raises(DataError, match="masked") as refused:
        counts_of_array(masked, plan)
    assert 'gaps="zero"' in str(refused.value.help)
    rows = ["0,EWR,1", "0,JFK,1", "0,LGA,0", "0,away,18", "1,EWR,1", "1,LGA,0", "1,away,18"]
    table = write(tmp_path, rows)
    for steps in (6, None):
        known = read_counts(table, plan, steps=steps, gaps="zero")
        found = counts_of_array(masked, plan, steps=steps, gaps="zero")
        assert found.counts["parked"].tolist() == known.counts["parked"].tolist()
        assert list(found.digests) == list(known.digests)
    done = release(plan, np.ones((2, 4), dtype=np.int64), tmp_path / "book", pin=None, steps=6, gaps="zero")
    assert len(done.times) == 6
    with pytest.raises(DataError) as unsaid:
        counts_of_array(masked, make_plan(start=None, population=None), gaps="zero")
    assert unsaid.value.code == "E0863"


@pytest.mark.parametrize("data", ["events.csv", Path("events.csv"), pa.table({"tailnum": ["N1"]})])
def test_events_have_no_gaps(data, tmp_path):
    """What says nothing about them is refused, as on the command line, before a ledger is begun."""
    with pytest.raises(ValueError, match="a step without one counts nobody; it is for ready counts"):
        release(make_plan(start="2013-01-01"), data, tmp_path / "book", pin=None, gaps="zero")
    assert not list(tmp_path.iterdir())


def test_no_file_and_no_steps_are_refused_before_a_ledger_is_begun(tmp_path):
    with pytest.raises(DataError, match="cannot be read") as refused:
        release(make_plan(start="2013-01-01"), "", tmp_path / "book", pin=None)
    assert refused.value.because == "no file is named"
    for steps in (0, -1):
        with pytest.raises(ValueError, match=f"from 1, not {steps}"):
            release(make_plan(start="2013-01-01"), tmp_path / "events.csv", tmp_path / "book", pin=None, steps=steps)
    assert not list(tmp_path.iterdir())
