"""What an input is to whoever reads it: columns by their names, and where rows are selected from."""
# ruff: noqa: S608  SQL is put together from quoted names and whole numbers only

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policyc_runtime.errors import DataError
from policyc_runtime.sources.memory import Place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

SHOWN_COLUMNS = 20
CSV = (".csv", ".csv.gz")
UTC = "TIMESTAMP WITH TIME ZONE"
PATTERN = set("*?[")
_NAMED = r"(?is)([\w.-]*(?:pass|pwd|secret|token|key|credential|\bsig)[\w.-]*)\s*="  # what may be a password
SECRET = re.compile(f"{_NAMED}.*")
OPTIONS = re.compile(f"{_NAMED}[^/]*")  # the same up to the next folder
BEFORE_HOST = re.compile(r"(?s).*:.*@")


@dataclass(frozen=True)
class InputTable:
    """A readable file.

    Args:
        path: where.
        source: what to select from, as SQL.
        columns: for each column's name, how SQL says it.
        types: for each column's name, its duckdb type.
        repeated: names that several columns have; none of them can be told from the others.
        rows: how many rows of data the file has at least, as counted without duckdb; None where nobody counted.
        checked: its rows were looked at when they came, and there may be none.
        uneven: columns that some files of a folder have not, or have of another type, and which file says so.
        lost: columns of a table in memory that were not handed over.
        moving: its rows may be others whenever they are asked for, and are copied.
    """

    path: Place
    source: str
    columns: dict[str, str]
    types: dict[str, str]
    repeated: frozenset[str] = frozenset()
    rows: int | None = None
    checked: bool = False
    uneven: Mapping[str, str] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    moving: bool = False

    def require_all(self, read: int) -> None:
        """Nothing when no row was passed over.

        Raises:
            DataError: duckdb leaves out a last row that does not fit its buffer, without a word.
        """
        if self.rows is not None and read < self.rows:
            reason = "a row is too long to be read, and others may be left out with it"
            raise unreadable(self.path, reason, "repair the file: no value of it is that long")

    def column(self, name: str, meaning: str, others: tuple[str, ...] = ()) -> str:
        """How SQL says a column.

        Raises:
            DataError: it is missing; lists the columns only when some of them are the policy's, because otherwise the
                first row may not be a header but data.
        """
        if name in self.columns:
            return self.columns[name]
        if name in self.repeated:
            raise DataError(
                "E0811",
                f"there are several columns `{name}`, which is the policy's {meaning}",
                where=str(self.path),
                because="nobody can tell which of them is meant",
                help="leave one of them, or rename the others",
            )
        if name in self.lost:
            reason = f"the column `{name}`, which is the policy's {meaning}, is not handed over by the Arrow protocol: "
            reason += "its name stands there twice, or it holds other things than text, numbers and moments"
            raise unreadable(self.path, reason, "make it text, numbers or moments")
        if name in self.uneven:
            raise DataError(
                "E0811",
                f"not all files have the column `{name}`, which is the policy's {meaning}, of one type",
                where=str(self.path),
                because=f"{self.uneven[name]}, and rows are neither left out nor read in two ways",
                help="write all files of the folder with the same columns",
            )
        if others and len(self.columns) == 1 and all(part in next(iter(self.columns)) for part in (name, *others)):
            raise DataError(
                "E0811",
                "the columns are not separated by commas",
                where=str(self.path),
                because="all of the policy's columns stand in one",
                help="write the file with commas between the columns",
            )
        near = get_close_matches(name, list(self.columns)[:1000], 1, 0.6)
        known = any(other in self.columns for other in others) or bool(near)
        shown = [f"`{column}`" for column in (*self.columns, *sorted(self.repeated)) if column.isprintable()][
            :SHOWN_COLUMNS
        ]
        rows = str(self.path).lower().endswith(CSV)
        none = f"no column of the policy is {'in the first row' if rows else 'there'}"
        raise DataError(
            "E0811",
            f"there is no column `{name}`, which is the policy's {meaning}",
            where=str(self.path),
            because=f"the columns are {', '.join(shown)}" if known else none,
            help=f"did you mean `{near[0]}`? rename the column, or name it so in the policy"
            if near
            else "the first row must name the columns; CSV is separated by commas"
            if rows
            else "name the data that has the policy's columns",
        )


def typed_table(
    connection: DuckDBPyConnection,
    file: Path,
    source: str,
    names: Sequence[str] = (),
    instants: Collection[str] = (),
    apart: Collection[str] = (),
) -> InputTable:
    """What has types of its own.

    Args:
        connection: what reads it.
        file: for messages.
        source: what to select from, as SQL.
        names: of its columns, in order: duckdb renames all but the first whose names differ in capitals at most. Of
            those beyond these duckdb's are right.
        instants: columns that duckdb takes for what clocks show, and that hold moments of UTC.
        apart: names that are not told apart from others.
    """
    rows = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    named = [*names, *(str(row[0]) for row in rows[len(names) :])]
    repeated = {name for name, times in Counter(named).items() if times > 1} | (set(apart) & set(named))
    types = {name: UTC if name in instants else str(row[1]) for name, row in zip(named, rows, strict=True)}
    columns = {name: identifier(row[0]) for name, row in zip(named, rows, strict=True) if name not in repeated}
    return InputTable(file, source, columns, types, frozenset(repeated))


def parquet_columns(connection: DuckDBPyConnection, file: str) -> tuple[list[str], set[str]]:
    """The names of a Parquet file's columns, in order, and those of moments as old writers store them.

    These are 96 bits, said to be of UTC; duckdb forgets that.

    Args:
        connection: what reads it.
        file: as SQL says it.
    """
    parts = connection.execute(f"SELECT name, coalesce(num_children, 0), type FROM parquet_schema({file})").fetchall()
    whole = [(str(name), kind) for name, _, kind in without_parts(parts)]
    return [name for name, _ in whole], {name for name, kind in whole if kind == "INT96"}


def without_parts(schema: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The columns of a Parquet file's schema: (name, how many parts it has, ...), the file itself first."""
    within = 0  # so many parts of a column that has parts are left
    for column in schema[1:]:
        if not within:
            yield column
        within = within - 1 + column[1] if within else column[1]


def opened(descriptor: int) -> str:
    """A name for an open file that means nothing else."""
    return f"/dev/fd/{descriptor}"


def not_there(path: Path) -> str:
    """What to do about a name that is no file's."""
    if path == Path("-"):
        return "a run reads files: write what comes on standard input to one; or take it in with `policyc follow`"
    return "patterns are not read: name the folder of the files" if PATTERN & set(path.name) else "check the name"


def unreadable(file: Place, reason: str, remedy: str, where: str | None = None) -> DataError:
    """The refusal of what is no readable file of its kind; of what is not there, nothing that may be a password."""
    shown = where or str(file)
    if not isinstance(file, Path):
        shown = OPTIONS.sub(r"\1=...", shown)
    elif not file.exists():
        shown = SECRET.sub(r"\1=...", BEFORE_HOST.sub("...@", shown))
    return DataError("E0810", "the data cannot be read", where=shown, because=reason, help=remedy)


def changed_meanwhile(file: Place) -> DataError:
    """The refusal of a file that somebody wrote while it was read."""
    return unreadable(file, "it changed while it was read", "run again when nobody writes it")


def identifier(name: str) -> str:
    """How SQL says a name."""
    return '"' + name.replace('"', '""') + '"'
