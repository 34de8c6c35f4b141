"""Budget absorption: a publication takes what steps before it did not use, and later steps pay for it.

Kellaris et al. 2014, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from policyc_check.mechanisms import window_mechanism as checked
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism


class BudgetAbsorption(checked.BudgetAbsorption, WindowMechanism):
    """`BudgetAbsorption` of the check, drawn.

    A publication absorbs the parts of the steps before it that were not used, and as many steps after it have none.
    Otherwise the last values are published again.

    Source: KELLARIS14
    """

    def unit(self) -> Fraction:
        """One step's part."""
        return Fraction(self.epsilon) / (2 * self.window)

    def next_units(self, paid: Sequence[int]) -> int:
        """The steps whose part is free: since the last publication and the steps that pay for it, at most a window."""
        step = len(paid)
        last = next((t for t in range(step - 1, max(-1, step - 2 * self.window - 1), -1) if paid[t] > 0), None)
        if last is None:
            return min(step + 1, self.window)
        free = step - (last + paid[last] - 1)
        return min(max(free, 0), self.window)
