"""Expected errors of filter and smoother, each cell by itself: what many cells tell of each other is left out.

The same recursions as `posterior`, on the diagonals of all covariances alone: a step costs a product of a matrix and a
vector, where whole covariances cost products and inverses of matrices. What is left out is how estimates of different
cells err together; `tests/runtime/estimation/test_cell_by_cell.py` holds the errors against whole covariances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.covariance import ROUNDS
from policyc_runtime.estimation.interned import SAME
from policyc_runtime.estimation.laplace_channel import laplace_width, site_precision, wide_precision
from policyc_runtime.estimation.posterior import PRECISION_SWEEPS, SETTLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.estimation.count_process import CountProcess

    Array = NDArray[np.float64]


def variances_by_cell(process: CountProcess, scales: Array, delay: int | None, *, balanced: bool = False) -> Array:
    """(T, cells) expected squared errors, before any data; arguments as for `Posterior`.

    Args:
        process: of one chain, whose states are its cells.
        scales: (T,) of the noise; 0 where a step has no values.
        delay: how many later steps count; None for all.
        balanced: whether the noise of a step's cells adds up to zero.
    """
    width = laplace_width(scales)[:, None]
    wide = wide_precision(process.cells if balanced else None)
    precision, after = _filtered(process, width, wide, None)
    for _ in range(PRECISION_SWEEPS if delay != 0 else 0):
        variance = 1.0 / (1.0 / after + _told_later(process, precision, delay))
        fresh = site_precision(variance / np.maximum(1.0 - variance * precision, 1e-12), width, wide)
        change = np.abs(fresh - precision).max() / max(float(fresh.max()), 1e-300)
        if delay is not None or change < SETTLED:
            return variance
        precision, after = _filtered(process, width, wide, fresh)
    return 1.0 / (1.0 / after + _told_later(process, precision, delay)) if delay != 0 else after


def _filtered(process: CountProcess, width: Array, wide: float, given: Array | None) -> tuple[Array, Array]:
    """Precisions of all values, found where none are given, and variances given values up to each step, (T, cells)."""
    squares = (process.move**2).T
    variance = np.diag(process.start())
    precisions, after = [], []
    for t, own in enumerate(width):
        precision = site_precision(variance, own, wide) if given is None else given[t]
        for _ in range(ROUNDS if given is None else 0):
            left = variance / (1.0 + variance * precision)
            fresh = site_precision(left / np.maximum(1.0 - left * precision, 1e-12), own, wide)
            done = np.abs(fresh - precision).max() <= SAME * precision.max(initial=0.0)
            precision = fresh
            if done:
                break
        precisions.append(precision)
        after.append(np.maximum(variance / (1.0 + variance * precision), 1e-300))
        variance = squares @ after[-1] + process.spreads(t)
    return np.array(precisions), np.array(after)


def _told_later(process: CountProcess, precision: Array, delay: int | None) -> Array:
    """What later values say of each step's counts, as precisions, (T, cells)."""
    squares = (process.move**2).T
    told, spread = np.zeros_like(precision), np.array([process.spreads(t) for t in range(len(precision) - 1)])
    if delay is None:
        for t in range(len(precision) - 2, -1, -1):
            total = told[t + 1] + precision[t + 1]
            told[t] = (total / (1.0 + total * spread[t])) @ squares
        return told
    for _ in range(min(delay, len(precision) - 1)):
        total = told[1:] + precision[1:]
        told[:-1] = (total / (1.0 + total * spread)) @ squares
    return told
