"""The words of promises about periods: one day of a user, or one year, hidden by itself."""

from __future__ import annotations

from policyc.emit.blocks.user_limits import at_delta, left_words
from policyc.emit.blocks.user_steps import at_chance, most, taking_part, user_steps_of
from policyc.emit.blocks.wording import JsonValue, in_period, one_period, period_length, told_in_turn
from policyc.emit.numbers import counted, duration
from policyc_check.plan.claims import UserLevelClaim, UserRhoClaim
from policyc_check.plan.stream import DAY, MONTH
from policyc_check.plan.targets import AnyUserSteps
from policyc_check.users.claims import own_bound, promised_user_level, window_of
from policyc_runtime.beyond import STRETCHES, periods_in, periods_of_horizon
from policyc_runtime.plan import Plan


def other_periods(plan: Plan) -> str:
    """What else an adversary may know, of a promise about periods."""
    others = "periods" if window_of(plan) is None else "steps"
    return f", and all that this user does in other {others}" if in_period(plan) else ""


def habits(plan: Plan) -> list[JsonValue]:
    """What a promise about periods leaves of more than one of them."""
    (claim, *_), (target, *_) = plan.claims.user_level, promised_user_level(plan)
    if target.window is not None:
        return [
            {
                "title": "What a user does in more steps",
                "text": "A habit shows in many steps, and the promise is for "
                f"{counted(target.window, 'step')} at a time. Of what a user does in more is promised: "
                f"{more_steps(claim, ' in a row')}.{_all_at(claim)}{_beside(plan)}",
            }
        ]
    if target.per is None:
        return []
    length, any_length = period_length(plan, target.per), duration(target.per)
    for_ever = " Over a lifetime nothing is promised, as every further period adds to it."
    return [
        {
            "title": "What a user does in several periods",
            "text": f"Each period of {length} is hidden by itself, counted from step 0 on ({plan.stream.start}). A "
            f"habit shows in many, and any {any_length} that begins at another moment touches two. Of what a user does "
            f"in several is promised: {several_periods(plan, claim)}.{_all_at(claim)}"
            f"{for_ever if plan.stream.horizon is None else ''}",
        }
    ]


def habits_beside(plan: Plan, whole: str) -> list[JsonValue]:
    """What promises about periods beside those about steps leave of more; `whole`: of what a user does in any steps."""
    return [
        {
            "title": "What a user does in several periods",
            "text": f"The promise is for {one_period(plan, target)}, counted from step 0 on "
            f"({plan.stream.start}). A habit shows in many, and {_as_long(target)} at another moment touch two. "
            f"Of what a user does in any steps is promised: {whole}.",
        }
        for target in user_steps_of(plan)
        if target.window is not None
    ]


def _as_long(target: AnyUserSteps) -> str:
    """What lasts as long as a period, where it begins."""
    return "as many steps that begin" if target.per is None else f"any {duration(target.per)} that begin"


def _beside(plan: Plan) -> str:
    """What is promised of all that a user does, or of a period of it, beside."""
    told = [f"{most(target)}{at_chance(target)} in {taking_part(plan, target)}" for target in user_steps_of(plan)]
    return f" Of all that a user does is promised: {', '.join(told)}." if told else ""


def _all_at(claim: UserLevelClaim | UserRhoClaim) -> str:
    """At which delta a list of numbers is told, as a sentence behind it; empty for none, or where each has its own."""
    return at_delta(claim) and f" All{at_delta(claim)}."


def more_steps(claim: UserLevelClaim | UserRhoClaim, row: str = "") -> str:
    """What is left of what a user does in more steps, in sentences: `2 nats at 2 steps. It is ...`; `row`: in a row."""
    left = [f"{left_words(point)} at {counted(point.participation, 'step')}{row}" for point in claim.beyond]
    return told_in_turn(left) or "as much, as there are no more"


def several_periods(plan: Plan, claim: UserLevelClaim | UserRhoClaim) -> str:
    """What is left of what a user does in several periods, in sentences: `8 nats in 7 periods (7 days). It is ...`."""
    left = [left_words(point) for point in claim.beyond]
    return told_in_turn(
        [
            f"{words} in {counted(count, 'period')} ({stretch})"
            for words, (count, stretch) in zip(left, _stretches(plan, claim), strict=True)
        ]
    )


def _stretches(plan: Plan, claim: UserLevelClaim | UserRhoClaim) -> list[tuple[int, str]]:
    """Periods of each of the claim's points, with what has so many."""
    (target, *_) = promised_user_level(plan)
    per, own = target.per or 1, own_bound(plan)
    end = periods_of_horizon(plan)
    whole = "" if per != MONTH and DAY % per == 0 else "any "  # days are made of periods, or lie among them anyhow
    words = {periods_in(plan, days): f"{whole}{days} days" for days in STRETCHES}
    words |= {2: f"any stretch of {duration(per)}"} | ({} if end is None else {end: "all there are"})
    return [(count, words[count]) for count in (point.participation // own for point in claim.beyond)]
