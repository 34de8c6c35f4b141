"""What the numbers mean for the person who spent the budgets, in plain words."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import TYPE_CHECKING

from policyc.emit.numbers import counted, round_up, sentence_case
from policyc.quantification.report import times

if TYPE_CHECKING:
    from policyc.quantification.leakage import Adversary
    from policyc.quantification.report import Report

KNOWING: dict[Adversary, str] = {
    "none": "who takes steps as independent",
    "backward": "who knows where people were before",
    "forward": "who knows where people go next",
    "both": "who knows where people were before and where they go next",
}
_DIGITS = Context(prec=30)


def meaning(report: Report) -> str:
    """What the numbers mean for the person who spent the budgets: one paragraph."""
    found, strongest = report.found, report.strongest
    promised, told = found.window("none", 1).nats, found.window(strongest, 1)
    what = "one value of one person"
    words = [
        f"Every step was promised to tell at most {report.nats(promised)} about {what}: whoever gives it even odds "
        f"(50 %) is at most {sure(promised)} sure of it afterwards. That is so while nobody can guess the "
        "value at one step from those at others."
    ]
    if told.nats == math.inf:
        words.append(
            f"Here somebody can: {KNOWING[strongest]} learns more about the value at a step from every further "
            "release, without a known limit."
        )
        return " ".join(words)
    if told.nats <= promised:
        nobody = "the chains say nothing" if strongest != "none" else "who takes steps as independent learns no more"
        words.append(f"Here {nobody}: that is all that is told about any step.")
    else:
        who = ""
        if len(found.chains) > 1:
            worst = max(found.chains, key=lambda chain: chain.at_step(strongest).nats)
            who = f" about {'user' if found.knowledge.personal else 'group'} `{worst.name}`"
        words.append(
            "Here somebody can: what is published about other steps tells of this one too, and "
            f"{KNOWING[strongest]} learns at most {report.nats(told.nats)}{who}, at step {told.step:,}: "
            f"{times(told.nats, promised)} times the most that a step was promised. 50 % becomes at most "
            f"{sure(told.nats)}."
        )
    words.append(_going_on(report))
    if found.spent_in_all is not None:
        words.append(
            f"All values of one person together, at all {counted(len(found.spent.budgets), 'step')}, tell at most "
            f"{report.nats(found.spent_in_all)}, whatever is known."
        )
    words.append(
        "All of it is about one person among others whose values are known, and rests on the budgets being what "
        "changing one person's value in a step tells, and on the chains being those that people move by."
    )
    return " ".join(word for word in words if word)


def _going_on(report: Report) -> str:
    limit = report.found.limit(report.strongest)
    if limit is None or report.found.spent.endless:
        return ""
    if limit == math.inf:
        return f"{sentence_case(report.going_on)}, it grows with every release, without a known limit."
    return (
        f"{sentence_case(report.going_on)}, it never exceeds {report.nats(limit)} (50 % becomes at most {sure(limit)})."
    )


def sure(loss: float) -> str:
    """How probable a value can become that had even odds, as percent, rounded up."""
    odds = _DIGITS.exp(min(Decimal(loss), Decimal(1000)))  # beyond, it is 100 %
    percent = min(Decimal(100), 100 * _DIGITS.divide(odds, odds + 1))
    return f"{round_up(percent, 3 if percent < 99 else 6)} %"
