"""What a policy may name: mechanisms, estimators and budgets, one file each, found by being in their folders.

`policyc check` reads names and options from here, so nothing here imports a library before it is asked to calculate.
"""

from policyc.offers.goals import AtDelta, Goal, LargestLoss, Rho
from policyc.offers.offer import (
    Offer,
    Option,
    StreamOffer,
    budget_offers,
    calibrate,
    calibrate_to,
    estimator_offers,
    mechanism_offers,
)

__all__ = [
    "AtDelta",
    "Goal",
    "LargestLoss",
    "Offer",
    "Option",
    "Rho",
    "StreamOffer",
    "budget_offers",
    "calibrate",
    "calibrate_to",
    "estimator_offers",
    "mechanism_offers",
]
