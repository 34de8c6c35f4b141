"""A tree of sums of 1, 2, 4, ... steps."""

from __future__ import annotations

from policyc.offers.linear import GridOffer


class BinaryTreeOffer(GridOffer):
    """For running totals and windows; there are no options."""

    name = "binary_tree"
    says = "noise on sums of 1, 2, 4, ... steps"
