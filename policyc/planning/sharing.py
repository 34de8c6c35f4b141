"""Several releases under one promise: every step's budget is divided between them in fixed parts.

What all of them spend together at a step is the schedule's budget, so the promise holds for them as for one. The parts
are those for which the predicted error of all published values together is least; one release takes the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from policyc.planning.candidates import Refused
from policyc.planning.comparison import Choice, Comparison, Patterns
from policyc.planning.schedules import Allocation
from policyc.progress import counted
from policyc_runtime.estimation import Estimator

Array = NDArray[np.float64]
Tried = list[list[Patterns]]
"""Of each release, what each estimator errs."""

AROUND = (0.4, 0.6, 0.8, 1.0, 1.25, 1.6, 2.2)  # parts that are tried, relative to those the noise alone would choose
SMALLEST, LARGEST = 0.01, 0.99  # parts
UNIT = Decimal("0.01")  # nats; noise this large is as good as continuous
ROUNDING = 1e-15  # by which parts are lowered, so that rounded products never add up to more than the whole


@dataclass
class Sharing:
    """Releases compared together, each with its part of every budget. `tables` and `weights` have one a release.

    `settled`: parts are not refined by estimators, as no table knows what its values err once they agree with others.
    """

    tables: Sequence[Comparison]
    parts: Sequence[float]
    weights: Sequence[float]
    settled: bool = False
    schedules: list[Allocation | Refused] = field(default_factory=list)
    _shares: list[list[Allocation | Refused]] = field(default_factory=list)
    _errors: list[float] = field(default_factory=list)

    @classmethod
    def between(cls, tables: Sequence[Comparison], weights: Sequence[float]) -> Sharing:
        """Parts for which the noise of all values together has least error: no estimator is asked yet."""
        return cls(tables, _least_noise_parts(tables, weights), weights)

    def tried(self, schedule: Allocation | Refused) -> Tried:
        """What one more schedule errs; nothing is added yet."""
        return [table.tried(share) for table, share in zip(self.tables, self._shared(schedule), strict=True)]

    def error(self, schedule: Allocation | Refused, tried: Tried) -> float:
        """The lowest predicted error of all values together with a schedule that was tried, inf where there is none."""
        given = zip(self.weights, self.tables, self._shared(schedule), tried, strict=True)
        return sum(weight * table.values * table.error(share, errors) for weight, table, share, errors in given)

    def add(self, schedule: Allocation | Refused, tried: Tried) -> None:
        """Compare one more schedule, that was tried."""
        shares = self._shared(schedule)
        for table, share, errors in zip(self.tables, shares, tried, strict=True):
            table.add(share, errors)
        self.schedules.append(schedule)
        self._shares.append(shares)
        self._errors.append(self.error(schedule, tried))

    def apart(self) -> Sharing:
        """The same releases and parts, where nothing is compared or remembered yet."""
        return Sharing([table.apart() for table in self.tables], self.parts, self.weights, self.settled)

    def _shared(self, schedule: Allocation | Refused) -> list[Allocation | Refused]:
        return [share_of(schedule, part) for part in self.parts]

    def refined(self) -> Sharing:
        """The same schedules with the parts that are best for the best of them, estimators included."""
        choices = self.choices()
        if len(self.tables) == 1 or choices is None or self.settled:
            return self
        best = self.schedules[int(np.argmin(self._errors))]
        assert isinstance(best, Allocation), "a refused schedule has no error"
        parts = _best_parts(self.tables, self.parts, best, [choice.estimator for choice in choices], self.weights)
        again = Sharing(
            [Comparison(t.estimators, t.mechanism, t.predictor, t.late, t.without) for t in self.tables],
            parts,
            self.weights,
        )
        for schedule in counted("schedules, shared", self.schedules, len(self.schedules)):
            again.add(schedule, again.tried(schedule))
        return again if min(again._errors) < min(self._errors) else self

    @property
    def estimators(self) -> list[Estimator | Refused]:
        """All that were to be tried for any release, late ones included, or why they do not apply."""
        return [entry for table in self.tables for entry in (*table.estimators, *table.late)]

    def foresee(self, compared: Sequence[tuple[Allocation | Refused, Tried]]) -> None:
        """Predict what takes long with the best of these, for `add_late`, which asks for it if that is best of all."""
        for table, share in zip(
            self.tables, self._shared(min(compared, key=lambda one: self.error(*one))[0]), strict=True
        ):
            table.tried_late(share)

    def add_late(self) -> None:
        """Compare the estimators that take long, with the best schedule alone."""
        if np.isfinite(min(self._errors, default=np.inf)):
            best = self._shares[int(np.argmin(self._errors))]
            for table, share in zip(self.tables, best, strict=True):
                if isinstance(share, Allocation):
                    table.add_late(share)

    def choices(self) -> list[Choice] | None:
        """The best schedule with the best estimator for each release; None when nothing applies."""
        if not np.isfinite(min(self._errors, default=np.inf)):
            return None
        best = self._shares[int(np.argmin(self._errors))]
        found = [t.choice(s) for t, s in zip(self.tables, best, strict=True) if isinstance(s, Allocation)]
        return [choice for choice in found if choice is not None]

    def words(self, names: Sequence[str]) -> str | None:
        """How the budget was divided, for the plan; None for one release."""
        if len(names) == 1:
            return None
        pairs = zip(self.parts, names, self.tables, strict=True)
        parts = ", ".join(
            f"{100 * part:.3g} % to `{name}` ({t.values} {'values' if t.values > 1 else 'value'} a step)"
            for part, name, t in pairs
        )
        objective = self.tables[0].predictor.objective.replace("_", " ")
        least = f"predicted {objective} of all published values together"
        if self.settled:
            least = f"{objective} of noise, that of levels once they agree, with 1 % at least for each,"
        return (
            f"every step's budget is divided in fixed parts, {parts}; with these parts the {least} is least"
            f"{self._weighed(names)}; the "
            "prediction uses the policy alone, no data"
        )

    def _weighed(self, names: Sequence[str]) -> str:
        """Whose errors count more or less, in words."""
        told = [f"`{name}` {weight:g} times" for name, weight in zip(names, self.weights, strict=True) if weight != 1]
        return f", where errors of {', '.join(told)} count" if told else ""


def share_of(schedule: Allocation | Refused, part: float) -> Allocation | Refused:
    """A schedule that takes this part of every budget."""
    if isinstance(schedule, Refused) or part >= 1:
        return schedule
    factor = part * (1 - ROUNDING)
    return replace(schedule, runs=tuple(replace(run, epsilon=run.epsilon * factor) for run in schedule.runs))


def _least_noise_parts(tables: Sequence[Comparison], weights: Sequence[float]) -> list[float]:
    """Laplace noise has variance proportional to 1 / part^2: minimal for parts as the cube roots of what it costs.

    Mean absolute error is proportional to 1 / part, hence square roots.
    """
    squared = tables[0].predictor.objective == "mean_squared_error"
    costs = [
        weight * table.values * table.predictor.noise_error(float(table.mechanism.calibrate(UNIT)))
        for weight, table in zip(weights, tables, strict=True)
    ]
    roots = np.array(costs) ** (1 / 3 if squared else 1 / 2)
    return [float(part) for part in roots / roots.sum()]


def _best_parts(
    tables: Sequence[Comparison],
    parts: Sequence[float],
    schedule: Allocation,
    estimators: Sequence[Estimator],
    weights: Sequence[float],
) -> list[float]:
    """Parts of least predicted error: each release's error is computed at a few parts, and interpolated between."""
    from scipy.optimize import minimize

    curves = [_curve(t, part, schedule, e) for t, part, e in zip(tables, parts, estimators, strict=True)]

    def divided(free: Array) -> Array:
        powers = np.exp(np.append(free, 0.0))
        return np.asarray(np.clip(powers / powers.sum(), SMALLEST, LARGEST))

    def error(free: Array) -> float:
        pairs = zip(weights, tables, curves, divided(free), strict=True)
        return float(sum(w * t.values * np.exp(np.interp(np.log(part), *curve)) for w, t, curve, part in pairs))

    start = np.log(np.array(parts[:-1]) / parts[-1])
    found = divided(minimize(error, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 0.0}).x)
    return [float(part) for part in found / found.sum()]


def _curve(table: Comparison, part: float, schedule: Allocation, estimator: Estimator) -> tuple[Array, Array]:
    """Logarithms of parts, rising, and of the predicted error at each."""
    tried = np.unique(np.clip(np.array(AROUND) * part, SMALLEST, LARGEST))
    shares = [share_of(schedule, part) for part in tried.tolist()]
    errors = [table.error_with(share, estimator) for share in shares if isinstance(share, Allocation)]
    return np.log(tried), np.log(np.maximum(errors, 1e-300))
