"""The most probable movements of all users over the whole stream, given all noisy values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from policyc_runtime.estimation.count_process import CountProcess, Mixture
from policyc_runtime.estimation.flows import Group, most_probable_flows
from policyc_runtime.estimation.kalman import Smoother
from policyc_runtime.estimation.posterior import Posterior
from policyc_runtime.estimation.separable import SquaredCost, minimise_integers
from policyc_runtime.estimation.series import CountsEstimator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from policyc_check.steps.chains import Chain

    Array = NDArray[np.float64]

TRIED_STEPS = 100  # of a simulated stream, at most
TRIED_ROWS = 800  # steps of the streams that are simulated at first, about
LEAST_TRIED, MOST_TRIED, ENOUGH_TRIED = 16, 64, 512  # streams at first, and of all
TOLD = 0.02  # standard error of how much larger the error is, relative, from which on no more streams are simulated
SEED = 2011  # of simulated users: the same policy gives the same numbers


class JointMap(CountsEstimator):
    """Mode over the whole chain: the users' most probable flows from step to step, then the nearest values allowed.

    The prior is the number of ways in which independent users can make these flows, in Stirling's form, a relative
    entropy; the likelihood is that of Laplace noise. Groups of known sizes have flows each, and noisy values are of all
    groups together. The sum and the sign of counts hold by construction, other constraints by the nearest values. The
    declared chain is believed as it is: unlike `filter` and `smoother`, this does not look whether the noisy values
    speak against it.

    Source: SKD13
    """

    offline: ClassVar[str | None] = "all steps are estimated at once; `filter` uses the steps there are"
    name: Literal["joint_map"] = "joint_map"

    def counts(
        self,
        process: CountProcess,
        noisy: Array,
        scales: Array,
        first: int,
        delay: int | None,  # noqa: ARG002
        *,
        balanced: bool,  # noqa: ARG002
        processes: Sequence[str] | None,  # noqa: ARG002
    ) -> Array:
        """(T - first, cells) counts of the most probable flows."""
        if process.population <= 0:
            return np.zeros((len(noisy) - first, process.cells))
        return _modes(process, noisy[:, None], scales)[first:, 0]

    @property
    def prediction_method(self) -> str:
        """How `predicted_errors` knows."""
        return (
            "covariance of the counts given the noisy values, times how much larger the error of the most probable "
            "flows is on streams of users simulated from the declared chain with a fixed seed"
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
        balanced: bool = False,
    ) -> Array | None:
        """Expected error of every step, mean over cells, as `Estimator.predicted_errors` says.

        A mode has no covariance to read its error from. The smoother has, and follows the same values: its error,
        known step by step, times the ratio of both on streams of simulated users.
        """
        known = Smoother().predicted_errors(
            chain, population, scales, delay, objective, integer=False, balanced=balanced
        )
        if known is None or chain is None or population == 0:
            return known
        process = CountProcess.of(float(population), chain)
        return known * _error_ratio(process, scales[:TRIED_STEPS], objective, integer=integer)


def _modes(process: CountProcess, noisy: Array, scales: Array) -> Array:
    """(T, R, cells) counts of the most probable flows of R series."""
    chain = process.chain
    assert chain is not None
    each = zip(chain.chains, chain.shares, strict=True) if isinstance(chain, Mixture) else [(chain, 1.0)]
    groups = [Group(np.asarray(one.marginal(0)), one.forward, process.population * share) for one, share in each]
    belongs = chain.belongs if isinstance(chain, Mixture) else None
    return most_probable_flows(groups, noisy, scales, belongs).counts


def _error_ratio(process: CountProcess, scales: Array, objective: str, *, integer: bool) -> float:
    """Error of the mode, whole numbers or not, over that of the posterior mean, on the same simulated values.

    A squared error is the variance, which is known, and the squared distance of the mode from the mean: where simulated
    users are, which in slow chains differs much from stream to stream, takes no part. Absolute errors are those of the
    users. Streams are simulated until the ratio is told to within `TOLD`.
    """
    generator, posterior = np.random.default_rng(SEED), Posterior(process, scales, None)
    variances = np.maximum(posterior.variances(), 0.0)[:, None]
    streams = min(MOST_TRIED, max(LEAST_TRIED, TRIED_ROWS // len(scales)))
    errors = np.empty((2, 0))  # of mode and mean, of each stream
    while True:
        true, modes, means = _tried(process, scales, posterior, generator, streams, integer=integer)
        if objective == "mean_squared_error":
            found = (modes - means) ** 2 + variances, np.broadcast_to(variances, means.shape)
        else:
            found = np.abs(modes - true), np.abs(means - true)
        errors = np.concatenate([errors, np.mean(found, axis=(1, 3))], axis=1)
        mode, mean = errors.mean(axis=1).tolist()
        if mean <= 0:
            return 1.0  # nobody ever moves
        stderr, streams = float(np.std(errors[0] - mode / mean * errors[1], ddof=1)), errors.shape[1]
        if stderr <= TOLD * mode * math.sqrt(streams) or 2 * streams > ENOUGH_TRIED:
            return float(mode / mean)


def _tried(
    process: CountProcess,
    scales: Array,
    posterior: Posterior,
    generator: np.random.Generator,
    streams: int,
    *,
    integer: bool,
) -> tuple[Array, Array, Array]:
    """Counts of so many simulated streams, and modes and posterior means on their values, (T, streams, cells) each."""
    true = process.drawn(len(scales), streams, generator).astype(np.float64)
    stop = np.where(scales > 0, -np.expm1(-1.0 / np.where(scales > 0, scales, 1.0)), 1.0)[:, None, None]
    noisy = true + generator.geometric(stop, true.shape) - generator.geometric(stop, true.shape)
    noisy[scales == 0] = np.nan
    modes = _modes(process, noisy, scales)
    if integer:
        rows = modes.reshape(-1, process.cells)
        whole = minimise_integers(
            SquaredCost(rows), process.population, np.zeros(process.cells), np.full(process.cells, np.inf)
        )
        modes = whole.reshape(modes.shape)
    return true, modes, np.stack([posterior.means(noisy[:, series]) for series in range(streams)], axis=1)
