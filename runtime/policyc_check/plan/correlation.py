"""What is assumed about the world: how users move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from policyc_check.errors import InvalidMatrixError
from policyc_check.records import Label, Matrix, Record
from policyc_check.rounding import UNIT
from policyc_check.steps.chains import Chain, transition_matrix

SMALLEST_PROBABILITY = Decimal("1e-100")
LARGEST_MISS = Decimal("1e-9")  # of a row of printed decimals, beside 1
LARGEST_LAG = 10_000


class ChainRecord(Record):
    """How one user of a group moves; rows are probabilities given as decimals.

    `forward[i][j]` = Pr(state j next | state i now); `backward[i][j]` = Pr(state j before | state i now). Beside
    `forward` the latter is only compared: what leaks is computed from the one, and its reversal. `initial` is the law
    of step 0. `lags`: the k of the bounds through the k-th power of the chain that the accounting uses; (1,)
    is the paper's recursion.
    """

    group: Label | None
    forward: Matrix | None
    backward: Matrix | None
    initial: Literal["stationary"] | tuple[Decimal, ...] | None
    evidence: str
    lags: Annotated[tuple[Annotated[int, Field(ge=1, le=LARGEST_LAG)], ...], Field(min_length=1)]

    def chain(self) -> Chain:
        """The chain as arrays; InvalidMatrixError when it is none."""
        initial = self.initial if self.initial is None or self.initial == "stationary" else _floats([self.initial])[0]
        forward = None if self.forward is None else _floats(self.forward)
        backward = None if self.backward is None or self.forward is not None else _floats(self.backward)
        return Chain(forward, backward, initial, relative_error=1.01 * UNIT)

    def reversal_gap(self) -> float | None:
        """How far `backward` is from the reversal of `forward`, its largest entry; None where only one is stated.

        States that are never visited have no reversal.

        Raises:
            InvalidMatrixError: either is no chain, or there is no single reversal.
        """
        if self.forward is None or self.backward is None:
            return None
        chain, stated = self.chain(), transition_matrix(_floats(self.backward))
        if len(stated) != chain.states:
            return math.inf
        visited = chain.stationary() > 0
        return float(np.abs(stated - chain.backward)[visited].max())


def _floats(rows: Sequence[Sequence[Decimal]]) -> list[list[float]]:
    """Each row divided by its sum, as near as floats come; rows that sum to something else as they are."""
    if any(0 < p < SMALLEST_PROBABILITY for row in rows for p in row):
        raise InvalidMatrixError(
            "E0805",
            "a probability is positive and below 1e-100",
            because="it would vanish in floating point and be taken for impossible",
            help="write 0 for what cannot happen",
        )
    with localcontext(prec=50):
        sums = [total if abs((total := sum(row, Decimal(0))) - 1) < LARGEST_MISS else Decimal(1) for row in rows]
        return [[float(p / total) for p in row] for row, total in zip(rows, sums, strict=True)]


class Correlation(Record):
    """What is assumed about the world: chains, one a group, or none with its evidence."""

    kind: Literal["markov", "none"]
    chains: tuple[ChainRecord, ...]
    evidence: str | None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Correlation:
        if (self.kind == "markov") != bool(self.chains):
            raise ValueError("a markov correlation has chains, and none has no chain")
        return self
