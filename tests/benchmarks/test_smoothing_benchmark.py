"""Smoothing a long stream of many counts, beside the smoother written as a plain loop over steps, in one run."""

from __future__ import annotations

import os
import resource
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from policyc_check.steps.chains import Chain
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation import ConstraintSet
from policyc_runtime.estimation.count_process import CountProcess
from policyc_runtime.estimation.kalman import Filter, Smoother

pytestmark = pytest.mark.law

STEPS = int(os.environ.get("SMOOTHING_STEPS", "2000"))  # 100000 is the size that is promised
CELLS = int(os.environ.get("SMOOTHING_CELLS", "20"))  # 100
LOOPED = 300  # steps of the plain loop, whose time is multiplied
USERS, SCALE = 10_000, 8.0

Array = NDArray[np.float64]


def plain_smoother(process: CountProcess, noisy: Array, scales: Array) -> Array:
    """The filter and the backward pass of Rauch, Tung and Striebel, one covariance a step; noise taken as normal."""
    move, expected = process.move.T, process.expected(len(noisy))
    mean, covariance = np.zeros(process.cells), process.start()
    means, covariances, ahead = [], [], []
    for t, scale in enumerate(scales):
        if scale > 0:
            gain = covariance @ np.linalg.inv(covariance + 2 * scale**2 * np.eye(process.cells))
            mean = mean + gain @ (noisy[t] - expected[t] - mean)
            covariance = covariance - gain @ covariance
        means.append(mean)
        covariances.append(covariance)
        mean, covariance = move @ mean, move @ covariance @ move.T + process.spread(t)
        ahead.append((mean, covariance))
    for t in range(len(noisy) - 2, -1, -1):
        gain = covariances[t] @ move.T @ np.linalg.pinv(ahead[t][1], hermitian=True)
        means[t] = means[t] + gain @ (means[t + 1] - ahead[t][0])
    return expected + np.array(means)


def constraints() -> ConstraintSet:
    def demand(text: str, cells: range, relation: str, bound: int) -> ConstraintRow:
        row = {"text": text, "line": 1, "current": tuple((cell, 1) for cell in cells), "previous": ()}
        return ConstraintRow.model_validate(row | {"relation": relation, "bound": bound})

    floors = (demand("not negative", range(cell, cell + 1), ">=", 0) for cell in range(CELLS))
    return ConstraintSet((demand("sum", range(CELLS), "==", USERS), *floors), CELLS, integer=True)


@pytest.mark.parametrize("every", [1, 7])
def test_a_long_stream_is_smoothed(every: int) -> None:
    """CPU seconds, growth of the peak, the ratio to a plain loop, and what one more filtered step costs."""
    rng = np.random.default_rng(1)
    move = (np.eye(CELLS) * 0.9 + 0.1 / CELLS) * rng.uniform(0.5, 1.5, (CELLS, CELLS))
    chain = Chain(forward=move / move.sum(axis=1, keepdims=True))
    process = CountProcess(float(USERS), CELLS, chain)
    scales = np.where(np.arange(STEPS) % every == 0, SCALE, 0.0)
    noisy = process.expected(STEPS) + np.rint(rng.laplace(0.0, SCALE, (STEPS, CELLS)))
    noisy[scales == 0] = np.nan
    demanded, few = constraints(), min(LOOPED, STEPS)
    Smoother().estimate_series(noisy[:50], scales[:50], 0, chain, demanded, None, None)  # imports
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    released = Smoother().estimate_series(noisy, scales, 0, chain, demanded, None, None)
    ours = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
    start = time.process_time()
    plain_smoother(process, noisy[:few], scales[:few])
    looped = (time.process_time() - start) * STEPS / few
    start = time.process_time()
    Filter().estimate_series(noisy, scales, STEPS - 1, chain, demanded, None, 0)
    more = time.process_time() - start
    print(
        f"\nT = {STEPS:,}, m = {CELLS}, every {every}: smoothed in {ours:.2f} CPU s, peak {grown:.0f} MB higher, "
        f"{looped / ours:.1f} times as fast as a plain loop ({looped:.1f} s); one more filtered step {more:.2f} s"
    )
    assert (released.sum(axis=1) == USERS).all()
    assert (released >= 0).all()
    assert grown < 400 + 6 * noisy.nbytes / 1e6
