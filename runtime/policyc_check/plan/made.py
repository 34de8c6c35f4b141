"""What is made of released values: it sees nothing else that is protected, so it costs no privacy and draws no noise.

A plan lists these apart from its releases: nothing accounts for them, and no ledger keeps them. Whoever has the
released values can compute them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from policyc_check.claims import Claim
from policyc_check.plan.stream import MOST_CELLS
from policyc_check.plan.targets import NeighboringRelation, UserPromise
from policyc_check.records import Label, Name, NonNegativeInteger, Opaque, PositiveDecimal, Record, Steps

if TYPE_CHECKING:
    from policyc_check.plan.plan import Plan


class BlockTotal(Record):
    """The sum of `of` over whole blocks of steps, the first of which begins with the stream."""

    kind: Literal["total"] = "total"
    of: Name
    by: Label | None


class Quotient(Record):
    """`times` `of` divided by `over` (None: by the public population); a row has no value where that is below 1."""

    kind: Literal["ratio", "mean"]
    of: Name
    over: Name | None
    times: PositiveDecimal = Decimal(1)
    by: Label | None


class Change(Record):
    """By how many percent `of` is above its baseline: the median of its rows at fixed steps of the stream.

    For the row of step t these are the rows of the steps `first` to `last` that are a whole multiple of `every` steps
    from t. Rows begin after `last`; one has no value where its baseline is below 1.
    """

    kind: Literal["change"] = "change"
    of: Name
    every: Steps
    first: NonNegativeInteger
    last: NonNegativeInteger
    by: Label | None


MadeQuery = Annotated[BlockTotal | Quotient | Change, Field(discriminator="kind")]


class MadeRelease(Record):
    """One that is made of released values: a row of every `steps` steps, the first of which begins at step `first`.

    `cells` names the values of a row, in order. `predicted` is what it is expected to err; which rows are then
    left out is of no concern here.
    """

    name: Name
    query: MadeQuery
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS + 1)]
    steps: Steps
    first: NonNegativeInteger
    suppressions: Opaque = ()
    predicted: Opaque = None


def check_made(plan: Plan) -> Iterator[Claim]:
    """What is made of others sees released values and public numbers only: it comes after them in the plan."""
    known = {release.name for release in plan.releases}
    hidden = NeighboringRelation.ADD_OR_REMOVE_ONE
    protected = any(isinstance(target, UserPromise) and target.relation is hidden for target in plan.targets)
    for index, made in enumerate(plan.made):
        over = made.query.over if isinstance(made.query, Quotient) else made.query.of
        sources = {made.query.of, over} - {None}
        reason = (
            None if sources <= known and made.name not in known else "not of what comes before, or its name is not new"
        )
        if over is None and (protected or plan.stream.population is None):
            reason = "the number of users is not public"
        name = f"`{made.name}` is made of released values alone, and costs no privacy"
        yield Claim(
            name, reason is None, reason or f"by {made.query.kind}, of those of `{made.query.of}`", f"made.{index}"
        )
        known.add(made.name)
