"""Exact counts beside the emitted model and a nonlinear solver, in one run."""

from __future__ import annotations

import time
from decimal import Decimal
from types import ModuleType

import numpy as np
import pytest

from policyc.emit.map_model import render_map_model
from policyc_runtime.estimation import estimate_release, estimator_kinds, map_counts
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.plan import (
    BudgetSegment,
    ChainRecord,
    Claims,
    ConstraintRow,
    Correlation,
    CountQuery,
    Delivery,
    EventLevel,
    FileRecord,
    Plan,
    PolicyRecord,
    PredictedError,
    ReleasePlan,
    Schedule,
    StreamRecord,
)

STEPS, CELLS, POPULATION = 500, ("A1", "A2", "B7"), 200
FORWARD = (("0.33", "0.33", "0.34"), ("0.8", "0.1", "0.1"), ("0.05", "0.9", "0.05"))


def paper_plan() -> Plan:
    """The paper's chain, 500 steps, 200 users, budget 0.1 a step."""
    one, budget = Decimal(1), Decimal("0.1")
    mechanism = Laplace(l1_sensitivity=Decimal(2))
    total = ConstraintRow(
        text="sum(x) == population",
        line=1,
        current=tuple((cell, one) for cell in range(3)),
        previous=(),
        relation="==",
        bound=Decimal(POPULATION),
    )
    segment = BudgetSegment(
        epsilons=(budget,), scales=(mechanism.calibrate(budget),), expected_errors=(1.0,), repeats=STEPS
    )
    chain = ChainRecord(
        group=None,
        forward=tuple(tuple(map(Decimal, row)) for row in FORWARD),
        backward=None,
        initial="stationary",
        evidence="the paper",
        lags=(1,),
    )
    release = ReleasePlan(
        name="x",
        query=CountQuery(by="segment"),
        cells=CELLS,
        l1_sensitivity=Decimal(2),
        sensitivity_reason="benchmark",
        mechanism=mechanism,
        schedule=Schedule(name="uniform", segments=(segment,)),
        estimator=estimator_kinds()["map"].model_validate({"name": "map", "prior": "initial"}),
        constraints=(total,),
        integer=True,
        predicted=PredictedError(
            published=1.0, without_postprocessing=1.0, prior_alone=None, signal=None, method="none"
        ),
        candidates=(),
    )
    return Plan(
        compiler="benchmark",
        policy=PolicyRecord(
            name="b", purpose="benchmark", source=FileRecord(name="b.policy", sha256="0" * 64), files=()
        ),
        stream=StreamRecord(
            name="s",
            user_column="u",
            time_column="t",
            cell=None,
            step_milliseconds=1000,
            step_text="1s",
            horizon=STEPS,
            population=POPULATION,
            start=None,
        ),
        delivery=Delivery(kind="offline", delay=None),
        objective="mean_squared_error",
        targets=(EventLevel(epsilon=budget),),
        correlation=Correlation(kind="markov", chains=(chain,), evidence=None),
        releases=(release,),
        claims=Claims(total_leakage=None, budget_sum=None, largest_budget=budget),
        notices=(),
    )


@pytest.mark.slow
def test_exact_counts_are_a_hundred_times_faster_than_the_emitted_model() -> None:
    """T = 500, m = 3, n = 200, building the model included, best of a few: at least 100 times faster."""
    plan = paper_plan()
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    rng = np.random.default_rng(5)
    law = plan.correlation.chains[0].chain().marginals(STEPS)
    noisy = np.rint(np.array([rng.multinomial(POPULATION, row) for row in law]) + rng.laplace(0, 20, (STEPS, 3)))
    given = {step: dict(zip(CELLS, row.tolist(), strict=True)) for step, row in enumerate(noisy)}
    seconds: dict[str, list[float]] = {"whole release": [], "counts alone": [], "emitted model, pounce": []}
    for _ in range(5):
        start = time.perf_counter()
        published = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
        seconds["whole release"].append(time.perf_counter() - start)
        start = time.perf_counter()
        counts = map_counts(noisy, 20.000000000000004, law, POPULATION)
        seconds["counts alone"].append(time.perf_counter() - start)
    for _ in range(2):
        start = time.perf_counter()
        values, _ = module.optimum(given)
        seconds["emitted model, pounce"].append(time.perf_counter() - start)
    best = {name: min(times) for name, times in seconds.items()}
    ratio = best["emitted model, pounce"] / best["whole release"]
    print(f"\n{'exact integer MAP':<28}{'ms':>10}{'us a step':>12}{'ratio':>9}")
    for name, spent in best.items():
        print(f"{name:<28}{1e3 * spent:>10.2f}{1e6 * spent / STEPS:>12.1f}{spent / best['whole release']:>9.1f}")
    assert (published == counts).mean() > 0.99
    relaxed = np.array([[values[step][cell] for cell in CELLS] for step in range(STEPS)])
    assert np.abs(published - relaxed).max() < 1.5
    assert ratio >= 100
