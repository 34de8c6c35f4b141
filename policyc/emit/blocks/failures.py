"""How promises about all of a user may fail, where something is left to chance."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import partial

from policyc.emit.blocks.user_limits import beyond, chance_beyond, first_point, limit_words
from policyc.emit.blocks.user_steps import leaves_to_chance, most_lost, nats_at, steps_curve, user_steps_of
from policyc.emit.blocks.wording import JsonValue, in_period
from policyc.emit.numbers import exact, likelihood_factor
from policyc_check.plan.targets import UserRho
from policyc_check.users.claims import Promise, promised_user_level
from policyc_runtime.plan import Plan


def failures(plan: Plan) -> list[JsonValue]:
    """An entry for every promise that may fail."""
    found: list[JsonValue] = []
    for index, target in enumerate(promised_user_level(plan)):
        point = first_point(plan, index)
        if point is not None and point[1] > 0:
            found += _failing(plan, target, point, beyond(plan, index))
    for beside in filter(leaves_to_chance, user_steps_of(plan)):
        point, limit = nats_at(plan, beside), most_lost(plan, beside)
        chance = chance_beyond(partial(steps_curve, plan, beside), point[0], limit)
        found += _failing(plan, beside, point, (chance, limit_words(limit)))
    return found


def _failing(
    plan: Plan, target: Promise, point: tuple[Decimal, Decimal], failure: tuple[str, str]
) -> Iterator[JsonValue]:
    """The entry, if any: of a failure's probability, and of what is never lost."""
    (chance, limit), factor, delta = failure, likelihood_factor(point[0]), exact(point[1])
    if chance == "0":
        return
    less = " Larger factors are less likely, as the other epsilons say." if isinstance(target, UserRho) else ""
    about = f" about all events of one user{in_period(plan, target)}" if len(plan.targets) > 1 else ""
    yield {
        "title": "Failure with a small probability",
        "text": f"With a probability of at most {chance}, results change the odds{about} by more than a "
        f"factor of {factor}, which is {exact(point[0])} nats{limit or ', and may do so by much'}. What they add to "
        f"the probability of any set of results is at most delta, {delta}.{less}",
    }
