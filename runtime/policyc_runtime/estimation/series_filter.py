"""Kalman's filter for a plain series: what noisy values so far, or up to a few steps later, say of every value.

Of a process whose parameters are known, the errors of all that are known as well, before any value is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from policyc_runtime.estimation.arma import carry, carry_back
from policyc_runtime.estimation.signal import SeriesProcess, SignalModel
from policyc_runtime.estimation.whittle import FEWEST_VALUES, learned_processes
from policyc_runtime.offset import NO_OFFSET, Offset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

DIFFUSE = 1e7  # variance of an unknown mean, relative to that of a noisy value
FORGET = 0.97  # a step, of how surprising noisy values were
DOUBT = 3.0  # steps that count as if they had been as surprising as expected
LEARN_AGAIN = 1.25  # when so many times as many values are there


def causal_means(
    model: SignalModel, values: Array, variances: Array, first: int, delay: int, offset: Offset = NO_OFFSET
) -> Array:
    """What noisy values up to `delay` steps later say of each value from `first` on, (T - first, series).

    What is learned is learned from those values too: again at 8, 10, 12, ... values, a quarter more each time, so that
    an answer depends on nothing but the values it may use. Before there are enough, noisy values stay as they are.

    Args:
        model: what is declared of the series.
        values: (T, series), NaN where a step has none; each series moves by itself.
        variances: (T,) of the noise; not read without a value.
        first: 0-based step of the first answer.
        delay: how many later steps a value may wait for, where these are there.
        offset: what noisy values are off by together; that of all of them is a part of a mean that is unknown. That of
            periods counts as noise of each value's own beside a process that is learned: else what this one does not
            explain, from one period to the next, would be taken for noise.

    Source: KAL60
    """
    if offset.steps is not None and not model.complete:
        variances, offset = variances + offset.stddev**2, NO_OFFSET
    steps = len(values)
    means = np.empty((steps - first, values.shape[1]))
    seen = np.minimum(np.arange(first, steps) + delay, steps - 1) + 1  # values that each answer may use
    moments = np.array(_learning_moments(steps))
    last = moments[np.searchsorted(moments, seen, side="right") - 1]
    for moment in np.unique(last).tolist():
        rows = np.flatnonzero(last == moment)
        end = int(seen[rows[-1]])
        learned = not model.complete
        for place, process in enumerate(learned_processes(model, values[:moment], variances[:moment])):
            one = values[:, place]
            if process is None:
                means[rows, place] = _nearest_before(one, first + rows)
                continue
            found = fixed_lag_means(process, one[:end], variances[:end], delay, offset, learned=learned)
            means[rows, place] = found[first + rows]
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
    process: SeriesProcess,
    values: Array,
    variances: Array,
    delay: int,
    offset: Offset = NO_OFFSET,
    *,
    learned: bool = False,
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
        offset: what noisy values are off by together.
        learned: whether the process was learned from these values.

    Source: KAL60
    """
    return _fixed_lag(process, values, variances, delay, offset, learned=learned)[0]


def fixed_lag_variances(
    process: SeriesProcess, variances: Array, delay: int | None, offset: Offset = NO_OFFSET
) -> Array:
    """The variance of what such answers miss, (T,), where the process is right and known: whatever the values.

    Args:
        process: how values move.
        variances: (T,) of the noise, NaN or infinite without a value.
        delay: how many later steps a value waits for, None for all.
        offset: what noisy values are off by together.

    Source: KAL60
    """
    values = np.where(np.isfinite(variances), 0.0, np.nan)
    if delay is None and process.mean is None:  # going back, little would be left of an unknown mean's digits
        delay = max(values.size - 1, 0)
    if delay is None:
        return _smoothed(process, values, variances, offset)[1]
    return _fixed_lag(process, values, variances, delay, offset, learned=False)[1]


def smoothed_means(process: SeriesProcess, values: Array, variances: Array, offset: Offset = NO_OFFSET) -> Array:
    """Expected values given all noisy ones, earlier and later, (T,); arguments as for `fixed_lag_means`.

    Source: DJ89
    """
    return _smoothed(process, values, variances, offset)[0]


def _fixed_lag(
    process: SeriesProcess, values: Array, variances: Array, delay: int, offset: Offset, *, learned: bool
) -> tuple[Array, Array]:
    """Expected values and the variance of what they miss."""
    steps = values.size
    means, left = np.empty(steps), np.empty(steps)
    surprise = expected = DOUBT
    passing = _Passing(process, values, variances, offset)
    waiting = np.zeros((delay + 1, passing.state.size))  # covariances with the state; row t % (delay + 1) is step t's
    for t in range(steps):
        passing.move(t, waiting)
        shown, state, spread = passing.shown, passing.state, passing.spread
        column, wanted, asked = _sum(spread, shown), passing.wanted, waiting[t % (delay + 1)]
        asked[:] = _sum(spread, wanted)
        means[t], left[t] = _sum(state, wanted), _sum(asked, wanted)
        if not passing.given[t]:
            continue
        predicted, total = _sum(state, shown), _sum(column, shown) + passing.variances[t]
        away = (values[t] - predicted) / total
        state += column * away
        if t > 0:  # before, nothing is known of the mean
            surprise, expected = FORGET * surprise + away**2 * total, FORGET * expected + 1
        if learned and delay == 0:
            moved = max(0.0, total - passing.variances[t] / surprising(surprise, expected))
            means[t] += moved * passing.part_wanted(column, asked) * away
        else:
            back = np.arange(max(0, t - delay), t + 1)
            rows = back % (delay + 1)
            pull = waiting[rows][:, shown].sum(axis=1)
            means[back] += pull * away
            left[back] -= pull**2 / total
            waiting[rows] -= (pull / total)[:, None] * column
        spread -= (column / total)[:, None] * column
    return means, left + passing.lasting


def _smoothed(process: SeriesProcess, values: Array, variances: Array, offset: Offset) -> tuple[Array, Array]:
    """Expected values given all, and the variance of what they miss: what later values say comes back step by step.

    `pull` and `sure` are what all later values say of the state, as the gradient and the curvature of their likelihood.
    """
    passing = _Passing(process, values, variances, offset)
    steps, size = values.size, passing.state.size
    columns, means, left, away = np.empty((steps, size)), np.empty(steps), np.empty(steps), np.zeros(steps)
    answers = np.empty((steps, size))
    totals = np.ones(steps)
    for t in range(steps):
        passing.move(t)
        wanted, column = passing.wanted, _sum(passing.spread, passing.shown)
        columns[t], answers[t] = column, _sum(passing.spread, wanted)
        means[t], left[t] = _sum(passing.state, wanted), _sum(answers[t], wanted)
        if passing.given[t]:
            totals[t] = _sum(column, passing.shown) + passing.variances[t]
            away[t] = (values[t] - _sum(passing.state, passing.shown)) / totals[t]
            passing.state += column * away[t]
            passing.spread -= (column / totals[t])[:, None] * column
    pull, sure = np.zeros(size), np.zeros((size, size))
    for t in range(steps - 1, -1, -1):
        shown, column = passing.shown_at(t), columns[t]
        if passing.given[t]:
            pull[shown] += away[t] - column @ pull / totals[t]
            along = sure @ column / totals[t]
            sure[shown] -= along
            sure[:, shown] -= along[:, None]
            sure[np.ix_(shown, shown)] += column @ along / totals[t] + 1 / totals[t]
        means[t] += answers[t] @ pull
        left[t] -= answers[t] @ sure @ answers[t]
        for first, factors, _ in passing.changes(t):
            carry_back(pull, first, factors)
            carry_back(sure, first, factors)
            carry_back(sure.T, first, factors)
    return means, left + passing.lasting


def _sum(rows: Array, places: list[int]) -> Any:
    """Of two to four rows, or values: for so few, `rows[places].sum(axis=0)` takes several times as long."""
    first, *others = places
    total = rows[first]
    for place in others:
        total = total + rows[place]
    return total


class _Passing:
    """The state and its covariance, carried from step to step.

    What noisy values are off by together is the last component, drawn anew where a period begins; where all values
    share it, beside a mean that is unknown, nobody can tell the two apart, and it is none.
    """

    def __init__(self, process: SeriesProcess, values: Array, variances: Array, offset: Offset) -> None:
        self._process, self._offset = process, offset
        self._apart = offset.stddev > 0 and (process.mean is not None or offset.steps is not None)
        self.lasting = 0.0 if self._apart else offset.stddev**2  # variance that no number of values takes away
        self.variances = variances + process.observation_stddev**2
        self.given = np.isfinite(values) & np.isfinite(self.variances)
        self.state, self.spread = _start(process, values[self.given], self.variances[self.given])
        if self._apart:
            self.state, self.spread = np.append(self.state, 0.0), np.pad(self.spread, (0, 1))
        self.wanted: list[int] = []
        self.shown: list[int] = []
        arma, rho = process.arma, process.autocorrelation
        factors, fresh = np.array([rho]), np.array([[process.residual_stddev**2 * (1 - rho**2)]])
        self._residual = (factors, fresh) if arma is None else (np.array(arma.coefficients), arma.fresh())
        kept = process.seasonal_autocorrelation
        self._season = np.array([kept]), np.array([[process.seasonal_stddev**2 * (1 - kept**2)]])
        self._common = np.zeros(1), np.array([[offset.stddev**2]])

    def shown_at(self, t: int) -> list[int]:
        """The components whose sum the noisy value of a step shows: those that are asked for, and the offset."""
        return [*self._process.shown(t), *([self.state.size - 1] if self._apart else [])]

    def part_wanted(self, column: Array, answer: Array) -> float:
        """How much of what moves a value is asked for and no offset, by their covariances with the state."""
        return float(_sum(answer, self.shown) / _sum(column, self.shown)) if self._apart else 1.0

    def changes(self, t: int) -> list[tuple[int, Array, Array]]:
        """What changes at the start of step t: first component, what is `carry`d over, the covariance that is added."""
        process, found = self._process, [(1, *self._residual)]
        if 0 < process.period <= t:
            found.append((process.season_at(t), *self._season))
        if self._apart and self._offset.begins(t):
            found.append((self.state.size - 1, *self._common))
        return found

    def move(self, t: int, waiting: Array | None = None) -> None:
        """To the start of step t: what there is fades, and something new is added."""
        self.wanted, self.shown = self._process.shown(t), self.shown_at(t)
        for first, factors, fresh in self.changes(t):
            carry(self.state, first, factors)
            carry(self.spread, first, factors)
            carry(self.spread.T, first, factors)
            end = first + len(factors)
            self.spread[first:end, first:end] += fresh
            if waiting is not None:
                carry(waiting.T, first, factors)


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
    size = 1 + process.residual_size
    spread = np.zeros((size + process.period, size + process.period))
    state = np.zeros(size + process.period)
    if process.mean is not None:
        state[0] = process.mean
    elif values.size:
        state[0] = values[0]
        spread[0, 0] = DIFFUSE * (float(variances[0]) + process.residual_stddev**2 + process.seasonal_stddev**2)
    spread[1:size, 1:size] = process.residual_stddev**2 if process.arma is None else process.arma.spread()
    for phase in range(size, size + process.period):
        spread[phase, phase] = process.seasonal_stddev**2
    return state, spread
