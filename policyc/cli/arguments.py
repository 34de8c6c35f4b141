"""Arguments that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PolicyFile = Annotated[Path, typer.Argument(metavar="FILE", help="A policy, such as traffic.policy.")]


def _directory(named: Path) -> Path:
    """The directory of a plan that is named by its `plan.json`."""
    return named.parent if named.name == "plan.json" else named


PlanDirectory = Annotated[
    Path, typer.Argument(metavar="DIR", help="What `policyc compile` wrote.", callback=_directory)
]
LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", metavar="FILE", help="The ledger. Default: ledger.sqlite in DIR.")
]
AccountOption = Annotated[
    Path | None, typer.Option("--account", metavar="FILE", help="The account of the data set that the policy names.")
]
