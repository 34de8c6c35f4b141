"""How many users each group of a plan has, and by which law all of them move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from policyc_runtime.estimation.count_process import Mixture

if TYPE_CHECKING:
    from policyc_check.plan.correlation import ChainRecord
    from policyc_check.steps.chains import Chain
    from policyc_runtime.plan import Plan


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


def law_of_all(plan: Plan) -> Chain | None:
    """How users move, where one law says it of all: one chain, or groups of known sizes."""
    return _as_arrays(plan.correlation.chains) if plan.one_law else None


@lru_cache(maxsize=2)
def _as_arrays(records: tuple[ChainRecord, ...]) -> Chain:
    """One object for the same chains, so that estimators know it again."""
    return mixture([record.chain() for record in records], shares_of(records))


def mixture(chains: Sequence[Chain], shares: Sequence[Fraction]) -> Chain:
    """The chain of all users together; of one group its own."""
    return chains[0] if len(chains) == 1 else Mixture(chains, [float(share) for share in shares])
