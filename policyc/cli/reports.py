"""The report of a run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyc.cli.account import standing_record
from policyc.cli.arguments import AccountOption, LedgerOption, PlanDirectory
from policyc.cli.claims import claim_records, claims_of
from policyc.cli.speech import say

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan
    from policyc_runtime.published_values import Release

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

    `run` writes the same without `verify`. The pictures show published values with the band that noise leaves around
    them. Nothing protected is read. Exit 1 when a claim fails; the report says which.

    \b
    policyc report fleet.plan --release parked.csv
    """
    from policyc.emit.run_report import run_report, stated_promises, write_run_report
    from policyc_runtime.ledger_reader import LedgerReader
    from policyc_runtime.ledger_seal import LEDGER
    from policyc_runtime.plan import load_plan
    from policyc_runtime.released_file import stored_release

    plan = load_plan(directory)
    claims = claim_records(claims_of(directory, ledger, release, [], quick=quick, account=account))
    with LedgerReader.open_read_only(ledger or directory / LEDGER) as book:
        released = stored_release(plan, book, book.steps)
    content = run_report(plan, released, release, stated_promises(directory), claims, _now(), _standing(account))
    for path in write_run_report(content, release):
        say(path)
    if failed := next((claim for claim in claims if claim["holds"] is False), None):
        typer.echo(f"error[{failed['code']}]: this claim fails: {failed['claim']}: {failed['detail']}", err=True)
        raise typer.Exit(FINDINGS)


def put_report(directory: Path, plan: Plan, released: Release, output: Path, account: Path | None) -> tuple[Path, Path]:
    """Write what is known of a run without `verify`; a report that says the same, and what `verify` found, stays.

    Returns:
        The page and the record.

    Raises:
        ReleaseError: E0826, they cannot be written.
    """
    from policyc.emit.run_report import report_paths, run_report, says_the_same, stated_promises, write_run_report
    from policyc_runtime.output import steps_held

    content = run_report(plan, released, output, stated_promises(directory), None, _now(), _standing(account))
    page, record = report_paths(output)
    with steps_held(released) as steps:  # a run of more steps that came in between has told of them
        if (steps > released.steps.stop and page.exists()) or says_the_same(content, output):
            return page, record
        return write_run_report(content, output)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _standing(account: Path | None) -> dict[str, object] | None:
    return None if account is None else standing_record(account)
