"""The names that a policy gives: of its stream, its columns, cells and releases, as far as its text can be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from policyc.diagnostics import Source, Span
from policyc.semantics.cells import column_of, level_columns, resolve_cells
from policyc.semantics.scope import Scope
from policyc.syntax import tree
from policyc.syntax.parse import readable_statements


@dataclass(frozen=True)
class Names:
    """What can be named in a policy."""

    stream: str | None
    columns: tuple[str, ...]
    releases: tuple[str, ...]
    cell: tree.CellField | None


def names_in(source: Source) -> Names:
    """The names of a text, faults or not."""
    statements = readable_statements(source)
    stream = next((one for one in statements if isinstance(one, tree.Stream)), None)
    fields = () if stream is None else stream.fields
    cell = next((one for one in fields if isinstance(one, tree.CellField)), None)
    columns = () if cell is None else (column_of(cell.column), *map(column_of, level_columns(cell)))
    releases = tuple(one.name.text for one in statements if isinstance(one, tree.Release))
    return Names(None if stream is None else stream.name.text, columns, releases, cell)


def cells_of(source: Source, directory: Path, names: Names) -> tuple[str, ...]:
    """The cells of the stream and `otherwise`, from the policy or the file that it names; none of what has faults."""
    schema = None if names.cell is None else resolve_cells(Scope(source, directory), names.cell)
    return () if schema is None else schema.states


def release_at(statements: tuple[tree.Statement, ...], offset: int) -> tuple[str, Span] | None:
    """The release that is named at a place, and where that name stands."""
    releases = {one.name.text for one in statements if isinstance(one, tree.Release)}
    named = (name for statement in statements for name in _named(statement))
    return next(((n.text, n.span) for n in named if n.text in releases and n.span.start <= offset <= n.span.end), None)


def places_of(statements: tuple[tree.Statement, ...], release: str) -> list[Span]:
    """Everywhere that a release is named, in source order."""
    named = {name.span for statement in statements for name in _named(statement) if name.text == release}
    return sorted(named)


def _named(statement: tree.Statement) -> Iterator[tree.Name]:
    """The names in a statement that can be those of releases."""
    if isinstance(statement, tree.Release):
        yield statement.name
        yield from _values(statement.query)
    elif isinstance(statement, tree.Postprocess):
        yield statement.release
        for constraint in statement.constraints:
            yield from _constrained(constraint)
    elif isinstance(statement, tree.CallStatement | tree.WordStatement):
        shares = statement.keyword.text == "objective" or (
            isinstance(statement.value, tree.Call) and statement.value.function.text == "parts"
        )
        if shares and isinstance(statement.value, tree.Call):
            yield from (argument.name for argument in statement.value.arguments if argument.name is not None)


def _values(call: tree.Call) -> Iterator[tree.Name]:
    for argument in call.arguments:
        if isinstance(argument.value, tree.Name):
            yield argument.value


def _constrained(part: tree.Constraint | tree.Expression) -> Iterator[tree.Name]:
    if isinstance(part, tree.Name):
        yield part
    elif isinstance(part, tree.Suppression):
        yield from _values(part.call)
    elif isinstance(part, tree.Cell | tree.IntegerConstraint):
        yield part.release
    elif isinstance(part, tree.SumOf | tree.Previous):
        yield from _constrained(part.argument)
    elif isinstance(part, tree.Comparison | tree.Product):
        yield from _constrained(part.left)
        yield from _constrained(part.right)
    elif isinstance(part, tree.Total):
        for signed in part.terms:
            yield from _constrained(signed.term)
