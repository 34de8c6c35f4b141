"""Phrases that several blocks share, so that a thing is called by one name throughout a certificate."""

from __future__ import annotations

from decimal import Decimal

from policyc.emit.blocks import sentences
from policyc.emit.numbers import about, counted, duration, likelihood_factor
from policyc_check.plan.correlation import ChainRecord, IndependentGroup
from policyc_check.plan.queries import SumQuery
from policyc_check.plan.stream import DAY, MONTH, Length
from policyc_check.plan.targets import (
    AnyUserSteps,
    NeighboringRelation,
    Target,
    UserLevel,
    UserPromise,
    UserRho,
    UserStepsRho,
    adds_or_removes,
    window_of,
)
from policyc_runtime.plan import Plan
from policyc_runtime.predicted_errors import PredictedError
from policyc_runtime.sources.calendar import step_of
from policyc_runtime.sources.moments import says_zone

Json = dict[str, "JsonValue"]
JsonValue = str | int | bool | None | list["JsonValue"] | Json
NO_PROTECTION = Decimal(10)  # nats; a guess that is right once in 20,000 times becomes an even bet


def quoted(text: str) -> str:
    """A word of the policy as it stands, set apart."""
    return f"`{text.replace('`', chr(39))}`"


def said(text: str) -> str:
    """A sentence of the policy, quoted."""
    return f"“{text.replace('`', chr(39))}”"


def listed(words: list[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


def told_in_turn(words: list[str]) -> str:
    """`a. It is b. It is c`: a list as sentences, each as short as what it says."""
    return ". It is ".join(words)


NOTICED = 0.01  # relative standard error of a simulated error, from which on it is told


def chance(predicted: PredictedError) -> str:
    """The standard error of a simulated error, where it is large enough to be seen; empty otherwise."""
    if predicted.stderr is None or predicted.stderr <= NOTICED * predicted.published:
        return ""
    return f" (simulated; standard error {about(predicted.stderr, 2)})"


def weighed(nats: Decimal) -> str:
    """What is said of so many nats that nothing is protected, as a sentence that needs its full stop; empty below."""
    if nats <= NO_PROTECTION:
        return ""
    return f". That protects nobody: odds may change more than {_thousands()} times over"


def _thousands() -> str:
    """By how many times odds may change above `NO_PROTECTION`, rounded down to thousands."""
    return f"{int(NO_PROTECTION.exp()) // 1000 * 1000:,}"


def glossary(plan: Plan) -> list[JsonValue]:
    """The words of the first page that are not everyday ones, for who reads it alone."""
    factors = [f"{likelihood_factor(Decimal(nats))} times at {nats} nats" for nats in ("0.1", "0.5", "2")]
    entries = {
        "nats": "How much results can tell, as the logarithm of the factor by which they change odds: "
        f"{listed(factors)}. Above {NO_PROTECTION} nats ({_thousands()} times) nobody is protected.",
    }
    if plan.stream.horizon is not None:
        length = counted(plan.stream.horizon, "step")
        entries["horizon"] = f"All the time that the promise covers: {length} of {step_length(plan)} each."
    if plan.correlation.chains:
        entries["the stated chain"] = (
            "The policy's table of how likely a user is to be in each place next, given where the user is now. It is "
            "printed below, under the correlation."
        )
    if any(isinstance(target, UserRho | UserStepsRho) for target in plan.targets):
        entries["rho"] = (
            "How much results tell, as a number that adds up over results: on average at most so many nats, and the "
            "more above that, the rarer (about the epsilons that stand beside it)."
        )
    if any(isinstance(target, UserRho | UserStepsRho) or getattr(target, "delta", None) for target in plan.targets):
        entries["delta"] = (
            "What is left to chance: an amount that the probability of any set of results may differ by beyond the "
            "factor."
        )
    if plan.scheduled:
        entries["budgets"] = (
            "How many nats each step may tell by itself; the noise of a step follows from its budget. They are printed "
            "below, under the mechanism."
        )
    entries["ledger"] = (
        "The file in which a run writes down the noisy values before anything is published, so that no step is drawn "
        "twice."
    )
    return [{"term": term, "meaning": meaning} for term, meaning in entries.items()]


def events_counted(plan: Plan) -> int:
    """How many events of one user count in a step at most."""
    return 1 if plan.participation is None else plan.participation.per_step


def step_length(plan: Plan) -> str:
    """`1 day`, `5 minutes`."""
    return lasting(plan, 1)


def lasting(plan: Plan, steps: int) -> str:
    """How long so many steps are: days of the clock, or where one may have 25 hours, hours."""
    stream = plan.stream
    if step_of(stream) == MONTH:
        return counted(steps, MONTH)
    uneven = stream.clock is not None and len(stream.clock.changes) > 1 and stream.step_milliseconds < DAY
    return duration(steps * stream.step_milliseconds, days=not uneven)


def period_length(plan: Plan, per: Length) -> str:
    """`1 day`, with the clock that says when it begins: `1 day (Europe/Berlin)`."""
    return duration(per) + ("" if plan.stream.clock is None else f" ({plan.stream.clock.zone})")


def user(plan: Plan) -> str:
    """Whose privacy it is about."""
    return f"one user (one {quoted(plan.stream.user_column)})"


def in_period(plan: Plan, target: Target | None = None) -> str:
    """`` in one period of 1 day``, or of a window `` in one step of 1 day``; nothing of all that a user does.

    Of the first promise about some of it that noise of all steps keeps, where none is named.
    """
    if isinstance(target, AnyUserSteps):
        return "" if target.window is None else f" in {one_period(plan, target)}"
    targets = plan.targets if target is None else (target,)
    per, window = next(((t.per, t.window) for t in targets if isinstance(t, UserLevel | UserRho)), (None, None))
    if window is not None:
        return f" in {step(plan) if window == 1 else f'any {in_a_row(plan, window)}'}"
    return "" if per is None else f" in one period of {period_length(plan, per)}"


def one_period(plan: Plan, target: AnyUserSteps) -> str:
    """`one period of 7 steps (7 days)`; where a clock says how long each is, of at most so many; `of 10 minutes`."""
    if target.per is not None:
        return f"one period of {duration(target.per)}"
    assert target.window is not None, "it is about a period"
    length = f"{counted(target.window, 'step')} ({lasting(plan, target.window)})"
    return f"one period of {'' if plan.stream.clock is None else 'at most '}{length}"


def in_a_row(plan: Plan, window: int) -> str:
    """`12 steps in a row (1 hour)`."""
    return f"{counted(window, 'step')} in a row ({lasting(plan, window)})"


def span(plan: Plan) -> str:
    """The time span of every number: `the whole horizon of 288 steps (1 day)`."""
    steps = plan.stream.horizon
    if steps is None:
        return "the whole stream, which has no end"
    return f"the whole horizon of {counted(steps, 'step')} ({lasting(plan, steps)})"


def all_published(plan: Plan) -> str:
    """What tells something, at the start of a sentence."""
    return f"Everything published over {span(plan)}{',' if plan.stream.horizon is None else ''}"


def step(plan: Plan) -> str:
    """`one step of 5 minutes`."""
    return f"one step of {step_length(plan)}"


def secret(plan: Plan) -> str:
    """What is to be hidden of one user at one step."""
    summed = " and the amounts" if any(isinstance(release.query, SumQuery) for release in plan.releases) else ""
    return f"{'the place' if plan.stream.cell else 'the presence'}{summed}"


def event(plan: Plan, window: int) -> str:
    """What a promise is about: one event, or all that one user does in a window of steps."""
    if window == 1:
        return f"one event, {secret(plan)} of {user(plan)} in {step(plan)}"
    return f"{secret(plan)} of {user(plan)} throughout any {in_a_row(plan, window)}"


def group_name(record: ChainRecord | IndependentGroup) -> str:
    """`` users`` or ``users of group `inpatients` ``."""
    return f"users of group {quoted(record.group)}" if record.group else "users"


def believed_of(plan: Plan) -> str:
    """What an adversary is taken to believe of how users move: the chains, their starts, and who has none."""
    chains, others = len(plan.correlation.chains), plan.correlation.independent
    if not chains:
        return "that the steps of one user are independent"
    many = "s" if chains > 1 else ""
    apart = f", and that the steps of {listed(list(map(group_name, others)))} are independent" if others else ""
    return f"the stated chain{many}, from the stated start{many} on{apart}"


def relation_words(plan: Plan, target: Target) -> str:
    """Which two data sets must be hard to tell apart."""
    if isinstance(target, UserPromise) and (target.per is not None or target.window is not None):
        period = f"one period of {period_length(plan, target.per)}" if target.per is not None else step(plan)
        if target.window is not None and target.window > 1:
            period = in_a_row(plan, target.window)
        if target.relation is NeighboringRelation.REPLACE_ONE:
            return sentences.REPLACED_PART.format(period=period)
        return sentences.ADDED.format(period=f" in {period}")
    if isinstance(target, UserPromise):
        if target.relation is NeighboringRelation.REPLACE_ONE:
            return sentences.REPLACED
        return "two data sets, one of which has one user more than the other, with all that user's events"
    return _of_steps(plan, target)


def relation_of(target: Target) -> NeighboringRelation:
    """Which neighbors a promise compares: where it says nothing, those that have other events."""
    return NeighboringRelation.ADD_OR_REMOVE_ONE if adds_or_removes(target) else NeighboringRelation.REPLACE_ONE


def _of_steps(plan: Plan, target: Target) -> str:
    window = window_of(target)
    if adds_or_removes(target):
        period = f" in {step(plan) if window == 1 else f'any {in_a_row(plan, window)}'}"
        return f"{sentences.ADDED.format(period=period)}{without_events(plan)}"
    if window > 1:
        return f"two data sets that differ in the values of one user at {window:,} steps in a row, replaced by others"
    return "two data sets that differ in the value of one user at one step: one value is replaced by another"


def without_events(plan: Plan) -> str:
    """What is the same in data sets one of which has events of a user more, and where that user counts in the other."""
    cell = plan.stream.cell
    public = "" if plan.stream.population is None else ", the public number of users being the same"
    absent = (
        "" if cell is None or cell.otherwise is None else f"; without events a user counts as {quoted(cell.otherwise)}"
    )
    return f"{public}{absent}"


def steps_axis(plan: Plan) -> Json:
    """The axis of a picture over steps: what it says, and where its dates are from if the plan knows its start."""
    words, length = f"step, {step_length(plan)} each", step_of(plan.stream)
    start, clock = plan.stream.start, plan.stream.clock
    if start is None or (clock is not None and len(clock.changes) > 1 and plan.stream.step_milliseconds < DAY):
        return {"x": words}  # or steps would lie an hour beside their dates
    zone = " (UTC)" if says_zone(start) else "" if clock is None else f" ({clock.zone})"
    dates: Json = {"start": start, "step_milliseconds": str(length)}
    return {"x": f"{words}, by when it begins{zone}", "dates": dates}
