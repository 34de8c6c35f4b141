"""Exact counts beside the emitted model and a nonlinear solver, in one run."""

from __future__ import annotations

import time
from decimal import Decimal
from types import ModuleType

import numpy as np
import pytest

from policyc.emit.map_model import render_map_model
from policyc_check.plan.claims import Claims
from policyc_check.plan.correlation import ChainRecord, Correlation
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.plan.stream import Delivery, StreamRecord
from policyc_check.plan.targets import EventLevel
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import estimator_kinds, map_counts
from policyc_runtime.estimation.count_process import CountProcess, marginals
from policyc_runtime.estimation.flows import Group, most_probable_flows, tilted_paths
from policyc_runtime.mechanisms.laplace import Laplace
from policyc_runtime.plan import FileRecord, Plan, PolicyRecord
from policyc_runtime.planned_release import BudgetedRelease
from policyc_runtime.predicted_errors import PredictedError
from policyc_runtime.schedule import Schedule

pytestmark = pytest.mark.law

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
    release = BudgetedRelease(
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
            published=1.0, without_postprocessing=1.0, prior_alone=None, signal=None, method="none", kind="expected"
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


def test_exact_counts_are_a_hundred_times_faster_than_the_emitted_model() -> None:
    """T = 500, m = 3, n = 200, building the model included, best of a few: at least 100 times faster."""
    plan = paper_plan()
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    rng = np.random.default_rng(5)
    law = marginals(plan.correlation.chains[0].chain(), STEPS)
    noisy = np.rint(np.array([rng.multinomial(POPULATION, row) for row in law]) + rng.laplace(0, 20, (STEPS, 3)))
    given = {step: dict(zip(CELLS, row.tolist(), strict=True)) for step, row in enumerate(noisy)}
    seconds: dict[str, list[float]] = {"whole release": [], "counts alone": [], "emitted model": []}
    for _ in range(5):
        start = time.perf_counter()
        published = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
        seconds["whole release"].append(time.perf_counter() - start)
        start = time.perf_counter()
        counts = map_counts(noisy, 20.000000000000004, law, POPULATION)
        seconds["counts alone"].append(time.perf_counter() - start)
    for _ in range(2):
        start = time.perf_counter()
        values, _, _ = module.optimum(given)
        seconds["emitted model"].append(time.perf_counter() - start)
    best = {name: min(times) for name, times in seconds.items()}
    ratio = best["emitted model"] / best["whole release"]
    print(f"\n{'exact integer MAP':<28}{'ms':>10}{'us a step':>12}{'ratio':>9}")
    for name, spent in best.items():
        print(f"{name:<28}{1e3 * spent:>10.2f}{1e6 * spent / STEPS:>12.1f}{spent / best['whole release']:>9.1f}")
    assert (published == counts).mean() > 0.99
    relaxed = np.array([[values[step][cell] for cell in CELLS] for step in range(STEPS)])
    assert np.abs(published - relaxed).max() < 1.5
    assert ratio >= 100


def test_flows_of_a_sticky_chain_are_faster_than_by_gradients() -> None:
    """T = 500, m = 3, stay 0.99, n = 10,000: the emitted model's cost, and at least 3 times faster than L-BFGS-B."""
    from scipy.optimize import minimize

    plan, users = paper_plan(), 10_000
    rows = tuple(tuple(Decimal("0.99") if i == j else Decimal("0.005") for j in range(3)) for i in range(3))
    chains = (plan.correlation.chains[0].model_copy(update={"forward": rows}),)
    total = plan.releases[0].constraints[0].model_copy(update={"bound": Decimal(users)})
    estimator = estimator_kinds()["joint_map"].model_validate({})
    release = plan.releases[0].model_copy(update={"estimator": estimator, "constraints": (total,)})
    plan = plan.model_copy(
        update={
            "releases": (release,),
            "correlation": plan.correlation.model_copy(update={"chains": chains}),
            "stream": plan.stream.model_copy(update={"population": users}),
        }
    )
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    rng = np.random.default_rng(5)
    chain = plan.correlation.chains[0].chain()
    scales = np.array([float(scale) for scale in release.schedule.scales(STEPS)])
    law = marginals(chain, STEPS)
    true = CountProcess(float(users), 3, chain).drawn(STEPS, 1, rng)[:, 0]
    noisy = np.rint(true + rng.laplace(0, 20, (STEPS, 3)))

    def dual(flat: np.ndarray) -> tuple[float, np.ndarray]:
        prices = flat.reshape(STEPS, 3)
        paths = tilted_paths(law[0], chain.forward, prices[:, None])
        value = users * paths.log_mass[0] + (prices * noisy).sum()
        return float(value), (noisy - users * paths.laws[:, 0]).ravel()

    spent, costs = {}, {}
    start = time.process_time()
    ours = most_probable_flows([Group(law[0], chain.forward, float(users))], noisy[:, None], scales)
    spent["interior point on the dual"], costs["interior point on the dual"] = time.process_time() - start, ours.cost[0]
    start = time.process_time()
    bounds = np.repeat(1.0 / scales, 3)
    options = {"maxiter": 500, "maxfun": 1000, "ftol": 1e-13, "gtol": 1e-7}
    found = minimize(
        dual,
        np.zeros(3 * STEPS),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(-bounds, bounds, strict=True)),
        options=options,
    )
    spent["L-BFGS-B on the dual"], costs["L-BFGS-B on the dual"] = time.process_time() - start, -found.fun
    start = time.process_time()
    given = {step: dict(zip(CELLS, row.tolist(), strict=True)) for step, row in enumerate(noisy)}
    costs["emitted model"] = module.optimum(given)[1]
    spent["emitted model"] = time.process_time() - start
    print(f"\n{'most probable flows':<28}{'ms':>10}{'ratio':>9}{'cost':>16}")
    for name, seconds in spent.items():
        ratio = seconds / spent["interior point on the dual"]
        print(f"{name:<28}{1e3 * seconds:>10.1f}{ratio:>9.2f}{costs[name]:>16.6f}")
    assert costs["emitted model"] == pytest.approx(ours.cost[0], rel=1e-5)  # its bounds give way a little
    assert spent["L-BFGS-B on the dual"] >= 3 * spent["interior point on the dual"]
    assert costs["L-BFGS-B on the dual"] <= ours.cost[0]
    assert costs["L-BFGS-B on the dual"] == pytest.approx(ours.cost[0], rel=1e-4)
