"""A ledger releases each step once and shows every change that was made to it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plans import make_counts, make_plan

from policyc_check.errors import KernelError
from policyc_runtime import ledger_file
from policyc_runtime.errors import LedgerError
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_claims import ledger_claims, require_claims
from policyc_runtime.ledger_entry import Entry, chained, genesis
from policyc_runtime.ledger_private import checkpoint_file, key_file
from policyc_runtime.ledger_reader import LedgerReader
from policyc_runtime.ledger_seal import seal_file
from policyc_runtime.output import write_release
from policyc_runtime.plan import Plan
from policyc_runtime.randomness import SimulationRandomness
from policyc_runtime.release import release
from policyc_runtime.released_file import stored_release, verify_release

COUNTS = make_counts(12)


@pytest.fixture
def plan() -> Plan:
    return make_plan()


@pytest.fixture
def path(tmp_path: Path, plan: Plan) -> Path:
    """A ledger with twelve steps."""
    place = tmp_path / "fleet.ledger"
    release(plan, COUNTS, place, pin=None)
    return place


def refused(plan: Plan, path: Path, counts: Any = COUNTS, **options: Any) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        release(plan, counts, path, **options, pin=None)
    return caught.value


def tamper(path: Path, *statements: str) -> None:
    """Change a ledger as somebody with sqlite and bad intentions would."""
    connection = sqlite3.connect(path)
    kept = list(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    for name, _ in kept:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in (*statements, *(sql for _, sql in kept)):
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_second_run_draws_nothing(plan: Plan, path: Path) -> None:
    """Running again gives the stored values and leaves the file as it was."""
    before = path.read_bytes()
    first, second = (release(plan, COUNTS, path, pin=None) for _ in range(2))
    assert np.array_equal(first.noisy, second.noisy)
    assert np.array_equal(first.released, second.released)
    assert path.read_bytes() == before


def test_only_new_steps_are_drawn(plan: Plan, path: Path) -> None:
    """Longer data keeps every earlier value, and adds steps."""
    first = release(plan, COUNTS, path, pin=None)
    longer = np.vstack([COUNTS, make_counts(5, seed=2)])
    second = release(plan, longer, path, pin=None)
    assert np.array_equal(second.noisy[:12], first.noisy)
    assert np.array_equal(second.released[:12], first.released)
    assert len(second.steps) == 17


def test_changed_data_of_a_released_step_is_refused(plan: Plan, path: Path) -> None:
    """The step is named, its values are not."""
    changed = COUNTS.copy()
    changed[7] = changed[7][::-1]
    error = refused(plan, path, changed)
    assert (error.code, error.message) == ("E0825", "the data of step 7 changed after it was released")
    assert "`--steps N`" in (error.help or "")


def test_the_database_refuses_changes_by_itself(path: Path) -> None:
    """Entries cannot be updated or deleted without removing what guards them."""
    connection = sqlite3.connect(path)
    for statement in ("DELETE FROM entry", "UPDATE entry SET noisy = '[0]'", "UPDATE meta SET value = ''"):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            "INSERT INTO entry SELECT 99, step, release, noisy, published, data, epsilon, scale, process, known, hash "
            "FROM entry WHERE number = 3"
        )
    connection.close()


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE entry SET noisy = '[1, 2, 3, 4]' WHERE step = 4", "entry 5, step 4"),
        ("UPDATE entry SET published = '[1, 2, 3, 14]' WHERE step = 4", "entry 5, step 4"),
        ("UPDATE entry SET epsilon = '0.05' WHERE step = 4", "entry 5, step 4"),
        ("UPDATE entry SET process = 'no chain' WHERE step = 4", "entry 5, step 4"),
        ("UPDATE entry SET data = hash WHERE step = 4", "entry 5, step 4"),
        ("UPDATE entry SET step = 40 WHERE step = 4", "entry 5, step 40"),
        ("DELETE FROM entry WHERE step = 4", "entry 6, step 5"),
        ("DELETE FROM entry WHERE step = 11", "the end of the chain, after entry 11"),
        ("DELETE FROM entry", "the end of the chain, after entry 0"),
        ("UPDATE head SET entries = 11", "the end of the chain, after entry 12"),
        ("DELETE FROM head", "the end of the chain, after entry 12"),
        ("UPDATE meta SET value = '0' WHERE name = 'start'", "entry 1, step 0"),
    ],
)
def test_an_altered_ledger_is_refused(plan: Plan, path: Path, statement: str, place: str) -> None:
    """A changed, missing or cut-off entry is found, by a run and by verification, and named."""
    tamper(path, statement)
    error = refused(plan, path)
    assert error.code == "E0823"
    assert place in (error.where or "")
    (claim,) = ledger_claims(plan, path)
    assert claim.holds is False
    assert claim.code == "E0823"


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 5000, -1, -4096])
def test_a_truncated_ledger_is_refused(plan: Plan, path: Path, size: int) -> None:
    """Cut anywhere, a ledger is not taken for a new one."""
    content = path.read_bytes()
    path.write_bytes(content[:size])
    assert refused(plan, path).code in {"E0820", "E0822"}
    assert [claim.holds for claim in ledger_claims(plan, path)][-1] is False


def test_a_ledger_that_was_not_begun_is_not_checked_and_not_refused(plan: Plan, tmp_path: Path) -> None:
    """Killed before its first transaction was on disk, a run leaves an empty file: nothing was drawn, so run again."""
    path = tmp_path / "ledger"
    path.touch()
    assert [(claim.holds, claim.code) for claim in ledger_claims(plan, path)] == [(None, "E0820")]
    with pytest.raises(LedgerError, match="no ledger here"):
        verify_release(plan, path, tmp_path / "out.csv")
    assert len(release(plan, COUNTS, path, pin=None).steps) == 12


def test_another_file_is_no_ledger(plan: Plan, tmp_path: Path) -> None:
    """Text, and databases of other programs, are refused and left alone."""
    text, database = tmp_path / "text", tmp_path / "database"
    text.write_text("not a ledger, but long enough to look at" * 40)
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE other (x)")
    connection.commit()
    connection.close()
    for path in (text, database, tmp_path):
        before = path.read_bytes() if path.is_file() else b""
        assert refused(plan, path).code == "E0820"
        assert path.is_dir() or path.read_bytes() == before


def test_another_plan_or_policy_is_refused(path: Path) -> None:
    """A ledger belongs to one plan; the reason says whether the policy changed."""
    assert refused(make_plan(epsilon="0.2"), path).message == "the ledger belongs to another plan"
    assert refused(make_plan(policy_hash="1" * 64), path).message == "the ledger belongs to another policy"
    claims = list(ledger_claims(make_plan(epsilon="0.2"), path))
    assert (claims[-1].holds, claims[-1].code) == (False, "E0821")


def test_a_ledger_without_entries_is_taken_by_the_plan_that_runs_next(plan: Plan, tmp_path: Path) -> None:
    """A refused run leaves a ledger that protects nothing; lost, it is begun anew, and kept, another plan takes it."""
    path, other = tmp_path / "ledger", make_plan(epsilon="0.2")
    for _ in range(2):
        with pytest.raises(KernelError):
            release(plan, tmp_path / "missing.csv", path, pin=None)
        assert not key_file(path).exists()
        assert not [claim for claim in ledger_claims(other, path) if claim.holds is False]
        path.unlink()
    with pytest.raises(KernelError):
        release(plan, tmp_path / "missing.csv", path, pin=None)
    assert len(release(other, COUNTS, path, pin=None).steps) == 12
    assert all(claim.holds for claim in ledger_claims(other, path))
    assert refused(plan, path).code == "E0821"


def test_a_run_whose_empty_ledger_was_taken_meanwhile_draws_nothing(plan: Plan, tmp_path: Path) -> None:
    """Two plans at once on a ledger without entries: the second one has it, and the first one is refused."""
    path, other = tmp_path / "ledger", make_plan(epsilon="0.2")
    refusals = []
    with contextlib.suppress(LedgerError), Ledger.open(path, plan) as first:
        release(other, COUNTS, path, pin=None)
        try:
            with first.transaction():
                raise AssertionError
        except LedgerError as error:
            refusals.append(error.code)
    assert refusals == ["E0821"]
    assert all(claim.holds for claim in ledger_claims(other, path))


@pytest.mark.parametrize("left", [key_file, seal_file])
def test_an_empty_copy_of_a_ledger_that_had_entries_is_not_taken(plan: Plan, tmp_path: Path, left: Any) -> None:
    """A key, or a seal that counts entries, tells that noise was drawn; another plan must not begin there."""
    path, copy = tmp_path / "ledger", tmp_path / "copy"
    Ledger.open(path, plan).__exit__(None, None, None)
    shutil.copy(path, copy)
    release(plan, COUNTS, path, pin=None)
    shutil.copy(copy, path)
    for file in {key_file(path), seal_file(path)} - {left(path)}:
        file.unlink()
    assert refused(make_plan(epsilon="0.2"), path).code == "E0821"


def test_a_future_version_is_refused(plan: Plan, path: Path) -> None:
    """What a newer version wrote is not guessed at."""
    tamper(path, "UPDATE meta SET value = '4' WHERE name = 'version'")
    assert refused(plan, path).code == "E0820"


def test_a_lost_ledger_is_not_begun_anew(plan: Plan, path: Path, tmp_path: Path) -> None:
    """A key, a seal that counts entries or an output without its ledger means that noise was drawn before."""
    output = tmp_path / "out.csv"
    write_release(release(plan, COUNTS, path, pin=None), output)
    path.unlink()
    for file in (key_file(path), seal_file(path)):
        error = refused(plan, path)
        assert (error.code, str(file) in (error.because or "")) == ("E0822", True)
        assert [(claim.holds, claim.code) for claim in ledger_claims(plan, path)] == [(False, "E0822")]
        file.unlink()
    assert refused(plan, path, output=output).code == "E0822"
    output.unlink()
    assert len(release(plan, COUNTS, path, output=output, pin=None).steps) == 12


def test_a_lost_key_is_refused_but_verification_needs_none(plan: Plan, path: Path) -> None:
    """Without the key nobody can compare data; the chain can still be checked, and nothing is written for it."""
    key_file(path).unlink()
    assert refused(plan, path).code == "E0822"
    assert all(claim.holds for claim in ledger_claims(plan, path))
    assert not key_file(path).exists()


def test_an_older_copy_of_a_ledger_is_refused(plan: Plan, path: Path, tmp_path: Path) -> None:
    """Published steps that the ledger does not know are not drawn again, seal, the last run's note or output tell."""
    older, output = tmp_path / "older", tmp_path / "out.csv"
    seal = seal_file(path).read_bytes()
    shutil.copy(path, older)
    longer = np.vstack([COUNTS, make_counts(5, seed=2)])
    write_release(release(plan, longer, path, output=output, pin=None), output)
    shutil.copy(older, path)
    assert refused(plan, path, longer).code == "E0848"
    seal_file(path).write_bytes(seal)
    assert refused(plan, path, longer).code == "E0848"
    checkpoint_file(path).unlink()
    with pytest.raises(KernelError) as caught:
        release(plan, longer, path, output=output, pin=None)
    assert caught.value.code == "E0827"
    assert "line 50, step 12" in (caught.value.where or "")


def test_verification_recomputes_and_changes_nothing(plan: Plan, path: Path) -> None:
    """Every claim holds for an honest ledger, whose directory and bytes stay as they were."""
    before = {place: place.read_bytes() for place in path.parent.rglob("*") if place.is_file()}
    claims = list(ledger_claims(plan, path))
    assert len(claims) == 9
    assert all(claim.holds for claim in claims)
    with LedgerReader.open_read_only(path) as ledger:
        require_claims(ledger, plan)
    assert {place: place.read_bytes() for place in path.parent.rglob("*") if place.is_file()} == before
    missing = path.with_name("missing")
    assert [claim.holds for claim in ledger_claims(plan, missing)] == [False]
    assert not missing.exists()


def test_verification_finds_other_budgets(plan: Plan, path: Path) -> None:
    """A chain that was rebuilt over other budgets is whole, and still not the plan's."""
    with LedgerReader.open_read_only(path) as ledger:
        entries = [entry._replace(epsilon="0.2") if entry.step == 3 else entry for entry in ledger.entries]
        meta = ledger.meta
    chain = genesis(meta)
    changes = ["UPDATE entry SET epsilon = '0.2' WHERE step = 3"]
    for number, entry in enumerate(entries, 1):
        chain = chained(chain, number, entry)
        changes.append(f"UPDATE entry SET hash = '{chain}' WHERE number = {number}")
    tamper(path, *changes, f"UPDATE head SET hash = '{chain}'")
    claims = [claim for claim in ledger_claims(plan, path) if claim.where == str(path)]  # but for the seal
    assert [claim.detail for claim in claims if claim.holds is not True] == ["step 3 did not"]


def test_simulated_noise_has_a_ledger_of_its_own(plan: Plan, path: Path, tmp_path: Path) -> None:
    """Seeded noise neither enters a real ledger nor passes for one."""
    assert refused(plan, path, randomness=SimulationRandomness(1)).code == "E0828"
    other = tmp_path / "simulated"
    assert not release(plan, COUNTS, other, randomness=SimulationRandomness(1), pin=None).is_release
    assert refused(plan, other).code == "E0828"
    assert [claim.code for claim in ledger_claims(plan, other) if claim.holds is False] == ["E0828"]


def test_the_key_is_private_and_the_ledger_holds_no_raw_data(tmp_path: Path) -> None:
    """Neither users nor raw counts are in the ledger; fingerprints differ from ledger to ledger."""
    marker = "N0SECRET"
    events = tmp_path / "events.csv"
    events.write_text(f"tailnum,departed_at,origin\n{marker},2013-01-01,EWR\n{marker},2013-01-02,{marker}\n")
    plan = make_plan(start="2013-01-01")
    prints = []
    for name in ("one", "two"):
        path = tmp_path / name
        release(plan, events, path, steps=2, pin=None)
        assert marker.encode() not in path.read_bytes()
        assert stat.S_IMODE(key_file(path).stat().st_mode) == 0o600
        with LedgerReader.open_read_only(path) as ledger:
            prints.append([entry.data for entry in ledger.entries])
            assert key_file(path).read_bytes() not in path.read_bytes()
    assert prints[0] != prints[1]


def test_a_ledger_that_is_held_is_busy(plan: Plan, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run waits for another, and then says so; nothing is drawn."""
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert refused(plan, path).code == "E0824"
    holder.close()


def test_two_processes_at_once_release_each_step_once(plan: Plan, tmp_path: Path) -> None:
    """Two runs that begin together on no ledger end with the same values, each step drawn once."""
    script = Path(__file__).parent / "run_in_pieces.py"
    path = tmp_path / "shared"
    runs = [
        subprocess.Popen(
            [sys.executable, str(script), "run", str(path), str(tmp_path / f"out{number}.csv"), "300", "5"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    errors = [run.communicate(timeout=60)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    assert (tmp_path / "out0.csv").read_bytes() == (tmp_path / "out1.csv").read_bytes()
    with LedgerReader.open_read_only(path) as ledger:
        assert [entry.step for entry in ledger.entries] == list(range(300))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET noisy = '[0, 0, 0, 40]' WHERE number = 4",
        "DELETE FROM entry WHERE number = 4",
        "UPDATE entry SET hash = hash || '0' WHERE number = 12",
    ],
)
def test_what_a_run_reads_again_is_checked_again(plan: Plan, path: Path, statement: str) -> None:
    """A run keeps no entry; what somebody altered since it looked first is found when it reads on."""
    with Ledger.open(path, plan, pin=None) as ledger:
        assert [entry.step for entry in ledger.released(after=3)] == list(range(3, 12))
        assert [entry.step for entry in ledger.released()] == list(range(12))
        tamper(path, statement)
        with pytest.raises(LedgerError) as caught:
            list(ledger.released())
        assert caught.value.code == "E0823"


def test_what_a_run_keeps_of_entries_is_what_they_say(plan: Plan, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in few or many pieces, after entries that were added or taken back, a release is made of all of them."""
    for piece in (1, 5, 4096):
        monkeypatch.setattr("policyc_runtime.ledger_chain.PIECE", piece)
        with Ledger.open(path, plan, pin=None) as run, LedgerReader.open_read_only(path) as looked_at:
            for steps in (7, 12, 20):
                with contextlib.suppress(ZeroDivisionError), run.transaction():
                    more = [entry._replace(step=entry.step + 12) for entry in run.entries]
                    run.append(more, run.start)
                    assert (run.steps, len(stored_release(plan, run, 24).times)) == (24, 24)
                    raise ZeroDivisionError
                ours, theirs = (stored_release(plan, book, steps) for book in (run, looked_at))
                assert run.entries == looked_at.entries
                assert ours.times == theirs.times
                assert len(ours.times) == min(steps, 12)
                assert np.array_equal(ours.noisy, [json.loads(entry.noisy) for entry in looked_at.entries][:steps])
                assert np.array_equal(ours.released, theirs.released)


def test_an_entry_is_hashed_as_canonical_json() -> None:
    """The chain is that of every build: the entry before, and this one as canonical JSON, whatever its texts."""
    entry = Entry(
        3, 'a "name" of ü\\ \n', "[1, -2]", "null", "f0" * 32, "0.5", "1E+2", "declared chain, 2 × as slow", 7
    )
    told = "ab" * 32 + json.dumps([12, *entry], ensure_ascii=False, separators=(",", ":"))
    assert chained("ab" * 32, 12, entry) == hashlib.sha256(told.encode()).hexdigest()
