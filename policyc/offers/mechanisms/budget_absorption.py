"""A publication takes what steps before it did not use."""

from __future__ import annotations

from policyc.offers.offer import MechanismOffer


class BudgetAbsorptionOffer(MechanismOffer):
    """For windows of steps (KPXP14); there are no options."""

    name = "budget_absorption"
    says = "publishes when counts have moved, with what steps before did not use"
    promises = frozenset({"windows"})
