"""How many users each group of a plan has, and by which law all of them move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from policyc_runtime.ancestors import counted_in
from policyc_runtime.estimation.count_process import Mixture

if TYPE_CHECKING:
    from policyc_check.plan.correlation import ChainRecord
    from policyc_check.steps.chains import Chain
    from policyc_runtime.plan import Plan
    from policyc_runtime.planned_release import ReleasePlan


def shares_of(records: Sequence[ChainRecord]) -> list[Fraction]:
    """What part of all users each group has: as declared, else the same; they sum to 1."""
    told = [Fraction(record.share) for record in records if record.share is not None]
    if len(told) < len(records):
        return [Fraction(1, len(records)) for _ in records]
    return [share / sum(told) for share in told]


def group_sizes(population: int, shares: Sequence[Fraction]) -> list[int]:
    """Whole numbers of users by group that add up to the population, each within one of its share."""
    ends = [math.ceil(population * part) for part in accumulate(shares)]
    return [end - start for start, end in pairwise([0, *ends])]


def law_of(plan: Plan, release: ReleasePlan) -> Chain | None:
    """How users move, as a release counts them, where one law says it of all: one chain, or groups of known sizes."""
    cell, by = plan.stream.cell, release.query.by
    of = None if cell is None or by is None else counted_in(cell, by)
    known = None if of is None else tuple(of.tolist())
    return _as_arrays(plan.correlation.chains, known) if plan.one_law else None


@lru_cache(maxsize=8)
def _as_arrays(records: tuple[ChainRecord, ...], of: tuple[int, ...] | None) -> Chain:
    """One object for the same chains, so that estimators know it again."""
    return mixture([record.chain() for record in records], shares_of(records), of)


def mixture(chains: Sequence[Chain], shares: Sequence[Fraction], of: Sequence[int] | None = None) -> Chain:
    """The chain of all users together, counted in the values `of` their states; of one group by cell its own."""
    return chains[0] if len(chains) == 1 and of is None else Mixture(chains, [float(share) for share in shares], of)
