"""The counts of independent users given noisy values of many steps: earlier ones for `filter`, all for `smoother`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from policyc_runtime.errors import ReleaseError
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.estimator import Estimator, step_by_step
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.estimation.projection import nearest_values
from policyc_runtime.estimation.safeguard import candidates, likeliest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.constraints import ConstraintSet
    from policyc_runtime.privacy import Chain

    Array = NDArray[np.float64]


class SeriesEstimator(Estimator):
    """Posterior means over the count process, then the nearest values under the constraints.

    The chain is checked against the noisy values on the way: a smoothed chain, or none, is used where these speak for
    it. This sees released values only and costs no privacy.
    """

    def reason_against(self, chains: int, constraints: ConstraintSet) -> str | None:
        """Why this estimator does not apply, or None when it does."""
        if chains != 1:
            return "it needs one chain that says how users move"
        if constraints.cells == 1:
            return "one number a step is not a law over cells"
        if constraints.total is None:
            return "no constraint says what the cells add up to"
        return None

    @property
    def fills(self) -> bool:
        """It has: what the chain makes of the values of other steps."""
        return True

    def law(self, chain: Chain | None, steps: range, cells: int, first_noisy: Array | None) -> Array | None:  # noqa: ARG002
        """No prior of a single step."""
        return None

    def estimate(
        self,
        noisy: Array,
        scales: Array,  # noqa: ARG002
        law: Array | None,  # noqa: ARG002
        constraints: ConstraintSet,
        previous: Array | None,
    ) -> Array:
        """The values nearest to posterior means given in place of the noisy ones."""
        return nearest_values(noisy, constraints, previous)

    def estimate_series(
        self,
        noisy: Array,
        scales: Array,
        first: int,
        chain: Chain | None,
        constraints: ConstraintSet,
        previous: Array | None,
        delay: int | None,
    ) -> Array:
        """Values of the steps from `first` on, as `Estimator.estimate_series` says."""
        if chain is None or constraints.total is None or chain.states != noisy.shape[1]:
            raise ReleaseError(
                "E0833",
                f"there is nothing to make the model of `{self.name}` from",
                because="it needs one chain over the cells of the release, and what these add up to",
                help="choose another estimator in the policy and compile again",
            )
        processes = candidates(CountProcess(constraints.total, len(chain.forward), chain))
        chosen = likeliest(processes, noisy, scales)
        if delay is None:
            chosen[:] = chosen[-1]
        elif delay:
            chosen = np.concatenate([chosen[delay:], np.full(min(delay, len(chosen)), chosen[-1])])
        means = np.empty((len(noisy) - first, noisy.shape[1]))
        for number in np.unique(chosen[first:]):
            rows = chosen[first:] == number
            means[rows] = Posterior(processes[number], scales, delay).means(noisy)[first:][rows]
        if delay is None or not constraints.couples_steps:
            return nearest_values(means, constraints, previous)
        return step_by_step(
            lambda row, alone, before: nearest_values(means[row], alone, before), len(means), constraints, previous
        )

    def predicted_errors(
        self,
        chain: Chain | None,
        population: int,
        scales: Array,
        delay: int | None,
        objective: Literal["mean_squared_error", "mean_absolute_error"],
        *,
        integer: bool,
    ) -> Array | None:
        """Expected error of every step, mean over cells, as `Estimator.predicted_errors` says."""
        if chain is None:
            return None
        variances = Posterior(CountProcess(float(population), chain.states, chain), scales, delay).variances()
        return np.asarray(_expected_error(np.maximum(variances, 0.0), objective, integer=integer).mean(axis=1))


class Filter(SeriesEstimator):
    """Posterior mean of the counts given the noisy values so far; under `within(d)` given those of d more steps.

    The linear recursion is Kalman's over the exact first two moments of the counts of independent users; every noisy
    value enters with what Laplace noise lets one learn from it, by expectation propagation, not as a normal one.

    Source: KAL60
    """

    name: Literal["filter"] = "filter"

    def looks_ahead(self, delay: int | None) -> bool:
        """Whether a value depends on later steps."""
        return delay != 0


class Smoother(SeriesEstimator):
    """Posterior mean of the counts given all noisy values, earlier and later, by expectation propagation.

    Source: MIN01
    """

    name: Literal["smoother"] = "smoother"

    def reason_against_delay(self, delay: int | None) -> str | None:
        """Only where values may wait for all others."""
        return None if delay is None else "values may not wait for all later steps; `filter` uses those there are"

    def looks_ahead(self, delay: int | None) -> bool:  # noqa: ARG002
        """It does."""
        return True


def _expected_error(variances: Array, objective: str, *, integer: bool) -> Array:
    """Of a normal error with these variances, rounded to whole numbers or not."""
    from scipy.special import ndtr

    squared = objective == "mean_squared_error"
    if not integer:
        return variances if squared else np.sqrt(variances * (2.0 / np.pi))
    wide = variances + 1.0 / 12.0
    error = wide if squared else np.sqrt(wide * (2.0 / np.pi))
    narrow = variances < 1.0
    if narrow.any():
        root = np.sqrt(np.maximum(variances[narrow], 1e-12))
        tails = [2.0 * ndtr(-(k - 0.5) / root) for k in range(1, 8)]
        error = error.copy()
        error[narrow] = sum((2 * k - 1 if squared else 1) * tail for k, tail in enumerate(tails, start=1))
    return error
