"""Phrases that several blocks share, so that a thing is called by one name throughout a certificate."""

from __future__ import annotations

from policyc.emit.numbers import about, counted, duration
from policyc_runtime.correlation import ChainRecord
from policyc_runtime.plan import Plan, PredictedError
from policyc_runtime.targets import NeighboringRelation, Target, UserLevel, window_of

Json = dict[str, "JsonValue"]
JsonValue = str | int | bool | None | list["JsonValue"] | Json


def quoted(text: str) -> str:
    """A word of the policy as it stands, set apart."""
    return f"`{text.replace('`', chr(39))}`"


def said(text: str) -> str:
    """A sentence of the policy, quoted."""
    return f"“{text.replace('`', chr(39))}”"


def listed(words: list[str], joint: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {joint} {words[-1]}"


NOTICED = 0.01  # relative standard error of a simulated error, from which on it is told


def chance(predicted: PredictedError) -> str:
    """The standard error of a simulated error, where it is large enough to be seen; empty otherwise."""
    if predicted.stderr is None or predicted.stderr <= NOTICED * predicted.published:
        return ""
    return f" (simulated; standard error {about(predicted.stderr, 2)})"


def user(plan: Plan) -> str:
    """Whose privacy it is about."""
    return f"one user (one {quoted(plan.stream.user_column)})"


def span(plan: Plan) -> str:
    """The time span of every number: `the whole horizon of 288 steps (1 day)`."""
    steps = plan.stream.horizon
    if steps is None:
        return "the whole stream, which has no end"
    return f"the whole horizon of {counted(steps, 'step')} ({duration(steps * plan.stream.step_milliseconds)})"


def step(plan: Plan) -> str:
    """`one step of 5 minutes`."""
    return f"one step of {duration(plan.stream.step_milliseconds)}"


def secret(plan: Plan) -> str:
    """What is to be hidden of one user at one step."""
    return "the place" if plan.stream.cell else "the presence"


def event(plan: Plan, window: int) -> str:
    """What a promise is about: one event, or all that one user does in a window of steps."""
    if window == 1:
        return f"one event, {secret(plan)} of {user(plan)} in {step(plan)}"
    length = f"{counted(window, 'step')} in a row ({duration(window * plan.stream.step_milliseconds)})"
    return f"{secret(plan)} of {user(plan)} throughout any {length}"


def group_name(record: ChainRecord) -> str:
    """`` users`` or ``users of group `inpatients` ``."""
    return f"users of group {quoted(record.group)}" if record.group else "users"


def relation_words(target: Target) -> str:
    """Which two data sets must be hard to tell apart."""
    if isinstance(target, UserLevel):
        if target.relation is NeighboringRelation.REPLACE_ONE:
            return "two data sets that differ in one user: all events of one are replaced by all events of another"
        return "two data sets, one of which has one user more than the other, with all that user's events"
    window = window_of(target)
    if window > 1:
        return f"two data sets that differ in the values of one user at {window:,} steps in a row, replaced by others"
    return "two data sets that differ in the value of one user at one step: one value is replaced by another"
