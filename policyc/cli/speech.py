"""What commands say when all is well, and that they can be told to be quiet. Findings and errors are always said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from policyc import progress
from policyc.cli.exit import Interrupted

QUIET = "policyc.quiet"
_quiet = ContextVar("quiet", default=False)


JsonOption = Annotated[bool, typer.Option("--json", help="For programs: one record.")]


class QuietCommand(TyperCommand):
    """A command that takes `--quiet`; what it says to people, it says by `say`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        told = "Say nothing when all is well."
        words = ["-q", "--quiet"]
        quiet = TyperOption(
            param_decls=words, is_flag=True, default=False, expose_value=False, callback=_noted, help=told
        )
        self.params.append(quiet)

    def invoke(self, ctx: Any) -> Any:
        """Run the command, as loud as it was told to be."""
        told = _quiet.set(bool(ctx.meta.get(QUIET)))
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        finally:
            _quiet.reset(told)


def _noted(context: Any, _: object, wanted: bool) -> None:
    context.meta[QUIET] = wanted


def say(words: object) -> None:
    """Say it on standard output, unless told to be quiet."""
    if not _quiet.get():
        typer.echo(words)


def show_record(record: object) -> None:
    """Print a record for a program."""
    typer.echo(json.dumps(record, indent=2, ensure_ascii=False))


@contextmanager
def shown_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """The progress of long work on a terminal, unless told to be quiet; told (done, total)."""
    if _quiet.get():
        yield lambda _done, _total: None
        return
    with progress.shown_progress(label) as told:
        yield told
