"""What values before and after make likely."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer, Option


class SmootherOffer(EstimatorOffer):
    """What values before and after make likely."""

    name = "smoother"
    says = "what values before and after make likely"
    options = (Option("observation_noise", "truth", "observation_noise = true"),)
    later_values = "a smoother uses later values to correct earlier ones"
