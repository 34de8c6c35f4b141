"""The most probable values of every step alone."""

from __future__ import annotations

from policyc.offers.offer import EstimatorOffer, Option


class MapOffer(EstimatorOffer):
    """The most probable values of every step alone."""

    name = "map"
    says = "the most probable values of a step under a law of users"
    options = (Option("prior", ("initial", "uniform", "frequency"), "prior = uniform"),)
    counts_users = True
