"""Ready counts that come in pieces: what is published is that of whole histories, and rows that come again are held."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from policyc import compile_policy
from policyc_runtime.begun_files import BegunFiles
from policyc_runtime.carried import lets_go, looks_at_few, rows_are_apart
from policyc_runtime.errors import DataError, LedgerError
from policyc_runtime.estimation.recursions import PIECE
from policyc_runtime.estimation.safeguard import STEPS_LOOKED_AT
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_checkpoint import read_checkpoint
from policyc_runtime.ledger_private import history_file
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.sources.history import History

HORIZON = 12
STREAM = """
policy visits "visitors"
stream seen {{
  user person
  time at
  cell place in {{"A", "B"}}{away}
  step 1h
  horizon 12 steps
{more}
}}
release there = count(seen) by place
{promise}
deliver {deliver}
objective mean_squared_error
"""
USER = """target user_level(epsilon = 4.0, delta = 1e-4, neighbors = add_remove)
participation at_most(5 steps, {how})"""
CHAIN = """target alpha_dpt(alpha = 4.0)
correlation markov(
  forward = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], initial = stationary, evidence = "x")"""
ASSUMED = USER.format(how='assumed = "tickets"')
SUM = "postprocess there { sum(there) == population, there >= 0 }"
LEFT_OUT = "postprocess there { there >= previous(there) - 3, suppress(there, below = 4) }"
PLANS = {
    "each step alone": (ASSUMED, "realtime", "mechanism gaussian()\nestimate none()"),
    "the step before": (ASSUMED, "realtime", f"mechanism gaussian()\nestimate mle()\n{LEFT_OUT}"),
    "noise of many steps": (ASSUMED, "realtime", "mechanism toeplitz()\nestimate none()"),
    "nodes of many steps": (ASSUMED, "realtime", "mechanism binary_tree()\nestimate none()"),
    "common noise": (ASSUMED, "realtime", "mechanism common_noise()\nestimate none()"),
    "earlier values": (CHAIN, "realtime", f"budget uniform()\nestimate filter()\n{SUM}"),
    "every fourth": (CHAIN, "realtime", f"budget sparse(every = 4 steps)\nestimate filter()\n{SUM}"),
    "later values": (ASSUMED, "within(3 steps)", "mechanism gaussian()"),
    "chosen steps": ("target w_event(epsilon = 4.0, window = 4 steps)", "realtime", "mechanism budget_absorption()"),
    "each step at the end": (ASSUMED, "offline", "mechanism gaussian()\nestimate none()"),
    "the whole stream": (CHAIN, "offline", f"budget uniform()\nestimate smoother()\n{SUM}"),
}
CUTS = [4, 5, 5, 8, 12]


def planned(folder: Path, name: str, more: str = 'start "2026-01-01"', horizon: int = HORIZON) -> Plan:
    """A plan with the directory that it was loaded from."""
    promise, deliver, rest = PLANS[name]
    public = "participation" not in promise
    text = STREAM.format(
        promise=promise, deliver=deliver, more=more + "\n  population 30" * public, away=' otherwise "away"' * public
    )
    text = text.replace(f"horizon {HORIZON} steps", f"horizon {horizon} steps")
    (folder / "visits.policy").write_text(text + rest + "\n")
    compile_policy(folder / "visits.policy").save(folder / "visits.plan")
    return load_plan(folder / "visits.plan")


def number(step: int, place: str) -> int:
    """Of users there; 30 in all."""
    first, second = 3 + step * 7 % 11, step * step % 9
    return {"A": first, "B": second, "away": 30 - first - second}[place]


def written(folder: Path, plan: Plan, steps: range, said: str = "step", absent: tuple[int, ...] = ()) -> Path:
    """Counts of some steps, those in order; by number or by moment."""
    path = folder / "counts.csv"
    at = {step: str(step) if said == "step" else f"2026-01-01T{step:02}:10:00" for step in steps}
    rows = [f"{at[t]},{place},{number(t, place)}" for t in steps if t not in absent for place in plan.releases[0].cells]
    path.write_text("\n".join([f"{said},place,count", *rows]) + "\n")
    return path


def entries(plan: Plan) -> list[tuple[object, ...]]:
    """What the ledger says was drawn and published; fingerprints are under a key of its own each."""
    assert plan.pin is not None
    with LedgerReader.open_read_only(plan.pin.with_name("ledger.sqlite")) as book:
        return [entry._replace(data="") for entry in (*book.entries, *book.ahead)]


def released(
    folder: Path,
    plan: Plan,
    cuts: list[int],
    *,
    continued: bool,
    latest: int | None = None,
    said: str = "step",
    together: int = HORIZON,
) -> tuple[list[tuple[object, ...]], dict[str, bytes]]:
    """The ledger and files of a stream that is released in pieces; every second one brings a step again."""
    randomness = SimulationRandomness(3)
    assert plan.pin is not None
    for turn, (before, stop) in enumerate(zip([0, *cuts], cuts, strict=False)):
        first = max(0, min(before, stop - 1) - turn % 2) if continued else 0
        done = release(
            plan,
            written(folder, plan, range(first, stop), said),
            plan.pin.with_name("ledger.sqlite"),
            counts=True,
            continued=continued,
            steps=stop,
            output=folder / "out.csv",
            randomness=randomness,
            latest=latest,
            steps_a_transaction=together,
        )
        write_release(done, folder / "out.csv")
    return entries(plan), {file.name: file.read_bytes() for file in folder.glob("out*.csv")}


@pytest.mark.sampled(1, laws=4)
@pytest.mark.parametrize("name", PLANS)
def test_new_counts_release_what_whole_histories_release(name: str, tmp_path: Path) -> None:
    """The same noise gives the same ledger and the same bytes: by number, by moment, and with the last step alone."""
    found, made = [], tmp_path / "made"
    made.mkdir()
    planned(made, name)
    for place, options in enumerate(
        ({"continued": False}, {"continued": True}, {"continued": True, "latest": 1}, {"continued": True, "said": "at"})
    ):
        folder = tmp_path / str(place)
        shutil.copytree(made, folder)
        found.append(released(folder, load_plan(folder / "visits.plan"), CUTS, **options))
    assert {entry[0] for entry in found[0][0]} == set(range(HORIZON))
    assert all(one == found[0] for one in found)


@pytest.mark.law
@pytest.mark.parametrize("name", ["each step alone", "noise of many steps", "earlier values"])
def test_steps_one_by_one_are_those_of_one_run(name: str, tmp_path: Path) -> None:
    """To the byte, as the noise of realtime values is drawn step by step."""
    found = []
    for continued, cuts in ((False, [HORIZON]), (True, list(range(1, HORIZON + 1)))):
        folder = tmp_path / str(continued)
        folder.mkdir()
        found.append(released(folder, planned(folder, name), cuts, continued=continued, together=1))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("cuts", [[HORIZON], [5, 6, HORIZON]])
def test_a_long_run_lets_steps_go_and_releases_the_same(
    name: str, cuts: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same noise gives the same ledger and the same bytes where rows are written while the run is under way.

    So it does where what was counted is kept for later runs, of which the first has counts on disk as well; and where
    all values are needed to the end, and rows are written in pieces then.
    """
    found, begun = [], []
    kept = BegunFiles.add
    monkeypatch.setattr(BegunFiles, "add", lambda files, some: (begun.append(some.steps), kept(files, some))[1])
    stored = []
    rows = import_module("policyc_runtime.sources.count_rows")
    kept_rows = rows.rows_in_order
    monkeypatch.setattr(rows, "rows_in_order", lambda *given: (stored.append(1), kept_rows(*given))[1])
    for known, continued in ((100, False), (2, True), (2, False)):
        monkeypatch.setattr(import_module("policyc_runtime.release"), "LONGEST_KNOWN", known)
        folder = tmp_path / f"{known} {continued}"
        folder.mkdir()
        plan = planned(folder, name)
        begun.clear()
        stored.clear()
        found.append(released(folder, plan, cuts, continued=continued, latest=1, together=1))
        assert bool(stored) == looks_at_few(plan)
    assert found[0] == found[1] == found[2]
    asks = plan.releases[0].estimator.asks_noisy_values  # first all values, and later few before a step
    gone = {step for steps in begun for step in steps}
    written = not asks if lets_go(plan) else rows_are_apart(plan)
    assert gone == (set(range(HORIZON)) if written else set())
    assert all(len(steps) <= 4 for steps in begun) or len(cuts) > 1  # a later run has all earlier ones first


@pytest.mark.usefixtures("soon_forgotten")
@pytest.mark.parametrize("name", ["earlier values", "every fourth"])
def test_a_long_run_lets_values_go_that_a_filter_forgot(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, where few steps are many for a filter."""
    found, gone = [], []
    kept = Ledger.let_go
    monkeypatch.setattr(Ledger, "let_go", lambda book, first, left: (gone.append(first), kept(book, first, left))[1])
    for known in (100, 2):
        monkeypatch.setattr(import_module("policyc_runtime.release"), "LONGEST_KNOWN", known)
        folder = tmp_path / str(known)
        folder.mkdir()
        found.append(released(folder, planned(folder, name), [HORIZON], continued=False, latest=1, together=1))
    assert found[0] == found[1]
    assert len(gone) > 1
    assert gone == sorted(set(gone))


@pytest.mark.sampled(0, laws=1)
@pytest.mark.parametrize("name", ["earlier values", "every fourth"])
def test_a_filter_of_a_long_stream_reads_few_of_its_values(name: str, tmp_path: Path) -> None:
    """Beyond the steps that say what users move like: the same bytes, whether all values are read or few."""
    made, found, first = tmp_path / "made", [], []
    made.mkdir()
    steps = 2 * STEPS_LOOKED_AT
    planned(made, name, horizon=steps + 9)
    for place, latest in enumerate((1, 3, None)):
        folder = tmp_path / str(place)
        shutil.copytree(made, folder)
        plan = load_plan(folder / "visits.plan")
        cuts = [steps - 1, steps, steps + 1, steps + 5, steps + 9]
        found.append(released(folder, plan, cuts, continued=True, latest=latest, together=STEPS_LOOKED_AT))
        assert plan.pin is not None
        noted = read_checkpoint(plan.pin.with_name("ledger.sqlite"))
        assert noted is not None
        first.append(noted.first)
    assert found[0] == found[1] == found[2]
    assert all(steps - PIECE < one < steps for one in first)


def test_steps_without_rows_are_zero_where_that_is_said(tmp_path: Path) -> None:
    """A gap between the ledger's end and new rows counts nobody, as in one run with everything; else it is refused."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    plan = planned(whole, "each step alone")
    given = {"counts": True, "steps": 11, "gaps": "zero", "pin": None}
    once = release(plan, written(whole, plan, range(10), absent=(7, 8)), whole / "l", **given)
    release(
        plan, written(parts, plan, range(7)), parts / "l", continued=True, **{**given, "steps": 7, "gaps": "refuse"}
    )
    rest = written(parts, plan, range(7, 10), absent=(7, 8))
    with pytest.raises(DataError, match="cell `A` at step 7 is missing") as refused:
        release(plan, rest, parts / "l", continued=True, **{**given, "gaps": "refuse"})
    assert "every step from 7 on" in str(refused.value.help)
    assert "`--continued`" not in str(refused.value.help)  # it was said
    release(plan, rest, parts / "l", continued=True, **given)
    with History(whole / "l", plan) as first, History(parts / "l", plan) as second:
        taken = first.read_ready(written(whole, plan, range(10), absent=(7, 8)), start=None, steps=11, gaps="zero")
        assert list(second.counted(None, None).digests) == list(taken.digests)
        assert second.steps == 11
    assert len(once.steps) == 11
    with pytest.raises(LedgerError, match="step 8 changed"):  # its rows were found later
        release(plan, written(parts, plan, range(8, 12)), parts / "l", continued=True, **{**given, "steps": 12})


def test_rows_that_come_again_are_compared(tmp_path: Path) -> None:
    """Other counts of a step that was taken in, and a part of its cells, are refused; so is anything left out."""
    plan, book = planned(tmp_path, "each step alone"), tmp_path / "l"
    given = {"counts": True, "continued": True, "pin": None}
    release(plan, written(tmp_path, plan, range(10)), book, steps=10, **given)
    path = written(tmp_path, plan, range(8, 12))
    text = path.read_text()
    for other, code, says in (
        (text.replace(f"9,A,{number(9, 'A')}", f"9,A,{number(9, 'A') + 1}"), "E0825", "step 9 changed"),
        (text.replace(f"9,A,{number(9, 'A')}\n", ""), "E0818", "cell `A` at step 9 is missing"),
        (text.replace(f"10,B,{number(10, 'B')}\n", ""), "E0818", "cell `B` at step 10 is missing"),
        (text + f"8,A,{number(8, 'A')}\n", "E0818", "come twice"),
    ):
        path.write_text(other)
        with pytest.raises((DataError, LedgerError), match=says) as refused:
            release(plan, path, book, steps=12, **given)
        assert refused.value.code == code
        assert "users" not in str(refused.value.because)  # nobody's are in counts
        assert str(refused.value.where).startswith(str(path))
    path.write_text(text)
    assert len(release(plan, path, book, steps=12, **given).steps) == 12


def test_a_run_that_breaks_off_takes_no_counts_in_twice(tmp_path: Path) -> None:
    """Taken in and not released, other counts are refused, and a start that was said stays."""
    plan, book = planned(tmp_path, "each step alone", more=""), tmp_path / "l"
    path = written(tmp_path, plan, range(5), "at")
    start = 1_767_225_600_000_000
    with Ledger.open(book, plan) as opened, History(book, plan, opened) as history:
        first = history.read_ready(path, start=start, steps=5)
        history.keep()
    path.write_text("step,place,count\n4,A,0\n4,B,0\n")
    with pytest.raises(LedgerError, match="step 4 changed"):
        release(plan, path, book, counts=True, continued=True, steps=5, pin=None)
    done = release(
        plan, written(tmp_path, plan, range(4, 7), "at"), book, counts=True, continued=True, steps=7, pin=None
    )
    assert done.times[0] == "2026-01-01T00:00:00"
    with History(book, plan) as history:
        assert np.array_equal(history.counted(start, 5).counts["there"], first.counts["there"])


def test_a_stream_goes_over_from_whole_histories_to_new_counts_and_back(tmp_path: Path) -> None:
    """One run with the whole history and `--continued` begins it; a lost history is asked for, and given whole."""
    plan, book = planned(tmp_path, "noise of many steps"), tmp_path / "l"
    given = {"counts": True, "pin": None}
    release(plan, written(tmp_path, plan, range(4)), book, steps=4, **given)
    for continued in (False, True):
        with pytest.raises(DataError, match="at step 0 is missing") as refused:
            release(plan, written(tmp_path, plan, range(4, 6)), book, steps=6, continued=continued, **given)
        assert "`--continued`" in str(refused.value.help)
    release(plan, written(tmp_path, plan, range(6)), book, steps=6, continued=True, **given)
    release(plan, written(tmp_path, plan, range(6, 8)), book, steps=8, continued=True, **given)
    release(plan, written(tmp_path, plan, range(9)), book, steps=9, **given)
    release(plan, written(tmp_path, plan, range(8, 10)), book, steps=10, continued=True, **given)
    history_file(book).unlink()
    with pytest.raises(LedgerError, match="cannot be used") as lost:
        release(plan, written(tmp_path, plan, range(10, 12)), book, steps=12, continued=True, **given)
    assert (lost.value.code, lost.value.where) == ("E0840", str(history_file(book)))
    assert "  --> " + str(history_file(book)) in lost.value.__notes__  # as a traceback says it
    done = release(plan, written(tmp_path, plan, range(12)), book, steps=12, continued=True, **given)
    assert len(done.steps) == 12


def test_what_cannot_be_carried_on_says_what_to_do(tmp_path: Path) -> None:
    """Events after counts and counts after events, an array, and a bound that a run has to enforce."""
    plan, book = planned(tmp_path, "each step alone"), tmp_path / "l"
    events = tmp_path / "events.csv"
    events.write_text("person,at,place\nu1,2026-01-01T00:05:00,A\nu1,2026-01-01T02:05:00,A\n")
    release(plan, written(tmp_path, plan, range(3)), book, counts=True, continued=True, steps=3, pin=None)
    with pytest.raises(DataError, match="took in ready counts, and these are events") as refused:
        release(plan, events, book, continued=True, steps=4, pin=None)
    assert (refused.value.code, refused.value.help) == (
        "E0839",
        "go on with what the earlier runs had, with or without `--counts`",
    )
    release(plan, events, tmp_path / "e", continued=True, steps=2, pin=None)
    with pytest.raises(DataError, match="took in events, and these are ready counts"):
        release(plan, written(tmp_path, plan, range(3)), tmp_path / "e", counts=True, continued=True, steps=3, pin=None)
    with pytest.raises(DataError, match="counts in an array cannot be carried on") as refused:
        release(plan, np.zeros((4, 2), dtype=int), book, continued=True, pin=None)
    assert refused.value.code == "E0839"
    (tmp_path / "bound").mkdir()
    PLANS["enforced"] = (USER.format(how="enforced = keep_sample"), "offline", "mechanism gaussian()")
    try:
        enforced = planned(tmp_path / "bound", "enforced")
    finally:
        del PLANS["enforced"]
    with pytest.raises(DataError) as refused:
        release(enforced, written(tmp_path, plan, range(3)), tmp_path / "b", counts=True, continued=True, pin=None)
    assert refused.value.code == "E0837"


def test_what_is_kept_of_ready_counts_is_spoken_of_as_such(tmp_path: Path) -> None:
    """A damaged history is refused; of counts nobody knows who took part, so nothing is said of users."""
    plan = planned(tmp_path, "each step alone")
    assert plan.pin is not None
    book = plan.pin.with_name("ledger.sqlite")
    release(plan, written(tmp_path, plan, range(3)), book, counts=True, continued=True, steps=3)
    history_file(book).write_bytes(b"nothing")
    with pytest.raises(LedgerError) as refused:
        release(plan, written(tmp_path, plan, range(3, 5)), book, counts=True, continued=True, steps=5)
    assert refused.value.code == "E0840"
    assert str(refused.value.because).endswith("without it nobody knows what earlier steps counted")
