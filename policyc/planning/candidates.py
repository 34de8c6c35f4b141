"""Which schedules and estimators a policy's release can have, and what each is expected to cost in error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from policyc.planning.beliefs import Beliefs
from policyc.planning.caps import Cap, capped
from policyc.planning.leakage.lags import useful_lags
from policyc.planning.pairwise import allocate_by_pairs
from policyc.planning.patterns import allocate_optimal, allocate_sparse
from policyc.planning.prediction import FEW_POINTS, MOST_VALUES, POINTS, Objective, StepModel, spread_points
from policyc.planning.promise import Promise
from policyc.planning.queries import users_beside
from policyc.planning.schedules import (
    Allocation,
    Group,
    Run,
    ScheduleError,
    allocate_bounded,
    allocate_quantified,
    allocate_uniform,
    exact,
)
from policyc.planning.users_beside import cut
from policyc.progress import counted
from policyc.semantics.policy import Policy
from policyc.semantics.targets import AlphaDPTTarget, EventLevelTarget, WEventTarget
from policyc_check.rounding import rounded_up
from policyc_check.steps.chains import Chain
from policyc_runtime.ancestors import Indices, summed
from policyc_runtime.estimation import Estimator, every_estimator
from policyc_runtime.estimation.constraints import ConstraintSet
from policyc_runtime.estimation.kalman import BY_CELL, PosteriorMean, by_cell
from policyc_runtime.estimation.map import LEAST_SEEN
from policyc_runtime.groups import group_sizes
from policyc_runtime.mechanisms import BudgetMechanism, WindowMechanism

Array = NDArray[np.float64]

ENDLESS = 1_000_000  # steps over which an endless stream's error is averaged
SETTLED = 200  # steps after which laws are taken to have stopped moving
EVENLY_SPLIT = "users are split evenly between groups, as the policy does not say how large they are"
SCHEDULES = ("uniform", "bounded", "quantified", "optimal")


@dataclass(frozen=True)
class Refused:
    """A schedule or estimator that does not apply here, and why."""

    name: str
    reason: str


def allocations(policy: Policy, groups: Sequence[Group], *, audit: bool) -> Iterator[Allocation | Refused]:
    """Every schedule that releases all steps and that the policy allows, or why there is none.

    With an `audit` each is accepted by it; without, budgets over a horizon are proposed for a comparison.
    """
    horizon, wish = policy.stream.horizon, policy.budget.name
    promise, caps = promised(policy)
    if promise is None or not groups:
        name = "uniform"
        runs = cut(capped([Run(float(max(nats for nats, _ in caps)), horizon)], caps), users_beside(policy))
        found = Allocation(name, runs, (), runs[0].epsilon)
        yield found if wish in ("auto", name) else Refused(wish, "independent steps get the same each")
        return
    names = [name for name in SCHEDULES if wish in ("auto", name)]
    for name in counted("schedules", names, len(names)):
        yield _tried(policy, name, partial(allocate, name, promise, horizon, groups, audit=audit), caps)


def adaptive(policy: Policy, groups: Sequence[Group], rule: WindowMechanism) -> Allocation | Refused:
    """The most that a step may spend, at every step, for a mechanism whose budgets follow earlier results.

    No window spends more than its cap. Through a chain, what leaks is accounted as if every step spent the most.

    Args:
        policy: the policy.
        groups: of its chains.
        rule: the mechanism with an epsilon of 1.
    """
    promise, caps = promised(policy)
    horizon = policy.stream.horizon
    epsilon = min((Fraction(nats) / rule.spent(min(width, horizon or width)) for nats, width in caps), default=None)
    lagged = [group.with_lags(useful_lags(group.chain)) for group in groups]
    levels = [] if epsilon is None else [_largest_step(rule, epsilon)]
    try:
        if promise is not None and horizon is None:
            levels += [run.epsilon for run in allocate_bounded(promise, horizon, lagged).runs]
        elif promise is not None and horizon is not None:
            levels += [run.epsilon for run in allocate_uniform(promise, horizon, lagged).runs]
    except ScheduleError as reason:
        return Refused(rule.name, str(reason))
    runs = cut([Run(min(levels), horizon)], users_beside(policy))
    return Allocation("at most, as results allow", runs, tuple(lagged), runs[0].epsilon)


def _largest_step(rule: WindowMechanism, epsilon: Fraction) -> float:
    """The most that a step may spend, as a float from which the mechanism gets this epsilon, or the next below."""
    level = rounded_up(epsilon * rule.spent(1))
    while Fraction(rule.with_step_budget(exact(level)).epsilon) > epsilon:
        level = math.nextafter(level, 0.0)
    return level


def sparse(
    policy: Policy, groups: Sequence[Group], every: int, phase: int = 0, *, audit: bool = True
) -> Allocation | Refused:
    """A release at every so many steps, the first at step `phase`; without an `audit`, proposed for a comparison."""
    promise, caps = promised(policy)
    if promise is None or not groups:
        return Refused(f"sparse(every = {every} steps)", "independent steps get the same each")
    lagged = [group.with_lags(_useful_lags(group, every)) for group in groups]
    allocate = partial(allocate_sparse, promise, policy.stream.horizon, lagged, every, phase, audit=audit)
    return _tried(policy, f"sparse(every = {every} steps)", allocate, caps)


def promised(policy: Policy) -> tuple[Promise | None, list[Cap]]:
    """What may leak through the declared chains, None for no limit; and what steps may spend whatever the chain.

    Where steps are declared independent, what leaks is what is spent.
    """
    leaks = [(t.alpha, t.window) for t in policy.targets if isinstance(t, AlphaDPTTarget)]
    caps = [(t.epsilon, 1) for t in policy.targets if isinstance(t, EventLevelTarget)]
    caps += [(t.epsilon, t.window) for t in policy.targets if isinstance(t, WEventTarget)]
    if not policy.chains:
        return None, caps + leaks
    return Promise(tuple((float(nats), window) for nats, window in leaks)) if leaks else None, caps


def _tried(policy: Policy, name: str, allocate: Callable[[], Allocation], caps: Sequence[Cap]) -> Allocation | Refused:
    """What was allocated, cut to the caps and to what may be told of one user, or why nothing was."""
    try:
        found = allocate()
    except ScheduleError as reason:
        return Refused(name, str(reason))
    return replace(found, runs=cut(capped(found.runs, caps), users_beside(policy)))


def _useful_lags(group: Group, every: int) -> tuple[int, ...]:
    """Lags for releases so many steps apart: whole periods, as many steps as a release further back."""
    lags = [lag for lag in useful_lags(group.chain) if lag > 1]
    if not lags:
        return (1, every)
    return tuple(sorted({1, every, *(every * -(-lag // every) for lag in lags if lag > every)}))


def allocate(
    name: str, alpha: Promise, horizon: int | None, groups: Sequence[Group], *, audit: bool = True
) -> Allocation:
    """A schedule by the recursion, as it is proposed without an `audit`; or by pairs of states, where they leave more.

    Raises:
        ScheduleError: there is none of this name here.
    """
    found = reason = None
    try:
        found = _by_recursion(name, alpha, horizon, groups, audit=audit)
    except ScheduleError as error:
        reason = error
    other = name == "optimal" or (horizon is None and name != "bounded")
    best = (None if other else allocate_by_pairs(name, alpha, horizon, groups, found)) or found
    if best is None:
        raise reason or ScheduleError("no budget was found")
    return best


def _by_recursion(
    name: str, alpha: Promise, horizon: int | None, groups: Sequence[Group], *, audit: bool
) -> Allocation:
    lagged = [group.with_lags(useful_lags(group.chain)) for group in groups]
    if name == "bounded":
        return allocate_bounded(alpha, horizon, lagged, audit=audit)
    if horizon is None:
        raise ScheduleError("needs a horizon that ends")
    if name == "uniform":
        return allocate_uniform(alpha, horizon, lagged, audit=audit)
    if name == "optimal":
        return allocate_optimal(alpha, horizon, lagged, audit=audit)
    # The published algorithm uses one lag; several only where one lag has no supremum at all.
    plain = [group.with_lags((1,)) for group in groups]
    try:
        return allocate_quantified(alpha, horizon, plain, audit=audit)
    except ScheduleError:
        return allocate_quantified(alpha, horizon, lagged, audit=audit)


@dataclass
class Predictor:
    """Expected errors of one release under its policy; remembers what it has computed.

    `chains` are the groups' chains and `shares` their parts of all users (even ones where they are not known);
    `moving` is the law of all users where it is known, and `of` the value in which each of its states is counted, None
    for its own; `constraints` are those that bind one step alone; `delay` is how
    many later steps a value may wait for, None for all.
    """

    cells: int
    population: int | None
    chains: Sequence[Chain]
    shares: Sequence[Fraction]
    moving: Chain | None
    constraints: ConstraintSet
    objective: Objective
    mechanism: BudgetMechanism
    delay: int | None = None
    of: Indices | None = None
    _models: dict[bytes, StepModel] = field(default_factory=dict)
    _errors: dict[tuple[object, ...], float] = field(default_factory=dict)
    _series: dict[tuple[str, bytes], Array | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing is believed yet."""
        self._beliefs = Beliefs(self.moving, self.cells)

    def afresh(self) -> Predictor:
        """The same, which remembers nothing: of runs nearly alike the first that is asked for stands for all."""
        return replace(self, _models={}, _errors={}, _series={})

    def method(self, estimator: Estimator) -> str:
        """How the prediction for an estimator was made, for the certificate."""
        if self._modelled and self.moving is not None and estimator.prediction_method is not None:
            many = isinstance(estimator, PosteriorMean) and by_cell(self.moving)
            return estimator.prediction_method + (BY_CELL if many else "")
        if self._modelled:
            chains = "chain" if len(self.chains) == 1 else "chains"
            split = "" if self.moving is not None else f"; {EVENLY_SPLIT}"
            return f"cubature over the declared {chains} and the exact noise, {self._rows:,} points a step{split}"
        return "law of the noise; true counts are taken to be far from every bound"

    def run_error(self, estimator: Estimator, start: int, run: Run, scale: float, first_scale: float) -> float:
        """Mean expected error over the steps of a run that begins at step `start`; `first_scale` is that of step 0."""
        if not self._modelled:
            return self._unmodelled(scale)
        chosen = representative_steps(start, start + (run.steps or ENDLESS))
        errors = [self._step_error(estimator, step, scale, first_scale) for step, _ in chosen]
        return float(np.average(errors, weights=[weight for _, weight in chosen]))

    def series_errors(self, estimator: Estimator, scales: Array) -> Array | None:
        """The expected error of every step, (steps,), from the noise scales (0: no release); None where not known."""
        if not self._modelled or self.moving is None:
            return None
        assert self.population is not None
        key = estimator.described(), scales.tobytes()
        if key not in self._series:
            given, whole = (self.moving, self.population, scales, self.delay), self.constraints.integer
            self._series[key] = estimator.predicted_errors(
                *given, self.objective, integer=whole, balanced=self.balanced
            )
        return self._series[key]

    def prior_alone(self, steps: int | None) -> float | None:
        """The error of publishing the declared law alone; None when no law is declared."""
        if not self._modelled:
            return None
        chosen = representative_steps(0, steps or ENDLESS)
        errors = [self._model(step).prior_error(self.objective) for step, _ in chosen]
        return float(np.average(errors, weights=[weight for _, weight in chosen]))

    def signal(self) -> float | None:
        """The mean true count of a cell, to hold the error against; None when it is not known."""
        return None if self.population is None else self.population / self.cells

    def noise_error(self, scale: float) -> float:
        """The error of the noisy values themselves: variance, or mean absolute value, of the noise."""
        squared = self.objective == "mean_squared_error"
        return self.mechanism.variance(exact(scale)) if squared else self.mechanism.absolute_error(exact(scale))

    @property
    def balanced(self) -> bool:
        """Whether the noise of a step's cells adds up to zero."""
        return getattr(self.mechanism, "balanced_cells", None) is not None

    @property
    def _modelled(self) -> bool:
        return self.population is not None and bool(self.chains)

    @property
    def _rows(self) -> int:
        most = POINTS if self.constraints.simplex is not None else FEW_POINTS
        return max(16, min(most, MOST_VALUES // self.cells))

    def _unmodelled(self, scale: float) -> float:
        total = self.constraints.simplex is not None and self.constraints.simplex.total is not None
        known = total and self.cells > 1 and not self.balanced
        left = (self.cells - 1) / self.cells if known else 1.0  # a known sum removes the mean noise
        return self.noise_error(scale) * (left if self.objective == "mean_squared_error" else float(np.sqrt(left)))

    def _model(self, step: int) -> StepModel:
        assert self.population is not None
        laws = summed(np.array([chain.marginal(step) for chain in self.chains]), self.of)
        key = laws.tobytes()
        if key not in self._models:
            points = spread_points(self._rows, len(laws) * (self.cells - 1) + self.cells)
            sizes = tuple(group_sizes(self.population, self.shares))
            self._models[key] = StepModel(laws, sizes, points, self.balanced)
        return self._models[key]

    def _prior(self, estimator: Estimator, step: int, first_scale: float) -> Array | None:
        """What the estimator believes at a step: (cells,), or (rows, cells) where it learns from the first release."""
        rows = self._beliefs.laws(estimator, step)
        if not len(rows):
            return None
        if np.ptp(rows, axis=0).max() < 1e-6:
            return rows[0]  # type: ignore[no-any-return]
        # The first release is one of many: its points are not those of the step itself.
        seen = np.maximum(np.roll(self._model(0).noisy(first_scale), self._rows // 2 + 1, axis=0), LEAST_SEEN)
        total = np.maximum(seen.sum(axis=1, keepdims=True), 1e-300)
        return (seen / total) @ rows  # type: ignore[no-any-return]

    def _step_error(self, estimator: Estimator, step: int, scale: float, first_scale: float) -> float:
        model, prior = self._model(step), self._prior(estimator, step, first_scale)
        # Where every point costs a program, settings that are nearly the same are taken for the same.
        digits, like = (4, f"{scale:.9g}") if self.constraints.simplex is not None else (1, f"{scale:.2g}")
        believed = b"" if prior is None else np.round(prior, digits).tobytes()
        key = (estimator.described(), like, model.laws.tobytes(), believed)
        if key not in self._errors:
            noise = self.mechanism.absolute_error(exact(scale)), self.mechanism.variance(exact(scale))
            self._errors[key] = model.estimation_error(estimator, prior, scale, noise, self.constraints, self.objective)
        return self._errors[key]


def representative_steps(start: int, end: int) -> list[tuple[int, int]]:
    """Steps that stand for [start, end), each with how many it stands for: every one at first, then ever fewer."""
    chosen: list[tuple[int, int]] = []
    step = start
    while step < end:
        weight = min(max(1, (step - start) // 2), end - step)
        if step - start > SETTLED:
            weight = end - step
        chosen.append((step, weight))
        step += weight
    return chosen


def estimators(laws: int, constraints: ConstraintSet, delay: int | None) -> Iterator[Estimator | Refused]:
    """Every estimator with every setting, or the reason why it does not apply; `delay` as for `Predictor`."""
    for estimator in every_estimator():
        reason = estimator.reason_against(laws, constraints)
        reason = reason or estimator.reason_against_delay(delay)
        yield estimator if reason is None else Refused(estimator.described(), reason)
