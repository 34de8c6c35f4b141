"""What is made of released values: it sees nothing else that is protected, so it costs no privacy and draws no noise.

A plan lists these apart from its releases: nothing accounts for them, and no ledger keeps them. Whoever has the
released values can compute them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from policyc_check.claims import Claim
from policyc_check.plan.stream import MOST_CELLS
from policyc_check.plan.targets import NeighboringRelation, UserLevel
from policyc_check.records import Label, Name, Opaque, PositiveDecimal, Record, Steps

if TYPE_CHECKING:
    from policyc_check.plan.plan import Plan


class BlockTotal(Record):
    """The sum of `of` over whole blocks of steps, the first of which begins with the stream."""

    kind: Literal["total"] = "total"
    of: Name
    by: Label | None


class Ratio(Record):
    """`times` `of` divided by `over` (None: by the public population); a row has no value where that is below 1."""

    kind: Literal["ratio"] = "ratio"
    of: Name
    over: Name | None
    times: PositiveDecimal = Decimal(1)
    by: Label | None


class Mean(Record):
    """A sum divided by a count, or by the public population; a row has none where that is below 1."""

    kind: Literal["mean"] = "mean"
    of: Name
    over: Name | None
    by: Label | None


class Change(Record):
    """By how many percent `of` is above its baseline: the median of its rows at fixed steps of the stream.

    For the row of step t these are the rows of the steps `first` to `last` that are a whole multiple of `every` steps
    from t. Rows begin after `last`; one has no value where its baseline is below 1.
    """

    kind: Literal["change"] = "change"
    of: Name
    every: Steps
    first: Annotated[int, Field(ge=0)]
    last: Annotated[int, Field(ge=0)]
    by: Label | None

    @model_validator(mode="after")
    def _covers(self) -> Change:
        if self.last - self.first + 1 < self.every:
            raise ValueError("a baseline has a step for every later one")
        return self


MadeQuery = Annotated[BlockTotal | Ratio | Mean | Change, Field(discriminator="kind")]


class MadeRelease(Record):
    """One that is made of released values: a row of every `steps` steps, the first of which begins at step `first`.

    `cells` names the values of a row, in order. `predicted` is what it is expected to err.
    """

    name: Name
    query: MadeQuery
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS + 1)]
    steps: Steps
    first: Annotated[int, Field(ge=0)]
    predicted: Opaque = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of what it is made of."""
        over = self.query.over if isinstance(self.query, Ratio | Mean) else None
        return (self.query.of,) if over is None else (self.query.of, over)


def check_made(plan: Plan) -> Iterator[Claim]:
    """What is made of released values sees nothing but these: each is made of what comes before it in the plan."""
    rows = {release.name: (1, 0) for release in plan.releases}
    cells = {release.name: (release.cells, release.query.by) for release in plan.releases}
    for index, made in enumerate(plan.made):
        reason = _reason_against(plan, made, rows, cells)
        name = f"`{made.name}` is made of released values alone, and costs no privacy"
        yield Claim(name, reason is None, reason or f"made of {' and '.join(made.sources)}", f"made.{index}")
        if reason is not None:
            return
        rows[made.name] = (made.steps, made.first)
        cells[made.name] = (made.cells, made.query.by)


def _reason_against(
    plan: Plan,
    made: MadeRelease,
    rows: dict[str, tuple[int, int]],
    cells: dict[str, tuple[tuple[str, ...], str | None]],
) -> str | None:
    """Why it cannot be made of what is released, or is not what the plan says, or None."""
    query = made.query
    if made.name in rows or any(name not in rows for name in made.sources):
        return "what it is made of does not come before it, or has its name"
    if (made.cells, query.by) != cells[query.of]:
        return "it has other cells than what it is made of"
    (steps, first), own = rows[query.of], (made.steps, made.first)
    if isinstance(query, Ratio | Mean):
        over = query.over
        if own != (steps, first) or (over is not None and rows[over] != own):
            return "its rows are of other steps than those of what it is made of"
        fits = over is None or cells[over] in (cells[query.of], (("",), None))
        return (_population_reason(plan) if over is None else None) if fits else "its denominator has other cells"
    if isinstance(query, Change):
        apart = (query.every, query.first - first, query.last + 1 - first)
        whole = all(number % steps == 0 for number in apart) and query.first >= first
        return None if whole and own == (steps, query.last + 1) else "its baseline is of no rows"
    return None if made.steps % steps == 0 and first == made.first == 0 else "its blocks are of no whole rows"


def _population_reason(plan: Plan) -> str | None:
    """Why nothing may be divided by the population, or None."""
    if plan.stream.population is None:
        return "no population is public"
    hidden = NeighboringRelation.ADD_OR_REMOVE_ONE
    protected = any(isinstance(target, UserLevel) and target.relation is hidden for target in plan.targets)
    return "the number of users is protected" if protected else None
