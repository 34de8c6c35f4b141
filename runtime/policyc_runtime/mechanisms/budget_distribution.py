"""Budget distribution: each publication takes half of what its window has left (Kellaris et al. 2014, section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from policyc_check.mechanisms import window_mechanism as checked
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism

FINE = 1 << 40  # units in half of epsilon; budgets are rounded down to them, so that they stay short numbers


class BudgetDistribution(checked.BudgetDistribution, WindowMechanism):
    """`BudgetDistribution` of the check, drawn.

    Budget spent on a publication comes back when the window has passed. Otherwise the last values are published again.

    Source: KELLARIS14
    """

    def unit(self) -> Fraction:
        """A tiny part of epsilon."""
        return Fraction(self.epsilon) / (2 * FINE)

    def next_units(self, paid: Sequence[int]) -> int:
        """Half of what the last window - 1 steps have left, rounded down."""
        before = paid[max(0, len(paid) - self.window + 1) :]
        return (FINE - sum(before)) // 2
