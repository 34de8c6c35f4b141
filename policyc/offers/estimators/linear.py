"""Straight lines between measured steps."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer


class LinearOffer(EstimatorOffer):
    """Straight lines between measured steps."""

    name = "linear"
    says = "straight lines between the steps that are measured"
    later_values = "lines end at later values"
