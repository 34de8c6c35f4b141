"""What is assumed about the world: how users move."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from policyc_check.errors import InvalidMatrixError
from policyc_check.records import Label, Matrix, Record
from policyc_check.rounding import UNIT, roundings

if TYPE_CHECKING:
    from policyc_check.steps.chains import Chain


SMALLEST_PROBABILITY = 1e-100
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
        from policyc_check.steps.chains import Chain

        def array(values: Matrix | tuple[Decimal, ...] | None) -> NDArray[np.float64] | None:
            if values is None:
                return None
            result = np.array(values, dtype=np.float64)
            if (result[np.array(values, dtype=object) > 0] < SMALLEST_PROBABILITY).any():
                raise InvalidMatrixError(
                    "E0805",
                    "a probability is positive and below 1e-100",
                    because="it would vanish in floating point and be taken for impossible",
                    help="write 0 for what cannot happen",
                )
            return result

        initial = self.initial if self.initial == "stationary" else array(self.initial)
        backward = None if self.forward is not None else array(self.backward)
        return Chain(array(self.forward), backward, initial, self._relative_error())

    def reversal_gap(self) -> float | None:
        """How far `backward` is from the reversal of `forward`, its largest entry; None where only one is stated.

        States that are never visited have no reversal.

        Raises:
            InvalidMatrixError: either is no chain, or there is no single reversal.
        """
        if self.forward is None or self.backward is None:
            return None
        chain = self.chain()
        stated = self.model_copy(update={"forward": None}).chain().backward
        if stated.shape != chain.forward.shape:
            return math.inf
        visited = chain.stationary() > 0
        return float(np.abs(stated - chain.backward)[visited].max())

    def _relative_error(self) -> float:
        """By what the floats of the matrices may differ from the decimals, each row divided by its sum."""
        matrices = [matrix for matrix in (self.forward, self.backward) if matrix is not None]
        missed = [float(abs(sum(row, Decimal(-1)))) for matrix in matrices for row in matrix]
        divided = max((roundings(len(matrix)) + 4) * UNIT for matrix in matrices) if max(missed) > 0.5e-14 else 0.0
        kept = max((off for off in missed if off < 2e-14), default=0.0)
        return max(divided, 1.01 * (kept + UNIT))


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
