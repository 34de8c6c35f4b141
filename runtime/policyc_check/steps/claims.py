"""What a plan claims to leak through its chains, about single steps and windows, recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from policyc_check.claims import Claim
from policyc_check.errors import InvalidMatrixError, KernelError, PlanRejectedError
from policyc_check.plan.correlation import ChainRecord
from policyc_check.plan.plan import Plan
from policyc_check.plan.targets import AlphaDPT, WEvent, window_of
from policyc_check.rounding import rounded_down
from policyc_check.steps.budgets import largest_budget, window_budget
from policyc_check.steps.inheritance import GroupLeakage, leakage_of_group

LARGEST_GAP = 1e-6  # entries of a matrix that is only compared may be rounded


def check_chains(plan: Plan) -> Iterator[Claim]:
    """Every chain is one, on the cells of the stream."""
    states = len(plan.stream.cell.states) if plan.stream.cell else None
    for index, record in enumerate(plan.correlation.chains):
        place = f"correlation.chains.{index}"
        name = f"the chain{_group(record)} is a chain on the stream's cells"
        try:
            found = record.chain().states
            moving = record.initial is not None and record.initial != "stationary"
            if moving and record.forward is not None and record.backward is not None:
                detail = "a start that is not stationary has backward matrices of its own; `backward` contradicts them"
                yield Claim(name, False, detail, place)
                return
            gap = record.reversal_gap()
        except KernelError as error:
            yield Claim(name, False, error.message, place)
            return
        if gap is not None and not gap <= LARGEST_GAP:
            detail = f"`backward` is not the reversal of `forward`, by {gap:.2g}: correct the policy and compile again"
            yield Claim(name, False, detail, place, "E0844")
            return
        ordered = list(record.lags) == sorted(set(record.lags)) and record.lags[0] == 1
        yield Claim(name, found == states and ordered, f"{found} states, rows sum to 1 within 1e-9", place)


def check_leakage(plan: Plan) -> Iterator[Claim]:
    """What alpha-DP_T promises about single steps."""
    alphas = [target.alpha for target in plan.targets if isinstance(target, AlphaDPT)]
    claimed = plan.claims.total_leakage
    if not alphas:
        yield Claim("no total leakage is claimed", claimed is None, "no alpha-DP_T target", "claims.total_leakage")
        return
    alpha = min(alphas)
    if claimed is None or claimed > alpha:
        yield Claim("total leakage is claimed", False, "the claim is missing or above alpha", "claims.total_leakage")
        return
    wide = {
        target.window: target.alpha for target in plan.targets if isinstance(target, AlphaDPT) and target.window > 1
    }
    stated = {claim.window: claim.nats for claim in plan.claims.windows if claim.kind == "leakage"}
    for record in plan.correlation.chains:
        try:
            leakage = leakage_of_group(plan, record)
        except (PlanRejectedError, InvalidMatrixError) as error:
            name = f"leakage passed on between steps{_group(record)} is what the plan says"
            yield Claim(name, False, error.message, error.where or "claims.inherited", error.code)
            return
        name = f"total leakage{_group(record)} never exceeds {claimed} nats (promised {alpha})"
        yield _largest(leakage, 1, name, claimed, alpha, "claims.total_leakage")
        for width, limit in wide.items():
            nats = stated.get(width, limit)
            name = f"leakage{_group(record)} about any {_in_a_row(width)} never exceeds {nats} nats (promised {limit})"
            yield _largest(leakage, width, name, nats, limit, "claims.windows")
    if plan.correlation.kind == "none":
        largest = largest_budget(plan)
        name = f"without correlation total leakage is the budget of one step, at most {claimed} nats"
        yield Claim(name, largest <= Fraction(claimed), f"recomputed {float(largest)!r}", "claims.total_leakage")


def check_windows(plan: Plan) -> Iterator[Claim]:
    """Targets over several steps: each has its claim, each claim is recomputed."""
    wide = [target for target in plan.targets if window_of(target) > 1]
    needed = {("leakage" if isinstance(t, AlphaDPT) else "budget", window_of(t)) for t in wide}
    claimed = {(claim.kind, claim.window): claim.nats for claim in plan.claims.windows}
    if needed != claimed.keys() or len(claimed) != len(plan.claims.windows):
        yield Claim("every window that is promised has its claim", False, "claims and targets differ", "claims.windows")
        return
    for target in plan.targets:
        if isinstance(target, WEvent):
            spent = window_budget(plan, target.window)
            stated = claimed.get(("budget", target.window), target.epsilon)
            name = f"any {_in_a_row(target.window)} spend at most {stated} nats (promised {target.epsilon})"
            holds = spent <= Fraction(stated) and stated <= target.epsilon
            yield Claim(name, holds, f"recomputed {float(spent)!r}, in exact fractions", "claims.windows")
        elif isinstance(target, AlphaDPT) and target.window > 1 and plan.correlation.kind == "none":
            spent, stated = window_budget(plan, target.window), claimed["leakage", target.window]
            name = f"without correlation any {_in_a_row(target.window)} leak what they spend, at most {stated} nats"
            holds = spent <= Fraction(stated) and stated <= target.alpha
            yield Claim(name, holds, f"recomputed {float(spent)!r}", "claims.windows")


def _largest(leakage: GroupLeakage, width: int, name: str, claimed: Decimal, promised: Decimal, where: str) -> Claim:
    found, step = leakage.largest(width)
    place = "in the limit" if leakage.endless else f"at step {step}" if width == 1 else f"from step {step}"
    what = f"total leakage {place} is" if width == 1 else f"the window {place} leaks"
    holds = found <= rounded_down(claimed) and claimed <= promised
    return Claim(name, holds, f"{what} at most {found!r} nats, promised {promised}", where)


def _group(record: ChainRecord) -> str:
    return f" of group `{record.group}`" if record.group else ""


def _in_a_row(width: int) -> str:
    return "one step" if width == 1 else f"{width:,} steps in a row"
