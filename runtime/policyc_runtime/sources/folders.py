"""Folders of Parquet files, read as one table.

A folder has all files whose names end in `.parquet`, in it and below it, in the order of their names. What begins with
`_` or `.` is not looked at, as writers leave marks and unfinished files there; but `_column=value` is a column as well.
Anything else is refused, so that no data is left out because of how it is named. Folders named `column=value` are a
column of text, the same in all files.
"""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from policyc_runtime.sources.input_table import (
    PATTERN,
    InputTable,
    opened,
    parquet_columns,
    typed_table,
    unreadable,
    without_parts,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from policyc_runtime.sources.memory import Place

SUFFIX, PARQUET = ".parquet", b"PAR1"  # how such files are named, begin and end
LOGS = ("_delta_log", ".hoodie")  # of tables whose files hold deleted rows as well
TYPE = "(type, type_length, converted_type, scale, precision, logical_type)"  # of a column of Parquet


def parquet_files(folder: Path) -> list[str]:
    """The files of a folder, relative to it, in order.

    Raises:
        DataError: E0810, there is none, or something else; or they are not all in folders of the same columns.
    """
    found = []
    for place, folders, names in os.walk(folder, onerror=_refused_by_system):
        folders[:] = sorted(name for name in folders if not _is_left_out(name) or name in LOGS)
        for name in folders:
            if Path(place, name).is_symlink():
                raise unreadable(Path(place, name), "it is a link to a folder", "name that folder itself")
        for name in names:
            if not _is_left_out(name) and not Path(place, name).is_file():
                raise unreadable(Path(place, name), "it is a link to nothing, or no file", "move it elsewhere")
        found += [Path(place, name).relative_to(folder).as_posix() for name in names]
    return checked_files(folder, found)


def checked_files(folder: Place, files: Iterable[str]) -> list[str]:
    """Those of all files below a folder that hold its rows, relative to it, in order.

    Raises:
        DataError: E0810, as of `parquet_files`; or they are those of a table that some program keeps, of which some
            rows are deleted.
    """
    found = []
    for name in files:
        if log := next((part for part in name.split("/")[:-1] if part in LOGS), None):
            reason = f"a program keeps a table there, as `{log}` says: files hold rows that were deleted"
            raise unreadable(
                folder, reason, "export the table to a folder of its own, or name it `table:...` for Spark"
            )
        if any(map(_is_left_out, name.split("/"))):
            continue
        if not name.lower().endswith(SUFFIX):
            reason = "it is no Parquet file, and the folder is read whole"
            raise unreadable(folder, reason, "move it elsewhere", where=f"{folder}/{name}")
        found.append(name)
    if not found:
        raise unreadable(folder, "no Parquet file lies in this folder", "name one file, or a folder with `.parquet`")
    known = partition_columns(found[0])
    for name in found:
        if PATTERN & set(name):
            reason = "its name has one of the characters * ? ["
            raise unreadable(folder, reason, "rename it", where=f"{folder}/{name}")
        if partition_columns(name) != known:
            reason = "it does not lie in folders of the same columns (`column=value`) as the others"
            raise unreadable(folder, reason, "name a folder whose files all do", where=f"{folder}/{name}")
    return sorted(found)


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def require_apart(folder: Place, columns: Iterable[str], partitions: Sequence[str]) -> None:
    """Nothing when no column stands twice; DataError E0810 where files have one that their folders name, too."""
    folded = [name.casefold() for name in partitions]
    if {name.casefold() for name in columns} & set(folded) or len(set(folded)) < len(folded):
        reason = "a column stands twice: in the files, or in the names of their folders"
        raise unreadable(folder, reason, "rename one of them")


def torn_file(folder: Path) -> Path | None:
    """The first file of a folder that does not begin and end as Parquet does, None where all do; of a file itself."""
    if folder.is_file():
        return folder
    return next((folder / name for name in parquet_files(folder) if not _is_whole(folder / name)), None)


def _is_whole(file: Path) -> bool:
    try:
        content = file.open("rb")
    except PermissionError:
        raise unreadable(file, "the system refused", "check who may read it") from None
    except OSError:
        return False
    with suppress(OSError), content:
        begin = content.read(len(PARQUET))
        content.seek(-len(PARQUET), os.SEEK_END)
        return begin == content.read() == PARQUET
    return False


def partition_columns(name: str) -> list[str]:
    """The columns that a file's folders name, the outermost first."""
    return [part.partition("=")[0] for part in name.split("/")[:-1] if "=" in part]


@contextmanager
def open_folder(folder: Path) -> Iterator[str]:
    """A name of a folder, while it is open, that means nothing else: folders above it are no columns."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        raise unreadable(folder, "the system refused", "check who may read it") from None
    try:
        yield opened(descriptor)
    finally:
        os.close(descriptor)


def folder_table(connection: DuckDBPyConnection, folder: Path, base: str) -> InputTable:
    """The rows of all files of a folder, with the columns that are in all of them, each of one type.

    Args:
        connection: what will read it.
        folder: for messages.
        base: what `open_folder` named it.

    Raises:
        DataError: E0810, `parquet_files` refuses it, or a column stands in the files and in the names of their folders.
    """
    names = parquet_files(folder)
    quoted = ["'" + f"{base}/{name}".replace("'", "''") + "'" for name in names]
    files = "[" + ", ".join(quoted) + "]"
    columns = _columns(connection, files, quoted)
    partitions = partition_columns(names[0])
    require_apart(folder, (str(name) for name, *_ in columns), partitions)
    uneven = {str(name) for name, there, kinds, _ in columns if there < len(names) or kinds > 1}
    often = any(times > there for _, there, _, times in columns)  # as parts of a column may be, too
    often |= len({str(name).casefold() for name, *_ in columns}) < len(columns)  # of files duckdb renames such columns
    lists = [parquet_columns(connection, file)[0] for file in quoted] if often else []
    apart = set() if all(one == lists[0] for one in lists) else {name for one in lists for name in _alike(one)}
    names_first, instants = parquet_columns(connection, quoted[0])
    hive = "true, hive_types_autocast = false" if partitions else "false"
    source = f"read_parquet({files}, hive_partitioning = {hive})"
    table = typed_table(connection, folder, source, names_first, instants, apart)
    even = {name: said for name, said in table.columns.items() if name not in uneven}
    types = {**dict.fromkeys(uneven, ""), **table.types}
    return replace(table, columns=even, types=types, uneven=_differing(connection, names, quoted, uneven))


def _columns(connection: DuckDBPyConnection, files: str, quoted: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Of each column its name, in how many files it is, of how many types, and how often."""
    parts = f"FROM parquet_schema({files}) WHERE num_children IS"
    ((nested,),) = connection.execute(f"SELECT count(*) > {len(quoted)} {parts} NOT NULL").fetchall()
    if not nested:
        told = f"SELECT name, count(DISTINCT file_name), count(DISTINCT {TYPE}), count(*) {parts} NULL GROUP BY name"
        return connection.execute(told).fetchall()
    seen: dict[str, list[tuple[str, object]]] = {}
    for file in quoted:
        for name, kind in _kinds(connection, file):
            seen.setdefault(name, []).append((file, kind))
    return [(name, *(len({*part}) for part in zip(*found, strict=True)), len(found)) for name, found in seen.items()]  # type: ignore[misc]


def _kinds(connection: DuckDBPyConnection, file: str) -> Iterator[tuple[str, object]]:
    """The columns of a file and their types; of those that have parts nothing more."""
    told = connection.execute(f"SELECT name, coalesce(num_children, 0), {TYPE} FROM parquet_schema({file})")
    yield from ((str(name), kind) for name, _, kind in without_parts(told.fetchall()))


def _alike(names: Sequence[str]) -> set[str]:
    """Of a file's columns those that differ in capitals at most, and any that duckdb might name as it does one of them.

    It matches columns of several files by names, after it renamed them.
    """
    times = Counter(name.casefold() for name in names)
    stems = tuple(f"{name}_" for name, often in times.items() if often > 1)
    return {name for name in names if times[name.casefold()] > 1 or name.casefold().startswith(stems)}


def _differing(
    connection: DuckDBPyConnection, names: Sequence[str], quoted: Sequence[str], uneven: set[str]
) -> dict[str, str]:
    """Of each column, in words, the first file that has it not, or of another type than the first file."""
    first: dict[str, object] = {}
    found: dict[str, str] = {}
    for name, file in zip(names, quoted, strict=True):
        if len(found) == len(uneven):
            break
        kinds = {column: kind for column, kind in _kinds(connection, file) if column in uneven}
        for column in uneven - found.keys():
            if column not in kinds:
                found[column] = f"`{name}` does not have it"
            elif first.setdefault(column, kinds[column]) != kinds[column]:
                found[column] = f"in `{name}` it has another type than in `{names[0]}`"
    return {**dict.fromkeys(uneven, "one file has it twice"), **found}


def place_in(connection: DuckDBPyConnection, folder: Path, row: int) -> str:
    """The file and row, counted from 1, of a row of a folder, counted from 0."""
    for name in parquet_files(folder):
        file = folder / name
        with file.open("rb") as handle:
            found = connection.execute(f"SELECT num_rows FROM parquet_file_metadata('{opened(handle.fileno())}')")
            ((rows,),) = found.fetchall()
        if row < rows:
            return f"{file}: row {row + 1}"
        row -= rows
    return str(folder)


def _refused_by_system(error: OSError) -> None:
    raise unreadable(Path(str(error.filename)), "the system refused", "check who may read it")
