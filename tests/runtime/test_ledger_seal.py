"""The seals of a ledger: older copies, second ledgers and altered bytes are refused; a killed run is none of these."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from plans import make_counts, make_plan

from policyc_check.claims import Claim
from policyc_runtime import file_identity, ledger_seal
from policyc_runtime.errors import LedgerError, ReleaseError
from policyc_runtime.files import journal_file
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.ledger_private import PRIVATE, checkpoint_file, key_file, private_files, steps_file
from policyc_runtime.ledger_seal import PIN, Seal, read_seal, seal_file
from policyc_runtime.output import write_release
from policyc_runtime.plan import load_plan
from policyc_runtime.release import release

PLAN = make_plan()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of five steps, sealed."""
    release(PLAN, make_counts(5), tmp_path / "ledger", pin=None)
    return tmp_path / "ledger"


def sealed(path: Path) -> Claim:
    (claim,) = (claim for claim in ledger_claims(PLAN, path) if claim.where == str(seal_file(path)))
    return claim


def fails(path: Path) -> bool:
    return any(claim.holds is False for claim in ledger_claims(PLAN, path))


def test_every_flipped_bit_of_ledger_and_seal_is_found(path: Path) -> None:
    """Random bits of both files, most of them in bytes that sqlite does not look at."""
    assert sealed(path).holds
    rng = random.Random(5)
    for file in (path, seal_file(path)):
        content = file.read_bytes()
        for _ in range(60):
            place = rng.randrange(len(content))
            file.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
            assert fails(path), (file.name, place)
        file.write_bytes(content + b"\0")
        assert fails(path)
        file.write_bytes(content)
    assert not fails(path)


def refused(path: Path, steps: int = 7, pin: Path | None = None) -> LedgerError:
    """Why a run is refused, that `verify` names it too, and that nothing was drawn."""
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(LedgerError) as caught:
        release(PLAN, make_counts(steps), path, pin=pin)
    assert (path.read_bytes() if path.exists() else b"") == before
    claims = [claim for claim in ledger_claims(PLAN, path, pin) if claim.holds is False]
    assert caught.value.code in {claim.code for claim in claims}
    return caught.value


def stopped(path: Path, after: int) -> None:
    """A run over five steps, one a transaction, that never comes to its end after so many: its seals stay open."""

    def stop(done: int, total: int) -> None:
        if done == after:
            for file, content in kept:
                shutil.copy(file, content)
            raise KeyboardInterrupt

    kept = [(file, path.with_name(f"{file.name}.then")) for file in (path, seal_file(path))]
    with pytest.raises(KeyboardInterrupt):
        release(PLAN, make_counts(5), path, progress=stop, steps_a_transaction=1, pin=None)
    for file, content in kept:
        content.replace(file)


@pytest.mark.parametrize("after", [1, 3])
def test_a_killed_run_leaves_the_file_unchecked_and_not_refused(tmp_path: Path, after: int) -> None:
    """A seal that was not closed: `verify` says that it was not checked; the next run goes on and closes it."""
    path = tmp_path / "ledger"
    stopped(path, after)
    seal = read_seal(seal_file(path))
    assert seal is not None
    assert (seal.entries, seal.coming, seal.sha256) == (after - 1, after, "")
    assert sealed(path).holds is None
    assert not fails(path)
    release(PLAN, make_counts(5), path, pin=None)
    assert sealed(path).holds


def test_a_seal_is_there_before_the_ledger_and_before_every_change(tmp_path: Path) -> None:
    """It names what comes before it is there, so that a ledger without a seal, or with another, is never a run's."""
    path, seen = tmp_path / "ledger", []

    def look(done: int, total: int) -> None:
        seal = read_seal(seal_file(path))
        assert seal is not None
        seen.append((done, seal.entries, seal.coming))

    release(PLAN, make_counts(5), path, progress=look, steps_a_transaction=2, pin=None)
    assert seen == [(2, 0, 2), (4, 2, 4), (5, 4, 5)]
    assert sealed(path).holds


def test_a_ledger_is_refused_under_a_newer_seal(path: Path, tmp_path: Path) -> None:
    """An older copy of the ledger put back would draw published steps again; with its own seal back it is no older."""
    older, seal = path.read_bytes(), seal_file(path).read_bytes()
    newer = release(PLAN, make_counts(7), path, pin=None)
    path.write_bytes(older)
    error = refused(path)
    assert (error.code, "older copy" in (error.because or "")) == ("E0848", True)
    seal_file(path).write_bytes(seal)
    assert not fails(path)
    assert len(newer.steps) == 7


@pytest.mark.parametrize("noted", [7, 5])
def test_an_older_ledger_with_its_own_seal_is_known_by_what_the_last_run_noted(tmp_path: Path, noted: int) -> None:
    """Put back with seal and pin, but not `private/`; with an older note there, nobody knows better."""
    path, out = tmp_path / "ledger", tmp_path / "out.csv"
    kept: dict[Path, bytes] = {}
    for steps in (5, 7):
        done = release(PLAN, make_counts(steps), path, output=out, pin=None)
        write_release(done, out)
        found = [path, seal_file(path), *([checkpoint_file(path)] if noted == 5 else [])]
        kept = kept or {file: file.read_bytes() for file in found}
    noise = done.series[next(iter(done.series))].noisy[5:7].tolist()
    for file, content in kept.items():
        file.write_bytes(content)
    if noted == 7:
        error = refused(path)
        assert (error.code, "older copy" in (error.because or "")) == ("E0848", True)
        assert str(checkpoint_file(path)) in (error.because or "")
    else:
        again = release(PLAN, make_counts(7), path, pin=None)
        assert again.series[next(iter(again.series))].noisy[5:7].tolist() != noise


PLACES = [
    lambda path: path,
    seal_file,
    lambda path: path.with_name(PIN),
    *(lambda p, i=i: private_files(p)[i] for i in range(5)),
]
JOURNALS = [journal_file, lambda path: journal_file(steps_file(path))]


@pytest.mark.parametrize("place", [*PLACES, *JOURNALS])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(place: Callable[[Path], Path], tmp_path: Path) -> None:
    """Of the ledger and all that lies beside it: nothing is drawn, and `verify` ends, too."""
    path, pin = tmp_path / "ledger.sqlite", tmp_path / PIN
    release(PLAN, make_counts(5), path, pin=pin)
    place(path).unlink(missing_ok=True)
    os.mkfifo(place(path))
    for continued in (False, True):
        with pytest.raises(LedgerError) as caught:
            release(PLAN, make_counts(7), path, pin=pin, continued=continued)
        assert (caught.value.code, caught.value.where) == ("E0820", str(place(path)))
    (claim,) = ledger_claims(PLAN, path, pin)
    assert (claim.holds, claim.code, claim.where) == (False, "E0820", str(place(path)))


@pytest.mark.parametrize("place", [*PLACES[:4], *JOURNALS[:1], lambda path: path.parent / PRIVATE / "any.csv"])
def test_values_do_not_go_where_a_ledger_is_kept(place: Callable[[Path], Path], tmp_path: Path) -> None:
    """Before it is begun and after; said of the output, and nothing is drawn or written."""
    path, pin = tmp_path / "l.csv", tmp_path / PIN
    output = tmp_path / "o.csv"
    for begun in (False, True):
        if begun:
            release(PLAN, make_counts(3), path, pin=pin, output=output)
        before = sorted(file for file in tmp_path.rglob("*") if file.is_file())
        with pytest.raises(ReleaseError) as caught:
            Ledger.open(path, PLAN, outputs=[output, place(path)], pin=pin)
        assert (caught.value.code, caught.value.where) == ("E0826", str(place(path)))
        assert before == sorted(file for file in tmp_path.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "made", [Path.mkdir, lambda place: place.symlink_to("nowhere"), lambda p: p.symlink_to(p.name)]
)
@pytest.mark.parametrize("place", PLACES[3:])
def test_a_private_file_is_a_file_or_is_not_there(
    place: Callable[[Path], Path], made: Callable[[Path], None], tmp_path: Path
) -> None:
    """A folder, and a link that leads nowhere, are neither, for `verify` as for a run."""
    path, pin = tmp_path / "ledger.sqlite", tmp_path / PIN
    release(PLAN, make_counts(5), path, pin=pin)
    place(path).unlink(missing_ok=True)
    made(place(path))
    with pytest.raises(LedgerError) as caught:
        release(PLAN, make_counts(7), path, pin=pin)
    assert (caught.value.code, caught.value.where) == ("E0820", str(place(path)))
    (claim,) = ledger_claims(PLAN, path, pin)
    assert (claim.holds, claim.code, claim.where) == (False, "E0820", str(place(path)))


def test_what_is_wrong_with_seal_or_pin_is_said_of_that_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, emptied, and what may not be read, are three things, and of each the file is named."""
    seal, content = seal_file(path), seal_file(path).read_bytes()
    seal.unlink()
    assert "`ledger.seal` is missing" in (refused(path).because or "")
    seal.write_bytes(b"")
    assert "`ledger.seal` was emptied or altered" in (refused(path).because or "")
    seal.write_bytes(content)
    monkeypatch.setattr(ledger_seal, "read_seal", lambda file: None)
    monkeypatch.setattr(ledger_seal.os, "access", lambda file, how: file != seal)
    assert "`ledger.seal` may not be read" in (refused(path).because or "")


def test_a_private_file_that_may_not_be_read_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the ledger, whose rights are as they should be."""
    key, read = key_file(path), Path.read_bytes

    def forbidden(file: Path) -> bytes:
        if file == key:
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(LedgerError) as caught:
        release(PLAN, make_counts(7), path, pin=None)
    assert caught.value.because == "`ledger.key` cannot be read or written"


def fresh(seal: Seal) -> str:
    return seal._replace(entries=0, hash="", coming=0, coming_hash="", sha256="").text


@pytest.mark.parametrize(
    "change",
    [
        lambda file, seal: file.unlink(),
        lambda file, seal: file.write_text(""),
        lambda file, seal: file.write_text("{}"),
        lambda file, seal: file.write_text(json.dumps(seal._asdict())),
        lambda file, seal: file.write_text(fresh(seal)),
        lambda file, seal: file.write_text(seal._replace(ledger="0" * 32).text),
        lambda file, seal: file.write_text(seal._replace(hash="0" * 64, coming_hash="0" * 64).text),
        lambda file, seal: file.write_text(seal._replace(entries=3, coming=3).text),
        lambda file, seal: file.write_text(seal._replace(sha256="0" * 64).text),
    ],
)
@pytest.mark.parametrize("name", ["seal", "pin"])
def test_a_seal_that_is_missing_emptied_or_altered_is_refused(tmp_path: Path, change: Callable, name: str) -> None:
    """A seal of zero entries beside a ledger with entries, too; of the pin in a plan's directory the same is true."""
    path = tmp_path / "ledger"
    (tmp_path / "plan.json").touch()
    release(PLAN, make_counts(5), path, pin=None)
    file = seal_file(path) if name == "seal" else tmp_path / PIN
    seal = read_seal(file)
    assert seal is not None
    assert (tmp_path / PIN).read_text() == seal.text
    change(file, seal)
    assert refused(path).code in {"E0848", "E0809"}
    assert refused(path, 5).code in {"E0848", "E0809"}


def test_bytes_that_no_entry_uses_are_refused_when_they_change(path: Path) -> None:
    """A run does not go on from a damaged file, so that no new seal hides the damage."""
    content = bytearray(path.read_bytes())
    content[60] ^= 1  # the user version, which nothing reads
    path.write_bytes(bytes(content))
    assert refused(path).code == "E0848"
    assert refused(path, 5).code == "E0848"


def test_the_seal_of_another_ledger_is_refused(path: Path, tmp_path: Path) -> None:
    """A seal names the ledger, and the entry it ends at: that of another ledger does not fit."""
    (tmp_path / "other").mkdir()
    release(PLAN, make_counts(2), tmp_path / "other" / "ledger", pin=None)
    seal_file(path).write_bytes(seal_file(tmp_path / "other" / "ledger").read_bytes())
    assert refused(path).code == "E0848"


@pytest.fixture
def pinned(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger somewhere else than its plan's directory, and the directory's pin."""
    path, pin = tmp_path / "far" / "ledger", tmp_path / "fleet.plan" / PIN
    path.parent.mkdir()
    pin.parent.mkdir()
    release(PLAN, make_counts(5), path, pin=pin)
    return path, pin


def test_a_plan_has_one_ledger(pinned: tuple[Path, Path], tmp_path: Path) -> None:
    """A second ledger, begun or new, and a forgotten `--ledger` are refused; the first one goes on."""
    path, pin = pinned
    assert refused(tmp_path / "new", pin=pin).code == "E0822"
    assert refused(pin.with_name("ledger.sqlite"), pin=pin).code == "E0822"
    release(PLAN, make_counts(5), tmp_path / "other", pin=None)
    assert refused(tmp_path / "other", pin=pin).code == "E0809"
    assert len(release(PLAN, make_counts(7), path, pin=pin).steps) == 7
    assert all(claim.holds for claim in ledger_claims(PLAN, path, pin))


def test_a_ledger_put_back_with_its_seal_is_refused_by_the_pin(pinned: tuple[Path, Path]) -> None:
    """Ledger, seal and private files of an older time fit each other, and not the plan's directory."""
    path, pin = pinned
    older = {file: file.read_bytes() for file in (path, seal_file(path), key_file(path))}
    release(PLAN, make_counts(7), path, pin=pin)
    for file, content in older.items():
        file.write_bytes(content)
    assert refused(path, pin=pin).code == "E0848"
    assert not fails(path)  # without the directory nobody can tell


def test_a_ledger_that_was_begun_elsewhere_is_not_taken_by_a_plan_without_pin(path: Path, tmp_path: Path) -> None:
    """Entries that the plan's directory knows nothing of may be a second draw."""
    (tmp_path / "fleet.plan").mkdir()
    assert refused(path, pin=tmp_path / "fleet.plan" / PIN).code == "E0848"


def test_every_flipped_byte_of_the_key_is_refused_and_named(path: Path) -> None:
    """The ledger has a check value of its key: each of its bytes changed, one more, one less, another one."""
    file = key_file(path)
    key = file.read_bytes()
    others = [key[:at] + bytes([key[at] ^ 1 << at % 8]) + key[at + 1 :] for at in range(len(key))]
    for other in (*others, key + b"\0", key[:-1], b"", bytes(len(key))):
        file.write_bytes(other)
        assert refused(path).code == "E0847"
        assert refused(path, 5).code == "E0847"
    file.write_bytes(key)
    assert len(release(PLAN, make_counts(7), path, pin=None).steps) == 7


def test_a_ledger_without_its_private_files_verifies(path: Path) -> None:
    """An auditor is given the rest: every claim holds, and one says what only the owner can compare."""
    shutil.rmtree(key_file(path).parent)
    claims = list(ledger_claims(PLAN, path))
    assert all(claim.holds for claim in claims)
    assert ["only their owner" in claim.detail for claim in claims if "private" in claim.name] == [True]
    with pytest.raises(LedgerError) as caught:
        release(PLAN, make_counts(5), path, pin=None)
    assert caught.value.code == "E0822"


def test_a_loaded_plan_has_one_ledger_wherever_its_caller_puts_it(tmp_path: Path) -> None:
    """Its directory alone names that: a second ledger is refused before anything is drawn, one begun before too."""
    folder = tmp_path / "visits.plan"
    folder.mkdir()
    (folder / "plan.json").write_text(PLAN.to_json())
    first = release(load_plan(folder), make_counts(5), tmp_path / "a")
    again = release(load_plan(folder / "plan.json"), make_counts(5), tmp_path / "a")
    assert (folder / PIN).is_file()
    assert (first.series["parked"].noisy == again.series["parked"].noisy).all()
    for other in (tmp_path / "b", folder / "ledger.sqlite"):
        with pytest.raises(LedgerError) as caught:
            release(load_plan(folder), make_counts(5), other)
        assert caught.value.code == "E0822"
        assert not other.exists()
    release(PLAN, make_counts(3), tmp_path / "c", pin=None)
    with pytest.raises(LedgerError) as caught:
        release(load_plan(folder), make_counts(5), tmp_path / "c")
    assert caught.value.code == "E0809"
    assert load_plan(folder) == PLAN
    assert load_plan(folder).to_json() == PLAN.to_json()


def test_a_plan_in_memory_is_not_run_until_its_caller_says_which_ledger_it_has(tmp_path: Path) -> None:
    """Nor is one from a file that is no plan's directory; nothing is begun, and `pin` is one ledger for all runs."""
    (tmp_path / "copy.json").write_text(PLAN.to_json())
    for plan in (PLAN, load_plan(tmp_path / "copy.json"), PLAN.model_copy()):
        with pytest.raises(LedgerError) as caught:
            release(plan, make_counts(5), tmp_path / "a")
        assert caught.value.code == "E0868"
    assert {file.name for file in tmp_path.iterdir()} == {"copy.json"}
    release(PLAN, make_counts(5), tmp_path / "a", pin=tmp_path / "pin")
    with pytest.raises(LedgerError) as caught:
        release(PLAN, make_counts(5), tmp_path / "b", pin=tmp_path / "pin")
    assert caught.value.code == "E0822"


@pytest.mark.parametrize("listed", [True, False])
def test_the_file_is_read_in_pieces_and_keeps_its_lock(
    listed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else wants to write has to wait still; a long ledger is not held in memory, where files are listed."""
    file = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE entry AS SELECT randomblob(9000000) AS bytes")
        told = hashlib.sha256(file.read_bytes()).hexdigest()
        if not listed:
            monkeypatch.setattr(file_identity, "DESCRIPTORS", tmp_path / "fd")
        connection.execute("BEGIN IMMEDIATE")
        tracemalloc.start()
        try:
            assert ledger_seal.file_sha256(connection, file) == told
            assert (tracemalloc.get_traced_memory()[1] < 3e6) == (listed and Path("/dev/fd").is_dir())
        finally:
            tracemalloc.stop()
        other = "import sqlite3, sys; sqlite3.connect(sys.argv[1], 0, isolation_level=None).execute('BEGIN IMMEDIATE')"
        tried = subprocess.run([sys.executable, "-c", other, file], capture_output=True, text=True, check=False)
        assert "database is locked" in tried.stderr
        connection.execute("COMMIT")
    with file.open("ab") as end:
        end.write(b"0")
    with closing(sqlite3.connect(file)) as connection:
        assert ledger_seal.file_sha256(connection, file) == ""
