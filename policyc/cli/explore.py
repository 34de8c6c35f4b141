"""The command that shows what other promises, bounds, steps and periods would cost, which `cli` takes up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from policyc.exploration.axes import Value

FINDINGS = 1
SECONDS, LONGEST = 40, 86_400
MOST_VALUES = 12  # of an axis
AXES = ("epsilon", "alpha", "rho", "bound", "window", "step", "period")


def register_explore(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(explore)


def explore(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy, such as traffic.policy.")],
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--values", metavar="NAME=A,B,...", help="Alter only what is named, to these values; may be repeated."
        ),
    ] = None,
    seconds: Annotated[
        int,
        typer.Option(
            "--seconds", min=0, max=LONGEST, metavar="N", help="How long to plan; the policy itself always is."
        ),
    ] = SECONDS,
    steps_per_user: Annotated[
        Path | None,
        typer.Option(
            "--steps-per-user",
            metavar="FILE",
            help="A public statistic, CSV `steps,users`: in how many steps so many users are. Shows what is dropped.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR|FILE", help="Write a page (FILE.html), or page and numbers."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: every point.")] = False,
) -> None:
    """Show the error against epsilon (alpha, rho), bound, window, step and period, each planned, none guessed.

    Nothing is read but the policy. The page has sliders over what was planned; it needs no network.

    \b
    policyc explore departures.policy
    policyc explore departures.policy --output departures.html
    policyc explore departures.policy --values epsilon=0.5,1,2 --values bound=50,100,200 --seconds 300
    policyc explore departures.policy --values period=none,7d --json > points.json
    """
    chosen = _chosen(values)
    from policyc.cli.speech import shown_progress
    from policyc.exploration.dropping import read_taken_part
    from policyc.exploration.points import explore as explored
    from policyc.exploration.text import exploration_json, render_exploration

    statistic = None if steps_per_user is None else read_taken_part(steps_per_user)
    with shown_progress("planning") as progress:
        found = explored(policy, chosen, seconds, progress)
    written = []
    if output is not None:
        from policyc.exploration.page import write_exploration

        written = write_exploration(found, statistic, output)
    if as_json:
        typer.echo(json.dumps(exploration_json(found, statistic), ensure_ascii=False))
    else:
        typer.echo(render_exploration(found, statistic))
        for file in written:
            typer.echo(f"{file}: written")
    if not any(point.releases for point in found.points.values()):
        raise typer.Exit(FINDINGS)


def _chosen(said: list[str] | None) -> dict[str, list[Value]] | None:
    """The values of the axes that are named."""
    if not said:
        return None
    chosen: dict[str, list[Value]] = {}
    for text in said:
        name, _, values = text.partition("=")
        name = name.strip()
        if name.partition(" of ")[0] not in AXES:
            raise typer.BadParameter(f"`{name[:40]}` is none of {', '.join(AXES)}")
        chosen.setdefault(name, []).extend(_value(name, one.strip()) for one in values.split(","))
    for name, found in chosen.items():
        if len(set(found)) > MOST_VALUES:
            raise typer.BadParameter(f"`{name}` has more than {MOST_VALUES} values: leave some out")
    return chosen


def _value(name: str, text: str) -> Value:
    from decimal import Decimal, InvalidOperation

    from policyc.exploration.axes import length_of

    kind = name.partition(" of ")[0]
    if kind == "period" and text == "none":
        return None
    try:
        if kind in {"step", "period"}:
            return length_of(text)
        if kind in {"bound", "window"}:
            steps = int(text.removesuffix("steps").removesuffix("step"))
            if 1 <= steps <= 10**7:
                return steps
        else:
            amount = Decimal(text)
            if amount.is_finite() and Decimal("1e-12") <= amount <= Decimal("1e6"):
                return amount
    except (ValueError, InvalidOperation):
        pass
    example = {"step": "1h", "period": "7d", "bound": "50", "window": "24"}.get(kind, "0.5")
    raise typer.BadParameter(f"`{text[:40]}` is no value of `{name}`: write it like `{name}={example}`")
