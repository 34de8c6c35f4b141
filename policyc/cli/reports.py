"""The report of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from policyc.cli.account import standing_record
from policyc.cli.arguments import AccountOption, LedgerOption, PlanDirectory
from policyc.cli.claims import claim_records
from policyc.cli.releases import claims_of
from policyc.cli.speech import say

FINDINGS = 1


def report(
    directory: PlanDirectory,
    release: Annotated[Path, typer.Option("--release", metavar="OUT", help="The output that was given to the run.")],
    ledger: LedgerOption = None,
    account: AccountOption = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not plan the policy again: what is predicted stays unchecked.")
    ] = False,
) -> None:
    """Write what is out, what `verify` says of it, what is left of the promise, and pictures: OUT.report.html, .json.

    The pictures show published values with the band that noise leaves around them. Nothing protected is read. Exit 1
    when a claim fails; the report says which.

    \b
    policyc report fleet.plan --release parked.csv
    """
    from datetime import UTC, datetime

    from policyc.emit.run_report import run_report, write_run_report
    from policyc_runtime.ledger_seal import LEDGER
    from policyc_runtime.plan import load_plan

    plan = load_plan(directory)
    claims = claim_records(claims_of(directory, ledger, release, [], quick=quick, account=account))
    standing = None if account is None else standing_record(account)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    content = run_report(plan, ledger or directory / LEDGER, release, _promises(directory), claims, moment, standing)
    for path in write_run_report(content, release):
        say(path)
    if failed := next((claim for claim in claims if claim["holds"] is False), None):
        typer.echo(f"error[{failed['code']}]: this claim fails: {failed['claim']}: {failed['detail']}", err=True)
        raise typer.Exit(FINDINGS)


def _promises(directory: Path) -> list[str]:
    """The sentences of the certificate that lies there; whether it says what the plan gives is one of the claims."""
    from policyc.emit.signatures import CERTIFICATE
    from policyc.emit.stored_files import content_of

    try:
        return [str(one["sentence"]) for one in json.loads(content_of(directory, CERTIFICATE) or b"")["promises"]]
    except (ValueError, KeyError, TypeError):
        return []
