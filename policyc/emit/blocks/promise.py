"""What is promised: each target in one sentence that carries number, unit, adversary and time span together."""

from __future__ import annotations

from policyc.emit.blocks.assumptions import assumptions
from policyc.emit.blocks.wording import Json, JsonValue, quoted, relation_words, secret, span, step, user
from policyc.emit.numbers import exact, likelihood_factor, sentence_case, shown
from policyc_runtime.plan import AlphaDPT, EventLevel, Plan


def promises(plan: Plan) -> list[JsonValue]:
    """Block B: one entry a target."""
    return [
        _alpha_dpt(plan, target, index) if isinstance(target, AlphaDPT) else _event_level(plan, target, index)
        for index, target in enumerate(plan.targets, start=1)
    ]


def _alpha_dpt(plan: Plan, target: AlphaDPT, index: int) -> Json:
    factor = likelihood_factor(target.alpha)
    chains = len(plan.correlation.chains)
    knowledge = {
        0: "that the steps of one user are independent",
        1: "exactly how users move (the stated chain)",
    }.get(chains, "exactly how users of each group move (the stated chains)")
    sentence = (
        f"An adversary who sees everything that is published over {span(plan)}, who knows all about every other user "
        "and "
        f"{knowledge}, learns about one event, {secret(plan)} of {user(plan)} in {step(plan)}, at most "
        f"{exact(target.alpha)} nats: no published result is more than {factor} times as likely for one value of "
        "that event "
        "as for any other."
    )
    claimed = plan.claims.total_leakage
    return {
        **_entry(plan, index, target.kind, "alpha-DP_T", exact(target.alpha)),
        "sentence": sentence,
        "in_odds": (
            "To an adversary who believes exactly that, from the stated start on, the odds between any two values of "
            f"the event change by a factor of at most {factor}, over {span(plan)}, taken together."
        ),
        "factor": factor,
        "adversary": f"knows all about every other user, and {knowledge}",
        "holds": f"at every step, looking back from the end of {span(plan)}",
        "recomputed": f"{exact(claimed)} nats, largest total leakage over {span(plan)}"
        if claimed is not None
        else None,
        "theorem": (
            "total leakage is backward plus forward leakage minus the budget of the step itself"
            if chains
            else "where steps are independent, total leakage is the budget of the step itself"
        ),
        "derivation": _derivation(plan),
        "sources": ["CAO17"],
        "conditional_on": _rests_on(plan),
    }


def _derivation(plan: Plan) -> str:
    checked = "The plan was found by one algorithm and checked by another, with every rounding against it."
    if not plan.correlation.chains:
        return f"The largest budget of a step, all releases together. {checked}"
    lagged = any(record.lags != (1,) for record in plan.correlation.chains)
    own = (
        " Bounds over several lags are this compiler's own; they are never looser than those of CAO17."
        if lagged
        else ""
    )
    return (
        "Backward leakage at step t is the budget of t plus what earlier results tell through the chain; forward "
        "leakage the same with later results; the budget of t would be counted twice, so it is taken off once."
        f"{own} {checked}"
    )


def _event_level(plan: Plan, target: EventLevel, index: int) -> Json:
    factor = likelihood_factor(target.epsilon)
    return {
        **_entry(plan, index, target.kind, "event-level differential privacy", exact(target.epsilon)),
        "sentence": (
            f"An adversary who sees everything that is published over {span(plan)}, and who knows all about every "
            "other user "
            f"and every other step, learns about one event, {secret(plan)} of {user(plan)} in {step(plan)}, at most "
            f"{exact(target.epsilon)} nats: no published result is more than {factor} times as likely for one value of "
            "that event as for any other."
        ),
        "in_odds": (
            "Whatever the adversary believed before, the odds between any two values of the event change by a "
            "factor of "
            f"at most {factor}, over {span(plan)}, taken together, as long as the steps of one user tell nothing of "
            "each other."
        ),
        "factor": factor,
        "adversary": (
            "knows all about every other user and every other step; does not use that steps of one user are related"
        ),
        "holds": f"at every step of {span(plan)}",
        "recomputed": f"{exact(plan.claims.largest_budget)} nats, largest budget of one step over {span(plan)}",
        "theorem": "a step protects its own event by its own budget",
        "derivation": "The largest budget of a step, all releases together, in exact fractions.",
        "sources": [],
        "conditional_on": _rests_on(plan),
    }


def _rests_on(plan: Plan) -> list[JsonValue]:
    return [entry["title"] for entry in assumptions(plan) if isinstance(entry, dict)]


def _entry(plan: Plan, index: int, kind: str, name: str, value: str) -> Json:
    return {
        "id": f"P{index}",
        "kind": kind,
        "name": name,
        "value": value,
        "unit": "nats",
        "unit_of_privacy": "one event of one user",
        "time_scope": span(plan),
        "neighboring_relation": plan.relation.value,
        "neighbors": relation_words(plan),
        "sensitivity": [
            {"release": r.name, "l1": exact(r.l1_sensitivity), "reason": sentence_case(r.sensitivity_reason)}
            for r in plan.releases
        ],
    }


def not_covered(plan: Plan) -> list[JsonValue]:
    """Block N: what a hurried reader might believe, and must not."""
    entries: list[JsonValue] = [
        _more_than_one_event(plan),
        {
            "title": "Other knowledge of how a person moves",
            "text": (
                "Somebody who knows a habit that the stated chain does not contain may learn more. Against any such "
                f"adversary only the sum of all budgets is promised: {_whole_stream(plan)}."
            ),
        },
        {
            "title": "People who move together",
            "text": (
                "Users are assumed to be independent. What a family or a convoy does together is told by every one "
                "of them, "
                "so it is hidden less well than what one person does."
            ),
        },
        {
            "title": "What is true of the crowd",
            "text": (
                "That most users do something is what the statistics are for. Who learns it may guess well about a "
                "user, with or without that user's data in it."
            ),
        },
        {"title": "Numbers published as they are", "text": _unprotected_sentence(plan)},
        {
            "title": "Everything outside this plan",
            "text": (
                "The raw data itself, whoever can read it or the ledger's key, and other releases made from the same "
                "data: "
                "their budgets add to these."
            ),
        },
    ]
    return entries


def _more_than_one_event(plan: Plan) -> Json:
    return {
        "title": "More than one event of a user",
        "text": (
            "The promise is for one event at a time. The promise for all events of a user together is weaker: "
            f"{_whole_stream(plan)}."
        ),
    }


def _whole_stream(plan: Plan) -> str:
    total = plan.claims.budget_sum
    if total is None:
        return "nothing over a stream that has no end"
    return f"at most {shown(total)} nats for one user over {span(plan)}"


def unprotected(plan: Plan) -> list[JsonValue]:
    """Numbers that are published, or used, exactly as they are."""
    stream = plan.stream
    entries: list[JsonValue] = []
    if stream.population is not None:
        entries.append(
            {"name": "population", "value": str(stream.population), "words": f"the population, {stream.population:,}"}
        )
    if stream.start is None:
        entries.append(
            {"name": "start", "value": None, "words": "the step of the first event, at which the stream starts"}
        )
    else:
        entries.append(
            {"name": "start", "value": stream.start, "words": f"the moment at which the stream starts, {stream.start}"}
        )
    if stream.cell is not None:
        words = f"the list of {len(stream.cell.states):,} values of {quoted(stream.cell.column)}"
        entries.append({"name": "cells", "value": str(len(stream.cell.states)), "words": words})
    entries.append({"name": "end", "value": None, "words": "the step of the last event, at which a run stops"})
    entries.append(
        {"name": "horizon", "value": None if stream.horizon is None else str(stream.horizon), "words": "the horizon"}
    )
    return entries


def _unprotected_sentence(plan: Plan) -> str:
    words = [str(entry["words"]) for entry in unprotected(plan) if isinstance(entry, dict)]
    return f"{sentence_case('; '.join(words))}."
