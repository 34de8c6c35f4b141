"""Exit codes: what a command that ends in an error says, and what it returns to the shell."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import typer

FINDINGS, USAGE, INTERNAL = 1, 2, 3

REMEDIES = {  # by what the system says
    errno.EACCES: "give yourself leave to read it and to write there, or name another place",
    errno.EPERM: "give yourself leave to read it and to write there, or name another place",
    errno.EROFS: "name a place that can be written to",
    errno.ENAMETOOLONG: "choose a shorter name: file systems take 255 bytes, and a few are needed while it is written",
    errno.ENOENT: "check the name, and make the directory first",
    errno.ENOTDIR: "check the name: a part of it before the last is no directory",
    errno.EISDIR: "name a file: there is a directory of that name",
    errno.EFBIG: "lift the limit on the size of files (`ulimit -f`), or name another place, then run again",
}


class Interrupted(Exception):  # noqa: N818  no mistake of anybody's
    """Ctrl-C while a command runs: of a `KeyboardInterrupt` typer makes a silent exit 130."""


def guarded(command: Callable[[], object]) -> int:
    """Run a command; 0 when fine, 1 on findings, 2 on wrong usage, 3 on an internal error."""
    try:
        command()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else FINDINGS
    except (KeyboardInterrupt, Interrupted):
        return _interrupted()
    except BrokenPipeError:
        return FINDINGS
    except (OSError, MemoryError) as error:
        return _refused(error)
    except Exception as error:  # the last line of defence: a message instead of a traceback with values in it
        stopped = isinstance(error, RuntimeError) and str(error) == "Query interrupted"  # what duckdb makes of Ctrl-C
        return _interrupted() if stopped else _report(error)
    return 0


def _refused(error: OSError | MemoryError) -> int:
    from policyc_runtime.files import is_full

    if isinstance(error, MemoryError):
        remedy = "end other programs, or raise the limit on memory (`ulimit -v`), then run the same command again"
        typer.echo(f"error: memory is short\n  = help: {remedy}; what the ledger holds is safe", err=True)
        return FINDINGS
    place = f"\n  --> {error.filename}" if isinstance(error.filename, str) else ""
    if is_full(error):
        remedy = "make room and run the same command again; what stood in the place of a file is as it was"
        typer.echo(f"error: the disk is full{place}\n  = help: {remedy}", err=True)
    else:
        remedy = REMEDIES.get(error.errno or 0, "check this name, who may read and write there, then run again")
        said = error.strerror or type(error).__name__
        typer.echo(f"error: the system refused: {said}{place}\n  = help: {remedy}", err=True)
    return FINDINGS


def _interrupted() -> int:
    typer.echo("interrupted; what was drawn or written before is kept, run the same command again", err=True)
    return FINDINGS


def _report(error: Exception) -> int:
    from policyc.diagnostics import PolicyError
    from policyc.diagnostics.text import render_kernel_error, render_text, wants_color

    color = wants_color()
    if isinstance(error, PolicyError):
        typer.echo(render_text(error.diagnostics, error.source, color=color), err=True)
        return FINDINGS
    from policyc_check.errors import KernelError

    if isinstance(error, KernelError):
        typer.echo(render_kernel_error(error, color=color), err=True)
        return FINDINGS
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "unknown"
    typer.echo(
        f"internal error: {type(error).__name__} at {place}\n"
        "  = help: this is a mistake in policyc, not in your files; please report this line (it contains no data)",
        err=True,
    )
    return INTERNAL
