"""What must stay true: each assumption, who vouches for it, and what is still guaranteed when it fails."""

from __future__ import annotations

from policyc.emit.blocks.public_numbers import public_numbers
from policyc.emit.blocks.user_steps import is_assumed, limited_participation, user_steps_of
from policyc.emit.blocks.wording import Json, JsonValue, group_name, listed, quoted, said, span, weighed
from policyc.emit.numbers import shown
from policyc_check.plan.correlation import ChainRecord, IndependentGroup
from policyc_check.plan.queries import SumQuery
from policyc_check.plan.targets import AlphaDPT, adds_or_removes
from policyc_runtime.plan import Plan


def assumptions(plan: Plan) -> list[JsonValue]:
    """Block C, most important first."""
    entries = steps_and_users(plan)
    bounds = {target.bound: target for target in user_steps_of(plan) if is_assumed(plan, target)}
    entries += [limited_participation(plan, target, whole_stream(plan)) for target in bounds.values()]
    return [*entries, _one_count(plan), public_numbers(plan), one_ledger(plan), UNPREDICTABLE_NOISE]


def steps_and_users(plan: Plan) -> list[JsonValue]:
    """What is assumed of the steps of one user, and where something is of a chain, of other users."""
    entries: list[JsonValue] = [_correlation(plan)]
    if any(isinstance(target, AlphaDPT) for target in plan.targets):
        entries.append(_independence(plan))
    return entries


def whole_stream(plan: Plan) -> str:
    """What is left when nothing is known of the correlation."""
    total = plan.claims.budget_sum
    if total is None:
        return "nothing for the stream as a whole, which has no end"
    return f"{shown(total)} nats for all events of one user over {span(plan)} (the sum of all budgets){weighed(total)}"


def _correlation(plan: Plan) -> Json:
    chains, others = plan.correlation.chains, plan.correlation.independent
    records: tuple[ChainRecord | IndependentGroup, ...] = (*chains, *others)
    evidence = [
        f"{said(record.evidence)} for {group_name(record)}" if record.group else said(record.evidence)
        for record in records
    ]
    if not chains:
        return {
            "id": "correlation",
            "title": "Independent steps",
            "statement": "The steps of one user tell nothing of each other.",
            "vouched_by": f"the policy: {listed(evidence or [said(plan.correlation.evidence or 'no evidence given')])}",
            "if_it_fails": f"Against any correlation there remains {whole_stream(plan)}.",
        }
    many = len(chains) > 1
    apart = [f"the steps of each of the {group_name(group)} tell nothing of each other, " for group in others]
    return {
        "id": "correlation",
        "title": "The chain",
        "statement": (
            f"Users move as the stated {'chains say' if many else 'chain says'}, {''.join(apart)}and nobody "
            "knows better how a given user "
            f"moves; {'the chains are' if many else 'the chain is'} public and not learned from the protected stream."
            f"{_amounts(plan)}"
        ),
        "vouched_by": f"the policy: {listed(evidence)}",
        "if_it_fails": (
            "A slightly wrong chain raises total leakage as the table of tolerances says, where every row is within "
            "that distance both forward and backward. Against any correlation, and any other start, there remains "
            f"{whole_stream(plan)}."
        ),
    }


def _amounts(plan: Plan) -> str:
    """On what the chain has values depend that are summed."""
    if not any(isinstance(release.query, SumQuery) for release in plan.releases):
        return ""
    return (
        " What a user adds to a sum at a step depends on the cell that it is in there, and on nothing else of the user "
        "or of other steps: a habit of spending much or little would tell of itself by the sums of all steps."
    )


def _independence(plan: Plan) -> Json:
    total = plan.claims.budget_sum
    rest = "nothing is promised over a stream without end"
    if total is not None:
        rest = f"all their events together leak at most m times {shown(total)} nats over {span(plan)}"
    return {
        "id": "independence",
        "title": "Independent users",
        "statement": "Users move independently of each other.",
        "vouched_by": "whoever signs the policy; it cannot be checked here",
        "if_it_fails": f"For m users who move together, {rest}.",
    }


def _one_count(plan: Plan) -> Json:
    cell = plan.stream.cell
    times = "m times " if plan.claims.budget_sum is not None else ""
    counted = "the run, when it counts events; whoever made them, when it is given ready counts"
    if cell is None:
        statement, vouched = "A user counts at most once in a step, however many events it has.", counted
    elif cell.otherwise is not None:
        absent = f"a user without one counts as {quoted(cell.otherwise)}"
        statement = f"A user counts in exactly one cell at each step: the last event of the step counts, and {absent}."
        vouched = counted
    elif any(map(adds_or_removes, plan.targets)):
        statement = "A user counts in at most one cell at each step: the last event of the step counts."
        vouched = counted
    else:
        statement = (
            "A user counts in exactly one cell at each step: the last event of the step counts, and every user has one."
        )
        vouched = f"{counted}; the policy for every user being somewhere, since it names no {quoted('otherwise')}"
    return {
        "id": "one_count",
        "title": "One count a step",
        "statement": statement,
        "vouched_by": vouched,
        "if_it_fails": f"For at most m counts a step there remains {times}{whole_stream(plan)}.",
    }


def one_ledger(plan: Plan) -> Json:
    """That nothing is drawn twice, and what holds other plans on the same users."""
    others = plan.stream.dataset
    statement = "The same data is released under this plan only once"
    vouched = "the ledger, as long as every run uses the same one"
    if others is not None:
        statement += f", and under others only as far as the account of data set {quoted(others)} allows"
        vouched += "; the account, which adds up the plans that are entered in it, and no others"
    return {
        "id": "one_ledger",
        "title": "One ledger" if others is None else "One ledger, one account",
        "statement": f"{statement}.",
        "vouched_by": vouched,
        "if_it_fails": "Budgets of all runs and plans add up, step by step."
        if plan.scheduled
        else "What all runs and plans tell adds up.",
    }


UNPREDICTABLE_NOISE: Json = {
    "id": "randomness",
    "title": "Unpredictable noise",
    "statement": (
        "The operating system's cryptographic generator cannot be predicted, and nobody sees noise before it is added."
    ),
    "vouched_by": "the operating system",
    "if_it_fails": "Who predicts the noise sees the raw values.",
}
