"""Kalman's filter for a plain series: what noisy values so far, or up to a few steps later, say of every value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from policyc_runtime.estimation.signal import FEWEST_VALUES, SeriesProcess, SignalModel, learned_process

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DIFFUSE = 1e7  # variance of an unknown mean, relative to that of a noisy value
FORGET = 0.97  # a step, of how surprising noisy values were
DOUBT = 3.0  # steps that count as if they had been as surprising as expected
LEARN_AGAIN = 1.25  # when so many times as many values are there


def causal_means(model: SignalModel, values: Array, variances: Array, first: int, delay: int) -> Array:
    """What noisy values up to `delay` steps later say of each value from `first` on, (T - first,).

    What is learned is learned from those values too: again at 8, 10, 12, ... values, a quarter more each time, so that
    an answer depends on nothing but the values it may use. Before there are enough, noisy values stay as they are.

    Args:
        model: what is declared of the series.
        values: (T,), NaN without one.
        variances: (T,) of the noise; not read without a value.
        first: 0-based step of the first answer.
        delay: how many later steps a value may wait for, where these are there.

    Source: KAL60
    """
    steps = values.size
    means = np.empty(steps - first)
    seen = np.minimum(np.arange(first, steps) + delay, steps - 1) + 1  # values that each answer may use
    moments = np.array(_learning_moments(steps))
    last = moments[np.searchsorted(moments, seen, side="right") - 1]
    for moment in np.unique(last).tolist():
        rows = np.flatnonzero(last == moment)
        process = learned_process(model, values[:moment], variances[:moment])
        if process is None:
            means[rows] = _nearest_before(values, first + rows)
            continue
        end = int(seen[rows[-1]])
        means[rows] = fixed_lag_means(process, values[:end], variances[:end], delay, learned=not model.complete)[
            first + rows
        ]
    return means


def _learning_moments(steps: int) -> list[int]:
    moments = [0]
    moment = FEWEST_VALUES
    while moment <= steps:
        moments.append(moment)
        moment = max(moment + 1, int(moment * LEARN_AGAIN))
    return moments


def _nearest_before(values: Array, rows: NDArray[np.intp]) -> Array:
    """The noisy values themselves; without one, the last before, or 0."""
    found = np.zeros(rows.size)
    for place, row in enumerate(rows.tolist()):
        given = values[: row + 1][np.isfinite(values[: row + 1])]
        found[place] = given[-1] if given.size else 0.0
    return found


def fixed_lag_means(
    process: SeriesProcess, values: Array, variances: Array, delay: int, *, learned: bool = False
) -> Array:
    """Expected values given the noisy ones up to `delay` steps later, (T,).

    The state is mean, residual, and one season value a phase. Values that still wait are followed by their covariance
    with the state, so that a later measurement moves them too.

    A learned process is only nearly right, and real series change now more and now less. So where nothing waits, how
    far a value is moved from its prediction towards the noisy one, 1 - noise / S, takes for S what the squared
    surprises of the last noisy values say, in place of what the process says, as far as that is no chance. Without
    that, values that are hardly noisy would become worse than they are.

    Args:
        process: how values move.
        values: (T,), NaN without one.
        variances: (T,) of the noise.
        delay: >= 0.
        learned: whether the process was learned from these values.

    Source: KAL60
    """
    steps, period = values.size, process.period
    variances = variances + process.observation_stddev**2
    given = np.isfinite(values) & np.isfinite(variances)
    state, spread = _start(process, values[given], variances[given])
    fresh = process.residual_stddev**2 * (1 - process.autocorrelation**2)
    fresh_season = process.seasonal_stddev**2 * (1 - process.seasonal_autocorrelation**2)
    waiting = np.zeros((delay + 1, state.size))  # covariances with the state; row t % (delay + 1) is step t's
    means = np.empty(steps)
    surprise = expected = DOUBT
    for t in range(steps):
        _move(1, process.autocorrelation, fresh, state, spread, waiting)
        shown = [0, 1]
        if period:
            phase = 2 + t % period
            shown.append(phase)
            if t >= period:
                _move(phase, process.seasonal_autocorrelation, fresh_season, state, spread, waiting)
        column = spread[shown].sum(axis=0)
        means[t] = state[shown].sum()
        waiting[t % (delay + 1)] = column
        if not given[t]:
            continue
        total = column[shown].sum() + variances[t]
        away = (values[t] - means[t]) / total
        state += column * away
        if t > 0:  # before, nothing is known of the mean
            surprise, expected = FORGET * surprise + away**2 * total, FORGET * expected + 1
        if learned and delay == 0:
            means[t] += max(0.0, total - variances[t] / surprising(surprise, expected)) * away
            spread -= np.outer(column / total, column)
            continue
        back = np.arange(max(0, t - delay), t + 1)
        pull = waiting[back % (delay + 1)][:, shown].sum(axis=1)
        means[back] += pull * away
        waiting[back % (delay + 1)] -= np.outer(pull / total, column)
        spread -= np.outer(column / total, column)
    return means


def surprising(squares: float, expected: float) -> float:
    """How many times as large squared surprises are as they should be, as far as chance does not explain it.

    The logarithm of their mean has a sampling variance of 2 / expected, by which it is shrunk towards 0.

    Args:
        squares: their sum, > 0.
        expected: what it should be: how many there are.

    Source: EM73
    """
    away = math.log(squares / expected)
    return math.exp(away * max(0.0, 1.0 - 2.0 / (expected * away**2))) if away else 1.0


def _start(process: SeriesProcess, values: Array, variances: Array) -> tuple[Array, Array]:
    """State and covariance before step 0; of an unknown mean next to nothing is known."""
    spread = np.zeros((2 + process.period, 2 + process.period))
    state = np.zeros(2 + process.period)
    if process.mean is not None:
        state[0] = process.mean
    elif values.size:
        state[0] = values[0]
        spread[0, 0] = DIFFUSE * (float(variances[0]) + process.residual_stddev**2 + process.seasonal_stddev**2)
    spread[1, 1] = process.residual_stddev**2
    for phase in range(2, 2 + process.period):
        spread[phase, phase] = process.seasonal_stddev**2
    return state, spread


def _move(place: int, factor: float, fresh: float, state: Array, spread: Array, waiting: Array) -> None:
    """One component of the state goes one step on: it shrinks towards 0, and something new is added."""
    state[place] *= factor
    spread[place] *= factor
    spread[:, place] *= factor
    spread[place, place] += fresh
    waiting[:, place] *= factor
