"""What a mechanism and an estimator make of a signal: computed where that can be done, else tried on courses of it.

The best linear filter or smoother of a declared process has a covariance that follows from the process and the noise
alone (Riccati's recursion). Everything else is run. Courses and noise come from fixed seeds, the same for every pair,
so that pairs are compared on the same values and a policy always gives the same plan. Some errors follow a quantity
whose expectation is known: the squares of plain noise, and the error of that best linear filter. Mean errors are moved
along their regression on these (control variates), which takes most of the chance away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from policyc.planning.courses import Courses
from policyc.planning.measurements import Measurement, Objective, of_variances
from policyc_check.errors import KernelError
from policyc_runtime.estimation import ConstraintSet, Estimator
from policyc_runtime.estimation.plain_series import SeriesFilter, SeriesSmoother
from policyc_runtime.estimation.projection import NearestValues
from policyc_runtime.estimation.series_filter import fixed_lag_means, fixed_lag_variances, smoothed_means
from policyc_runtime.offset import NO_OFFSET
from policyc_runtime.randomness import SimulationRandomness

Array = NDArray[np.float64]

SEED = 2022
LONG = 2000  # steps after which the errors of a filter are those of ever
STRETCHES = 24  # of few courses, which stand for as many courses
MANY_COURSES = 12  # that tell most pairs apart
FEW_COURSES = 8  # below, a course is cut into stretches
ACCURATE = 0.01  # relative standard error that is enough
MOST_STEPS = 40_000  # that are simulated for one pair: what is left of chance is printed
MOST_COUPLED_STEPS = 2000  # the same where constraints couple steps: a program for every step takes milliseconds
MOST_COURSES = 400  # of short streams, each of which takes milliseconds however few steps it has
FEW_STEPS = 4000  # the same for a lower bound, or for a pair that may yet be the best
SPARE = 1.1  # times as many streams as a spread says, which is known from few


class Estimated(NamedTuple):
    """A mean error and its standard error; `error` infinite where no values keep the constraints."""

    error: float
    stderr: float

    @property
    def accurate(self) -> bool:
        """Whether more courses would change nothing that is seen."""
        return self.stderr <= ACCURATE * self.error or not math.isfinite(self.error)


def streams_for(found: Iterable[Estimated], count: int) -> int:
    """How many streams make all of these accurate, by the spread of these `count`; twice as many at most."""
    times = [(one.stderr / (ACCURATE * one.error)) ** 2 if one.error > 0 else 2.0 for one in found if not one.accurate]
    return math.ceil(count * min(2.0, SPARE * max(times, default=2.0)))


@dataclass
class Trial:
    """One mechanism and one estimator on course after course.

    Args:
        entry: the mechanism.
        estimator: what is done to its values.
        constraints: of the release.
        objective: what error counts.
        given: the courses.
        measured: what the mechanism measures of the true values, where it is a total.
        derive: what is made of both afterwards, where another total is released.
        made: what is made of what is published, and of the truth; NaN where it has no value.
    """

    entry: Measurement
    estimator: Estimator
    constraints: ConstraintSet
    objective: Objective
    given: Courses
    measured: Callable[[Array], Array] | None = None
    derive: Callable[[Array], Array] | None = None
    made: Callable[[Array], Array] | None = None
    _errors: list[Array] = field(default_factory=list, init=False)
    _controls: list[Array] = field(default_factory=list, init=False)
    _left: Array | None = field(default=None, init=False)

    def run(self, count: int) -> Estimated:
        """The mean error over the first `count` courses; those that were run before are not run again."""
        try:
            while len(self._errors) < count:
                self._one(len(self._errors))
        except KernelError:
            return Estimated(math.inf, math.inf)
        parts = self._parts(count)
        return controlled(_stretches(self._errors[:count], parts), _stretches(self._controls[:count], parts))

    @property
    def courses(self) -> int:
        """How many courses were run."""
        return len(self._errors)

    def beyond(self, other: Trial, count: int) -> Estimated:
        """By how much the mean error over the first `count` courses is above that of another trial on the same ones."""
        if not (math.isfinite(self.run(count).error) and math.isfinite(other.run(count).error)):
            return Estimated(math.inf, math.inf)
        parts = self._parts(count)
        more = _stretches([a - b for a, b in zip(self._errors[:count], other._errors[:count], strict=True)], parts)
        both = zip(self._controls[:count], other._controls[:count], strict=True)
        found = moved(more, _stretches([np.hstack(pair) for pair in both], parts))
        return Estimated(float(more.mean()), math.inf) if found is None else found

    def settled(self, most: int = MOST_STEPS) -> Estimated:
        """The mean error, from a few courses or as many as make it accurate, of so many steps together at most."""
        steps = self.entry.steps
        most = min(most, MOST_COURSES * steps, MOST_COUPLED_STEPS if self.constraints.couples_steps else most)
        count = 1 if steps > LONG else min(MANY_COURSES, max(3, LONG // steps))
        count = max(count, FEW_COURSES) if self.entry.offset.stddev else count
        found = self.run(count)
        while not found.accurate and 2 * count * steps <= most:
            count *= 2
            found = self.run(count)
        return found

    def _parts(self, count: int) -> int:
        """Into how many stretches courses are cut where they are few, unless many of their values share a draw."""
        return 1 if count >= FEW_COURSES or self.entry.offset.stddev else -(-STRETCHES // count)

    def _one(self, number: int) -> None:
        entry, unit, mechanism = self.entry, float(self.entry.unit), self.entry.mechanism
        raw = np.rint(self.given.course(number) / unit).astype(np.int64)[:, None]
        raw = np.repeat(raw, entry.setting.cells, axis=1)
        records = mechanism.measure(entry.setting, raw, (), SimulationRandomness(SEED + number))
        true, noisy = np.asarray(raw * unit, np.float64), mechanism.values(entry.setting, records) * unit
        variances: Array = mechanism.variances(entry.setting, len(raw)) * unit**2
        if self.measured is not None:
            true = self.measured(true)
        controls = np.zeros((len(raw), 2))
        if not (mechanism.estimates or mechanism.leaves_gaps):
            controls[:, 0] = ((noisy - true) ** 2 / variances[:, None] - 1).mean(axis=1)
            controls[:, 1] = self._of_the_best_filter(true, noisy, variances - entry.offset.stddev**2)
        variances = variances - entry.offset.stddev**2
        if self.derive is not None:
            true, noisy, variances = self.derive(true), self.derive(noisy), self.derive(variances[:, None])[:, 0]
        scales = np.nan_to_num(np.sqrt(variances / 2))
        offset = entry.offset if self.derive is None else NO_OFFSET
        values = self.estimator.estimate_series(
            noisy, scales, 0, None, self.constraints, None, entry.setting.wait, offset=offset
        )
        if self.made is None:
            self._errors.append(_sizes(values - true, self.objective).mean(axis=1))
            self._controls.append(controls)
            return
        sizes = _sizes(self.made(values) - self.made(true), self.objective)
        rows = sizes[np.isfinite(sizes).all(axis=1)].mean(axis=1)
        self._errors.append(rows)
        self._controls.append(np.zeros((len(rows), 2)))

    def _of_the_best_filter(self, true: Array, noisy: Array, variances: Array) -> Array:
        """What the best linear filter's errors exceed their expectation by, (steps,); 0 where that is not known."""
        process, delay, offset = self.given.process, self.entry.setting.wait, self.entry.offset
        if process is None or self.measured or not self.entry.plain or not self.given.far_from_bounds(self.constraints):
            return np.zeros(len(true))
        if self._left is None:
            self._left = of_variances(fixed_lag_variances(process, variances, delay, offset), self.objective)
        found = [
            smoothed_means(process, column, variances, offset)
            if delay is None
            else fixed_lag_means(process, column, variances, delay, offset)
            for column in noisy.T
        ]
        return np.asarray(_sizes(np.column_stack(found) - true, self.objective).mean(axis=1) - self._left)


def known_errors(
    entry: Measurement, estimator: Estimator, constraints: ConstraintSet, objective: Objective, given: Courses
) -> Array | None:
    """The expected error of every step, (steps,), of which the first 2,000 stand for more; None where not known so."""
    mechanism = entry.mechanism
    if mechanism.leaves_gaps or given.process is None or not given.far_from_bounds(constraints):
        return None
    if isinstance(estimator, NearestValues):
        known = not mechanism.estimates or mechanism.declared
        noise = float(np.sqrt(np.nanmax(entry.variances())))  # it moves noisy values, which lie further out
        return entry.errors(objective) if known and given.far_from_bounds(constraints, noise) else None
    if mechanism.estimates or not entry.plain or not isinstance(estimator, SeriesFilter | SeriesSmoother):
        return None
    if estimator.signal is None or not estimator.signal.complete or estimator.signal != given.model:
        return None
    variances, period = entry.own_variances(), entry.offset.steps or 1
    left = fixed_lag_variances(given.process, variances[:LONG], entry.setting.wait, entry.offset)
    rounded = 1 / 12 if constraints.integer else 0.0
    # of a longer stream: the second half, where the start is forgotten, in whole periods of what is common
    late = left[-max(len(left) // 2 // period * period, 1) :].mean()
    if entry.setting.horizon is None:
        left = np.full(left.size, late)
    errors = np.concatenate([left, np.full(variances.size - left.size, late)])
    return of_variances(errors + rounded, objective)


def controlled(errors: Array, controls: Array) -> Estimated:
    """The mean of errors, moved along their regression on controls, whose expectation is 0.

    Args:
        errors: (n,), >= 0.
        controls: (n, c); columns of zeros are none.
    """
    found = moved(errors, controls)
    return Estimated(float(errors.mean()), math.inf) if found is None or found.error <= 0 else found


def moved(errors: Array, controls: Array) -> Estimated | None:
    """The same of errors or differences of errors; None where they are too few."""
    used = controls[:, np.ptp(controls, axis=0) > 0]
    centred = used - used.mean(axis=0)
    slopes = np.linalg.lstsq(centred, errors - errors.mean(), rcond=None)[0]
    left = errors - used @ slopes
    free = errors.size - 1 - used.shape[1]
    mean = float(left.mean())
    if free < 2:
        return None
    return Estimated(mean, float(np.sqrt(((left - left.mean()) ** 2).sum() / free / errors.size)))


def _sizes(away: Array, objective: Objective) -> Array:
    return np.asarray(away**2 if objective == "mean_squared_error" else np.abs(away))


def _stretches(series: list[Array], parts: int) -> Array:
    """The means of so many stretches of each, (n,) or (n, columns)."""
    return np.array([part.mean(axis=0) for one in series for part in np.array_split(one, min(parts, len(one)))])
