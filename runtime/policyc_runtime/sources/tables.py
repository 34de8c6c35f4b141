"""Opens CSV and Parquet files with duckdb.

The file that is named is the file that is read: duckdb is given an open file, never a name, in which it would look for
patterns, for columns (`origin=JFK/`) and for other machines. Every refusal names a place, never a value: duckdb's own
messages quote data, so none of them gets out.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

from policyc_runtime.errors import DataError
from policyc_runtime.files import is_full
from policyc_runtime.sources.connection import connect as connect  # noqa: PLC0414  for all who read one
from policyc_runtime.sources.csv_rows import FAULTS, CsvRows, NotTextError, first_no_text, look_through
from policyc_runtime.sources.engines.remote import RemoteTable
from policyc_runtime.sources.engines.session import DuckDBSession, Session
from policyc_runtime.sources.folders import PARQUET, folder_table, open_folder, parquet_files, place_in, torn_file
from policyc_runtime.sources.input_table import (
    CSV,
    changed_meanwhile,
    not_there,
    parquet_columns,
    typed_table,
    unreadable,
)
from policyc_runtime.sources.input_table import InputTable as InputTable  # noqa: PLC0414  for all who read one
from policyc_runtime.sources.input_table import opened as opened  # noqa: PLC0414
from policyc_runtime.sources.memory import HANDED, MEMORY, CheckedRows, HeldTable, Place, Rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SUFFIXES = (*CSV, ".parquet")
LARGEST_HEADER = 2**22
LARGEST_COLUMNS = 10_000
GZIP = b"\x1f\x8b"  # how such files begin
FileState: TypeAlias = tuple[int, int, int]
ELSEWHERE = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+):/")


def is_parquet(path: Path) -> bool:
    """Whether the suffix says Parquet, or it is a folder, which can have nothing else."""
    return path.name.lower().endswith(".parquet") or path.is_dir()


def _has_types(path: Path) -> bool:
    return path == MEMORY or is_parquet(path)


def place_of(path: str | Place, row: int) -> str:
    """Where a row of data, counted from 0, stands: the line of a CSV file (its header is 1), or the Parquet row."""
    if isinstance(path, RemoteTable):  # whose rows have no order
        return str(path)
    file = Path(path)
    if file.is_dir():
        return place_in(connect(), file, row)
    if _has_types(file):
        return f"{file}: row {row + 1}"
    before, data = 0, -1  # the header
    with _opener(file)(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as handle:
        reader = csv.reader(handle)
        try:
            for fields in reader:  # a quoted value may hold line breaks, and empty lines are no rows
                if fields and data == row:
                    break
                data += bool(fields)
                before = reader.line_num
        except csv.Error:  # a value longer than this reader takes
            return f"{file}: row {row + 1}"
    return f"{file}: line {before + 1}"


def quoted(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def reading(place: Place) -> Iterator[None]:
    """Turns duckdb's errors into refusals that quote nothing, and refuses what was written to meanwhile."""
    import duckdb

    path = Path(str(place))
    before = _files(path)
    try:
        yield
        if _changed(path, before):
            raise changed_meanwhile(path)
    except duckdb.Error as error:
        text = str(error)
        if _changed(path, before):
            raise changed_meanwhile(path) from None
        if is_full(error) or "max_temp_directory_size" in text or os.strerror(errno.EFBIG) in text:
            reason = "the disk has no room for what does not fit into memory, or files may not be so long"
            raise unreadable(
                path, reason, "make room where the ledger lies, then run again; nothing was drawn"
            ) from None
        if isinstance(error, duckdb.OutOfMemoryException):
            reason = "it does not fit into memory"
            raise unreadable(path, reason, "use a machine with more memory, or give ready counts") from None
        line = re.search(r"CSV Error on Line: (\d+)", text)
        where = f"{path}: line {line[1]}" if line else str(path)
        if ("not utf-8" in text.lower() or "unicode" in text.lower()) and not _has_types(path):
            raise _no_text(path) from None
        if path == MEMORY:
            reason = "its columns cannot be read to their end"
        elif is_parquet(path):
            torn = torn_file(path)
            reason, where = f"{'it' if torn else 'a file of it'} is not a whole Parquet file", str(torn or path)
        else:
            reason = next((why for said, why in FAULTS.items() if said in text), "it is not well-formed CSV")
        raise unreadable(path, reason, "repair the file, or write it again", where) from None


def _changed(path: Path, before: dict[Path, FileState]) -> bool:
    """Whether a file was written to since; of a folder, whose files are opened anew, whether one is gone or another."""
    now = _files(path)
    if path.is_dir():
        return any(now.get(file) != state for file, state in before.items())
    return any(file in now and now[file] != state and now[file][0] == state[0] for file, state in before.items())


def _files(path: Path) -> dict[Path, FileState]:
    """Of each file of an input which one it is, when it was written, and how long it is."""
    files = [path / name for name in parquet_files(path)] if path.is_dir() else [path] if path.is_file() else []
    found = {}
    for file in files:
        with suppress(FileNotFoundError):
            state = file.stat()
            found[file] = (state.st_ino, state.st_mtime_ns, state.st_size)
    return found


def require_here(path: str | Path) -> None:
    """Nothing when a path is none of another machine.

    Raises:
        DataError: it is a URL; nothing is ever fetched.
    """
    text = os.fspath(path)
    there = ELSEWHERE.match(text)
    if there is None or Path(path).exists():
        return
    kind, rest = there[1], text[there.end() :]
    here = kind.lower() == "file"
    if not here:
        rest = re.split("[?;#]", rest.rpartition("@")[2])[0]  # what stands before and behind may hold a password
    remedy = "copy the file to this machine and name the copy, or count it where it lies: `--engine`"
    raise unreadable(
        Path(path),
        "it is a URL" if here else "it lies on another machine, and nothing is fetched from anywhere",
        f"write the path without `{kind}://`" if here else remedy,
        where=f"{kind}://{rest.lstrip('/') if not here else rest.removeprefix('/')}",
    )


@contextmanager
def open_rows(path: Rows, spill: Path | None = None) -> Iterator[tuple[Session, InputTable]]:
    """What counts an input's rows, and the input; closed at the end, and refusals quote nothing until then.

    Args:
        path: where rows are.
        spill: a folder for what does not fit into memory, where rows are counted here.

    Raises:
        DataError: the input cannot be read.
    """
    if isinstance(path, RemoteTable):
        with path.open() as found:
            yield found
        return
    connection = connect(spill)
    try:
        with open_table(connection, path) as table, reading(table.path):
            yield DuckDBSession(connection), table
    finally:
        connection.close()


@contextmanager
def open_table(connection: DuckDBPyConnection, path: Rows, *, names_only: bool = False) -> Iterator[InputTable]:
    """Look at a file: its kind by suffix, its columns by its first row; it stays open as long as it is looked at.

    Args:
        connection: what will read it.
        path: where it is; or a table in memory.
        names_only: only its columns are asked for, and its rows are not counted.

    Raises:
        DataError: missing, a directory, of an unknown suffix, empty, or not readable as what its suffix says.
    """
    if isinstance(path, HeldTable):
        connection.register(HANDED, path)
        with reading(MEMORY):
            table = replace(typed_table(connection, MEMORY, HANDED, path.names), lost=path.lost)
        yield table
        return
    if isinstance(path, CheckedRows):
        with open_table(connection, path.path, names_only=names_only) as table:
            yield replace(table, checked=True)
        return
    assert not isinstance(path, RemoteTable), "another engine opens it"
    require_here(path)
    file = Path(path)
    if not file.exists():
        raise unreadable(file, "there is no such file", not_there(file))
    if file.is_dir():
        with open_folder(file) as base:
            with reading(file):
                table = folder_table(connection, file, base)
            yield table
        return
    if not file.is_file():
        raise unreadable(file, "it is not a file", "name one CSV or Parquet file, or a folder of Parquet files")
    if not file.name.lower().endswith(SUFFIXES):
        raise unreadable(file, f"its suffix is none of {', '.join(SUFFIXES)}", "rename or convert it")
    try:
        handle = file.open("rb")
    except OSError:
        raise unreadable(file, "the system refused", "check who may read it") from None
    with handle:
        place = quoted(opened(handle.fileno()))
        parquet = f"read_parquet({place}, hive_partitioning = false)"
        with reading(file):
            if is_parquet(file):
                table = typed_table(connection, file, parquet, *parquet_columns(connection, place))
            else:
                table = _csv(file, place, names_only=names_only)
        yield table


def _csv(file: Path, place: str, *, names_only: bool) -> InputTable:
    """Nothing is guessed: every column is text, whatever the first thousand rows look like."""
    _require_named_so(file)
    header, rows = _csv_header(file, names_only=names_only)
    layout = ", ".join(f"'c{index}': 'VARCHAR'" for index in range(len(header)))
    source = (
        f"read_csv({place}, auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', "
        f"strict_mode = true, hive_partitioning = false, skip = {rows.blank}, "
        f"compression = '{'gzip' if _zipped(file) else 'none'}', columns = {{{layout}}})"
    )
    repeated = frozenset(name for name, times in Counter(header).items() if times > 1)
    # wrapped, because duckdb moves a TRY_CAST of a bare column into its CSV reader, where it fails instead of trying
    columns = {name: f"nullif(c{index}, '')" for index, name in enumerate(header) if name not in repeated}
    return InputTable(file, source, columns, dict.fromkeys(columns, "VARCHAR"), repeated, rows.rows - 1)


def _require_named_so(file: Path) -> None:
    """Nothing when a file begins as what its suffix says; DataError E0810 names what it is instead."""
    with file.open("rb") as handle:
        begins = handle.read(4)
    if _zipped(file) and begins and not begins.startswith(GZIP):
        reason, remedy = "it is not compressed with gzip, as its name says", f"name it `{file.name[:-3]}`"
    elif not _zipped(file) and begins.startswith(GZIP):
        reason, remedy = "it is compressed with gzip", f"name it `{file.name}.gz`, or unpack it"
    elif begins == PARQUET:
        reason, remedy = "it is a Parquet file", f"name it `{file.stem.removesuffix('.csv')}.parquet`"
    else:
        return
    raise unreadable(file, reason, remedy)


def _zipped(file: Path) -> bool:
    return file.name.lower().endswith(".gz")


def _opener(file: Path) -> Callable[..., TextIO]:
    return gzip.open if _zipped(file) else open


def _csv_header(file: Path, *, names_only: bool) -> tuple[list[str], CsvRows]:
    """The names of the columns, and what the whole file has, or its beginning."""
    try:
        rows = look_through(file, zipped=_zipped(file), pieces=1 if names_only else None)
        with _opener(file)(file, "rt", encoding="utf-8-sig", newline="") as handle:
            text = handle.read(LARGEST_HEADER)
    except (NotTextError, UnicodeDecodeError):
        raise _no_text(file) from None
    except (OSError, EOFError, zlib.error):
        raise unreadable(file, "it cannot be read to its end", "write it again") from None
    try:
        lines = islice(io.StringIO(text, newline=""), rows.blank, None)
        header = next(csv.reader(lines, strict=True), [])
    except csv.Error:
        reason, remedy = "its first row is not well-formed CSV", "write the names of the columns there"
        raise unreadable(file, reason, remedy, f"{file}: line {rows.blank + 1}") from None
    if not any(header):
        raise no_rows(file, named=False)
    if len(header) > LARGEST_COLUMNS:
        reason = f"it has {len(header):,} columns, and at most {LARGEST_COLUMNS:,} are looked at"
        raise unreadable(file, reason, "write the policy's columns alone")
    return header, rows


def no_rows(file: Place, *, named: bool = True) -> DataError:
    """The refusal of a file without data; `named` when it has the names of its columns."""
    return DataError(
        "E0816",
        "there are no rows below the names of the columns" if named else "the file is empty",
        where=str(file),
        because="nothing would be released, and the first step could not be told",
        help="check that the right file was given"
        if file != MEMORY
        else "a reader gives its rows once: hand over a new one, or a table",
    )


def _no_text(file: Path) -> DataError:
    """The refusal of bytes that are no text, at their line where it can be told."""
    try:
        place = first_no_text(file, zipped=_zipped(file))
    except (OSError, EOFError, zlib.error):
        place = None
    where = None if place is None else f"{file}: line {place[0]}"
    if place is not None and place[1]:
        return unreadable(file, "it has a NUL character there (U+0000)", "take it out, or write the file again", where)
    return unreadable(file, "it is not UTF-8 text", "convert it to UTF-8", where)
