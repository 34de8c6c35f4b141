"""A file that is not what its suffix says is named for what it is."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pytest
from plans import make_plan

from policyc_runtime.errors import DataError
from policyc_runtime.sources import read_events

ROWS = b"tailnum,departed_at,origin\na,2013-01-01T08:00:00,EWR\n"


@pytest.mark.parametrize(
    ("name", "kind", "reason", "remedy"),
    [
        ("e.csv", "gzip", "it is compressed with gzip", "name it `e.csv.gz`, or unpack it"),
        ("e.csv.gz", "text", "it is not compressed with gzip, as its name says", "name it `e.csv`"),
        ("e.csv", "parquet", "it is a Parquet file", "name it `e.parquet`"),
        ("e.csv", "text", None, None),
        ("e.csv.gz", "gzip", None, None),
    ],
)
def test_what_a_file_is_is_said(tmp_path: Path, name: str, kind: str, reason: str | None, remedy: str | None) -> None:
    """Compressed files named as others, others named as compressed ones, and Parquet named as CSV."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(ROWS) if kind == "gzip" else ROWS)
    if kind == "parquet":
        duckdb.sql(f"COPY (SELECT 'a' AS tailnum) TO '{path}' (FORMAT parquet)")
    if reason is None:
        assert read_events(path, make_plan(start="2013-01-01"), steps=1).steps == 1
        return
    with pytest.raises(DataError) as refused:
        read_events(path, make_plan(start="2013-01-01"), steps=1)
    assert (refused.value.code, refused.value.because, refused.value.help) == ("E0810", reason, remedy)
