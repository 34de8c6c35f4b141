"""What is made of released values, as the plan records it: it draws no noise, and no share of the promise."""

from __future__ import annotations

from policyc.planning.assemble import release_cells
from policyc.semantics.policy import Made, Policy
from policyc_check.plan.made import BlockTotal, Change, Mean, Ratio
from policyc_runtime.plan import MadeRelease


def made_records(policy: Policy) -> tuple[MadeRelease, ...]:
    """The records of all that the policy makes of released values, each after what it is made of."""
    return tuple(
        MadeRelease(
            name=made.name,
            query=_query(policy, made),
            cells=release_cells(policy, made),
            steps=made.steps,
            first=made.first,
        )
        for made in policy.made
    )


def _query(policy: Policy, made: Made) -> BlockTotal | Ratio | Mean | Change:
    cell = policy.stream.cell
    by = cell.column if made.by_cell and cell is not None else None
    if made.kind == "total":
        return BlockTotal(of=made.of, by=by)
    if made.kind == "ratio":
        return Ratio(of=made.of, over=made.over, times=made.times, by=by)
    if made.kind == "mean":
        return Mean(of=made.of, over=made.over, by=by)
    assert made.baseline is not None, "the grammar demands it"
    told = made.baseline
    return Change(of=made.of, every=told.every, first=told.first, last=told.last, by=by)
