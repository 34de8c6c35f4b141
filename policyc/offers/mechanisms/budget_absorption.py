"""A publication takes what steps before it did not use."""

from __future__ import annotations

from policyc.offers.offer import WINDOW, AdaptiveOffer


class BudgetAbsorptionOffer(AdaptiveOffer):
    """For windows of steps (KPXP14): those of a `w_event` target, or its own."""

    name = "budget_absorption"
    says = "publishes when counts have moved, with what steps before did not use"
    options = (WINDOW,)
