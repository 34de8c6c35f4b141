"""Half of what is left of a window's budget for every publication."""

from __future__ import annotations

from policyc.offers.offer import WINDOW, AdaptiveOffer


class BudgetDistributionOffer(AdaptiveOffer):
    """For windows of steps (KPXP14): those of a `w_event` target, or its own."""

    name = "budget_distribution"
    says = "publishes when counts have moved, with half of what is left of the window"
    options = (WINDOW,)
