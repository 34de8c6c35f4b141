"""What values so far make likely."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer


class FilterOffer(EstimatorOffer):
    """What values so far make likely."""

    name = "filter"
    says = "what values so far make likely"
