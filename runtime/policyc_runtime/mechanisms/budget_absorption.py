"""Budget absorption: a publication takes what steps before it did not use, and later steps pay for it.

Kellaris et al. 2014, section 5.3.
"""

from __future__ import annotations

from policyc_check.mechanisms import budget_absorption as checked
from policyc_runtime.mechanisms.window_mechanism import WindowMechanism


class BudgetAbsorption(checked.BudgetAbsorption, WindowMechanism):
    """`BudgetAbsorption` of the check, drawn."""
