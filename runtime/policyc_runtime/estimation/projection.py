"""The values nearest to the noisy ones that satisfy the constraints (Lee et al. 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc_runtime.estimation.estimator import Estimator
from policyc_runtime.estimation.recursions import pieces
from policyc_runtime.estimation.separable import SquaredCost, minimise_integers, minimise_reals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain
    from policyc_runtime.estimation.constraints import ConstraintSet

    Array = NDArray[np.float64]


class NearestValues(Estimator):
    """The likeliest values under Laplace noise: least L1 distance, and among those least L2 distance.

    The L1 minimiser alone is not unique. For a sum and bounds on cells the Euclidean projection is one.

    Source: CAO23
    """

    @property
    def of_one_step(self) -> bool:
        """They do."""
        return True

    def law(self, chain: Chain | None, steps: range, cells: int, first_noisy: Array | None) -> Array | None:  # noqa: ARG002
        """No prior."""
        return None

    def estimate(
        self,
        noisy: Array,
        scales: Array,  # noqa: ARG002  the nearest values are the same at every scale
        law: Array | None,  # noqa: ARG002
        constraints: ConstraintSet,
        previous: Array | None,
    ) -> Array:
        """The nearest values (rows, cells)."""
        return nearest_values(noisy, constraints, previous)


class Mle(NearestValues):
    """The baseline of CAO23: the nearest values under the constraints.

    Source: CAO23
    """

    name: Literal["mle"] = "mle"


class NoEstimation(NearestValues):
    """Noisy values as they are; with constraints, the nearest values that satisfy them.

    Source: CAO23
    """

    name: Literal["none"] = "none"


def nearest_values(noisy: Array, constraints: ConstraintSet, previous: Array | None) -> Array:
    """The values of least L1 distance to the noisy ones, and among those of least L2 distance.

    Args:
        noisy: (rows, cells).
        constraints: what the values must satisfy.
        previous: (cells,) values of the step before, or None.

    Raises:
        ReleaseError: no values satisfy the constraints.
    """
    if constraints.demands_nothing:
        return noisy.copy()
    simplex = constraints.simplex
    if simplex is None:
        from policyc_runtime.estimation.constrained import nearest_under_constraints

        return nearest_under_constraints(noisy, constraints, previous)
    simplex.require_feasible(constraints)
    solve = minimise_integers if constraints.integer else minimise_reals
    values = np.empty(noisy.shape)
    for rows in pieces(len(noisy)):
        values[rows] = solve(SquaredCost(noisy[rows]), simplex.total, simplex.lower, simplex.upper)
    return values
