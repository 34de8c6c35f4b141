"""Arguments that several commands take."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A policy, such as traffic.policy.")]


ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")


def _directory(named: Path) -> Path:
    """The directory of a plan that is named by its `plan.json`."""
    if named.name == "plan.json":
        return named.parent
    if os.path.isfile(named):  # noqa: PTH113  of a name that is too long it says no
        raise typer.BadParameter(f"{named} is a file: name the directory that `policyc compile` wrote")
    return named


def local_file(named: Path | None) -> Path | None:
    """A file of this machine; an address is not repeated, as a password may stand in it."""
    if named is not None and ADDRESS.match(str(named)) and not os.path.isdir(named.parent):  # noqa: PTH112  the same
        raise typer.BadParameter("this is an address: name a file of this machine")
    return named


PlanDirectory = Annotated[
    Path, typer.Argument(metavar="DIR", help="What `policyc compile` wrote.", callback=_directory)
]
LedgerOption = Annotated[
    Path | None,
    typer.Option("--ledger", metavar="FILE", help="The ledger. Default: ledger.sqlite in DIR.", callback=local_file),
]
AccountOption = Annotated[
    Path | None,
    typer.Option(
        "--account", metavar="FILE", help="The account of the data set that the policy names.", callback=local_file
    ),
]
