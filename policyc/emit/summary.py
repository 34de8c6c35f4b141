"""What the terminal says after a compilation: short, in plain words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from policyc.emit.blocks.accuracy import alone_words, dropped, stretch_words, typical_error, unit_words, where_released
from policyc.emit.blocks.made import formula
from policyc.emit.blocks.made_errors import made_error
from policyc.emit.blocks.suppression import left_out_words
from policyc.emit.blocks.user_limits import amount, at_delta, kind_of, number_of
from policyc.emit.blocks.user_steps import at_chance, most, taking_part, told_words
from policyc.emit.blocks.wording import chance, in_period
from policyc.emit.numbers import exact, round_up
from policyc.emit.signatures import CERTIFICATE
from policyc_check.plan.claims import UserLevelClaim
from policyc_check.plan.targets import AlphaDPT, AnyUserSteps, UserPromise, WEvent, adds_or_removes
from policyc_check.users.claims import promised_user_level, stream_profile
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import ReleasePlan, Scheduled

KINDS = {
    "user_level": "user level",
    "user_level_rho": "user level",
    "event_level": "event level",
    "w_event": "w-event",
}
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
        lines += ["", *([f"  {release.name}"] if plan.sharing else []), *_candidates(plan, release)]
    lines.append("")
    lines.append(f"{directory}/: plan.json, map_model.py, certificate.html, certificate.md, certificate.json")
    account = "" if plan.stream.dataset is None else " --account FILE"
    run = f"policyc run {directory} --input DATA --output OUT{account}"
    lines.append(f"next: read {directory}/certificate.html, then `{run}`")
    lines.append(
        f"      `python {directory}/map_model.py OUT` finds the most probable values: edit it, or take another solver"
    )
    return "\n".join(lines)


def compilation_record(plan: Plan, directory: Path) -> dict[str, object]:
    """The same for programs: where the plan lies, and its certificate, which says all else."""
    certificate = json.loads((directory / CERTIFICATE).read_text(encoding="utf-8"))
    return {
        "policy": plan.policy.name,
        "directory": str(directory),
        "plan_digest": plan.digest,
        "certificate": certificate,
    }


def _promise(plan: Plan, index: int) -> str:
    target = plan.targets[index]
    window = getattr(target, "window", None) or 1
    about = "about one user at one step" if window == 1 else f"about one user in any {window:,} steps in a row"
    claims = {claim.kind: claim.nats for claim in plan.claims.windows if claim.window == window}
    if isinstance(target, AlphaDPT):
        claimed = plan.claims.total_leakage if window == 1 else claims["leakage"]
        return (
            f"alpha-DP_T: at most {target.alpha} nats {about}, over {_span(plan)}, "
            f"against who knows the chain (audited: {claimed})"
        )
    if isinstance(target, UserPromise):
        claim, found = plan.claims.user_level[promised_user_level(plan).index(target)], None
        if len(plan.targets) > 1 and isinstance(claim, UserLevelClaim) and claim.delta:  # others may take more noise
            found = f"delta {round_up(stream_profile(plan, target).delta(float(claim.epsilon)), 3)}"
        return (
            f"{KINDS[kind_of(target)]}: at most {amount(target)} about all events of one user"
            f"{in_period(plan, target)}, over {_span(plan)}{at_delta(target) and ',' + at_delta(target)} "
            f"(recomputed: {number_of(claim) if found is None else found})"
        )
    if isinstance(target, AnyUserSteps):
        chance = at_chance(target) and f",{at_chance(target)}"
        return (
            f"user level: at most {most(target)} about all events of one user in {taking_part(plan, target)}, "
            f"over {_span(plan)}{chance} "
            f"({told_words(plan, target)})"
        )
    kind = "w-event" if isinstance(target, WEvent) else "event level"
    added = ", added or removed" if adds_or_removes(target) else ""
    unused = f" (delta {exact(target.delta)} is not used)" if target.delta else ""
    return f"{kind}: at most {target.epsilon} nats {about}{added}, steps taken as independent{unused}"


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
        spread = " to ".join(dict.fromkeys(f"{nats:.4g}" for nats in (min(budgets), max(budgets))))
        where = "" if 0 not in patterns else " with a release"
        lines.insert(2, f"  budget     {release.schedule.name}: {spread} nats a step{where}")
    return lines


def _candidates(plan: Plan, release: ReleasePlan) -> list[str]:
    """Everything that was compared: the typical error first, then the mean squared one, where that is compared."""
    budgets = isinstance(release, Scheduled)
    squared = plan.objective == "mean_squared_error"
    usual = "typical error" if squared else "mean absolute error"
    heading = ["schedule" if budgets else "mechanism", "estimator", HEADERS.get(release.predicted.kind, usual)]
    rows = [[*heading, *(["mean squared error", "compared by mean squared error"] if squared else [""])]]
    for candidate in release.candidates:
        error = candidate.predicted_error
        told = ["-" if error is None else typical_error(plan, error)]
        if squared:
            told.append("-" if error is None else f"{error:.4g}")
        refused_mechanism = candidate.schedule == candidate.estimator == "any"
        name = candidate.schedule if budgets and not refused_mechanism else candidate.mechanism
        rows.append([name, candidate.estimator, *told, candidate.reason])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  " + "  ".join(_cells(row, widths)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Words to the left, numbers to the right, the reason as long as it is."""
    words = [f"{word:<{width}}" for word, width in zip(row[:2], widths[:2], strict=True)]
    numbers = [f"{number:>{width}}" for number, width in zip(row[2:-1], widths[2:], strict=True)]
    return [*words, *numbers, row[-1]]
