"""A promise about all events of one user beside promises about steps: kept by their budgets, or by the noise of all."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial

from policyc.emit.blocks import sentences
from policyc.emit.blocks.user_limits import chance_beyond, limit_words, told_curve
from policyc.emit.blocks.wording import (
    Json,
    JsonValue,
    all_published,
    in_a_row,
    in_period,
    one_period,
    quoted,
    said,
    span,
    user,
    without_events,
)
from policyc.emit.numbers import counted, exact, likelihood_factor, round_up, sentence_case
from policyc_check.plan.targets import AnyUserSteps, NeighboringRelation, UserSteps, UserStepsRho
from policyc_check.steps.users import costs_of, differing_steps, profile_of
from policyc_check.users.claims import DELTAS, stream_largest_loss, stream_rho
from policyc_check.users.profile import PrivacyProfile
from policyc_runtime.mechanisms import WindowMechanism
from policyc_runtime.plan import Plan

ASSUMED = "Limited participation (assumed, not enforced)"


def user_steps_of(plan: Plan) -> list[AnyUserSteps]:
    """The promises of a plan that are of this kind."""
    return [target for target in plan.targets if isinstance(target, AnyUserSteps)]


def leaves_to_chance(target: AnyUserSteps) -> bool:
    """Whether more than the promised number may be told, if seldom."""
    return isinstance(target, UserStepsRho) or target.delta > 0


def most(target: AnyUserSteps) -> str:
    """`rho 0.015` or `1 nats`, as the promise has it."""
    return f"rho {exact(target.rho)}" if isinstance(target, UserStepsRho) else f"{exact(target.epsilon)} nats"


def most_lost(plan: Plan, target: AnyUserSteps) -> Fraction | None:
    """The budgets of all steps in which neighbors differ, or what the noise of all tells, nats; None for no limit."""
    if plan.measured:
        return stream_largest_loss(plan, target)
    return sum((budget * times for budget, times in costs_of(plan, target)), Fraction(0))


def steps_curve(plan: Plan, target: AnyUserSteps) -> PrivacyProfile:
    """The curve from which beliefs and tests are told."""
    return told_curve(plan, target) if plan.measured else profile_of(costs_of(plan, target))


def told_words(plan: Plan, target: AnyUserSteps) -> str:
    """What is recomputed, in a few words: `their budgets: 1.5`."""
    lost = most_lost(plan, target)
    if not plan.measured:
        return f"their budgets: {round_up(lost or Fraction(0))}"
    if isinstance(target, UserStepsRho):
        return f"recomputed: {round_up(stream_rho(plan, target) or Fraction(0))}"
    if target.delta == 0:
        return f"recomputed: {round_up(lost or Fraction(0))}"
    return f"recomputed: delta {_chance(plan, target, target.epsilon)}"


def _chance(plan: Plan, target: AnyUserSteps, epsilon: Decimal) -> str:
    """What is left to chance at an epsilon, rounded up."""
    return round_up(steps_curve(plan, target).delta(float(epsilon)), 3)


def at_chance(target: AnyUserSteps) -> str:
    """` at delta 0.000001`, where there is one."""
    return f" at delta {exact(target.delta)}" if isinstance(target, UserSteps) and target.delta else ""


def is_assumed(plan: Plan, target: AnyUserSteps) -> bool:
    """Whether users might take part in more steps; of all steps of a stream, or a period, there are no more."""
    return target.assumed is not None and target.bound != (target.window or plan.stream.horizon)


def taking_part(plan: Plan, target: AnyUserSteps) -> str:
    """How often a user takes part: `at most 50 steps`, `any of the 288 steps`, `any steps of one period of 7 steps`."""
    if target.per is not None:
        return f"{one_period(plan, target)} within a step"
    if target.window is not None:
        steps = "any steps" if target.bound == target.window else f"at most {counted(target.bound, 'step')}"
        return f"{steps} of {one_period(plan, target)}"
    if target.bound == plan.stream.horizon:
        return f"any of the {counted(target.bound, 'step')}"
    return f"at most {counted(target.bound, 'step')}"


def user_steps_promise(plan: Plan, target: AnyUserSteps, index: int, rests_on: list[JsonValue]) -> Json:
    """The promise in sentences, as certificates have it."""
    epsilon, delta = nats_at(plan, target)
    factor = likelihood_factor(epsilon)
    replaced = target.relation is NeighboringRelation.REPLACE_ONE
    bounded = ", as is assumed," if is_assumed(plan, target) else ""
    part = in_period(plan, target)
    others = ", and all that this user does in other periods" if part else ""
    other = f"with {'any other' if part else 'those of any other user'} in their place" if replaced else "without"
    results = f"No published result is more than {factor} times as likely with these events as {other}."
    if delta:
        results = (
            f"Any set of results has at most {factor} times the probability with these events that it has {other}, "
            f"plus {exact(delta)}."
        )
    often = f"One user{bounded} takes part in {taking_part(plan, target)}."
    if target.per is not None:
        often = "Such a period lies within one step."
    told = f"{most(target)}{at_chance(target)}"
    if isinstance(target, UserStepsRho):
        told = f"{most(target)}, which is {exact(epsilon)} nats at delta {exact(delta)},"
    derivation = "The budgets of the costliest steps, all releases together, in exact fractions."
    if isinstance(target, UserStepsRho):
        derivation = (
            "Half of the squares of the budgets of the costliest steps, all releases together, in exact fractions: a "
            "largest loss is a rho, half of its square. What is said at a delta is not converted from rho: each of "
            "these steps tells at most what randomised response of its budget does, and their losses are convolved."
        )
    elif target.delta:
        derivation = (
            "Each of the costliest steps tells at most what randomised response of its budget does; their losses are "
            "convolved, with every rounding against the plan."
        )
    if plan.measured:
        derivation = f"{_of_noise(target)}{spent_words(plan)}"
    convolved: list[JsonValue] = ["KOV15"] if delta and not plan.measured else []
    return {
        "id": f"P{index}",
        "kind": "user_level_rho" if isinstance(target, UserStepsRho) else "user_level",
        "name": "user-level zero-concentrated differential privacy"
        if isinstance(target, UserStepsRho)
        else "user-level differential privacy",
        "value": exact(target.rho if isinstance(target, UserStepsRho) else target.epsilon),
        **({"delta": exact(target.delta)} if isinstance(target, UserSteps) and target.delta else {}),
        "unit": "rho" if isinstance(target, UserStepsRho) else "nats",
        "unit_of_privacy": f"all events of one user{part}",
        "time_scope": span(plan),
        "neighboring_relation": target.relation.value,
        "neighbors": neighbors_words(plan, target),
        "sensitivity": [
            {"release": r.name, "l1": exact(r.l1_sensitivity), "reason": sentence_case(r.sensitivity_reason)}
            for r in plan.releases
        ],
        "sentence": (
            f"{all_published(plan)} tells at most {told} about all events of "
            f"{user(plan)}{part} together. {sentences.ADVERSARY}{others}. "
            f"{often} {results}"
        ),
        "in_odds": (
            f"Whatever is believed before, and however the steps of one user depend on each other, the odds between "
            f"what the user did{' there' if part else ''} and "
            f"{'what any other user may do' if replaced else 'nothing at all'} change by a factor of at most {factor}."
            f"{_more_often(plan, target, epsilon)}"
        ),
        "factor": factor,
        "adversary": f"{sentences.EVERY_OTHER}{others}{sentences.HOWEVER_CONNECTED}",
        "holds": f"for all steps of {span(plan)} together",
        "recomputed": f"{_recomputed(plan, target)}, over {span(plan)}",
        "theorem": sentences.ALL_STEPS.format(period=part)
        if plan.measured
        else "what steps tell of one user is at most the budgets of those in which neighbors differ, together",
        "derivation": f"{derivation} {sentences.CHECKED}",
        "sources": ["BS16" if isinstance(target, UserStepsRho) else "DR14", *convolved],
        "conditional_on": rests_on,
    }


def _of_noise(target: AnyUserSteps) -> str:
    """How it was found that the noise of all steps keeps a promise."""
    if isinstance(target, UserStepsRho):
        return sentences.ADDED_RHO.format(told="What is said at a delta")
    return sentences.ADDED_LOSS if target.delta == 0 else sentences.COMPOSED.format(steps=" in so many steps")


def spent_words(plan: Plan) -> str:
    """What the loss of a mechanism is whose steps spend as results so far allow; empty where there is none."""
    return sentences.SPENT if any(isinstance(part.mechanism, WindowMechanism) for part in plan.measured) else ""


def nats_at(plan: Plan, target: AnyUserSteps) -> tuple[Decimal, Decimal]:
    """Epsilon and delta of the promise; of a rho, those that the budgets keep at the first delta that pages say."""
    if isinstance(target, UserSteps):
        return target.epsilon, target.delta
    return _epsilon_at(plan, target, DELTAS[0]), DELTAS[0]


def _epsilon_at(plan: Plan, target: AnyUserSteps, delta: Decimal) -> Decimal:
    """An epsilon that is kept at a delta, nats, rounded up."""
    profile, lost = steps_curve(plan, target), most_lost(plan, target)
    low, high = Decimal(0), Decimal(1) if lost is None else Decimal(round_up(lost))
    if profile.delta(0.0) <= delta:
        return low
    while lost is None and profile.delta(float(high)) > delta:
        high *= 2
    while high - low > high / 10_000:
        middle = (low + high) / 2
        low, high = (low, middle) if profile.delta(float(middle)) <= delta else (middle, high)
    return Decimal(round_up(high))


def left_in_all(plan: Plan, target: AnyUserSteps) -> str:
    """What the noise of all steps leaves of a promise to users who take part in any steps."""
    if plan.stream.horizon is None:
        return "nothing, as the stream has no end"
    every = target.model_copy(update={"bound": plan.stream.horizon, "window": None})
    if isinstance(every, UserStepsRho):
        return f"rho {round_up(stream_rho(plan, every) or Fraction(0))}"
    if every.delta == 0:
        return f"{round_up(most_lost(plan, every) or Fraction(0))} nats"
    return f"{exact(_epsilon_at(plan, every, every.delta))} nats{at_chance(every)}"


def _recomputed(plan: Plan, target: AnyUserSteps) -> str:
    """The sum of the budgets of the costliest steps; where that is more than is promised, what is left to chance."""
    lost, differing = most_lost(plan, target), differing_steps(target, plan.stream.horizon)
    if plan.measured or lost is None:
        found = told_words(plan, target).removeprefix("recomputed: ")
        unit = "rho " if isinstance(target, UserStepsRho) else ""
        after = "" if isinstance(target, UserStepsRho) else " nats, with nothing left to chance"
        if isinstance(target, UserSteps) and target.delta:
            unit, after = "a ", f" at {exact(target.epsilon)} nats"
            found = found.replace("delta ", "delta of ")
        steps = counted(differing, "step")
        return f"{unit}{found}{after}, from the noise of all releases together: neighbors differ in at most {steps}"
    budgets = counted(differing, "largest budget")
    if target.window is not None:
        ranks = "" if differing == 1 else f" at each of {counted(differing, 'rank')}"
        budgets = f"largest budgets{ranks} of any {in_a_row(plan, target.window)}"
    if target.per is not None:
        budgets = "largest budget of one step"
    if isinstance(target, UserStepsRho):
        rho = sum((budget**2 * times for budget, times in costs_of(plan, target)), Fraction(0)) / 2
        found = f"rho {round_up(rho)}, half of the squares of the {budgets}"
        return f"{found}, {round_up(lost)} nats in all: neighbors differ in no more steps"
    if lost <= Fraction(target.epsilon):
        return f"{round_up(lost)} nats, sum of the {budgets}: neighbors differ in no more steps"
    return (
        f"a delta of {_chance(plan, target, target.epsilon)} at {exact(target.epsilon)} nats, from the {budgets}, "
        f"{round_up(lost)} nats in all: neighbors differ in no more steps"
    )


def _more_often(plan: Plan, target: AnyUserSteps, epsilon: Decimal) -> str:
    """How often odds change by more, which is not what delta says."""
    lost = most_lost(plan, target)
    chance = chance_beyond(partial(steps_curve, plan, target), epsilon, lost) if leaves_to_chance(target) else "0"
    if chance == "0":
        return f" {sentences.NEVER_MORE}"
    return f" {sentences.MORE.format(chance=chance, limit=limit_words(lost))} {sentences.WEIGHED}"


def neighbors_words(plan: Plan, target: AnyUserSteps) -> str:
    """Which two data sets must be hard to tell apart."""
    if target.relation is NeighboringRelation.REPLACE_ONE:
        if target.window is not None:
            return sentences.REPLACED_PART.format(period=one_period(plan, target))
        return sentences.REPLACED
    others = "" if target.per is None else ", and other events of the step may count in place of those left out"
    return f"{sentences.ADDED.format(period=in_period(plan, target))}{without_events(plan)}{others}"


def limited_participation(plan: Plan, target: AnyUserSteps, whole_stream: str) -> Json:
    """The assumption that users take part in so many steps; `whole_stream`: what is left of one who does not."""
    cell = plan.stream.cell
    where = "" if cell is None or cell.otherwise is None else f", in which it is not {quoted(cell.otherwise)}"
    return {
        "id": "participation_beside" if plan.measured else "participation",
        "title": ASSUMED,
        "statement": f"A user takes part in {taking_part(plan, target)}{where}. Nothing makes sure of that: the "
        "promise for all events of a user holds only while it is true. Other promises do not rest on it.",
        "vouched_by": f"the policy: {said(target.assumed or '')}",
        "if_it_fails": f"Of a user in any steps there remains {whole_stream}.",
    }
