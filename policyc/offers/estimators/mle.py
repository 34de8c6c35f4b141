"""The nearest values that keep the constraints."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer


class MleOffer(EstimatorOffer):
    """The nearest values that keep the constraints."""

    name = "mle"
    says = "the nearest values that keep the constraints"
