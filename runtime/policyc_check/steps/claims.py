"""What a plan claims to spend, and to leak through its chains, about single steps and windows, recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from policyc_check.claims import Claim
from policyc_check.errors import InvalidMatrixError, KernelError, PlanRejectedError
from policyc_check.plan.plan import Plan
from policyc_check.plan.targets import AlphaDPT, WEvent, window_of
from policyc_check.rounding import rounded_down
from policyc_check.steps.budgets import window_budget
from policyc_check.steps.inheritance import leakage_of_group


def check_chains(plan: Plan) -> Iterator[Claim]:
    """Every chain is one, on the cells of the stream."""
    states = len(plan.stream.cell.states) if plan.stream.cell else None
    for index, record in enumerate(plan.correlation.chains):
        place = f"correlation.chains.{index}"
        name = f"the chain{_group(record.group)} is a chain on the stream's cells"
        try:
            found = record.chain().states
        except KernelError as error:
            yield Claim(name, False, error.message, place, error.code)
            return
        ordered = list(record.lags) == sorted(set(record.lags)) and record.lags[0] == 1
        yield Claim(name, found == states and ordered, f"{found} states, rows sum to 1 within 1e-9", place)


def check_leakage(plan: Plan) -> Iterator[Claim]:
    """What alpha-DP_T promises, about single steps and about windows."""
    targets = [target for target in plan.targets if isinstance(target, AlphaDPT)]
    claimed = plan.claims.total_leakage
    if not targets:
        yield Claim("no total leakage is claimed", claimed is None, "no alpha-DP_T target", "claims.total_leakage")
        return
    alpha = min(target.alpha for target in targets)
    if claimed is None or claimed > alpha:
        yield Claim("total leakage is claimed", False, "the claim is missing or above alpha", "claims.total_leakage")
        return
    stated = {claim.window: claim.nats for claim in plan.claims.windows if claim.kind == "leakage"}
    wide = [(t.window, stated.get(t.window, t.alpha), t.alpha) for t in targets if t.window > 1]
    bounds = [(1, claimed, alpha, "claims.total_leakage"), *((*bound, "claims.windows") for bound in wide)]
    for record in plan.correlation.chains:
        group = _group(record.group)
        try:
            leakage = leakage_of_group(plan, record, max(width for width, *_ in bounds))
        except (PlanRejectedError, InvalidMatrixError) as error:
            name = f"leakage passed on between steps{group} is what the plan says"
            yield Claim(name, False, error.message, error.where or "claims.inherited", error.code)
            return
        for width, nats, limit, where in bounds:
            found, step = leakage.largest(width)
            place = "in the limit" if leakage.endless else f"{'at' if width == 1 else 'from'} step {step}"
            name = f"total leakage{group}" if width == 1 else f"leakage{group} about any {width:,} steps in a row"
            name = f"{name} never exceeds {nats} nats (promised {limit})"
            holds = found <= rounded_down(nats) and nats <= limit
            yield Claim(name, holds, f"at most {found!r} nats {place}, promised {limit}", where)
    independent = [_group(entry.group) for entry in plan.correlation.independent]
    for group in independent or ([] if plan.correlation.chains else [""]):
        for width, nats, limit, where in bounds:
            spent = window_budget(plan, width)
            name = f"any {width:,} steps in a row leak what they spend"
            name = f"without correlation{group} {'total leakage is the budget of one step' if width == 1 else name}"
            holds = spent <= Fraction(nats) and nats <= limit
            yield Claim(f"{name}, at most {nats} nats", holds, f"recomputed {float(spent)!r}", where)


def check_windows(plan: Plan) -> Iterator[Claim]:
    """Targets about windows, of one step too: each has its claim; what windows spend is recomputed."""
    wide = [target for target in plan.targets if isinstance(target, WEvent) or window_of(target) > 1]
    needed = {("leakage" if isinstance(t, AlphaDPT) else "budget", window_of(t)) for t in wide}
    claimed = {(claim.kind, claim.window): claim.nats for claim in plan.claims.windows}
    if needed != claimed.keys() or len(claimed) != len(plan.claims.windows):
        yield Claim("every window that is promised has its claim", False, "claims and targets differ", "claims.windows")
        return
    for target in plan.targets:
        if isinstance(target, WEvent):
            spent, stated = window_budget(plan, target.window), claimed["budget", target.window]
            steps = "one step" if target.window == 1 else f"{target.window:,} steps in a row"
            name = f"any {steps} spend at most {stated} nats (promised {target.epsilon})"
            holds = spent <= Fraction(stated) and stated <= target.epsilon
            yield Claim(name, holds, f"recomputed {float(spent)!r}, in exact fractions", "claims.windows")


def _group(name: str | None) -> str:
    return f" of group `{name}`" if name else ""
