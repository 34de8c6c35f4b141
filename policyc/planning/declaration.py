"""Whether a plan says what its policy says: all but budgets of steps, noise, estimators and predictions.

Nothing is planned for it. So whoever has a plan and a policy can see in a moment whether one is of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from policyc.diagnostics import Diagnostic, Span
from policyc.offers.goals import Added, goal_of
from policyc.planning.draft import DraftRelease, draft_of, step_mechanism
from policyc.planning.made import made_records
from policyc.semantics.lengths import Clock
from policyc.semantics.policy import Policy
from policyc.semantics.targets import UserLevelTarget
from policyc_check.plan.targets import UserLevel
from policyc_check.users.claims import promised_user_level, setting_of
from policyc_runtime.mechanisms import window_mechanism_kinds
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import DerivedRelease, MeasuredRelease, ReleasePlan, Scheduled

RELEASED = tuple(DraftRelease.model_fields)
WHOLE = ("policy", "stream", "delivery", "objective", "targets", "correlation", "participation")
SHOWN = 80  # characters of a value that differs


def known_clock(plan: Plan) -> Clock | None:
    """The clock of a plan, by which its policy is read again: zone rules may have changed since it was compiled."""
    clock = plan.stream.clock
    return None if clock is None else Clock(clock.zone, clock.changes, clock.end, Span(0, 0))


class Difference(NamedTuple):
    """A place in a plan, what its policy says there, and what the plan says."""

    place: str
    policy: object
    plan: object


def differences(policy: Policy, findings: Sequence[Diagnostic], plan: Plan) -> Iterator[Difference]:
    """Where a plan differs from what its policy says, in order.

    Args:
        policy: resolved and checked.
        findings: its warnings, all of which a plan repeats.
        plan: loaded, so that its records are well formed.
    """
    lags = {chain.group: chain.lags for chain in plan.correlation.chains}  # found by the search for budgets
    declared, found = draft_of(_as_found(policy, plan), lags).model_dump(mode="json"), plan.model_dump(mode="json")
    for name in WHOLE:
        yield from compared(name, declared[name], found[name])
    for index, (said, release) in enumerate(zip(declared["releases"], found["releases"], strict=False)):
        for name in RELEASED:
            yield from compared(f"releases.{index}.{name}", said.get(name), release.get(name))
    if len(declared["releases"]) != len(found["releases"]):
        yield Difference("releases", len(declared["releases"]), len(found["releases"]))
    yield from compared("agreements", declared.get("agreements", []), found.get("agreements", []))
    made = [one.model_dump(mode="json", exclude={"predicted"}) for one in made_records(policy)]
    yield from compared("made", made, [one.model_dump(mode="json", exclude={"predicted"}) for one in plan.made])
    for index, part in enumerate(plan.releases[: len(declared["releases"])]):
        yield from _mechanism(policy, index, part)
    yield from _parts(policy, plan)
    if policy.signal is None or policy.signal.kind != "pilot":  # a pilot's is fitted, and rounded as a machine does
        yield from compared("signal", declared["signal"], found["signal"])
    told = [{"code": finding.code, "message": finding.message} for finding in findings]
    yield from compared("notices", told, found["notices"][: len(told)])


def _as_found(policy: Policy, plan: Plan) -> Policy:
    """The policy with what the plan has of a step by itself, which the search found for what leaks through chains."""
    pairs = zip(policy.targets, plan.targets, strict=False)
    found = [
        replace(said, epsilon=target.epsilon)
        if isinstance(said, UserLevelTarget) and said.implied and isinstance(target, UserLevel)
        else said
        for said, target in pairs
    ]
    return replace(policy, targets=(*found, *policy.targets[len(found) :]))


def _mechanism(policy: Policy, index: int, part: ReleasePlan) -> Iterator[Difference]:
    """The mechanism, where the policy leaves no choice."""
    place, wished = f"releases.{index}.mechanism", policy.mechanism.name
    if isinstance(part, Scheduled) and wished not in window_mechanism_kinds():
        said = step_mechanism(policy, policy.releases[index]).model_dump(mode="json")
        yield from compared(place, said, part.mechanism.model_dump(mode="json"))
    elif wished not in ("auto", part.mechanism.name) and not isinstance(part, DerivedRelease):
        yield Difference(place, wished, part.mechanism.name)


def _parts(policy: Policy, plan: Plan) -> Iterator[Difference]:
    """A release that tells more of one user than the part of the promise that the policy gives it."""
    if policy.budget.name != "parts":
        return
    (target, *_) = promised_user_level(plan)
    goal = goal_of(target)
    assert isinstance(goal, Added), "checked in the policy, whose targets are those of the plan"
    for index, release in enumerate(plan.releases):
        if isinstance(release, MeasuredRelease):
            part = Decimal(str(policy.budget.arguments.get(release.name, 0)))
            lost = goal.lost(release.mechanism, setting_of(plan, release, target))
            if lost is None or lost > Fraction(part):
                taken = None if lost is None else float(lost)
                yield Difference(f"releases.{index}.mechanism", f"a part of {part}", taken)


def _identical(said: object, found: object) -> bool:
    return said == found and type(said) is type(found)


def compared(place: str, said: Any, found: Any, same: Callable[[Any, Any], bool] = _identical) -> Iterator[Difference]:
    """Where two records differ, each a value as JSON has it; `same` compares what is neither object nor list."""
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() == found.keys():
        for key in said:
            yield from compared(f"{place}.{key}", said[key], found[key], same)
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        if said == found and set(map(type, said)) == set(map(type, found)) == {float}:
            return  # errors of a million steps
        for index, pair in enumerate(zip(said, found, strict=True)):
            yield from compared(f"{place}.{index}", *pair, same)
    elif isinstance(said, dict | list) or isinstance(found, dict | list) or not same(said, found):
        yield Difference(place, said, found)


def shown(value: object) -> str:
    """A value that differs, as a claim tells it."""
    text = "nothing" if value is None else str(value)
    return f"`{text if len(text) <= SHOWN else text[:SHOWN] + '…'}`"
