"""Half of what is left of a window's budget for every publication."""

from __future__ import annotations

from policyc.offers.offer import MechanismOffer


class BudgetDistributionOffer(MechanismOffer):
    """For windows of steps (KPXP14); there are no options."""

    name = "budget_distribution"
    says = "publishes when counts have moved, with half of what is left of the window"
    promises = frozenset({"windows"})
