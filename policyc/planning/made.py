"""What is made of released values, as the plan records it: it draws no noise, and no share of the promise."""

from __future__ import annotations

from typing import Literal

from policyc.planning.draft import release_cells, suppression_rules
from policyc.semantics.policy import Made, Policy
from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_runtime.made_release import BlockTotal, Change, MadeQuery, Quotient
from policyc_runtime.planned_release import MadeRelease


def made_records(policy: Policy) -> tuple[MadeRelease, ...]:
    """The records of all that the policy makes of released values, each after what it is made of."""
    return tuple(
        MadeRelease(
            name=made.name,
            query=_query(made),
            cells=release_cells(policy, made),
            steps=made.steps,
            first=made.first,
            suppressions=suppression_rules(policy, made),
        )
        for made in policy.made
    )


def _query(made: Made) -> MadeQuery:
    by = made.by
    if made.kind == "total":
        return BlockTotal(of=made.of, by=by)
    if made.kind == "prefix":
        return PrefixQuery(of=made.of, by=by)
    if made.width is not None:
        return WindowQuery(of=made.of, steps=made.width, by=by)
    told = made.baseline
    if told is None:
        kind: Literal["ratio", "mean"] = "ratio" if made.kind == "ratio" else "mean"
        return Quotient(kind=kind, of=made.of, over=made.over, times=made.times, by=by)
    return Change(of=made.of, every=told.every, first=told.first, last=told.last, by=by)
