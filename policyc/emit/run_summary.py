"""What the terminal says after a run and after a simulation: short, in plain words.

Every run says this, so nothing that renders a plan is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from policyc.diagnostics.text import visible
from policyc_runtime.estimates import described_processes
from policyc_runtime.estimation.safeguard import DECLARED
from policyc_runtime.noisy_values import waiting_steps
from policyc_runtime.plan import Plan
from policyc_runtime.published_values import Release


def _said_of_others(processes: set[str]) -> list[str]:
    """What it means that the noisy values spoke for these processes instead of the declared one."""
    lines = [
        "    at the steps where another process than the declared chain is named, the values move otherwise than the",
        "    chain says, and the estimate used that one instead; see whether the chain in the policy is right",
    ]
    if any("dispersed" in process for process in processes):
        lines.append("    (dispersed: the counts vary more than those of users who move independently of each other)")
    return lines


def render_run(plan: Plan, released: Release, written: Sequence[Path], reports: Sequence[Path] = ()) -> str:
    """Which steps are out now, how many of them were out before, from when to when, and where; the page first."""
    horizon = plan.stream.horizon
    of_all = "" if horizon is None else f" of {horizon:,}"
    first, last = released.begins, released.times[-1]
    steps = released.steps.stop
    known = released.before
    lines = [] if released.is_release else ["NOT A RELEASE: the events were simulated; every file says so"]
    dates = f", {first} to {last}" if first else ""  # without a start steps have numbers alone
    lines += [f"released {steps:,}{of_all} steps{dates}: {steps - known:,} new, {known:,} from before"]
    lines += [f"  {visible(str(path))}" for path in written]
    lines += [f"  {visible(str(page))}: what is out, what is left of the promise, pictures" for page in reports[:1]]
    if (wait := waiting_steps(plan)) and steps != horizon:
        lines.append(f"  the last {wait:,} steps wait for later ones, or for the stream's end")
    for name, series in released.series.items():
        if any(series.processes):
            at = " at the steps that were read" if released.first else ""
            lines.append(f"  {name}: process used{at}: {described_processes(series.processes, released.first)}")
            others = {process for process in series.processes if process not in {"", DECLARED}}
            if others:
                lines += _said_of_others(others)
    lines.append(
        "running this again gives the same values; new steps are released when they are over and the input has them"
    )
    return "\n".join(lines)


def run_record(
    plan: Plan, released: Release, written: Sequence[Path], reports: Sequence[Path] = ()
) -> dict[str, object]:
    """The same for programs."""
    steps = released.steps.stop
    return {
        "policy": plan.policy.name,
        "plan_digest": plan.digest,
        "is_release": released.is_release,
        "released": steps,
        "of": plan.stream.horizon,
        "new": steps - released.before,
        "from_before": released.before,
        "first": released.begins or None,
        "last": released.times[-1] or None,
        "files": list(map(str, written)),
        "report": list(map(str, reports)),
        "processes_from_step": released.first,  # those before it were not read
        "processes": {name: sorted({*series.processes} - {""}) for name, series in released.series.items()},
    }


def render_events(plan: Plan, directory: Path | None, events: str, count: int) -> str:
    """How many simulated events were written, and how to run the plan on them."""
    told = " --start 2026-01-05" if plan.stream.start is None else ""
    words = f"policyc run {directory or plan.policy.name + '.plan'} --input {events} --output OUT.csv{told}"
    return (
        f"NOT A RELEASE: {count:,} simulated events, drawn as the policy declares: {visible(events)}\n"
        f"next: `{words}`; what is made of them is marked, in a ledger that takes no real events"
    )
