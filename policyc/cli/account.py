"""The commands about the account of a data set, which `cli` takes up."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyc.cli.arguments import local_file

if TYPE_CHECKING:
    from policyc_check.plan.plan import Plan
    from policyc_runtime.account import Account

account = typer.Typer(
    name="account",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="What several plans on one data set may tell together.",
    epilog="A policy names its data set in the stream: `dataset NAME`.",
)

AccountFile = Annotated[Path, typer.Argument(metavar="FILE", help="The account of a data set.", callback=local_file)]


def register_account(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(account)


@account.command()
def new(
    file: AccountFile,
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="As policies name it: `dataset NAME`.")],
    promise: Annotated[
        str, typer.Option("--promise", metavar="TARGET", help="What all plans together keep, as a policy says it.")
    ],
) -> None:
    """Begin the account of a data set, with the promise that all its plans keep together.

    \b
    policyc account new a.account --dataset trips --promise "user_level(epsilon = 3, delta = 1e-6, neighbors = replace)"
    policyc account new a.account --dataset trips --promise "user_level(rho = 0.1, neighbors = add_remove, per = 1d)"
    policyc account new road.account --dataset road --promise "event_level(epsilon = 1.0)"
    """
    from policyc.planning.joint_promise import joint_promise
    from policyc_runtime.account import Account

    bound = joint_promise(dataset, promise)
    Account.create(file, bound)
    typer.echo(f"{file}: data set {dataset}; {bound.described()}")
    typer.echo(f"next: write `dataset {dataset}` into the stream of its policies, then `policyc compile ... --account`")


@account.command()
def show(
    file: AccountFile,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show what is requested, spent and left. No data is needed, and none is shown.

    \b
    policyc account show trips.account
    policyc account show trips.account --json
    """
    from policyc_runtime.account import Account

    with Account.open(file, to_write=False) as opened:
        if as_json:
            typer.echo(json.dumps(_record(opened), indent=2, ensure_ascii=False))
        else:
            typer.echo("\n".join(_lines(opened)))


@account.command()
def withdraw(
    file: AccountFile,
    plan: Annotated[
        str, typer.Argument(metavar="PLAN", help="The first digits of the plan's digest, or its policy's name.")
    ],
) -> None:
    """Take back what was requested for a plan that has not run.

    \b
    policyc account withdraw trips.account 3f9a02c1
    """
    from policyc_runtime.account import Account

    with Account.open(file) as opened:
        digest = opened.withdraw(plan)
    typer.echo(f"{file}: the request of plan {digest[:16]}… is withdrawn")


@account.command()
def verify(
    file: AccountFile,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one record a claim.")] = False,
) -> None:
    """Recompute every claim of an account, and of all plans in it. Exit 1 names the first that fails.

    \b
    policyc account verify trips.account
    """
    from policyc.cli.claims import show_claims, show_claims_as_json
    from policyc_runtime.account_claims import account_claims

    show = show_claims_as_json if as_json else show_claims
    show(account_claims(file), False)


def standing_record(file: Path) -> dict[str, object]:
    """What is spent, requested and left, for programs."""
    from policyc_runtime.account import Account

    with Account.open(file, to_write=False) as opened:
        return _standing(opened)


def _standing(opened: Account) -> dict[str, object]:
    standing = opened.standing()
    return {
        "dataset": opened.bound.dataset,
        "promise": opened.bound.promise.model_dump(mode="json", exclude_none=True),
        "limit": str(standing.limit),
        "spent": standing.spent,
        "requested": standing.requested,
        "left": standing.left,
    }


def _record(opened: Account) -> dict[str, object]:
    return {
        **_standing(opened),
        "plans": [
            {"plan": digest, "policy": plan.policy.name, "runs": runs, "alone": opened.bound.spent([(plan, 1)])}
            for digest, plan, runs in _plans(opened)
        ],
        "entries": [dict(entry._asdict()) for entry in opened.entries],
    }


def _lines(opened: Account) -> list[str]:
    from policyc.diagnostics.text import visible

    standing = opened.standing()
    lines = [f"data set {opened.bound.dataset}: {opened.bound.described()}", ""]
    rows = [
        (digest[:16], "spent" if runs else "requested", _number(opened.bound.spent([(plan, 1)])), runs, plan)
        for digest, plan, runs in _plans(opened)
    ]
    for digest, state, alone, runs, plan in rows:
        often = f", {runs} ledgers" if runs > 1 else ""
        lines.append(visible(f"  {digest}  {state:<9}  {alone:>12}  {plan.policy.name}: {plan.policy.purpose}{often}"))
    lines += [""] if rows else []
    lines.append(f"  spent      {_number(standing.spent):>12}")
    lines.append(f"  requested  {_number(standing.requested):>12}  beside it")
    lines.append(f"  left       {_left(standing.left):>12}  of {standing.limit} {opened.bound.unit()}")
    if rows and opened.bound.composes:
        lines += ["", "  What plans tell together is composed and not added: one that tells more than is left may fit."]
        lines += ["  `policyc compile --account` finds out."]
    return lines


def _plans(opened: Account) -> list[tuple[str, Plan, int]]:
    """Plans that count, in the order of their first entry, each with how many runs of it drew noise."""
    from policyc_runtime.account_reader import account_plan

    runs = [entry.plan for entry in opened.spent]
    counted = dict.fromkeys(entry.plan for entry in opened.entries if entry.plan in {*runs, *opened.requested})
    return [(digest, account_plan(opened.plans[digest]), runs.count(digest)) for digest in counted]


def _number(value: float | None) -> str:
    from policyc.emit.numbers import round_up

    return "no limit" if value is None else round_up(Decimal(repr(value)))


def _left(value: float) -> str:
    from policyc.emit.numbers import round_down

    return round_down(Decimal(repr(value)))
