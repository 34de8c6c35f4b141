"""Budget distribution: each publication takes half of what its window has left (Kellaris et al. 2014, section 5.2)."""

from __future__ import annotations

from policyc_check.mechanisms import budget_distribution as checked
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism


class BudgetDistribution(checked.BudgetDistribution, WindowMechanism):
    """`BudgetDistribution` of the check, drawn."""
