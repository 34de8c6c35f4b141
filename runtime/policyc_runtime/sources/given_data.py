"""What a run is given to count: a file, a table in memory or counts, or what another engine counts where it lies."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, SupportsIndex, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from policyc_runtime.errors import DataError
from policyc_runtime.plan import Plan
from policyc_runtime.sources.count_rows import Gaps
from policyc_runtime.sources.engines.remote import Engine, RemoteTable, remote_table
from policyc_runtime.sources.memory import ArrowStream, CheckedRows, HeldTable, Rows
from policyc_runtime.sources.tables import connect, require_here

Data: TypeAlias = str | Path | CheckedRows | ArrowStream | NDArray[Any] | Mapping[str, NDArray[Any]]
Held: TypeAlias = Rows | NDArray[Any] | Mapping[str, NDArray[Any]]


def remote_of(data: Data, engine: Engine, *, counts: bool, continued: bool) -> RemoteTable | None:
    """The table that another engine than DuckDB counts; None of DuckDB."""
    if engine == "duckdb":
        return None
    if counts or continued or not isinstance(data, str):
        raise DataError(
            "E0869",
            f"{engine} counts all events of one named table or folder",
            where="--continued" if continued else "--counts" if counts else "events_or_counts",
            because="what a run keeps of users for later ones lies beside the ledger, and nothing about single users "
            "leaves the engine; ready counts and tables in memory are small enough for this machine",
            help="give the whole history as events, by the name of a table; or leave the engine out",
        )
    return remote_table(engine, data)


def check_choices(
    plan: object, data: object, gaps: object, engine: object, start: object, steps: object, *, counts: bool
) -> None:
    """Nothing where they are what a type checker would take: a word that is not known would mean another one.

    Raises:
        ValueError: `gaps` or `engine` is none of the words, or `gaps` is said of events; `steps` is below 1.
        TypeError: `plan` is no plan; `start` is no text; `steps` is no whole number.
    """
    if not isinstance(plan, Plan):
        loaded = "`load_plan(directory)`, or `load_plan(compilation.save())` of what `compile_policy` gives"
        raise TypeError(f"a plan is released, not a {type(plan).__name__}: {loaded}")
    for name, said, words in (("gaps", gaps, get_args(Gaps)), ("engine", engine, get_args(Engine))):
        if said not in words:
            raise ValueError(f"{name} is one of {', '.join(map(repr, words))}, not {said!r}")
    if gaps != "refuse" and not counts and not _is_in_arrays(data):
        raise ValueError(
            "gaps: events have none: a step without one counts nobody; it is for ready counts, with `counts=True`"
        )
    if start is not None and not isinstance(start, str):
        kind = type(start).__name__
        raise TypeError(f'start is the text of an ISO moment, such as "2013-01-31", not a {kind}: say `.isoformat()`')
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, SupportsIndex)):
        raise TypeError(f"steps is a whole number, not {steps!r}")
    least = 0 if isinstance(data, CheckedRows) else 1  # `follow` begins before its first step is over
    if steps is not None and operator.index(steps) < least:
        raise ValueError(f"steps is a number of steps from {least}, not {steps!r}")


def _is_in_arrays(data: object) -> bool:
    """Whether data in memory are counts, and no table: an array, or one a release."""
    return isinstance(data, np.ndarray | Mapping | Sequence) and not isinstance(data, str)


def check_data(data: Data) -> None:
    """Nothing where there is a file, or something in memory; so that no ledger is begun for anything else."""
    if isinstance(data, str | Path):
        if not os.fspath(data):
            raise DataError("E0810", "the data cannot be read", because="no file is named", help="name the file")
        require_here(data)
        return
    named = isinstance(data, np.ndarray | Mapping | Sequence) and _has_events(data)
    kind = type(data).__name__
    kind = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    if named or not isinstance(data, CheckedRows | np.ndarray | Mapping | Sequence | ArrowStream):
        raise DataError(
            "E0818",
            f"{kind}{' of events' if named else ''} is neither a file, nor a table, nor counts",
            where="events_or_counts",
            because="events are read from a file, or from a table with `__arrow_c_stream__`; counts in memory are an "
            "array (steps, cells), or one a release",
            help="hand over a table of polars (a LazyFrame after `.collect()`), pandas 2.2, pyarrow or duckdb, "
            "or write the events to a Parquet file",
        )


def _has_events(data: NDArray[Any] | Mapping[str, object] | Sequence[object]) -> bool:
    """Whether rows or columns are those of events: of texts, moments, or records with names."""
    for one in data.values() if isinstance(data, Mapping) else [data]:
        with suppress(Exception):  # of rows of different lengths, say, which are looked at as counts
            values = np.asarray(one)
            if values.dtype.kind in "SUVMm" or any(isinstance(value, Mapping) for value in values.flat[:1]):
                return True
    return False


@contextmanager
def held(data: Data) -> Iterator[Held]:
    """The data, a table in memory as it is now."""
    if isinstance(data, str | Path | CheckedRows | np.ndarray | Mapping | Sequence):
        yield data
        return
    connection = connect()
    try:
        yield HeldTable(connection, data)
    finally:
        connection.close()
