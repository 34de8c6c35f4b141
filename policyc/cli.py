"""The command line: the only module that prints or exits. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyc import __version__
from policyc.cli_account import register_account
from policyc.cli_claims import show_claims, show_claims_as_json
from policyc.cli_documents import register_documents
from policyc.cli_exit import guarded
from policyc.cli_init import register_init
from policyc.cli_leakage import register_leakage
from policyc.cli_policies import register_policies, show_findings
from policyc.progress import shown_progress

if TYPE_CHECKING:
    from policyc_check.claims import Claim
    from policyc_runtime.plan import Plan

MOST_SIMULATED = 100_000  # runs: a thousandth of a standard error is told by fewer

app = typer.Typer(
    name="policyc",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class TableFormat(StrEnum):
    """How a table is shown."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Gaps(StrEnum):
    """What a step or cell without a row of ready counts means."""

    REFUSE = "refuse"
    ZERO = "zero"


class Stage(StrEnum):
    """What `compile --emit` shows instead of writing files."""

    TREE = "tree"
    POLICY = "policy"
    PLAN = "plan"


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
    policyc init traffic                 write a policy to start from
    policyc check traffic.policy         all findings, with what to write
    policyc compile traffic.policy       traffic.plan/: plan, model, certificate
    policyc simulate traffic.plan        how accurate it will be, without data; --events OUT: events to try it on
    policyc run traffic.plan --input events.csv --output counts.csv
    policyc verify traffic.plan --release counts.csv
    policyc sign traffic.plan --key officer.pem --name "Ada Bell"
    policyc account show city.account    what several plans on the same users tell together
    """


@app.command("compile")
def compile_command(
    file: PolicyFile,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where to write. Default: NAME.plan.")
    ] = None,
    emit: Annotated[Stage | None, typer.Option("--emit", help="Show a stage instead of writing files.")] = None,
    account: AccountOption = None,
) -> None:
    """Compile a policy into a plan, a post-processing model and a certificate.

    \b
    policyc compile traffic.policy
    policyc compile traffic.policy -o plans/traffic
    policyc compile traffic.policy --emit plan
    """
    if emit in {Stage.TREE, Stage.POLICY}:
        from policyc.semantics.checked import check_file

        source, tree, policy, findings = check_file(file)
        show_findings(findings, source)
        typer.echo(_pretty(tree.statements if emit is Stage.TREE else policy))
        return
    from policyc.pipeline import compile_policy

    with shown_progress("compiling"):
        compilation = compile_policy(file)
    show_findings(compilation.diagnostics, compilation.source)
    if emit is Stage.PLAN:
        typer.echo(compilation.plan.to_json(), nl=False)
        return
    from policyc.emit.summary import render_summary

    with shown_progress("writing"):
        directory = compilation.save(output, account)
    typer.echo(render_summary(compilation.plan, directory))


def _pretty(value: object) -> str:
    from pprint import pformat

    return pformat(value, width=120)


@app.command()
def run(
    directory: PlanDirectory,
    input_file: Annotated[  # a path as it was written: as a `Path`, `s3://` would lose a slash
        str, typer.Option("--input", metavar="DATA", help="Events, or counts with --counts: CSV or Parquet.")
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
) -> None:
    """Run a plan on data: every step is released once; running again gives the same values.

    \b
    policyc run fleet.plan --input departures.csv --output parked.csv
    policyc run fleet.plan --input counts.parquet --counts --output parked.parquet
    """
    from policyc.emit import require_signed, require_unchanged
    from policyc.emit.run_summary import render_run
    from policyc_runtime.ledger_seal import LEDGER, PIN
    from policyc_runtime.output import write_release
    from policyc_runtime.plan import load_plan
    from policyc_runtime.release import release

    plan = load_plan(directory)
    require_unchanged(directory, plan)
    require_signed(directory, plan)
    with shown_progress("releasing") as progress:
        released = release(
            plan,
            input_file,
            ledger or directory / LEDGER,
            counts=counts,
            continued=continued,
            gaps=gaps.value,
            start=start,
            steps=steps,
            output=output,
            pin=directory / PIN,
            account=account,
            progress=progress,
        )
    written = write_release(released, output)
    typer.echo(render_run(plan, released, written))


@app.command()
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
    claims = _claims(directory, ledger, release, signed_by or [], quick=quick, account=account)
    if as_json:
        show_claims_as_json(claims, allow_unchecked)
    else:
        show_claims(claims, allow_unchecked)


def _claims(
    directory: Path,
    ledger: Path | None,
    released: Path | None,
    signed_by: list[Path],
    *,
    quick: bool = False,
    account: Path | None = None,
) -> Iterator[Claim]:
    from policyc.emit import signature_claims, verify_directory
    from policyc_runtime.ledger_claims import ledger_claims
    from policyc_runtime.ledger_file import BUSY
    from policyc_runtime.ledger_seal import LEDGER, PIN, left_of_entries
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import plan_claims
    from policyc_runtime.released_file import release_claims

    plan = load_plan(directory)
    for claim in plan_claims(plan):
        yield claim
        if claim.holds is False:
            return  # nothing is rendered of a plan that is refused
    with shown_progress("planning again"):
        found = verify_directory(directory, quick=quick)
    yield from found
    yield from signature_claims(directory, signed_by)
    book, pin = ledger or directory / LEDGER, directory / PIN
    if ledger is not None or released is not None or book.exists() or left_of_entries(book, pin) is not None:
        for claim in ledger_claims(plan, book, pin):
            yield claim
            if claim.code == BUSY and claim.holds is False:
                return  # whoever holds it was waited for once
    if released is not None:
        yield from release_claims(plan, book, released)
    if account is not None or plan.stream.dataset is not None:
        from policyc_runtime.account_claims import account_claims_of

        yield from account_claims_of(plan, account, book, pin)


@app.command()
def show(
    directory: PlanDirectory,
    form: Annotated[TableFormat, typer.Option("--format", help="table, csv or json.")] = TableFormat.TABLE,
) -> None:
    """One row a step: budget, noise scale, leakage, expected error.

    \b
    policyc show fleet.plan
    policyc show fleet.plan --format csv > steps.csv
    """
    from policyc.emit.steps import render_steps, step_rows
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import computed_with
    from policyc_runtime.refusal import verify as verify_plan

    plan = load_plan(directory)
    verify_plan(plan)
    with computed_with():
        table = render_steps(step_rows(plan), form.value)
    typer.echo(table, nl=False)


@app.command()
def simulate(
    target: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="A plan directory, or a policy.")],
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Makes the simulation repeatable; never used in a release.")
    ] = 0,
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=MOST_SIMULATED, help="How many simulated runs.")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="OUT", help="Write one simulated run, marked NOT A RELEASE.")
    ] = None,
    events: Annotated[
        str | None,
        typer.Option("--events", metavar="OUT", help="Only write events to try `run` on: CSV or Parquet, marked."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, metavar="N", help="With --events: how many.")] = None,
) -> None:
    """Run the plan on users or values drawn as the policy says they move, and compare estimators. NOT A RELEASE.

    \b
    policyc simulate traffic.policy --repeat 20
    policyc simulate fleet.plan --seed 7 --output example.csv
    policyc simulate traffic.plan --events events.csv
    """
    from policyc.pipeline import declared_signal
    from policyc_runtime.laboratory.simulation import simulate as simulate_plan
    from policyc_runtime.output import write_release
    from policyc_runtime.output_place import own_outputs
    from policyc_runtime.randomness import SimulationRandomness
    from policyc_runtime.refusal import computed_with

    plan = _plan_of(target)
    if output is not None:
        own_outputs(plan, output, simulated=True)
    signal = declared_signal(target, plan)
    if events is not None:
        from policyc.emit.run_summary import render_events
        from policyc_runtime.laboratory.events import write_events

        count = write_events(plan, seed, events, steps=steps, signal=signal)
        typer.echo(render_events(plan, target if target.is_dir() else None, events, count))
        return
    randomness = SimulationRandomness(seed)
    with shown_progress("simulating") as progress, computed_with() if target.is_dir() else nullcontext():
        result = simulate_plan(plan, randomness, repeat, signal=signal, progress=progress)
    typer.echo("\n".join(result.table_lines()))
    if output is not None:
        for path in write_release(result.example, output):
            typer.echo(f"one simulated run, marked NOT A RELEASE: {path}")


def _plan_of(target: Path) -> Plan:
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import verify as verify_plan

    if target.is_dir() or target.suffix in {".plan", ".json"}:
        plan = load_plan(target)
        verify_plan(plan)
        return plan
    from policyc.pipeline import compile_policy

    compilation = compile_policy(target)
    show_findings(compilation.diagnostics, compilation.source)
    return compilation.plan


register_policies(app)
register_init(app)
register_documents(app)
register_account(app)
register_leakage(app)


def main() -> None:
    """Run the command line; exit 0 when fine, 1 on findings, 2 on wrong usage, 3 on an internal error."""
    sys.exit(guarded(lambda: app(standalone_mode=True)))
