"""A duckdb of one's own, and how much memory it takes before it spills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEAST_MEMORY, MEMORY_A_THREAD = 2 * 10**9, 2**28  # bytes; a thread needs some for every query it has a part of
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def connect(spill: Path | None = None) -> DuckDBPyConnection:
    """A private duckdb in memory: nothing is fetched from anywhere.

    Args:
        spill: a folder for what exceeds `MEMORY_A_THREAD`, or `LEAST_MEMORY`; None where nothing is spilled to disk.
    """
    import duckdb

    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": "" if spill is None else str(spill),
            "preserve_insertion_order": "true",
        }
    )
    if spill is not None:
        ((known, threads),) = connection.execute(
            "SELECT current_setting('memory_limit'), current_setting('threads')"
        ).fetchall()
        number, unit = known.split()
        most = min(float(number) * UNITS[unit], max(LEAST_MEMORY, threads * MEMORY_A_THREAD))
        connection.execute(f"SET memory_limit = '{int(most)} bytes'")
    # of a join the right side is held in memory, whatever is guessed of how many rows a filter leaves of the left one
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection
