"""What a hurried reader might believe of a promise about steps, and must not."""

from __future__ import annotations

from policyc.emit.blocks import sentences
from policyc.emit.blocks.periods import habits_beside
from policyc.emit.blocks.public_numbers import unprotected_sentence
from policyc.emit.blocks.user_steps import at_chance, most, taking_part, user_steps_of
from policyc.emit.blocks.wording import Json, JsonValue, listed, span, weighed
from policyc.emit.numbers import shown
from policyc_check.plan.targets import window_of
from policyc_runtime.plan import Plan


def not_covered(plan: Plan) -> list[JsonValue]:
    """Block N: what a hurried reader might believe, and must not."""
    entries: list[JsonValue] = [
        _more_than_one_event(plan),
        *habits_beside(plan, _whole_stream(plan)),
        {
            "title": "Other knowledge of how a person moves",
            "text": (
                "Somebody who knows a habit that the stated chain does not contain may learn more. Against any such "
                f"adversary only the sum of all budgets is promised: {_whole_stream(plan)}."
            ),
        },
        {
            "title": "People who move together",
            "text": f"Users are assumed to be independent. {sentences.TOGETHER}",
        },
        {
            "title": "What is true of the crowd",
            "text": sentences.CROWD,
        },
        {"title": "Numbers published as they are", "text": unprotected_sentence(plan)},
        {
            "title": "Everything outside this plan",
            "text": f"{sentences.OUTSIDE}: their budgets add to these.",
        },
    ]
    return entries


def _more_than_one_event(plan: Plan) -> Json:
    wide = any(window_of(target) > 1 for target in plan.targets)
    one = "one event, or for the steps of one window," if wide else "one event"
    if users := user_steps_of(plan):
        told = [f"{most(t)}{at_chance(t)} of a user who takes part in {taking_part(plan, t)}" for t in users]
        return {
            "title": "More of a user than its promise is about",
            "text": (
                f"All promises but one are for {one} at a time. That for all events of a user together is "
                f"{listed(told)}; for a user in any steps, against any adversary, it is {_whole_stream(plan)}."
            ),
        }
    return {
        "title": "More than one window of a user" if wide else "More than one event of a user",
        "text": (
            f"The promise is for {one} at a time. The promise for all events of a user together is weaker: "
            f"{_whole_stream(plan)}."
        ),
    }


def _whole_stream(plan: Plan) -> str:
    total = plan.claims.budget_sum
    if total is None:
        return "nothing over a stream that has no end"
    return f"at most {shown(total)} nats for one user over {span(plan)}{weighed(total)}"
