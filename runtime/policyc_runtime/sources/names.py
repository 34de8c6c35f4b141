"""How users and cells are named: by the text of a column, which is one text in every file of a stream.

The bound of a user is kept for a name. A column of floats writes 7 as `7.0`, one of whole numbers as `7`, and whoever
is named in both ways takes part twice as often. So users are told by text, by whole numbers or by UUIDs, by the same of
them in every run, and two texts that are one whole number but for a plus, zeros before it or a point and zeros behind
it, or the same but for blanks at their ends, are not both taken. Other spellings of one name are names of their own.
"""

from __future__ import annotations

from policyc_runtime.errors import DataError
from policyc_runtime.sources.engines.dialect import DUCKDB, Dialect
from policyc_runtime.sources.input_table import InputTable
from policyc_runtime.sources.memory import Place
from policyc_runtime.sources.tables import place_of

TEXT = "text"
WIDTHS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NAMED_BY = {
    "VARCHAR": TEXT,
    "UUID": "UUIDs",
    **dict.fromkeys((*WIDTHS, *(f"U{width}" for width in WIDTHS)), "whole numbers"),
}
CELL_TYPES = {*NAMED_BY, "BOOLEAN", "DATE"}
NUMBER = r"^\+?(-?)0*([0-9]+)(\.0*)?$"
ZERO = r"^-(0)$"
UNSEEN = (  # controls, white space of Unicode, and what no reader sees; not what tells one flag from another
    *((1, 0x20), (0x7F, 0xA0), (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD)),
    *((0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x115F, 0x1160), (0x1680, 0x1680), (0x17B4, 0x17B5)),
    *((0x180B, 0x180F), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x206F), (0x3000, 0x3000), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD)),
    *((0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE0001), (0xE0100, 0xE01EF)),
)
BLANKS = "".join(chr(code) for first, last in UNSEEN for code in range(first, last + 1))


def named_by(table: InputTable, column: str) -> str:
    """What users are told by, as a word: text, whole numbers or UUIDs.

    Raises:
        DataError: E0867, the column's values have several texts, or none that other files would have too.
    """
    found = NAMED_BY.get(table.types[column])
    if found is None:
        raise _no_names(table, column, "user", "another file would name the same user by another text")
    return found


def check_cells(table: InputTable, column: str) -> None:
    """Nothing when values of the column can be the policy's cells.

    Raises:
        DataError: E0867, their text is not what a policy would say.
    """
    kind = table.types[column]
    if kind not in CELL_TYPES and not kind.startswith("ENUM("):
        raise _no_names(table, column, "cell", "the policy names cells by text, and no such value has one text alone")


def _no_names(table: InputTable, column: str, meaning: str, because: str) -> DataError:
    return DataError(
        "E0867",
        f"the column `{column}` holds values of type {table.types[column].split('(')[0]}, which name no {meaning}",
        where=str(table.path),
        because=because,
        help=f"write it as text (VARCHAR) or whole numbers (BIGINT), each {meaning} in one way in every file",
    )


def other_names(path: Place, known: str, found: str) -> DataError:
    """The refusal of a file that names users by something else than those of earlier runs."""
    return DataError(
        "E0867",
        f"users are named by {found} here, and by {known} in earlier runs",
        where=str(path),
        because="nobody can tell who of them is who, and a user of both would take part more often than the bound says",
        help=f"write the column as {known}, as it was; a CSV file always has text",
    )


def folded(name: str, dialect: Dialect = DUCKDB) -> str:
    """SQL for what a name says, however it is written; `name` is SQL for a text."""
    return dialect.replaced(dialect.replaced(dialect.trimmed(name, BLANKS), NUMBER, 2), ZERO, 1)


def written_twice(path: Place, row: int, elsewhere: str) -> DataError:
    """The refusal of a user whose name is written in two ways."""
    return DataError(
        "E0867",
        "the user's name is written in another way than " + elsewhere,
        where=place_of(path, row),
        because="the names differ only in blanks or unseen marks at their ends, or in how one whole number is written "
        "(`7`, `007`, `7.0`); one user under two names takes part twice as often as is promised",
        help="write every user in one way in every file; if they are two users, give them names that differ in more",
    )
