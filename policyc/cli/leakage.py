"""The command about releases of others, which `cli` takes up."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from decimal import Decimal

    from policyc.quantification.budgets import Spent
    from policyc.quantification.knowledge import Knowledge

FINDINGS = 1
WINDOWS = (1, 2, 7, 24)
LONGEST_WINDOW = 1_000_000


class Knows(StrEnum):
    """What an adversary knows of the chains."""

    BOTH = "both"
    BACKWARD = "backward"
    FORWARD = "forward"
    NONE = "none"


class Neighbors(StrEnum):
    """What a budget is about."""

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"


def register_leakage(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(leakage)


def _alpha(said: str | None) -> Decimal | None:
    from decimal import Decimal, InvalidOperation

    if said is None:
        return None
    try:
        alpha = Decimal(said)
    except InvalidOperation:
        raise typer.BadParameter(f"`{said[:40]}` is not a number") from None
    if not (alpha.is_finite() and Decimal("1e-12") <= alpha <= Decimal("1e6")):
        raise typer.BadParameter("alpha is between 1e-12 and 1e6")
    return alpha


def leakage(
    budgets: Annotated[
        Path,
        typer.Option("--budgets", metavar="FILE", help="What was spent: a plan, CSV (step,epsilon) or a JSON list."),
    ],
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="How people move: the stream and correlation of a policy."),
    ] = None,
    forward: Annotated[
        Path | None, typer.Option("--forward", metavar="FILE", help="Or a matrix: where one goes next (CSV, npy).")
    ] = None,
    backward: Annotated[
        Path | None,
        typer.Option("--backward", metavar="FILE", help="Where one was before; as it is, beside --forward."),
    ] = None,
    chains: Annotated[
        Path | None,
        typer.Option("--chains", metavar="FILE", help="Or one chain a user: CSV user,from,to,probability, or JSON."),
    ] = None,
    knows: Annotated[
        Knows | None, typer.Option("--knows", help="What the adversary knows. Default: all four side by side.")
    ] = None,
    window: Annotated[
        list[int] | None,
        typer.Option("--window", min=1, max=LONGEST_WINDOW, metavar="N", help="Steps in a row; may be repeated."),
    ] = None,
    alpha: Annotated[
        str | None, typer.Option("--alpha", metavar="NATS", help="What is tolerated about one step; exit 1 above it.")
    ] = None,
    neighbors: Annotated[
        Neighbors,
        typer.Option("--neighbors", help="A budget is of one value replaced, or of one person added or removed."),
    ] = Neighbors.REPLACE,
    lags: Annotated[
        int | None,
        typer.Option(
            "--lags", min=1, max=64, metavar="N", help="Steps looked at together; 1 is the published recursion."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Write leakage.html, leakage.json and steps.csv there."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Write leakage by step as SVG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Say what budgets that somebody else spent tell about one step, where people's steps can be guessed from others.

    Backward, forward and total leakage of each step, about windows, and if the budgets go on: upper bounds, each shown
    by the inequality that `policyc verify` uses. A page with a stream and a correlation is policy enough; the budgets
    of a plan need none.

    \b
    policyc leakage --budgets fleet.plan
    policyc leakage --budgets spent.csv --policy fleet.policy
    policyc leakage --budgets spent.csv --forward moves.csv --knows forward
    policyc leakage --budgets spent.csv --policy fleet.policy --alpha 1.0 --output fleet.leakage
    policyc leakage --budgets spent.csv --chains users.csv --json > leakage.json
    """
    matrices = forward is not None or backward is not None
    if (chains is not None and matrices) or (policy is not None and matrices):
        raise typer.BadParameter("say how people move once: `--policy`, `--forward` and `--backward`, or `--chains`")
    if picture is not None and picture.suffix.lower() != ".svg":
        raise typer.BadParameter("a picture is SVG: name a file that ends in .svg")
    if output is not None and output.exists() and not output.is_dir():
        raise typer.BadParameter("a file is there: name a directory, which is made", param_hint="--output")
    tolerated = _alpha(alpha)
    from policyc.cli.speech import shown_progress
    from policyc.quantification.budgets import read_budgets
    from policyc.quantification.leakage import ADVERSARIES, quantify
    from policyc.quantification.report import Report

    with shown_progress("reading"):
        spent = read_budgets(budgets, neighbors.value)
        if spent.plan is not None and neighbors is Neighbors.ADD_REMOVE:
            raise typer.BadParameter("a plan says itself what its budgets are about: leave `--neighbors` out")
        knowledge = _knowledge(spent, policy, forward, backward, chains)
    with shown_progress("computing") as progress:
        found = quantify(
            spent, knowledge, {*(window or WINDOWS)}, None if lags is None else tuple(range(1, lags + 1)), progress
        )
        report = Report.of(found, ADVERSARIES if knows is None else (knows.value,), tolerated)
    if picture is not None or output is not None:
        from policyc.quantification.page import write_picture, write_report

        if picture is not None:
            write_picture(report, picture)
        if output is not None:
            written = write_report(report, output)
    if as_json:
        from policyc.quantification.record import record

        typer.echo(json.dumps(record(report), ensure_ascii=False))
    else:
        from policyc.quantification.text import render_report

        typer.echo(render_report(report))
        if output is not None:
            typer.echo(f"\n{output}/: {', '.join(written)}")
        if picture is not None:
            typer.echo(f"\n{picture}: the picture")
    if report.exceeded:
        raise typer.Exit(FINDINGS)


def _knowledge(
    spent: Spent, policy: Path | None, forward: Path | None, backward: Path | None, chains: Path | None
) -> Knowledge:
    """How people move, by whichever is named; the plan's own word where nothing is."""
    from policyc.cli.policies import show_findings
    from policyc.quantification.knowledge import of_matrices, of_persons, of_plan, of_policy

    states = None
    if policy is not None:
        knowledge, states = of_policy(policy, spent.plan, show_findings)
    elif forward is not None or backward is not None:
        knowledge, _ = of_matrices(forward, backward)
    elif spent.plan is not None:
        cell = spent.plan.stream.cell
        knowledge, states = of_plan(spent.plan, spent.source), None if cell is None else cell.states
    elif chains is None:
        raise typer.BadParameter("say how people move: `--policy FILE`, `--forward FILE`, or `--chains FILE`")
    return knowledge if chains is None else of_persons(chains, states)
