"""The commands that make a plan and look at one, before it is run."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyc.cli.arguments import AccountOption, PlanDirectory, PolicyFile
from policyc.cli.policies import show_findings
from policyc.cli.speech import JsonOption, say, show_record, shown_progress

if TYPE_CHECKING:
    from policyc_runtime.plan import Plan

MOST_SIMULATED = 100_000  # runs: a thousandth of a standard error is told by fewer


class TableFormat(StrEnum):
    """How a table is shown."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Stage(StrEnum):
    """What `compile --emit` shows instead of writing files."""

    TREE = "tree"
    POLICY = "policy"
    PLAN = "plan"


def compile_command(
    file: PolicyFile,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="DIR", help="Where to write. Default: NAME.plan.")
    ] = None,
    emit: Annotated[Stage | None, typer.Option("--emit", help="Show a stage instead of writing files.")] = None,
    account: AccountOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compile a policy into a plan, a post-processing model and a certificate.

    \b
    policyc compile traffic.policy
    policyc compile traffic.policy -o plans/traffic
    policyc compile traffic.policy --emit plan
    policyc compile traffic.policy --json        certificate.json, and where it lies
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
    from policyc.emit.summary import compilation_record, render_summary

    with shown_progress("writing"):
        directory = compilation.save(output, account)
    if as_json:
        show_record(compilation_record(compilation.plan, directory))
    else:
        say(render_summary(compilation.plan, directory))
        if account is not None:
            from policyc_runtime.account_of_run import older_requests

            for digest in older_requests(compilation.plan, account):
                say(
                    f"beside it {account} counts an earlier plan of `{compilation.policy.name}`: "
                    f"`policyc account withdraw {account} {digest[:16]}`, if nobody will run it"
                )


def _pretty(value: object) -> str:
    from pprint import pformat

    return pformat(value, width=120)


def show(
    directory: PlanDirectory,
    form: Annotated[TableFormat, typer.Option("--format", help="table, csv or json.")] = TableFormat.TABLE,
) -> None:
    """One row a step: budget, noise scale, leakage, expected error: the typical one first, squared ones as such.

    \b
    policyc show fleet.plan
    policyc show fleet.plan --format csv > steps.csv
    """
    from policyc.emit.steps import render_steps, step_rows
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import computed_with
    from policyc_runtime.refusal import verify as verify_plan

    plan = load_plan(directory)
    with shown_progress("computing"):
        verify_plan(plan)
        with computed_with():
            table = render_steps(step_rows(plan), form.value)
    typer.echo(table, nl=False)


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
    as_json: JsonOption = False,
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

        with shown_progress("drawing events"):
            count = write_events(plan, seed, events, steps=steps, signal=signal)
        if as_json:
            show_record({"simulated": True, "events": count, "file": events})
        else:
            say(render_events(plan, target if target.is_dir() else None, events, count))
        return
    randomness = SimulationRandomness(seed)
    with shown_progress("simulating") as progress, computed_with() if target.is_dir() else nullcontext():
        result = simulate_plan(plan, randomness, repeat, signal=signal, progress=progress)
    written = [] if output is None else write_release(result.example, output)
    if as_json:
        show_record({**result.record(), "files": list(map(str, written))})
        return
    say("\n".join(result.table_lines()))
    for path in written:
        say(f"one simulated run, marked NOT A RELEASE: {path}")


def _plan_of(target: Path) -> Plan:
    from policyc_runtime.plan import load_plan
    from policyc_runtime.refusal import verify as verify_plan

    if target.is_dir() or target.suffix in {".plan", ".json"}:
        plan = load_plan(target)
        verify_plan(plan)
        return plan
    from policyc.pipeline import compile_policy

    with shown_progress("compiling"):
        compilation = compile_policy(target)
    show_findings(compilation.diagnostics, compilation.source)
    return compilation.plan
