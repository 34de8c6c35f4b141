"""What is made of released values: it sees nothing else that is protected, so it costs no privacy and draws no noise.

A plan lists these apart from its releases: nothing accounts for them, and no ledger keeps them. Whoever has the
released values can compute them again.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.plan.queries import PrefixQuery, WindowQuery
from policyc_check.plan.stream import MOST_CELLS
from policyc_check.records import Label, Name, NonNegativeInteger, PositiveDecimal, Record, Steps


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


MadeQuery = Annotated[BlockTotal | Quotient | Change | PrefixQuery | WindowQuery, Field(discriminator="kind")]


class MadeRecord(Record):
    """What is made: a row of every `steps` steps, the first of which begins at step `first`.

    `cells` names the values of a row, in order.
    """

    name: Name
    query: MadeQuery
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS + 1)]
    steps: Steps
    first: NonNegativeInteger
