"""The covariance of the counts of a step once its noisy values are known, and how much those say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.count_process import MANY
from policyc_runtime.estimation.interned import SAME
from policyc_runtime.estimation.laplace_channel import site_precision

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]

SHARPEST = 1e10  # variance over that of noise: matrices with larger ratios cannot be solved with in doubles
MOSTLY_TOLD = 1e6  # from this ratio on what is left is not made as a difference
ROUNDS = 30  # for a step's own precisions to agree with its covariance


def seen_variances(process: CountProcess, covariance: Array) -> Array:
    """Variances of the sums that are seen, (cells,), of a covariance of states."""
    return np.asarray(np.diag(process.seen(process.seen(covariance).T)))


def sharpest(process: CountProcess, covariance: Array) -> Array:
    """The largest precisions of values, (cells,): of less noise beside all that is unknown roughly all is known."""
    return SHARPEST / np.maximum(process.seen(covariance.diagonal()), 1e-280)


def own_precisions(process: CountProcess, covariance: Array, width: Array, wide: float) -> tuple[Array, Array]:
    """Precisions of a step's values, and the covariance after them, that agree with each other."""
    most = sharpest(process, covariance)
    precision = np.minimum(site_precision(seen_variances(process, covariance), width, wide), most)
    if not precision.any():
        return precision, updated(process, covariance, precision)
    after = updated(process, covariance, precision)
    for _ in range(ROUNDS):
        variance = seen_variances(process, after)
        belief = variance / np.maximum(1.0 - variance * precision, 1e-12)
        fresh = np.minimum(site_precision(belief, width, wide), most)
        done = np.abs(fresh - precision).max() <= SAME * precision.max(initial=0.0)
        precision = fresh
        after = updated(process, covariance, precision)
        if done:
            break
    return precision, after


def updated(process: CountProcess, covariance: Array, precision: Array) -> Array:
    """The covariance after independent observations of all cells; needs no inverse of either, both may be singular."""
    if not precision.any():
        return covariance if len(precision) >= MANY else symmetric(covariance)
    root = np.sqrt(precision)
    gained = process.seen(covariance) * root
    foretold = root[:, None] * process.seen(gained.T).T
    if len(root) == len(covariance) and (covariance.diagonal() * precision).min() > MOSTLY_TOLD:
        # hardly anything but the observations' own noise is left, which a difference would not show
        share = np.eye(len(root)) - inverted(np.eye(len(root)) + _less_total(foretold, root))[0]
        return symmetric(_less_total(share, root) / (root[:, None] * root))
    inner = np.eye(len(root)) + foretold
    if len(root) < MANY:
        return symmetric(covariance - gained @ np.linalg.solve(inner, gained.T))
    from scipy.linalg import cholesky, solve_triangular  # start-up: few releases have so many values

    half = solve_triangular(cholesky(inner, lower=True), gained.T, lower=True)
    return np.asarray(covariance - half.T @ half)


def weighed(covariance: Array, root: Array) -> Array:
    """A covariance of what is seen, (cells, cells), in units of noise; `root` is 0 where a cell has no value."""
    found = root[:, None] * covariance * root
    return _less_total(found, root) if root.all() else found


def _less_total(covariance: Array, root: Array) -> Array:
    """The same without what rounding left of the total, which is known: it may be more than all noise."""
    total = 1.0 / root
    total /= np.linalg.norm(total)
    rows = covariance - np.outer(total, total @ covariance)
    return symmetric(rows - np.outer(rows @ total, total))


def inverted(matrix: Array) -> tuple[Array, float]:
    """The inverse of a covariance, and the logarithm of its determinant."""
    if len(matrix) < MANY:
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64), float(np.linalg.slogdet(matrix)[1])
    from scipy.linalg import cholesky, lapack  # start-up: few releases have so many values

    factor = cholesky(matrix, lower=True)
    lower = np.tril(lapack.dpotri(factor, lower=1)[0])
    return lower + np.tril(lower, -1).T, float(2.0 * np.log(np.diag(factor)).sum())


def symmetric(matrix: Array) -> Array:
    """A covariance whose two halves were rounded differently."""
    return np.asarray(0.5 * (matrix + matrix.T))
