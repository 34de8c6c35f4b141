"""What `verify` finds of a plan's directory and of its release, and how it prints that, as text and for programs.

Names and details may come from files that somebody else wrote: nothing of theirs moves the cursor or turns a line
around.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from policyc.cli.speech import say, shown_progress

if TYPE_CHECKING:
    from policyc_check.claims import Claim

FINDINGS = 1
OF_OTHER_CODE = ("E0803", "E0855")  # which fail where another version words something otherwise
MARKS = {True: "holds", False: "FAILS", None: "not checked"}


def claims_of(
    directory: Path,
    ledger: Path | None,
    released: Path | None,
    signed_by: list[Path],
    *,
    quick: bool = False,
    account: Path | None = None,
) -> Iterator[Claim]:
    """Every claim of a plan's directory, of its ledger, and of what is named beside them, recomputed."""
    from policyc.emit import signature_claims, verify_directory
    from policyc_runtime.ledger_claims import ledger_claims
    from policyc_runtime.ledger_file import BUSY
    from policyc_runtime.ledger_seal import LEDGER, PIN, left_of_entries
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import plan_claims

    plan = load_plan(directory)
    with shown_progress("checking the plan"):
        found = list(plan_claims(plan))
    yield from found
    if found[-1].holds is False:
        return  # nothing is rendered of a plan that is refused
    with shown_progress("planning again"):
        found = verify_directory(directory, plan, quick=quick)
    yield from found
    yield from signature_claims(directory, signed_by)
    book, pin = ledger or directory / LEDGER, directory / PIN
    if ledger is not None or released is not None or book.exists() or left_of_entries(book, pin) is not None:
        with shown_progress("reading the ledger"):
            found = list(ledger_claims(plan, book, pin, released))
        yield from found
        if found[-1].code == BUSY and found[-1].holds is False:
            return  # whoever holds it was waited for once
    if account is not None or plan.stream.dataset is not None:
        from policyc_runtime.account_claims import account_claims_of

        yield from account_claims_of(plan, account, book, pin)


def show_claims(claims: Iterable[Claim], allow_unchecked: bool, directory: Path | None = None) -> None:
    """Print one line a claim; exit 1 when one fails, or could not be checked and that is not allowed.

    Args:
        claims: of a plan, say.
        allow_unchecked: whether what could not be checked is success, too.
        directory: of the plan. Where other code made it, what to do about words that differ is said.
    """
    from policyc.diagnostics.text import visible

    made = []
    for claim in claims:
        say(visible(f"{MARKS[claim.holds]:<11}  {claim.name} ({claim.detail})"))
        made.append(claim)
    failed = next((claim for claim in made if claim.holds is False), None)
    unchecked = [claim for claim in made if claim.holds is None]
    if failed is not None:
        where = f" in {failed.where}" if failed.where else ""
        line = f"error[{failed.code}]: this claim fails{where}: {failed.name}: {failed.detail}"
        typer.echo(visible(line), err=True)
        if directory is not None and failed.code in OF_OTHER_CODE and (maker := _other_maker(directory)):
            remedy = f"{maker} made this plan; where nobody altered it since, compile it again with this version"
            typer.echo(visible(f"  = help: {remedy}"), err=True)
        raise typer.Exit(FINDINGS)
    held = f"{len(made) - len(unchecked)} claims hold"
    say(held + (f", {len(unchecked)} not checked" if unchecked else ""))
    if unchecked and not allow_unchecked:
        why = f"{unchecked[0].name}: {unchecked[0].detail}"
        typer.echo(visible(f"error[E0856]: this could not be checked: {why}"), err=True)
        typer.echo("  = help: with `--allow-unchecked` the rest is enough", err=True)
        raise typer.Exit(FINDINGS)


def _other_maker(directory: Path) -> str | None:
    """The code that is said to have made a plan, where it is not this one; None where the plan cannot be read."""
    from policyc.emit.stored_policy import other_maker
    from policyc_check.errors import KernelError
    from policyc_runtime.plan import load_plan

    try:
        return other_maker(directory, load_plan(directory))
    except KernelError:
        return None


def claim_records(claims: Iterable[Claim]) -> list[dict[str, object]]:
    """Claims as programs read them."""
    from policyc.diagnostics.text import visible

    return [
        {
            "claim": visible(claim.name),
            "holds": claim.holds,
            "detail": visible(claim.detail),
            "where": None if claim.where is None else visible(claim.where),
            "code": claim.code if claim.holds is False else None,
        }
        for claim in claims
    ]


def show_claims_as_json(claims: Iterable[Claim], allow_unchecked: bool) -> None:
    """Print every claim as a record, and whether all hold; exit as `show_claims` does."""
    records = claim_records(claims)
    unchecked = sum(record["holds"] is None for record in records)
    holds = all(record["holds"] is not False for record in records) and (allow_unchecked or not unchecked)
    found = {"holds": holds, "not_checked": unchecked, "claims": records}
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
    if not holds:
        raise typer.Exit(FINDINGS)
