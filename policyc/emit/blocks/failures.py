"""How promises about all of a user may fail, where something is left to chance."""

from __future__ import annotations

from decimal import Decimal

from policyc.emit.blocks.user_limits import beyond, first_point
from policyc.emit.blocks.user_steps import leaves_to_chance, nats_at, steps_curve, user_steps_of
from policyc.emit.blocks.wording import JsonValue, in_period
from policyc.emit.numbers import exact, likelihood_factor, round_up
from policyc.emit.odds import probability_beyond
from policyc_check.plan.targets import UserRho
from policyc_check.users.claims import Promise, promised_user_level
from policyc_runtime.plan import Plan


def failures(plan: Plan) -> list[JsonValue]:
    """An entry for every promise that may fail."""
    found: list[JsonValue] = []
    for index, target in enumerate(promised_user_level(plan)):
        point = first_point(plan, index)
        if point is not None and point[1] > 0 and beyond(plan, index) != "0":
            found.append(_failing(plan, target, point, beyond(plan, index)))
    for beside in filter(leaves_to_chance, user_steps_of(plan)):
        point = nats_at(plan, beside)
        chance = round_up(probability_beyond(steps_curve(plan, beside), float(point[0])), 2)
        if chance != "0":
            found.append(_failing(plan, beside, point, chance))
    return found


def _failing(plan: Plan, target: Promise, point: tuple[Decimal, Decimal], chance: str) -> JsonValue:
    factor, delta = likelihood_factor(point[0]), exact(point[1])
    less = " Larger factors are less likely, as the other epsilons say." if isinstance(target, UserRho) else ""
    about = f" about all events of one user{in_period(plan, target)}" if len(plan.targets) > 1 else ""
    return {
        "title": "Failure with a small probability",
        "text": f"With a probability of at most {chance}, results change the odds{about} by more than a "
        f"factor of {factor}, and may do so by much. What they add to the probability "
        f"of any set of results is at most delta, {delta}.{less}",
    }
