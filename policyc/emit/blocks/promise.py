"""What is promised: each target in one sentence that carries number, unit, adversary and time span together."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal

from policyc.emit.blocks import sentences
from policyc.emit.blocks.assumptions import assumptions
from policyc.emit.blocks.user_steps import user_steps_promise
from policyc.emit.blocks.wording import (
    Json,
    JsonValue,
    all_published,
    believed_of,
    event,
    quoted,
    relation_of,
    relation_words,
    span,
)
from policyc.emit.numbers import exact, likelihood_factor, plain, round_down, sentence_case
from policyc_check.plan.queries import SumQuery
from policyc_check.plan.targets import (
    AlphaDPT,
    AnyUserSteps,
    EventLevel,
    Target,
    UserPromise,
    WEvent,
    adds_or_removes,
    window_of,
)
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import AdaptiveRelease
from policyc_runtime.witness import witnesses_of


def promises(plan: Plan) -> list[JsonValue]:
    """Block B: one entry a target."""
    return [
        _promise(plan, target, index)
        for index, target in enumerate(plan.targets, start=1)
        if not isinstance(target, UserPromise)
    ]


def _promise(plan: Plan, target: AlphaDPT | EventLevel | WEvent | AnyUserSteps, index: int) -> Json:
    if isinstance(target, AnyUserSteps):
        return user_steps_promise(plan, target, index, _rests_on(plan, without=("correlation", "independence")))
    if isinstance(target, AlphaDPT):
        return alpha_dpt_promise(plan, target, index, _rests_on(plan, without=("participation",)))
    return _w_event(plan, target, index) if isinstance(target, WEvent) else _event_level(plan, target, index)


def sharing(plan: Plan) -> Json | None:
    """How several releases share every promise; None for one release."""
    if plan.sharing is None:
        return None
    return {
        "sentence": f"The releases share each promise, which holds for all of them together: {plan.sharing}.",
        "shares": [
            {"release": release.name, "share": f"{plain(100 * release.share)} %"}
            for release in plan.releases
            if release.share is not None
        ],
    }


def _claimed(plan: Plan, kind: str, window: int) -> str:
    """What was recomputed for a window of steps, exact."""
    return next(exact(claim.nats) for claim in plan.claims.windows if (claim.kind, claim.window) == (kind, window))


def _largest_budget(plan: Plan) -> str:
    """The largest budget of a step, exact; plans of such promises have one."""
    assert plan.claims.largest_budget is not None, "steps have budgets"
    return exact(plan.claims.largest_budget)


def alpha_dpt_promise(plan: Plan, target: AlphaDPT, index: int, rests_on: list[JsonValue]) -> Json:
    """The promise against who knows the chains."""
    factor = likelihood_factor(target.alpha)
    chains = len(plan.correlation.chains)
    knowledge = {
        0: "that the steps of one user are independent",
        1: "exactly how users move (the stated chain)",
    }.get(plan.groups, f"exactly how users of each group move (the stated chain{'s' if chains > 1 else ''})")
    sentence = (
        f"{_told(plan, target.alpha, target.window)} {sentences.ADVERSARY}, "
        f"and {knowledge}. {_of_results(factor, target.window)}"
    )
    name = "alpha-DP_T" if target.window == 1 else f"alpha-DP_T over windows of {target.window:,} steps"
    return {
        **_entry(plan, index, target, name, exact(target.alpha)),
        "sentence": sentence,
        "in_odds": (
            f"To an adversary who believes exactly {believed_of(plan)}, the odds between any two "
            f"{'values of the event' if target.window == 1 else 'such courses'} change by a factor of at most "
            f"{factor}."
        ),
        "factor": factor,
        "adversary": f"knows all about every other user, and {knowledge}",
        "holds": (
            f"{'at every step' if target.window == 1 else 'for every such window'}, looking back from the end of "
            f"{span(plan)}"
        ),
        "recomputed": _recomputed(plan, target),
        **_reached(plan, target),
        "theorem": _theorem(plan, target.window),
        "derivation": _derivation(plan, target.window),
        "sources": ["CAO17"],
        "conditional_on": rests_on,
    }


def _told(plan: Plan, nats: Decimal, window: int) -> str:
    """Number, unit, time span, and what it is about, in one sentence."""
    return f"{all_published(plan)} tells at most {exact(nats)} nats about {event(plan, window)}."


def _of_results(factor: str, window: int) -> str:
    value = "one value of that event" if window == 1 else "one course of those steps"
    return f"No published result is more than {factor} times as likely for {value} as for any other."


def _sentence(plan: Plan, target: EventLevel | WEvent) -> str:
    """What is told of a step or a window by its own budgets, in sentences."""
    window, factor = window_of(target), likelihood_factor(target.epsilon)
    results = _of_results(factor, window)
    if adds_or_removes(target):
        what = "that event" if window == 1 else "what the user does there"
        results = f"No published result is more than {factor} times as likely with {what} as without it."
    unused = f" Nothing is left to chance: the delta of {exact(target.delta)} is not used." if target.delta else ""
    return f"{_told(plan, target.epsilon, window)} {sentences.ADVERSARY} and every other step. {results}{unused}"


def _odds_between(target: EventLevel | WEvent) -> str:
    """Of what the odds change little."""
    single = window_of(target) == 1
    if adds_or_removes(target):
        return f"between {'the event' if single else 'such a course'} and none"
    return f"between any two {'values of the event' if single else 'such courses'}"


def _recomputed(plan: Plan, target: AlphaDPT) -> str | None:
    if target.window > 1:
        claimed = _claimed(plan, "leakage", target.window)
        return f"{claimed} nats, largest leakage about {target.window:,} steps in a row over {span(plan)}"
    total = plan.claims.total_leakage
    return None if total is None else f"{exact(total)} nats, largest total leakage over {span(plan)}"


def _reached(plan: Plan, target: AlphaDPT) -> Json:
    """The attack that comes nearest to the promise, where one is known."""
    if target.window > 1 or not plan.claims.witnesses:
        return {}
    attack = max(witnesses_of(plan), key=lambda witness: witness.nats)
    assert plan.stream.cell is not None, "chains are on cells"
    told, untold = (quoted(plan.stream.cell.states[state]) for state in attack.states)
    whom = f"one user of group {quoted(attack.group)}" if attack.group else "one user"
    last = attack.first + sum(run.steps for run in attack.outputs) - 1
    steps = f"step {last:,}" if last == attack.first else f"steps {attack.first:,} to {last:,}"
    summed = any(isinstance(release.query, SumQuery) for release in plan.releases)
    most = ", if everybody adds the most that is counted" if summed else ""
    return {
        "reached": (
            f"an attack that reaches {round_down(attack.nats)} nats is known: there are noisy values of {steps} that "
            f"tell so much of whether {whom} was in {told} rather than {untold} at step "
            f"{attack.step:,}{most}; the plan says in which cells they are {'high' if not most else 'far off'}"
        )
    }


def _theorem(plan: Plan, window: int) -> str:
    if not plan.correlation.chains:
        own = "is the budget of the step itself" if window == 1 else "about a window is the sum of its budgets"
        return f"where steps are independent, total leakage {own}"
    if window == 1:
        return "total leakage is backward plus forward leakage minus the budget of the step itself"
    return (
        "leakage about a window is what its first step inherits from before, the budgets of its steps, and what its "
        "last step inherits from after"
    )


def _derivation(plan: Plan, window: int) -> str:
    checked = sentences.CHECKED
    if not plan.correlation.chains:
        largest = "The largest budget of a step" if window == 1 else f"The largest sum of {window:,} budgets in a row"
        return f"{largest}, all releases together. {checked}"
    lagged = any(record.lags != (1,) for record in plan.correlation.chains)
    own = (
        " Bounds over several lags are this compiler's own; they are never looser than those of CAO17."
        if lagged
        else ""
    )
    if window > 1:
        return (
            "Given where the user is in the window, what was published before depends on its first step alone, and "
            f"what is published after on its last step alone; both leak through the chain.{own} {checked}"
        )
    return (
        "Backward leakage at step t is the budget of t plus what earlier results tell through the chain; forward "
        "leakage the same with later results; the budget of t would be counted twice, so it is taken off once."
        f"{own} {checked}"
    )


def _window_derivation(plan: Plan, window: int) -> str:
    largest = f"The {_largest_spent(window)}, all releases together, exact."
    if not any(isinstance(release, AdaptiveRelease) for release in plan.releases):
        return largest
    return (
        f"{largest} Where budgets follow from earlier results, the sum is the largest that the rule of the mechanism "
        "can come to, whatever the data; every budget is fixed before the noise that it pays for is drawn."
    )


def _largest_spent(window: int) -> str:
    return f"largest sum of {window:,} budgets in a row" if window > 1 else "largest budget of one step"


def _w_event(plan: Plan, target: WEvent, index: int) -> Json:
    factor = likelihood_factor(target.epsilon)
    one, every = ("window", "for every window of that many steps in")
    if target.window == 1:
        one, every = ("step", "at every step of")
    return {
        **_entry(plan, index, target, "w-event differential privacy", exact(target.epsilon)),
        "sentence": _sentence(plan, target),
        "in_odds": (
            f"Whatever is believed before, the odds {_odds_between(target)}, all else being equal, change by a factor "
            f"of at most {factor}."
        ),
        "factor": factor,
        "adversary": (
            f"knows all about every other user and every other step; learns nothing of the {one} from where the user "
            "is before and after it"
        ),
        "holds": f"{every} {span(plan)}",
        "recomputed": (
            f"{_claimed(plan, 'budget', target.window)} nats, {_largest_spent(target.window)} over {span(plan)}"
        ),
        "theorem": "a window protects its own steps by the sum of their budgets"
        if target.window > 1
        else "a step protects its own event by its own budget",
        "derivation": _window_derivation(plan, target.window),
        "sources": ["KELLARIS14"],
        "conditional_on": _rests_on(plan, without=("correlation", "independence", "participation")),
    }


def _event_level(plan: Plan, target: EventLevel, index: int) -> Json:
    factor = likelihood_factor(target.epsilon)
    return {
        **_entry(plan, index, target, "event-level differential privacy", exact(target.epsilon)),
        "sentence": _sentence(plan, target),
        "in_odds": (
            f"Whatever is believed before, the odds {_odds_between(target)} change by a factor of at most "
            f"{factor}, {sentences.UNCONNECTED}."
        ),
        "factor": factor,
        "adversary": (
            "knows all about every other user and every other step; does not use that steps of one user are related"
        ),
        "holds": f"at every step of {span(plan)}",
        "recomputed": (f"{_largest_budget(plan)} nats, largest budget of one step over {span(plan)}"),
        "theorem": "a step protects its own event by its own budget",
        "derivation": "The largest budget of a step, all releases together, in exact fractions.",
        "sources": [],
        "conditional_on": _rests_on(plan, without=("participation",)),
    }


def _rests_on(plan: Plan, without: Collection[str] = ()) -> list[JsonValue]:
    return [entry["title"] for entry in assumptions(plan) if isinstance(entry, dict) and entry["id"] not in without]


def _entry(plan: Plan, index: int, target: Target, name: str, value: str) -> Json:
    window = window_of(target)
    return {
        "id": f"P{index}",
        "kind": target.kind,
        "name": name,
        "value": value,
        **({"delta": exact(delta)} if (delta := getattr(target, "delta", None)) else {}),
        "unit": "nats",
        "unit_of_privacy": "one event of one user" if window == 1 else f"one user in any {window:,} steps in a row",
        "time_scope": span(plan),
        "neighboring_relation": relation_of(target).value,
        "neighbors": relation_words(plan, target),
        "sensitivity": [
            {"release": r.name, "l1": exact(r.l1_sensitivity), "reason": sentence_case(r.sensitivity_reason)}
            for r in plan.releases
        ],
    }
