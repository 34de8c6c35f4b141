"""Released values as a table in memory, with the columns and types of a released file."""

from __future__ import annotations

import tempfile
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from policyc_runtime.errors import DataError
from policyc_runtime.output import file_columns, write_rows
from policyc_runtime.published_values import Release, unnamed
from policyc_runtime.sources.tables import connect, quoted


class ReleasedTable:
    """One release as a table: `step`, `time`, the cell if any, `noisy`, `released`; `simulated` where it is none.

    Any library takes it that speaks the Arrow PyCapsule protocol: `polars.DataFrame(table)`, `pyarrow.table(table)`.

    Args:
        release: what a run returned.
        name: which of its series, or of what is made of them; None for the only one.

    Raises:
        ValueError: there are several and none is named, or none of that name.
    """

    def __init__(self, release: Release, name: str | None = None) -> None:
        self._release = release
        found = release.files.get(release.name if name is None else name)
        if found is None:
            raise unnamed(release.files)
        self._series = found

    @cached_property
    def _rows(self) -> Any:
        """A relation of duckdb, with the very values of a file."""
        columns = file_columns(self._release, self._series)
        layout = ", ".join(f"{quoted(name)}: {quoted(kind)}" for name, kind in columns.items())
        connection = connect()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.csv"
            write_rows(self._release, self._series, file, self._release.steps.stop)
            connection.execute(
                f"CREATE TABLE released AS FROM read_csv({quoted(str(file))}, auto_detect = false, header = true, "
                f"delim = ',', quote = '\"', escape = '\"', hive_partitioning = false, columns = {{{layout}}})"
            )
        return connection.table("released")

    def __repr__(self) -> str:
        """The first rows, as duckdb draws them: what a notebook shows."""
        return str(self._rows)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with a stream of the rows."""
        return self._rows.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table`."""
        return _library("pyarrow").table(self)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        _library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame`."""
        return _library("polars").DataFrame(self)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise DataError(
            "E0810",
            f"{name} is not installed",
            where="the released table",
            help=f"install it: `pip install {name}`; or hand the table to a library that reads Arrow streams",
        ) from None
