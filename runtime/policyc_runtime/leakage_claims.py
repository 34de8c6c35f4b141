"""What a plan claims to leak through its chains, about single steps and windows, recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from policyc_runtime.claims import Claim
from policyc_runtime.correlation import ChainRecord
from policyc_runtime.errors import InvalidMatrixError, KernelError, PlanRejectedError
from policyc_runtime.plan import Plan
from policyc_runtime.rounding import rounded_down
from policyc_runtime.spending import (
    largest_budget,
    leakage_of_group,
    window_budget,
)
from policyc_runtime.targets import AlphaDPT, WEvent, window_of

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
    for record in plan.correlation.chains:
        name = f"total leakage{_group(record)} never exceeds {claimed} nats (promised {alpha})"
        try:
            found, step = leakage_of_group(plan, record)
        except (PlanRejectedError, InvalidMatrixError) as error:
            yield Claim(name, False, error.message, "claims.total_leakage")
            return
        place = "in the limit" if step is None else f"at step {step}"
        detail = f"total leakage {place} is at most {found!r} nats, promised {alpha}"
        yield Claim(name, found <= rounded_down(claimed), detail, "claims.total_leakage")
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
        elif isinstance(target, AlphaDPT) and target.window > 1:
            yield from _window_leakage(plan, target, claimed["leakage", target.window])


def _window_leakage(plan: Plan, target: AlphaDPT, claimed: Decimal) -> Iterator[Claim]:
    for record in plan.correlation.chains:
        words = f"leakage{_group(record)} about any {_in_a_row(target.window)} never exceeds {claimed} nats"
        name = f"{words} (promised {target.alpha})"
        try:
            found, step = leakage_of_group(plan, record, target.window)
        except (PlanRejectedError, InvalidMatrixError) as error:
            yield Claim(name, False, error.message, "claims.windows")
            return
        place = "in the limit" if step is None else f"from step {step}"
        detail = f"the window {place} leaks at most {found!r} nats, promised {target.alpha}"
        yield Claim(name, found <= rounded_down(claimed) and claimed <= target.alpha, detail, "claims.windows")
    if plan.correlation.kind == "none":
        spent = window_budget(plan, target.window)
        name = f"without correlation any {_in_a_row(target.window)} leak what they spend, at most {claimed} nats"
        holds = spent <= Fraction(claimed) and claimed <= target.alpha
        yield Claim(name, holds, f"recomputed {float(spent)!r}", "claims.windows")


def _group(record: ChainRecord) -> str:
    return f" of group `{record.group}`" if record.group else ""


def _in_a_row(width: int) -> str:
    return "one step" if width == 1 else f"{width:,} steps in a row"
