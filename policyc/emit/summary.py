"""What the terminal says after a compilation and after a simulation: short, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from policyc.diagnostics.text import visible
from policyc.emit.blocks.accuracy import alone_words, dropped, stretch_words, typical_error, unit_words, where_released
from policyc.emit.blocks.made import formula
from policyc.emit.blocks.made_errors import made_error
from policyc.emit.blocks.suppression import left_out_words
from policyc.emit.blocks.user_limits import amount, at_delta, number_of
from policyc.emit.blocks.wording import chance, in_period
from policyc_check.plan.targets import AlphaDPT, UserPromise, WEvent
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan, Scheduled

if TYPE_CHECKING:
    from policyc_runtime.published_values import Release

HEADERS = {"at_least": "error at least", "unconstrained": "before constraints", "noise": "error of the noise"}


def render_summary(plan: Plan, directory: Path) -> str:
    """What was promised, what was chosen, how accurate it will be, and what to do next."""
    lines = [f"{plan.policy.name}: {plan.policy.purpose}", ""]
    lines += [f"  promise    {_promise(plan, index)}" for index in range(len(plan.targets))]
    for release in plan.releases:
        lines += _release_lines(plan, release)
    for made in plan.made:
        lines += [f"  made       {made.name} = {formula(made)}, of released values: no cost"]
        lines += [f"  expected   {made_error(plan, made)['sentence']}"]
    for release in plan.releases:
        lines += ["", *([f"  {release.name}"] if plan.sharing else []), *_candidates(release)]
    lines.append("")
    lines.append(f"{directory}/: plan.json, map_model.py, certificate.html, certificate.md, certificate.json")
    lines.append(f"next: read {directory}/certificate.html, then `policyc run {directory} --input DATA --output OUT`")
    lines.append(
        f"      `python {directory}/map_model.py OUT` finds the most probable values: edit it, or take another solver"
    )
    return "\n".join(lines)


def _promise(plan: Plan, index: int) -> str:
    target = plan.targets[index]
    window = getattr(target, "window", 1)
    about = "about one user at one step" if window == 1 else f"about one user in any {window:,} steps in a row"
    claims = {claim.kind: claim.nats for claim in plan.claims.windows if claim.window == window}
    if isinstance(target, AlphaDPT):
        claimed = plan.claims.total_leakage if window == 1 else claims["leakage"]
        return (
            f"alpha-DP_T: at most {target.alpha} nats {about}, over {_span(plan)}, "
            f"against who knows the chain (audited: {claimed})"
        )
    if isinstance(target, UserPromise):
        claim = plan.claims.user_level[index]
        return (
            f"user level: at most {amount(target)} about all events of one user{in_period(plan)}, over {_span(plan)}"
            f"{at_delta(target) and ',' + at_delta(target)} (recomputed: {number_of(claim)})"
        )
    kind = "w-event" if isinstance(target, WEvent) else "event level"
    return f"{kind}: at most {target.epsilon} nats {about}, steps taken as independent"


def _span(plan: Plan) -> str:
    horizon = plan.stream.horizon
    return "an endless stream" if horizon is None else f"all {horizon:,} steps"


def _release_lines(plan: Plan, release: ReleasePlan) -> list[str]:
    unit = "squared error" if plan.objective == "mean_squared_error" else "absolute error"
    predicted = release.predicted
    errors = f"{predicted.least}about {typical_error(plan, predicted.published)} {unit_words(plan, release)} off"
    if predicted.least:
        errors += f": {predicted.because}"
    elif predicted.kind == "noise":
        errors += " before post-processing, whose gain is not known"
    elif predicted.without_postprocessing is not None:
        errors += f"; {alone_words(plan, release)}{where_released(plan, release)} "
        errors += typical_error(plan, predicted.without_postprocessing)
    if predicted.prior_alone is not None:
        errors += f"; the public prior alone {typical_error(plan, predicted.prior_alone)}"
    told = [f"mean {unit} {predicted.published:.4g}", chance(predicted).strip(" ()"), stretch_words(plan, release)]
    errors += f" ({', '.join(words for words in told if words)})"
    taken = "" if release.share is None else f", {100 * float(release.share):.3g} % of every step's budget"
    values = "1 value" if len(release.cells) == 1 else f"{len(release.cells)} values"
    lines = [
        f"  release    {release.name}: {values} every {plan.stream.step_text}{taken}",
        f"  mechanism  {release.mechanism.described()}",
        f"  estimator  {release.estimator.described()}",
        f"  expected   {errors}",
    ]
    if left_out := left_out_words(plan, release):
        lines.append(f"  left out   {left_out}; errors are those of all values, before any are left out")
    if plan.drops_from(release):
        lines.append(
            f"  of what    kept events: {dropped(plan, release)} are dropped, and no error tells of it (W0502)"
        )
    if isinstance(release, Scheduled):
        patterns = [epsilon for segment in release.schedule.segments for epsilon in segment.epsilons]
        budgets = [float(epsilon) for epsilon in patterns if epsilon > 0]
        spread = f"{min(budgets):.4g}" if min(budgets) == max(budgets) else f"{min(budgets):.4g} to {max(budgets):.4g}"
        where = "" if 0 not in patterns else " with a release"
        lines.insert(2, f"  budget     {release.schedule.name}: {spread} nats a step{where}")
    return lines


def _candidates(release: ReleasePlan) -> list[str]:
    budgets = isinstance(release, Scheduled)
    header = HEADERS.get(release.predicted.kind, "predicted error")
    rows = [("schedule" if budgets else "mechanism", "estimator", header, "")]
    for candidate in release.candidates:
        error = "-" if candidate.predicted_error is None else f"{candidate.predicted_error:.4g}"
        refused_mechanism = candidate.schedule == candidate.estimator == "any"
        name = candidate.schedule if budgets and not refused_mechanism else candidate.mechanism
        rows.append((name, candidate.estimator, error, candidate.reason))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows]


def _said_of_others(processes: set[str]) -> list[str]:
    """What it means that the noisy values spoke for these processes instead of the declared one."""
    lines = [
        "    at the steps where another process than the declared chain is named, the values move otherwise than the",
        "    chain says, and the estimate used that one instead; see whether the chain in the policy is right",
    ]
    if any("dispersed" in process for process in processes):
        lines.append("    (dispersed: the counts vary more than those of users who move independently of each other)")
    return lines


def render_run(plan: Plan, released: Release, written: Sequence[Path]) -> str:
    """Which steps are out now, how many of them were out before, from when to when, and where."""
    from policyc_runtime.estimates import described_processes
    from policyc_runtime.estimation.safeguard import DECLARED
    from policyc_runtime.noisy_values import waiting_steps

    horizon = plan.stream.horizon
    of_all = "" if horizon is None else f" of {horizon:,}"
    first, last = released.times[0], released.times[-1]
    steps = len(released.times)
    known = released.before
    lines = [] if released.is_release else ["NOT A RELEASE: the events were simulated; every file says so"]
    dates = f", {first} to {last}" if first else ""  # without a start steps have numbers alone
    lines += [f"released {steps:,}{of_all} steps{dates}: {steps - known:,} new, {known:,} from before"]
    lines += [f"  {visible(str(path))}" for path in written]
    if (wait := waiting_steps(plan)) and steps != horizon:
        lines.append(f"  the last {wait:,} steps wait for later ones, or for the stream's end")
    for name, series in released.series.items():
        if any(series.processes):
            lines.append(f"  {name}: process used: {described_processes(series.processes)}")
            others = {process for process in series.processes if process not in {"", DECLARED}}
            if others:
                lines += _said_of_others(others)
    lines.append(
        "running this again gives the same values; new steps are released when they are over and the input has them"
    )
    return "\n".join(lines)


def render_events(plan: Plan, directory: Path | None, events: str, count: int) -> str:
    """How many simulated events were written, and how to run the plan on them."""
    told = " --start 2026-01-05" if plan.stream.start is None else ""
    words = f"policyc run {directory or plan.policy.name + '.plan'} --input {events} --output OUT.csv{told}"
    return (
        f"NOT A RELEASE: {count:,} simulated events, drawn as the policy declares: {visible(events)}\n"
        f"next: `{words}`; what is made of them is marked, in a ledger that takes no real events"
    )
