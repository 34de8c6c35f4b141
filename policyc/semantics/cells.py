"""The cells: where a user can be in a step, and what these belong to at every level. Never read from the data."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from policyc.diagnostics import Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics import reading
from policyc.semantics.files import read_text
from policyc.semantics.policy import CellSchema, Level
from policyc.semantics.scope import Scope
from policyc.syntax.tree import Call, CellField, Name, Set, Text

MOST_CELLS = 100_000
LARGEST_CELLS = 16 * 2**20  # bytes of a file of cells
_SHOWN = 5  # findings of one kind; the others are counted


def column_of(written: Name | Text) -> str:
    """A column's name, with or without quotes."""
    return written.text if isinstance(written, Name) else written.value


def level_columns(field: CellField) -> list[Name | Text]:
    """The columns that `levels(...)` names, as written."""
    values = () if field.levels is None else (argument.value for argument in field.levels.arguments)
    return [value for value in values if isinstance(value, Name | Text)]


def resolve_cells(scope: Scope, field: CellField) -> CellSchema | None:
    """The cells, from a set in the policy or a file beside it; never from the data."""
    column = column_of(field.column)
    if field.levels is not None:
        return _resolve_levels(scope, field, field.levels)
    named = _cells_in_set(scope, field.cells) if isinstance(field.cells, Set) else _cells_in_file(scope, field, column)
    if named is None:
        return None
    listed = _listed(scope, field, named)
    return None if listed is None else CellSchema(column, *listed, field.span)


def _listed(
    scope: Scope, field: CellField, named: Sequence[tuple[str, Span]]
) -> tuple[tuple[str, ...], str | None] | None:
    """The names of cells and `otherwise`, or None after reporting what is wrong with them."""
    if len(named) > MOST_CELLS:
        scope.refuse(
            "E0209", f"{len(named):,} cells are more than a plan has room for ({MOST_CELLS:,})", field.cells.span,
            hint="list fewer cells, larger ones",
        )  # fmt: skip
        return None
    if not named:
        scope.refuse("E0216", "the cell has no values", field.cells.span, hint='write `in {"A", "B"}`')
        return None
    cells = tuple(name for name, _ in named)
    first: dict[str, Span] = {}
    twice = 0
    for name, span in named:
        if name in first and (twice := twice + 1) <= _SHOWN:
            scope.refuse(
                "E0214",
                f"cell `{name[:40]}` is listed twice",
                span,
                because="a user in it would be counted twice, which doubles what one user can change",
                hint="list every cell once",
                labels=(Label(first[name], "first listed here"),) if first[name] != span else (),
            )
        first.setdefault(name, span)
    if twice > _SHOWN:
        more = f"{twice - _SHOWN:,} more cells are listed again"
        scope.refuse("E0214", more, field.cells.span, hint="list every cell once")
    distinct = not twice
    otherwise = field.otherwise.value if field.otherwise is not None else None
    if field.otherwise is not None and otherwise in first:
        distinct = False
        scope.refuse(
            "E0215", f"`otherwise` is the cell `{field.otherwise.value[:40]}` again", field.otherwise.span,
            because="users who are nowhere would be counted among those who are there",
            hint="choose a word that is not a cell, such as `\"elsewhere\"`",
            labels=(Label(first[field.otherwise.value], "listed here"),),
        )  # fmt: skip
    return (cells, otherwise) if distinct else None


def _cells_in_set(scope: Scope, cells: Set) -> list[tuple[str, Span]] | None:
    wrong = [item for item in cells.items if not isinstance(item, Text)]
    for item in wrong:
        written = f'"{scope.quote(item.span)}"'
        alone = written if isinstance(item, Name) else None
        reading.mismatch(scope, item, "cell", "texts in quotes", f"`{written}`", alone)
    return None if wrong else [(i.value, i.span) for i in cells.items if isinstance(i, Text)]


def _is_file(scope: Scope, call: Call) -> bool:
    """Whether cells come from a file (E0217)."""
    if call.function.text == "file":
        return True
    scope.refuse(
        "E0217",
        "the cells must be known before the data is seen",
        call.span,
        because="cells taken from the protected data show that somebody was there",
        hint='list them, `in {"A", "B"}`, or name a public file, `in file("cells.csv")`',
    )
    return False


def _cells_in_file(scope: Scope, field: CellField, column: str) -> list[tuple[str, Span]] | None:
    """One cell a line; a first line that is the column's name is a header."""
    assert isinstance(field.cells, Call), "sets are read elsewhere"
    if not _is_file(scope, field.cells):
        return None
    content = read_text(scope, field.cells, most=LARGEST_CELLS)
    if content is None:
        return None
    names = [line.strip() for line in content.splitlines()]
    names = [n[1:-1].replace('""', '"') if len(n) > 1 and n[0] == n[-1] == '"' else n for n in names if n]
    if names and names[0] == column:
        names = names[1:]
    if any("," in name for name in names):
        scope.refuse(
            "E0212", "the file of cells has more than one column", field.cells.span,
            hint="write one cell a line; or name what cells belong to, `levels(region, country)`",
        )  # fmt: skip
        return None
    return [(name, field.cells.span) for name in names]


def _resolve_levels(scope: Scope, field: CellField, levels: Call) -> CellSchema | None:
    """Cells and what they belong to, from a file with a column of each (E0720)."""
    if isinstance(field.cells, Set):
        head = ",".join((column_of(field.column), *map(column_of, level_columns(field))))
        scope.refuse(
            "E0720", "cells that are listed here have no levels", levels.span,
            because="what a cell belongs to is public, and stands beside it in a file",
            hint=f'write `in file("cells.csv")`, a file whose first line is `{head}`',
        )  # fmt: skip
        return None
    table = _table(scope, field)
    if table is None:
        return None
    names, *above = table
    listed = _listed(scope, field, [(name, field.cells.span) for name in names])
    if listed is None:
        return None
    found = []
    for column, ancestors in zip(level_columns(field), above, strict=True):
        index: dict[str, int] = {}
        of = tuple(index.setdefault(name, len(index)) for name in ancestors)
        if listed[1] in index:
            scope.refuse(
                "E0215", f"`otherwise` is `{listed[1]}`, which cells belong to", levels.span,
                because="users who are nowhere would be counted among those who are there",
                hint="choose a word that is nothing else, such as `\"elsewhere\"`",
            )  # fmt: skip
            return None
        found.append(Level(column_of(column), tuple(index), of))
    return CellSchema(column_of(field.column), *listed, field.span, tuple(found))


def _table(scope: Scope, field: CellField) -> list[list[str]] | None:
    """The columns of the cell and of every level, one line a cell, found by the names in the first line (E0720)."""
    assert isinstance(field.cells, Call), "a set has none"
    if not _is_file(scope, field.cells):
        return None
    content = read_text(scope, field.cells, most=LARGEST_CELLS)
    if content is None:
        return None
    wanted = [column_of(field.column), *map(column_of, level_columns(field))]
    problem, hint = None, f"write `{','.join(wanted)}` into its first line, and one cell a line below"
    try:
        lines = [
            [part.strip() for part in row] for row in csv.reader(content.splitlines(keepends=True), strict=True) if row
        ]
    except csv.Error as error:
        lines, problem = [[]], f"is not CSV ({error})"
    head, *rows = lines
    missing = next((name for name in wanted if head.count(name) != 1), None)
    uneven = next((row for row in rows if len(row) != len(head)), None)
    if problem is None and missing is not None:
        problem = f"has {'several columns' if missing in head else 'no column'} `{missing[:40]}`"
    elif problem is None and uneven is not None:
        problem = f"has {len(uneven)} columns in the line of `{uneven[0][:40]}`, and {len(head)} in the first"
        hint = "give every cell one name at each level; names with commas stand in double quotes"
    places = [head.index(name) for name in wanted] if problem is None else []
    empty = next((row for row in rows if any(not row[place] for place in places)), None) if places else None
    if empty is not None:
        problem = f"has an empty field in the line of `{empty[places[0]][:40]}`"
        hint = "give every cell a name at each level, such as `none`"
    if problem is not None:
        because = "every cell belongs to one name at each level, which the plan lists before any data is seen"
        scope.refuse("E0720", f"the file of cells {problem}", field.cells.span, because=because, hint=hint)
        return None
    return [[row[place] for row in rows] for place in places]
