"""The most probable values of all steps together."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer


class JointMapOffer(EstimatorOffer):
    """The most probable values of all steps together."""

    name = "joint_map"
    says = "the most probable values of all steps together"
    later_values = "all steps are estimated at once"
    whole_stream = True
    counts_users = True
