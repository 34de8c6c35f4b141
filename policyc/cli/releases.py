"""The commands that run a plan on data, and that recompute what it claims."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from policyc.cli.arguments import AccountOption, LedgerOption, PlanDirectory
from policyc.cli.claims import claims_of, show_claims, show_claims_as_json
from policyc.cli.reports import put_report
from policyc.cli.speech import JsonOption, say, show_record, shown_progress


class Gaps(StrEnum):
    """What a step or cell without a row of ready counts means."""

    REFUSE = "refuse"
    ZERO = "zero"


class EngineName(StrEnum):
    """What counts events where they lie."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRES = "postgres"


def run(
    directory: PlanDirectory,
    input_file: Annotated[  # a path as it was written: as a `Path`, `s3://` would lose a slash
        str,
        typer.Option(
            "--input", metavar="DATA", help="Events, or counts with --counts: CSV, Parquet, a folder of Parquet files."
        ),
    ],
    output: Annotated[str, typer.Option("--output", metavar="OUT", help="Released values: CSV or Parquet.")],
    ledger: LedgerOption = None,
    account: AccountOption = None,
    counts: Annotated[bool, typer.Option("--counts", help="The input has ready counts, not events.")] = False,
    gaps: Annotated[
        Gaps, typer.Option("--gaps", help="Of ready counts: what a step or cell without a row means.")
    ] = Gaps.REFUSE,
    continued: Annotated[
        bool, typer.Option("--continued", help="The input has new rows only; earlier ones are known from runs before.")
    ] = False,
    engine: Annotated[
        EngineName,
        typer.Option("--engine", help="What counts events where they lie; spark and postgres are extras."),
    ] = EngineName.DUCKDB,
    start: Annotated[
        str | None,
        typer.Option(
            "--start", metavar="MOMENT", help="When step 0 begins, if the policy does not say it; first run only."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=1,
            metavar="N",
            help="Release the first N steps. Default: those that are over by the clock.",
        ),
    ] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report (OUT.report.html, .json) beside the output.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a plan on data: every step is released once; running again gives the same values.

    \b
    policyc run fleet.plan --input departures.csv --output parked.csv
    policyc run fleet.plan --input counts.parquet --counts --output parked.parquet
    policyc run fleet.plan --engine spark --input hdfs://host/departures --output parked.csv
    policyc run fleet.plan --engine postgres --input "postgresql://host/city?table=public.seen" --output parked.csv
    """
    from policyc.emit import require_signed, require_unchanged
    from policyc.emit.run_report import MOST_STEPS, require_places
    from policyc.emit.run_summary import render_run, run_record
    from policyc_runtime.ledger_seal import LEDGER, PIN
    from policyc_runtime.output import write_release
    from policyc_runtime.plan import load_plan
    from policyc_runtime.release import release

    if gaps is not Gaps.REFUSE and not counts:
        said = "events have no gaps: a step without one counts nobody; it is for ready counts, with `--counts`"
        raise typer.BadParameter(said, param_hint="--gaps")
    plan = load_plan(directory)
    require_unchanged(directory, plan)
    require_signed(directory, plan)
    if not no_report:
        require_places(plan, output)
    with shown_progress("releasing") as progress:
        released = release(
            plan,
            input_file,
            ledger or directory / LEDGER,
            counts=counts,
            continued=continued,
            gaps=gaps.value,
            engine=engine.value,
            start=start,
            steps=steps,
            output=output,
            pin=directory / PIN,
            account=account,
            progress=progress,
            latest=1 if no_report else MOST_STEPS,
        )
    written = write_release(released, output)
    reports = () if no_report else put_report(directory, plan, released, Path(output), account)
    if as_json:
        show_record(run_record(plan, released, written, reports))
    else:
        say(render_run(plan, released, written, reports))


def verify(
    directory: PlanDirectory,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    release: Annotated[
        Path | None, typer.Option("--release", metavar="OUT", help="A released file to compare with the ledger.")
    ] = None,
    signed_by: Annotated[
        list[Path] | None,
        typer.Option("--signed-by", metavar="FILE", help="A public key (PEM) that must have signed; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one record a claim.")] = False,
    allow_unchecked: Annotated[
        bool, typer.Option("--allow-unchecked", help="Exit 0 although something could not be checked here.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not plan the policy again: what is predicted stays unchecked.")
    ] = False,
) -> None:
    """Recompute every claim of a plan, its certificate, its ledger and a release. Exit 1 names the first that fails.

    The policy is planned again, which takes what `compile` takes. What cannot be checked here is no success either:
    exit 1, unless `--allow-unchecked`.

    \b
    policyc verify fleet.plan
    policyc verify fleet.plan --release parked.csv
    policyc verify fleet.plan --signed-by officer.pem.pub
    policyc verify fleet.plan --json > claims.json
    """
    claims = claims_of(directory, ledger, release, signed_by or [], quick=quick, account=account)
    if as_json:
        show_claims_as_json(claims, allow_unchecked)
    else:
        show_claims(claims, allow_unchecked, directory)
