"""What is assumed about the world: how users move."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from policyc_check.errors import InvalidMatrixError
from policyc_check.records import NOTHING, UNSAID, Label, Matrix, PositiveDecimal, Record
from policyc_check.rounding import UNIT, Floats
from policyc_check.steps.chains import Chain

SMALLEST_PROBABILITY = Decimal("1e-100")
LARGEST_MISS = Decimal("1e-9")  # of a row of printed decimals, beside 1
LARGEST_LAG = 10_000


class ChainRecord(Record):
    """How one user of a group moves; rows are probabilities given as decimals.

    `forward[i][j]` = Pr(state j next | state i now); `backward[i][j]` = Pr(state j before | state i now). Beside
    `forward` the latter says nothing here: what leaks is computed from the one, and its reversal. `initial` is the law
    of step 0. `lags`: the k of the bounds through the k-th power of the chain that the accounting uses; (1,)
    is the paper's recursion. `share`: of all users, those of the group, for utility only. `amounts`: what values of an
    event depend on, and on nothing else of the user.
    """

    group: Label | None
    forward: Matrix | None
    backward: Matrix | None
    initial: Literal["stationary"] | tuple[Decimal, ...] | None
    evidence: str
    lags: Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_LAG)], ...], Field(min_length=1)]
    share: PositiveDecimal | None = UNSAID
    amounts: Literal["by_cell"] | None = UNSAID

    def chain(self) -> Chain:
        """The chain as arrays; InvalidMatrixError when it is none."""
        return _chain(self.forward, None if self.forward is not None else self.backward, self.initial)


@lru_cache(maxsize=8)  # it keeps the powers and the laws that it was asked for
def _chain(forward: Matrix | None, backward: Matrix | None, initial: str | tuple[Decimal, ...] | None) -> Chain:
    ahead, back = (None if rows is None else _laws(rows) for rows in (forward, backward))
    start = None if initial is None or isinstance(initial, str) else _laws([initial])[0]
    return Chain(ahead, back, start, relative_error=1.01 * UNIT)


def _laws(rows: Sequence[Sequence[Decimal]]) -> Floats:
    """Each row divided by its sum, as near as floats come; InvalidMatrixError E0805 for one that is no law."""
    laws = []
    for number, row in enumerate(rows, start=1):
        with localcontext(prec=50):
            total = sum(row, Decimal(0))
            if len(row) != len(rows[0]) or abs(total - 1) > LARGEST_MISS:
                wrong = f"row {number} is no law of {len(rows[0])} states: its {len(row)} numbers sum to {total:.12g}"
                raise InvalidMatrixError("E0805", wrong)
            if any(p < SMALLEST_PROBABILITY for p in row if p):
                wrong = f"row {number} has a probability that is negative, or below 1e-100: write 0 where nobody goes"
                raise InvalidMatrixError("E0805", wrong)
            laws.append([float(p / total) for p in row])
    return np.array(laws)


class IndependentGroup(Record):
    """Users whose steps are said to tell nothing of each other; of where they are no law is stated, nor needed."""

    group: Label
    evidence: str


class Correlation(Record):
    """What is assumed about the world: one chain a group, or none with its evidence, for everybody or for groups."""

    kind: Literal["markov", "none"]
    chains: tuple[ChainRecord, ...]
    evidence: str | None
    independent: tuple[IndependentGroup, ...] = NOTHING
