"""What a plan must say because its policy says it: all but budgets, noise, estimators and predictions.

Nothing is planned for it. So whoever has a plan and a policy can see in a moment whether one is of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from policyc.diagnostics import Diagnostic
from policyc.planning.assemble import (
    constraint_rows,
    correlation_record,
    policy_record,
    release_cells,
    sensitivity,
    step_mechanism,
    stream_record,
    suppression_rules,
    target_record,
)
from policyc.planning.made import made_records
from policyc.planning.series import modelled_signal
from policyc.planning.user_level import draft_user_level
from policyc.semantics.policy import Policy, Release, UserLevelTarget
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.stream import Delivery
from policyc_runtime.mechanisms import window_mechanism_kinds
from policyc_runtime.plan import DerivedRelease, Plan, ReleasePlan, Scheduled

RELEASED = ("name", "query", "cells", "l1_sensitivity", "sensitivity_reason", "constraints", "integer", "suppressions")
WHOLE = ("policy", "stream", "delivery", "objective", "targets", "correlation", "participation")


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
    declared, found = _declared(policy, findings, plan), plan.model_dump(mode="json")
    for name in WHOLE:
        yield from compared(name, declared[name], found[name])
    for index, (said, release) in enumerate(zip(declared["releases"], found["releases"], strict=False)):
        for name in RELEASED:
            yield from compared(f"releases.{index}.{name}", said[name], release[name])
    if len(declared["releases"]) != len(found["releases"]):
        yield Difference("releases", len(declared["releases"]), len(found["releases"]))
    made = [one.model_dump(mode="json", exclude={"predicted"}) for one in made_records(policy)]
    yield from compared("made", made, [one.model_dump(mode="json", exclude={"predicted"}) for one in plan.made])
    for index, part in enumerate(plan.releases[: len(declared["releases"])]):
        yield from _mechanism(policy, index, part)
    if policy.signal is None or policy.signal.kind != "pilot":  # a pilot's is fitted, and rounded as a machine does
        yield from compared("signal", declared["signal"], found["signal"])
    told = [{"code": finding.code, "message": finding.message} for finding in findings]
    yield from compared("notices", told, found["notices"][: len(told)])


def _declared(policy: Policy, findings: Sequence[Diagnostic], plan: Plan) -> dict[str, Any]:
    """What follows from the policy, as a plan would have it; `lags` alone are taken from the plan."""
    user_level = [target for target in policy.targets if isinstance(target, UserLevelTarget)]
    if user_level:
        return draft_user_level(policy, user_level[0], findings).model_dump(mode="json")
    lags = {chain.group: chain.lags for chain in plan.correlation.chains}
    signal = None if policy.signal is not None and policy.signal.kind == "pilot" else modelled_signal(policy)
    records = {
        "policy": policy_record(policy),
        "stream": stream_record(policy),
        "delivery": Delivery(kind=policy.delivery.kind, delay=policy.delivery.delay),
        "correlation": correlation_record(policy, lags),
    }
    return {
        **{name: record.model_dump(mode="json") for name, record in records.items()},
        "objective": policy.objective,
        "targets": [
            target_record(target).model_dump(mode="json")
            for target in policy.targets
            if not isinstance(target, UserLevelTarget)
        ],
        "participation": None,
        "signal": None if signal is None else signal.model_dump(mode="json"),
        "releases": [_released(policy, release) for release in policy.releases],
    }


def _released(policy: Policy, release: Release) -> dict[str, Any]:
    """A release under a promise about single steps."""
    rows, integer = constraint_rows(policy, release)
    least, reason = sensitivity(release)
    cell = policy.stream.cell
    return {
        "name": release.name,
        "query": CountQuery(by=cell.column if release.by_cell and cell else None).model_dump(mode="json"),
        "cells": list(release_cells(policy, release)),
        "l1_sensitivity": str(least),
        "sensitivity_reason": reason,
        "constraints": [row.model_dump(mode="json") for row in rows],
        "integer": integer,
        "suppressions": [rule.model_dump(mode="json") for rule in suppression_rules(policy, release)],
    }


def _mechanism(policy: Policy, index: int, part: ReleasePlan) -> Iterator[Difference]:
    """The mechanism, where the policy leaves no choice."""
    place, wished = f"releases.{index}.mechanism", policy.mechanism.name
    if isinstance(part, Scheduled) and wished not in window_mechanism_kinds():
        said = step_mechanism(policy, policy.releases[index]).model_dump(mode="json")
        yield from compared(place, said, part.mechanism.model_dump(mode="json"))
    elif wished not in ("auto", part.mechanism.name) and not isinstance(part, DerivedRelease):
        yield Difference(place, wished, part.mechanism.name)


def _identical(said: object, found: object) -> bool:
    return said == found and type(said) is type(found)


def compared(place: str, said: Any, found: Any, same: Callable[[Any, Any], bool] = _identical) -> Iterator[Difference]:
    """Where two records differ, each a value as JSON has it; `same` compares what is neither object nor list."""
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() == found.keys():
        for key in said:
            yield from compared(f"{place}.{key}", said[key], found[key], same)
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for index, pair in enumerate(zip(said, found, strict=True)):
            yield from compared(f"{place}.{index}", *pair, same)
    elif isinstance(said, dict | list) or isinstance(found, dict | list) or not same(said, found):
        yield Difference(place, said, found)
