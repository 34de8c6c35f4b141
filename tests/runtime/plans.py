"""Builds small plans by hand, so that the kernel is tested without the compiler."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from policyc.planning.assemble import stated_leakage
from policyc_check.errors import KernelError
from policyc_check.plan.claims import Claims
from policyc_check.plan.correlation import ChainRecord, Correlation
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.plan.stream import CellRecord, Delivery, StreamRecord
from policyc_check.plan.targets import AlphaDPT
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation import estimator_kinds
from policyc_runtime.mechanisms import mechanism_kinds
from policyc_runtime.plan import FileRecord, Plan, PolicyRecord
from policyc_runtime.planned_release import BudgetedRelease, ReleasePlan
from policyc_runtime.predicted_errors import Candidate, PredictedError
from policyc_runtime.schedule import Schedule

FLEET = [
    [0.3091, 0.0199, 0.0302, 0.6408],
    [0.0196, 0.4697, 0.0346, 0.4761],
    [0.0422, 0.0359, 0.3308, 0.5911],
    [0.0449, 0.0321, 0.0316, 0.8914],
]
CELLS = ("EWR", "JFK", "LGA")
HASH = "0" * 64


def decimals(matrix: Any) -> tuple[tuple[Decimal, ...], ...]:
    return tuple(tuple(Decimal(repr(value)) for value in row) for row in matrix)


def row(current: dict[int, int], relation: str, bound: int, previous: dict[int, int] | None = None) -> ConstraintRow:
    def sparse(values: dict[int, int]) -> tuple[tuple[int, Decimal], ...]:
        return tuple((cell, Decimal(value)) for cell, value in values.items())

    return ConstraintRow(
        text="made by hand",
        line=1,
        current=sparse(current),
        previous=sparse(previous or {}),
        relation=relation,  # type: ignore[arg-type]
        bound=Decimal(bound),
    )


def make_release(
    name: str = "parked",
    *,
    by: str | None = "origin",
    states: tuple[str, ...] = (*CELLS, "away"),
    epsilon: str = "0.1",
    horizon: int | None = 365,
    estimator: dict[str, Any] | None = None,
    constraints: tuple[ConstraintRow, ...] = (),
    integer: bool = True,
) -> ReleasePlan:
    """A release with one budget at every step."""
    sensitivity = Decimal(2 if by else 1)
    mechanism = mechanism_kinds()["laplace"](l1_sensitivity=sensitivity)  # type: ignore[call-arg]
    scale = mechanism.calibrate(Decimal(epsilon))
    segment = BudgetSegment(epsilons=(Decimal(epsilon),), scales=(scale,), expected_errors=(1.0,), repeats=horizon)
    values = estimator or {"name": "mle"}
    return BudgetedRelease(
        name=name,
        query=CountQuery(by=by),
        cells=states if by else ("",),
        l1_sensitivity=sensitivity,
        sensitivity_reason="made by hand",
        mechanism=mechanism,
        schedule=Schedule(name="uniform", segments=(segment,)),
        estimator=estimator_kinds()[values["name"]].model_validate(values),
        constraints=constraints,
        integer=integer,
        predicted=PredictedError(
            kind="expected",
            published=1.0,
            without_postprocessing=1.0,
            prior_alone=None,
            signal=None,
            method="made by hand",
        ),
        candidates=(
            Candidate(
                schedule="uniform",
                mechanism="laplace",
                estimator="mle",
                predicted_error=1.0,
                chosen=True,
                reason="only one",
            ),
        ),
    )


def make_plan(
    *,
    horizon: int | None = 365,
    population: int | None = 20,
    otherwise: str | None = "away",
    cells: tuple[str, ...] | None = CELLS,
    start: str | None = None,
    step_milliseconds: int = 86_400_000,
    epsilon: str = "0.1",
    releases: tuple[ReleasePlan, ...] | None = None,
    chains: tuple[Any, ...] = (FLEET,),
    initial: Any = "stationary",
    delivery: str = "offline",
    policy_hash: str = HASH,
    **release: Any,
) -> Plan:
    """A sealed plan like the fleet's, verified by the kernel."""
    cell = None if cells is None else CellRecord(column="origin", cells=cells, otherwise=otherwise)
    states = cell.states if cell else ("",)
    if releases is None:
        total = row(dict.fromkeys(range(len(states)), 1), "==", population) if population and cell else None
        floors = tuple(row({state: 1}, ">=", 0) for state in range(len(states)))
        release.setdefault("constraints", (*((total,) if total else ()), *floors))
        by = "origin" if cell else None
        releases = (make_release(by=by, states=states, epsilon=epsilon, horizon=horizon, **release),)
    spent = [Fraction(part.schedule.segments[0].epsilons[0]) for part in releases]
    largest = Decimal(str(float(sum(spent)) * 1.0001))
    records = tuple(
        ChainRecord(
            group=None if len(chains) == 1 else f"group{index}",
            forward=decimals(matrix),
            backward=None,
            initial=initial,
            evidence="made by hand",
            lags=(1,),
        )
        for index, matrix in enumerate(chains)
    )
    plan = Plan(
        compiler="by hand",
        policy=PolicyRecord(
            name="fleet", purpose="test", source=FileRecord(name="fleet.policy", sha256=policy_hash), files=()
        ),
        stream=StreamRecord(
            name="departures",
            user_column="tailnum",
            time_column="departed_at",
            cell=cell,
            step_milliseconds=step_milliseconds,
            step_text="1d",
            horizon=horizon,
            population=population,
            start=start,
        ),
        delivery=Delivery(kind=delivery, delay=None),  # type: ignore[arg-type]
        objective="mean_squared_error",
        targets=(AlphaDPT(alpha=Decimal(50)),),
        correlation=Correlation(
            kind="markov" if records else "none", chains=records, evidence=None if records else "made by hand"
        ),
        releases=releases,
        claims=Claims(
            total_leakage=Decimal(50),
            budget_sum=None if horizon is None else largest * horizon,
            largest_budget=largest,
        ),
        notices=(),
    )
    return with_inherited(plan).sealed()


def with_inherited(plan: Plan) -> Plan:
    """A plan that states what its steps inherit, as far as anything can be stated."""
    try:
        stated = tuple(stated_leakage(plan, record)[0] for record in plan.correlation.chains)
    except (KernelError, ValueError):  # for tests of plans that are none
        stated = ()
    return plan.model_copy(update={"claims": plan.claims.model_copy(update={"inherited": stated})})


def make_counts(steps: int, population: int = 20, cells: int = 4, seed: int = 1) -> Any:
    """Counts (steps, cells) that add up to the population."""
    return np.random.default_rng(seed).multinomial(population, np.full(cells, 1 / cells), size=steps).astype(np.int64)
