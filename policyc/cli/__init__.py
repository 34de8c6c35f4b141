"""The command line: the only package that prints or exits. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

import typer

from policyc import __version__
from policyc.cli.account import register_account
from policyc.cli.completion import register_completion
from policyc.cli.documents import register_documents
from policyc.cli.editor import register_editor
from policyc.cli.exit import guarded
from policyc.cli.explore import register_explore
from policyc.cli.follow import follow
from policyc.cli.guide import guide
from policyc.cli.init import register_init
from policyc.cli.leakage import register_leakage
from policyc.cli.plans import compile_command, show, simulate
from policyc.cli.policies import register_policies
from policyc.cli.releases import run, verify
from policyc.cli.reports import report
from policyc.cli.speech import QuietCommand
from policyc.second_process import allow_second_process

SELDOM = 100_000  # new objects after which circles among them are looked for

app = typer.Typer(
    name="policyc",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"policyc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Compile a privacy policy for counts over time into a checked release plan, and run it.

    \b
    policyc guide tutorial               from raw events to a signed certificate
    policyc init traffic                 write a policy to start from
    policyc check traffic.policy         all findings, with what to write
    policyc explore traffic.policy       what other promises, bounds, steps and periods would cost
    policyc compile traffic.policy       traffic.plan/: plan, model, certificate
    policyc simulate traffic.plan        how accurate it will be, without data; --events OUT: events to try it on
    policyc run traffic.plan --input events.csv --output counts.csv
    policyc follow traffic.plan --input - --output counts.csv
    policyc verify traffic.plan --release counts.csv
    policyc sign traffic.plan --key officer.pem --name "Ada Bell"
    policyc account show city.account    what several plans on the same users tell together
    """


app.command("compile", cls=QuietCommand)(compile_command)
app.command(cls=QuietCommand)(run)
app.command()(follow)
for _command in (verify, report):
    app.command(cls=QuietCommand)(_command)
app.command()(show)
app.command(cls=QuietCommand)(simulate)
register_policies(app)
app.command()(guide)
register_init(app)
register_explore(app)
register_documents(app)
register_account(app)
register_leakage(app)
register_editor(app)
register_completion(app)


def main() -> None:
    """Run the command line; exit 0 when fine, 1 on findings, 2 on wrong usage, 3 on an internal error."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small: threads would wait for each other
    gc.set_threshold(SELDOM, 50, 100)  # few objects are part of circles: looking for them took a fifth of a long run
    allow_second_process()
    code = guarded(lambda: app(standalone_mode=True))
    gc.freeze()  # nor at the end, when all ends with the process: that took 0.15 s after planning a million steps
    sys.exit(code)
