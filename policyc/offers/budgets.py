"""The ways to divide a promise between steps that a policy may name."""

from __future__ import annotations

from policyc.offers.offer import BudgetOffer, Option


class UniformOffer(BudgetOffer):
    """The same for every step of a known number of them."""

    name = "uniform"
    says = "the same for every step, for a known number of steps"


class BoundedOffer(BudgetOffer):
    """The same for every step, however many follow."""

    name = "bounded"
    says = "the same for every step, however many follow"


class QuantifiedOffer(BudgetOffer):
    """More for the first and last step, so that all leak the same (CAO17)."""

    name = "quantified"
    says = "more for the first and the last step, so that all leak as much as is promised"


class OptimalOffer(BudgetOffer):
    """Patterns of budgets that are searched for the least error."""

    name = "optimal"
    says = "a pattern of budgets that is searched for the least error"


class SparseOffer(BudgetOffer):
    """All for some steps, nothing for those between, which an estimator fills."""

    name = "sparse"
    says = "all for some steps, and nothing for those between, which an estimator fills"
    options = (Option("every", "steps", "every = 4 steps"),)


class PartsOffer(BudgetOffer):
    """A stated part for each release, of a promise about all of a user that adds up."""

    name = "parts"
    says = "a stated part for each release, of a `user_level` promise with `delta = 0` or `rho`"
