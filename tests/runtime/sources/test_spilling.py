"""What does not fit into memory goes to a folder beside the ledger, which is gone afterwards; a full disk is said."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from plans import make_plan

from policyc_runtime.errors import DataError
from policyc_runtime.files import scratch
from policyc_runtime.sources import connection, read_events, tables

MEGABYTE = 10**6
ROOM = 150 * MEGABYTE


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A million events of as many users, all on one day."""
    path = tmp_path / "events.parquet"
    duckdb.sql(
        "COPY (SELECT 'a user of a long name ' || i AS tailnum, TIMESTAMP '2013-01-01' AS departed_at, 'JFK' AS origin "
        f"FROM range(1000000) t(i)) TO '{path}'"
    )
    return path


@pytest.mark.law
def test_what_exceeds_memory_is_spilled_and_gone(large, tmp_path, monkeypatch):
    """A million users in too little memory: counted as ever, and nothing is left of what was on disk."""
    plan = make_plan(population=10**6, start="2013-01-01")
    whole = read_events(large, plan, steps=1)
    monkeypatch.setattr(connection, "LEAST_MEMORY", ROOM)
    monkeypatch.setattr(connection, "MEMORY_A_THREAD", MEGABYTE)
    with scratch(tmp_path / "ledger.data") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        spilled = read_events(large, plan, steps=1, spill=folder)
    assert spilled.digests == whole.digests
    assert {path.name for path in tmp_path.iterdir()} == {"events.parquet"}


@pytest.mark.law
def test_a_full_disk_is_one_message(large, tmp_path, monkeypatch):
    """Where there is no room for what is spilled the refusal says so, and nothing is left."""
    monkeypatch.setattr(connection, "LEAST_MEMORY", ROOM)
    monkeypatch.setattr(connection, "MEMORY_A_THREAD", MEGABYTE)
    connect = tables.connect

    def small(spill: Path | None = None) -> duckdb.DuckDBPyConnection:
        opened = connect(spill)
        opened.execute("SET max_temp_directory_size = '1MB'")
        return opened

    monkeypatch.setattr(tables, "connect", small)
    with scratch(tmp_path / "ledger.data") as folder, pytest.raises(DataError) as caught:
        read_events(large, make_plan(population=10**6, start="2013-01-01"), steps=1, spill=folder)
    assert caught.value.code == "E0810"
    assert "the disk has no room" in str(caught.value.because)
    assert {path.name for path in tmp_path.iterdir()} == {"events.parquet"}


def test_what_a_killed_run_spilled_goes_with_the_next(tmp_path):
    """A folder that nobody holds goes; one that a run holds stays."""
    left = tmp_path / ".ledger.data.0a1b2c3d.spill"
    left.mkdir()
    (left / "duckdb_temp_storage.tmp").write_bytes(b"rows")
    (tmp_path / ".other.data.0a1b2c3d.spill").mkdir()
    with scratch(tmp_path / "ledger.data") as mine:
        assert not left.exists()
        with scratch(tmp_path / "ledger.data") as other:
            assert len({folder for folder in (mine, other) if folder.is_dir()}) == 2
    assert [path.name for path in tmp_path.iterdir()] == [".other.data.0a1b2c3d.spill"]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    """A Parquet file is read more than once: both times the same rows, or none count."""
    path = tmp_path / "events.parquet"
    path.write_bytes(b"0")
    with pytest.raises(DataError) as caught, tables.reading(path):
        path.write_bytes(b"10")
    assert "changed" in str(caught.value.because)
    with tables.reading(path):  # another file in its place: the old one was read to its end
        (tmp_path / "new").write_bytes(b"100")
        (tmp_path / "new").replace(path)
