"""Compares every schedule and estimator by the predicted error of what is published, and takes the best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import Predictor, Refused
from policyc.planning.schedules import Allocation, Run, exact
from policyc_runtime.estimation import Estimator
from policyc_runtime.mechanisms import BudgetMechanism, WindowMechanism
from policyc_runtime.predicted_errors import Candidate, PredictedError

Array = NDArray[np.float64]
Patterns = tuple[tuple[float, ...], ...]
"""The expected error at each step of the pattern of every run."""

MOST_RUNS = 6  # whose error is computed, each with an estimator
EARLY_RUNS = 5  # at the beginning, each of which is computed by itself
ADAPTS = (
    "how far off values are depends on how far counts move until they are published again, and near zero, where "
    "nothing has to be published, they may be off by less"
)
NOTICED = 1.0005  # times the least error; below, nobody would tell them apart
STRETCH = 1000  # steps that stand for a longer run: ends are told, the middle repeats


@dataclass(frozen=True)
class Choice:
    """What the plan will use, with everything that was compared."""

    allocation: Allocation
    mechanism: BudgetMechanism
    estimator: Estimator
    expected_errors: Patterns
    predicted: PredictedError
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class _Entry:
    allocation: Allocation
    estimator: Estimator
    errors: Patterns
    mean: float


@dataclass
class Comparison:
    """Schedules with every estimator that applies; of equal errors the one added first is taken.

    `estimators` are those to try, or why they do not apply; `late` those whose error takes long to predict, which are
    tried with the best schedule alone; `without` the mechanisms that were not compared, and why.
    """

    estimators: Sequence[Estimator | Refused]
    mechanism: BudgetMechanism
    predictor: Predictor
    late: Sequence[Estimator | Refused] = ()
    without: Sequence[Refused] = ()
    _entries: list[_Entry] = field(default_factory=list)
    _refused: list[Refused] = field(default_factory=list)

    @property
    def values(self) -> int:
        """How many values are published at a step."""
        return self.predictor.cells

    def tried(self, schedule: Allocation | Refused) -> list[Patterns]:
        """What each estimator that applies errs with a schedule; nothing is added yet."""
        return [_errors(one, e, self.mechanism, self.predictor) for one, e in _usable(self.estimators, schedule)]

    def error(self, schedule: Allocation | Refused, tried: Sequence[Patterns]) -> float:
        """The lowest predicted error of a schedule that was tried, inf where nothing applies."""
        pairs = zip(_usable(self.estimators, schedule), tried, strict=True)
        return min((mean_error(one, errors) for (one, _), errors in pairs), default=math.inf)

    def add(self, schedule: Allocation | Refused, tried: Sequence[Patterns]) -> None:
        """Compare one more schedule, that was tried."""
        if isinstance(schedule, Refused):
            self._refused.append(schedule)
        pairs = zip(_usable(self.estimators, schedule), tried, strict=True)
        self._entries += [_entry(one, estimator, errors) for (one, estimator), errors in pairs]

    def tried_late(self, schedule: Allocation | Refused) -> list[Patterns]:
        """What the late estimators err with a schedule; nothing is added yet."""
        return [_errors(one, e, self.mechanism, self.predictor) for one, e in _usable(self.late, schedule)]

    def add_late(self, schedule: Allocation) -> None:
        """Compare the late estimators with one schedule alone."""
        self.estimators = [*self.estimators, *self.late]
        pairs = zip(_usable(self.late, schedule), self.tried_late(schedule), strict=True)
        self._entries += [_entry(one, estimator, errors) for (one, estimator), errors in pairs]

    def apart(self) -> Comparison:
        """The same table, in which nothing is compared or remembered yet."""
        return replace(self, predictor=self.predictor.afresh(), _entries=[], _refused=[])

    def error_with(self, schedule: Allocation, estimator: Estimator) -> float:
        """The predicted error of a schedule that is only tried, with one estimator."""
        return mean_error(schedule, _errors(schedule, estimator, self.mechanism, self.predictor))

    def choice(self, schedule: Allocation | None = None) -> Choice | None:
        """The combination with the lowest predicted error; None when no schedule or no estimator applies.

        Args:
            schedule: one that was added, where it was chosen for several releases together.
        """
        entries = [entry for entry in self._entries if schedule is None or entry.allocation is schedule]
        if not entries:
            return None
        best = min(entries, key=lambda entry: entry.mean)
        moving = isinstance(self.mechanism, WindowMechanism)
        predicted = PredictedError(
            kind="at_least" if moving else "expected",
            because=ADAPTS if moving else None,
            published=best.mean,
            without_postprocessing=None if moving else _noise_error(best.allocation, self.mechanism, self.predictor),
            prior_alone=self.predictor.prior_alone(_steps(best.allocation)),
            signal=self.predictor.signal(),
            method=self.predictor.method(best.estimator) + _adaptive_words(self.mechanism),
        )
        candidates = [_candidate(entry, best, self.mechanism) for entry in self._entries]
        candidates += [_refused(r, self.mechanism.described(), "schedule") for r in self._refused]
        candidates += [
            _refused(r, self.mechanism.described(), "estimator") for r in self.estimators if isinstance(r, Refused)
        ]
        candidates += [_refused(r, r.name, "mechanism") for r in self.without]
        return Choice(best.allocation, self.mechanism, best.estimator, best.errors, predicted, tuple(candidates))


def _adaptive_words(mechanism: BudgetMechanism) -> str:
    """What a prediction leaves out where values are published again until counts have moved."""
    if not isinstance(mechanism, WindowMechanism):
        return ""
    return (
        "; of counts that stand still far above the noise, over all steps, by simulation: what counts that move add to "
        "it is not known before the data"
    )


def _scales(allocation: Allocation, mechanism: BudgetMechanism) -> list[float]:
    """The noise scale of every run's releases; 0 for none."""
    return [float(mechanism.calibrate(exact(run.epsilon))) if run.epsilon > 0 else 0.0 for run in allocation.runs]


def _usable(
    estimators: Sequence[Estimator | Refused], schedule: Allocation | Refused
) -> list[tuple[Allocation, Estimator]]:
    """The estimators that apply to a schedule, each with it."""
    if isinstance(schedule, Refused):
        return []
    return [(schedule, e) for e in estimators if isinstance(e, Estimator) and (e.fills or not schedule.skips)]


def _entry(allocation: Allocation, estimator: Estimator, errors: Patterns) -> _Entry:
    return _Entry(allocation, estimator, errors, mean_error(allocation, errors))


def _errors(allocation: Allocation, estimator: Estimator, mechanism: BudgetMechanism, predictor: Predictor) -> Patterns:
    scales = _scales(allocation, mechanism)
    series = predictor.series_errors(estimator, _scales_by_step(allocation, scales))
    if series is None:
        return tuple((error,) for error in _errors_by_run(allocation, estimator, scales, predictor))
    return tuple(_patterns_of(allocation, series))


def _scales_by_step(allocation: Allocation, scales: Sequence[float]) -> Array:
    """The noise scale of every step, 0 for no release; of a long or endless run, a stretch of it."""
    parts = [
        np.tile([scale, *[0.0] * (run.period - 1)], _told(run) // run.period)
        for run, scale in zip(allocation.runs, scales, strict=True)
    ]
    return np.concatenate(parts)


def _told(run: Run) -> int:
    """How many steps stand for a run: whole periods, all of them where they are few."""
    longest = run.period * -(-STRETCH // run.period)
    return longest if run.steps is None else min(run.steps, longest)


def _patterns_of(allocation: Allocation, errors: Array) -> Iterator[tuple[float, ...]]:
    """The mean error at each step of the pattern of every run; steps left out have that of the middle."""
    start = 0
    for run in allocation.runs:
        stop = start + _told(run)
        rows = errors[start:stop].reshape(-1, run.period)
        middle = rows[len(rows) // 2]
        left_out = 1.0 if run.steps is None else 1.0 - (stop - start) / run.steps
        mean = left_out * middle + (1.0 - left_out) * rows.mean(axis=0)
        yield tuple(float(error) for error in mean)
        start = stop


def _errors_by_run(
    allocation: Allocation, estimator: Estimator, scales: Sequence[float], predictor: Predictor
) -> list[float]:
    """The mean expected error of every run; between later ones that were computed, errors are interpolated by scale.

    At the first steps what is believed may still be far from what it becomes, so these stand for no others.
    """
    starts = np.cumsum([0, *(run.steps or 0 for run in allocation.runs[:-1])]).tolist()

    def computed(runs: Iterable[int]) -> list[float]:
        given = ((starts[run], allocation.runs[run], scales[run], scales[0]) for run in runs)
        return [predictor.run_error(estimator, *one) for one in given]

    early, later = computed(range(min(EARLY_RUNS, len(scales)))), np.log(scales[EARLY_RUNS:])
    if not len(later):
        return early
    order = np.argsort(later, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, MOST_RUNS).astype(int))]
    return [*early, *map(float, np.interp(later, later[chosen], computed((chosen + EARLY_RUNS).tolist())))]


def mean_error(allocation: Allocation, patterns: Sequence[Sequence[float]]) -> float:
    """Over all steps of a schedule, of the errors at each step of the pattern of every run; of ever, where one is."""
    errors = [float(np.mean(pattern)) for pattern in patterns]
    if allocation.runs[-1].steps is None:
        return float(errors[-1])
    return float(np.average(errors, weights=[run.steps or 0 for run in allocation.runs]))


def _noise_error(allocation: Allocation, mechanism: BudgetMechanism, predictor: Predictor) -> float:
    """The error of the noisy values themselves, over the steps that have them; of an endless stream, those of ever."""
    runs = list(zip(allocation.runs, _scales(allocation, mechanism), strict=True))
    released = [(run, scale) for run, scale in (runs if runs[-1][0].steps is not None else runs[-1:]) if scale]
    weights = [(run.steps or run.period) // run.period for run, _ in released]
    return float(np.average([predictor.noise_error(scale) for _, scale in released], weights=weights))


def _steps(allocation: Allocation) -> int | None:
    if allocation.runs[-1].steps is None:
        return None
    return sum(run.steps or 0 for run in allocation.runs)


def _candidate(entry: _Entry, best: _Entry, mechanism: BudgetMechanism) -> Candidate:
    chosen = entry is best
    ratio = entry.mean / best.mean if best.mean > 0 else float("inf")
    if ratio < 1:  # chosen for several releases together
        return _considered(entry, mechanism, chosen, "lower here, and higher for all releases together")
    return _considered(entry, mechanism, chosen, "lowest predicted error" if chosen else more_error(ratio))


def more_error(ratio: float) -> str:
    """In words, an error that is `ratio` times that of the candidate that was chosen; lower only in a tie."""
    if ratio < 1 / NOTICED:
        return f"{100 * (1 - ratio):.2g} % less error than the one chosen: a tie"
    if ratio < NOTICED:
        return "as much error as the one chosen"
    times = f"{ratio:.3g}" if ratio < 999.5 else f"{float(f'{ratio:.3g}'):,.0f}"
    more = f"{100 * (ratio - 1):.2g} % more error than" if ratio < 1.995 else f"{times} times the error of"
    return f"{more} the one chosen"


def _considered(entry: _Entry, mechanism: BudgetMechanism, chosen: bool, reason: str) -> Candidate:
    return Candidate(
        schedule=entry.allocation.name,
        mechanism=mechanism.described(),
        estimator=entry.estimator.described(),
        predicted_error=entry.mean,
        chosen=chosen,
        reason=reason,
    )


def _refused(refused: Refused, mechanism: str, kind: str) -> Candidate:
    return Candidate(
        schedule=refused.name if kind == "schedule" else "any",
        mechanism=mechanism,
        estimator=refused.name if kind == "estimator" else "any",
        predicted_error=None,
        chosen=False,
        reason=refused.reason,
    )
