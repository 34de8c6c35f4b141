"""The command that writes a policy to start from, which `cli` takes up."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyc.cli.speech import QuietCommand, say

if TYPE_CHECKING:
    from policyc.emit.event_columns import EventColumns
    from policyc.emit.starter import Starter


class PromiseKind(StrEnum):
    """What is promised."""

    ALPHA_DPT = "alpha_dpt"
    EVENT_LEVEL = "event_level"
    W_EVENT = "w_event"
    USER_LEVEL = "user_level"


def register_init(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command(cls=QuietCommand)(init)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new policy's name: NAME.policy.")],
    promise: Annotated[
        PromiseKind | None, typer.Option("--promise", help="What is promised. Asked on a terminal, else alpha_dpt.")
    ] = None,
    columns_from: Annotated[
        Path | None,
        typer.Option("--columns-from", metavar="FILE", help="Events: the names of its columns and its days are read."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="COLUMN", help="With --columns-from: whose event it is.")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="With --columns-from: its moment.")
    ] = None,
    cell: Annotated[
        str | None, typer.Option("--cell", metavar="COLUMN", help="With --columns-from: where it was.")
    ] = None,
    cells: Annotated[
        str | None, typer.Option("--cells", metavar="A,B,...", help="The cells to count by; never read from the file.")
    ] = None,
) -> None:
    """Write a policy to start from, with a comment at every place that needs your decision.

    Asks on a terminal what no option says. Of a file of events (CSV, .csv.gz, Parquet) it reads the names of columns
    and around which days its times lie, and no other value.

    \b
    policyc init traffic
    policyc init traffic --promise user_level
    policyc init fleet --promise alpha_dpt --columns-from departures.csv --cell origin --cells EWR,JFK,LGA
    """
    from policyc.emit.starter import starter_path, write_starter

    starter_path(name)  # nothing is asked for a file that cannot be written
    asked = promise is None and _at_a_terminal()
    if promise is None:
        promise = _asked_promise() if asked else PromiseKind.ALPHA_DPT
    if asked and columns_from is None:
        said = _ask("A file of events to read column names from: CSV, .csv.gz or Parquet (none: press Enter)")
        columns_from = Path(said) if said else None
    if columns_from is None and (user, time, cell) != (None, None, None):
        raise typer.BadParameter("`--user`, `--time` and `--cell` name columns of a file: add `--columns-from FILE`")
    path = write_starter(name, _starter(promise, columns_from, user, time, cell, cells))
    say(f"{path}: written. Next: edit it, then `policyc check {path}`")


def _starter(
    promise: PromiseKind, file: Path | None, user: str | None, time: str | None, cell: str | None, cells: str | None
) -> Starter:
    from policyc.emit.event_columns import read_columns, read_span
    from policyc.emit.starter import Starter

    if file is None:
        told = _names(cells)
        return Starter(promise.value, cells=told) if told else Starter(promise.value)
    columns = read_columns(file)
    user = _column(columns, "user", user, columns.user)
    time = _column(columns, "time", time, columns.time)
    others = [column for column in columns.names if column not in {user, time}]
    needed = promise is PromiseKind.ALPHA_DPT
    if cell is not None:
        columns.require(cell, "cell")
    elif _at_a_terminal():
        cell = (
            _ask(f"Column to count by: {', '.join(others)}" + ("" if needed else " (none: press Enter)"), needed)
            or None
        )
        cell = cell and columns.require(cell, "cell")
    elif needed or cells is not None:
        if len(others) != 1:
            raise columns.untold("cell")
        cell = others[0]
    if cell in {user, time} or user == time:
        raise typer.BadParameter("one column cannot mean two things: name others by `--user`, `--time` and `--cell`")
    if cell is not None and cells is None and _at_a_terminal():
        cells = _ask("Its cells, as they are publicly known: A, B, ... (to write them later: press Enter)")
    typer.echo(f"{file.name}: user `{user}`, time `{time}`" + ("" if cell is None else f", cell `{cell}`"))
    return Starter(promise.value, user, time, cell, _names(cells), read_span(file, time))


def _column(columns: EventColumns, meaning: str, said: str | None, told: str | None) -> str:
    """The column that an option names, or an answer, or its own name."""
    if said is None and _at_a_terminal():
        said = _ask(f"Column {MEANINGS[meaning]}: {', '.join(columns.names)}", needed=True, told=told)
    if said is not None:
        return columns.require(said, meaning)
    if told is None:
        raise columns.untold(meaning)
    return told


MEANINGS = {"user": "that says whose event it is", "time": "with its moment"}


def _names(text: str | None) -> tuple[str, ...]:
    """Names between commas.

    Raises:
        BadParameter: one comes twice, or has characters that a policy does not take.
    """
    names = tuple(filter(None, map(str.strip, (text or "").split(","))))
    if len({*names, "elsewhere"}) <= len(names) or not all(map(str.isprintable, names)):
        raise typer.BadParameter("`--cells` names every cell once, in printable characters, and none `elsewhere`")
    return names


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _asked_promise() -> PromiseKind:
    from policyc.emit.starter import HIDDEN

    typer.echo("What is hidden?", err=True)
    for number, hidden in enumerate(HIDDEN.values(), 1):
        typer.echo(f"  {number}  {hidden}", err=True)
    kinds = dict(zip(("1", "2", "3", "4"), HIDDEN, strict=True))
    while (said := _ask("Number", told="1")) not in {*kinds, *HIDDEN}:
        typer.echo("  one of 1, 2, 3 and 4", err=True)
    return PromiseKind(kinds.get(said, said))


def _ask(question: str, needed: bool = False, told: str | None = None) -> str:
    """A line that somebody typed; what is `told` where it is empty, which it may be unless it is needed."""
    default = told if told is not None or needed else ""
    return str(typer.prompt(question, default=default, show_default=bool(default), err=True)).strip()
