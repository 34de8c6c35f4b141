"""What the same noise promises to users who take part more often than the bound says, or act together."""

from __future__ import annotations

from policyc.emit.blocks.user_limits import (
    Groups,
    at_delta,
    left_words,
)
from policyc.emit.blocks.user_steps import at_chance, most, taking_part, user_steps_of
from policyc.emit.blocks.wording import Json, JsonValue, in_period, span
from policyc.emit.numbers import counted
from policyc_check.plan.claims import UserRhoClaim
from policyc_check.plan.targets import UserStepsRho
from policyc_check.users.claims import own_bound, promised_user_level, window_of
from policyc_runtime.plan import Plan


def implied_bounds(plan: Plan, groups: Groups) -> Json:
    """A table of what is left of the promise for them; `groups` as `user_level_blocks` found them."""
    rows: list[JsonValue] = []
    first, window = plan.claims.user_level[0], window_of(plan)
    periods = in_period(plan) and window is None
    rho = isinstance(first, UserRhoClaim)
    delta = _chance(at_delta(first))
    for index, (claim, target) in enumerate(zip(plan.claims.user_level, promised_user_level(plan), strict=True)):
        own = own_bound(plan) * (target.window or 1)
        beyond = () if index else claim.beyond  # of one promise: they tell of the noise, which is that of all
        for bound, stated in ((own, claim), *((point.participation, point) for point in beyond)):
            words = f"all of {counted(bound, 'step')} {'in a row' if window else 'in which a user takes part'}"
            if periods:
                words = f"all of {counted(bound // own, 'period')} in which a user takes part"
            rows.append(
                {
                    "words": words,
                    "steps": str(bound),
                    "any": _cell(left_words(stated), _chance(at_delta(claim))),
                }
            )
    for beside in user_steps_of(plan):
        told = most(beside) if isinstance(beside, UserStepsRho) else _cell(most(beside), _chance(at_chance(beside)))
        of = "" if beside.window is None else " of one period"
        words = f"all of {counted(beside.bound, 'step')}{of} in which a user takes part"
        if beside.per is not None:
            words = f"all of {taking_part(plan, beside)}"
        rows.append({"words": words, "steps": str(beside.bound), "any": told})
    for size, kept in groups:
        rows.append(
            {
                "words": f"all of {counted(size, 'user')} who act together, or of one with {counted(size, 'name')}",
                "steps": f"{own_bound(plan) * (window or 1)} each",
                "any": "no limit" if kept == "nothing" else _cell(kept, delta),
            }
        )
    often = "The same noise, for users who take part more often than the bound says; a" if first.beyond else "A"
    return {
        "unit": "rho, and nats at a delta," if rho else "nats",
        "unit_of_privacy": f"everything that one user does in so many {'periods' if periods else 'steps'}"
        f"{', wherever they lie' if window is None else ''}",
        "time_scope": span(plan),
        "adversaries": [
            {
                "key": "any",
                "words": "knows any correlation whatever" if window is None else "knows what happens in all others",
            }
        ],
        "rows": rows,
        "from": "The same noise, for all that a user does in more steps than are promised together."
        if window is not None
        else f"{often}ny window of steps{' within one period' if periods else ''}, and a single event, is protected at "
        "least as well as the first row says.",
    }


def _chance(at: str) -> str:
    """`, delta 0.000001`."""
    return f",{at}".replace(" at", "") if at else ""


def _cell(words: str, delta: str) -> str:
    """A cell of a table whose unit stands above it."""
    return "none" if words == "nothing" else f"{words.removesuffix(' nats').removeprefix('rho ')}{delta}"
