"""The noisy values as they are."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer


class NoneOffer(EstimatorOffer):
    """The noisy values as they are."""

    name = "none"
    says = "nothing: the noisy values"
