"""The Laplace mechanism on counts: exact discrete noise (Dwork et al. 2006; discrete as in CKS20)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.mechanisms.mechanism import StepMechanism
from policyc_check.records import LARGEST_COUNT, PositiveDecimal


class Laplace(StepMechanism):
    """Adds discrete Laplace noise, Pr(x) proportional to exp(-|x| / scale), to every cell.

    Two data sets whose counts differ by at most `l1_sensitivity` in L1 norm give any output with probabilities within
    a factor exp(l1_sensitivity / scale): exactly so for the discrete distribution, since counts are integers.

    Balanced noise over all cells of a histogram whose total is public adds up to zero: the same distribution, given
    that. Neighbors have the same total, so the factor is the same, and nothing is spent on hiding what is known: this
    is the K-norm mechanism for the moves of one user. Of two cells it has half the variance.

    Source: CKS20, HT10
    """

    name: Literal["laplace"] = "laplace"
    l1_sensitivity: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"
    balanced_cells: Annotated[int, Field(ge=2, le=LARGEST_COUNT)] | None = None

    def privacy_loss(self, scale: Decimal) -> Fraction:
        """The exact loss in nats of one step released with this scale (> 0)."""
        return Fraction(self.l1_sensitivity) / Fraction(scale)
