"""The seal of a ledger: bytes that no entry uses are under it, and a killed run never makes a good ledger look bad."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from plans import make_counts, make_plan

from policyc_runtime.claims import Claim
from policyc_runtime.ledger import Ledger
from policyc_runtime.ledger_claims import ledger_claims
from policyc_runtime.ledger_seal import UNSEALED, seal_file
from policyc_runtime.release import release

PLAN = make_plan()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger of five steps, sealed."""
    release(PLAN, make_counts(5), tmp_path / "ledger")
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


@pytest.mark.parametrize("earlier", [None, 2])
def test_a_run_killed_before_it_sealed_leaves_the_file_unchecked_and_not_refused(tmp_path: Path, earlier: int) -> None:
    """The seal of an earlier state, or of none: `verify` says that it was not checked; the next run seals."""
    path = tmp_path / "ledger"
    if earlier is not None:
        release(PLAN, make_counts(earlier), path)
    old = UNSEALED.text.encode() if earlier is None else seal_file(path).read_bytes()
    release(PLAN, make_counts(5), path)
    seal_file(path).write_bytes(old)
    assert sealed(path).holds is None
    assert not fails(path)
    release(PLAN, make_counts(5), path)
    assert sealed(path).holds


def test_the_first_seal_is_there_before_the_ledger(tmp_path: Path) -> None:
    """Killed at the very first transaction, a run leaves a seal: a ledger without one has lost it."""
    path, seen = tmp_path / "ledger", []

    def stop(done: int, total: int) -> None:
        seen.append((done, total, seal_file(path).read_text()))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release(PLAN, make_counts(5), path, progress=stop, steps_a_transaction=2)
    assert seen == [(2, 5, UNSEALED.text)]
    assert sealed(path).holds  # an interruption that can be caught seals what is there
    seal_file(path).unlink()
    assert sealed(path).holds is False
    release(PLAN, make_counts(5), path)
    assert sealed(path).holds


def test_a_run_that_adds_nothing_leaves_damage_to_be_found(path: Path) -> None:
    """Opened again without new steps, a damaged file does not get a fresh seal."""
    content = bytearray(path.read_bytes())
    content[60] ^= 1  # the user version, which nothing reads
    path.write_bytes(bytes(content))
    assert fails(path)
    release(PLAN, make_counts(5), path)
    assert fails(path)


def test_the_seal_of_another_ledger_is_refused(path: Path, tmp_path: Path) -> None:
    """A seal names the entry it ends at: that of another ledger does not fit."""
    (tmp_path / "other").mkdir()
    release(PLAN, make_counts(2), tmp_path / "other" / "ledger")
    seal_file(path).write_bytes(seal_file(tmp_path / "other" / "ledger").read_bytes())
    assert sealed(path).holds is False
    with Ledger.open_read_only(path) as ledger:
        assert len(ledger.entries) == 5
