"""The emitted model states the same problem as the kernel solves, and runs on its own."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from costs import cost_of
from numpy.typing import NDArray
from scipy.special import gammaln

from policyc.emit.map_model import render_map_model
from policyc_check.plan.schedule import BudgetSegment
from policyc_check.plan.stream import Delivery
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimates import estimate_release
from policyc_runtime.estimation import estimator_kinds
from policyc_runtime.estimation.flows import Group, Optimum, most_probable_flows
from policyc_runtime.estimation.separable import MapCost
from policyc_runtime.plan import Plan

Array = NDArray[np.float64]
STEPS = 12


def imported(plan: Plan) -> ModuleType:
    """The emitted file as a module."""
    module = ModuleType("map_model")
    exec(compile(render_map_model(plan), "map_model.py", "exec"), module.__dict__)
    return module


def linked(text: str, line: int, relation: str, bound: int, *rows: tuple[dict[int, int], dict[int, int]]) -> Any:
    return tuple(
        ConstraintRow(
            text=text,
            line=line,
            current=tuple((cell, Decimal(value)) for cell, value in now.items()),
            previous=tuple((cell, Decimal(value)) for cell, value in before.items()),
            relation=relation,  # type: ignore[arg-type]
            bound=Decimal(bound),
        )
        for now, before in rows
    )


PAIR = linked('occupancy["A1"] + occupancy["A2"] <= 130', 31, "<=", 130, ({0: 1, 1: 1}, {}))
LIMIT = linked("occupancy - previous(occupancy) <= 20", 32, "<=", 20, *(({c: 1}, {c: -1}) for c in range(3)))


def variant(
    plan: Plan, estimator: dict[str, str], extra: tuple[ConstraintRow, ...] = (), delivery: str = "offline", **more: Any
) -> Plan:
    release = plan.releases[0]
    changed = {
        "estimator": estimator_kinds()[estimator["name"]].model_validate(estimator),
        "constraints": (*release.constraints, *extra),
    }
    return plan.model_copy(
        update={
            "releases": (release.model_copy(update=changed | more),),
            "delivery": Delivery(kind=delivery, delay=None),  # type: ignore[arg-type]
        }
    )


def noisy_values(plan: Plan, steps: int = STEPS) -> Array:
    rng = np.random.default_rng(8)
    assert plan.stream.population is not None
    true = rng.multinomial(plan.stream.population, plan.correlation.chains[0].chain().marginal(0), steps)
    return np.asarray(np.rint(true + rng.laplace(0, 12, true.shape)))


def by_cell(cells: list[str], values: Array) -> dict[int, dict[str, float]]:
    return {step: dict(zip(cells, row.tolist(), strict=True)) for step, row in enumerate(values)}


def as_array(cells: list[str], values: dict[int, dict[str, float]]) -> Array:
    return np.array([[values[step][cell] for cell in cells] for step in sorted(values)])


def objective(module: ModuleType, noisy: Array, values: Array) -> float:
    """The emitted cost of given whole numbers."""
    total = 0.0
    law = module.laws(len(noisy), first_law(module, noisy), module.FORWARD)
    for step, row in enumerate(values):
        for place, value in enumerate(row):
            scale = module.scale(step, module.SCALES)
            total += module.minus_log(value, noisy[step][place], scale, law[step][place])
    return float(total)


def first_law(module: ModuleType, noisy: Array) -> Any:
    return module.FIRST_LAW if hasattr(module, "FIRST_LAW") else module.frequencies(noisy[0])


def own_cost(plan: Plan, noisy: Array, values: Array) -> float:
    """The kernel's cost of given values."""
    release = plan.releases[0]
    law = release.estimator.law(plan.correlation.chains[0].chain(), range(len(noisy)), noisy.shape[1], noisy[0])
    if law is None:
        return float(np.abs(values - noisy).sum())
    scales = np.array([float(scale) for scale in release.schedule.scales(len(noisy))])
    return float(cost_of(MapCost(noisy, scales[:, None], law), values).sum())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("extra", [(), PAIR, (*PAIR, *LIMIT)], ids=["simplex", "pair", "coupled"])
@pytest.mark.parametrize("prior", ["initial", "uniform", "frequency"])
def test_the_map_optimum_is_the_kernels(traffic: Plan, prior: str, extra: tuple[ConstraintRow, ...]) -> None:
    """Real optima agree; whole numbers are the same, or cost the same."""
    whole = variant(traffic, {"name": "map", "prior": prior}, extra)
    real = variant(traffic, {"name": "map", "prior": prior}, extra, integer=False)
    noisy, none = noisy_values(whole), np.empty((0, 3))
    module = imported(real)
    values, _, solvers = module.optimum(by_cell(module.CELLS, noisy))
    assert solvers == {"pounce"}
    assert as_array(module.CELLS, values) == pytest.approx(
        estimate_release(real, real.releases[0], noisy, none), abs=1e-3
    )
    module = imported(whole)
    values, least, solvers = module.optimum(by_cell(module.CELLS, noisy))
    assert solvers == {"highs"}
    published = estimate_release(whole, whole.releases[0], noisy, none)
    cost = own_cost(whole, noisy, published)
    assert objective(module, noisy, published) == pytest.approx(cost, rel=1e-9)
    assert own_cost(whole, noisy, np.rint(as_array(module.CELLS, values))) == pytest.approx(cost, abs=1e-6)
    assert least == pytest.approx(cost, abs=1e-4)


def with_chain(plan: Plan, forward: list[list[str]], initial: list[str]) -> Plan:
    rows = tuple(tuple(Decimal(share) for share in row) for row in forward)
    start = tuple(Decimal(share) for share in initial)
    record = plan.correlation.chains[0].model_copy(update={"forward": rows, "initial": start, "backward": None})
    return plan.model_copy(update={"correlation": plan.correlation.model_copy(update={"chains": (record,)})})


def least_flows(plan: Plan, noisy: Array) -> Optimum:
    """The kernel's most probable flows."""
    scales = np.array([float(scale) for scale in plan.releases[0].schedule.scales(len(noisy))])
    groups = []
    for record in plan.correlation.chains:
        chain, share = record.chain(), Decimal(1) if record.share is None else record.share
        users = float(share * (plan.stream.population or 0))
        groups.append(Group(np.asarray(chain.marginal(0)), chain.forward, users))
    return most_probable_flows(groups, noisy[:, None], scales)


RING = [["0.9", "0.1", "0"], ["0", "0.8", "0.2"], ["0.3", "0", "0.7"]]


def with_groups(plan: Plan, *starts: list[str]) -> Plan:
    """Groups on the ring from these starts, of whom each has as large a share."""
    rings = [with_chain(plan, RING, start).correlation.chains[0] for start in starts]
    share = Decimal(1) / len(starts)
    named = tuple(ring.model_copy(update={"group": f"g{at}", "share": share}) for at, ring in enumerate(rings))
    return plan.model_copy(update={"correlation": plan.correlation.model_copy(update={"chains": named})})


@pytest.mark.parametrize("steps", [1, 3, 12])
def test_the_most_probable_flows_of_groups_are_the_kernels(traffic: Plan, steps: int) -> None:
    """Two groups, of which nobody is in the third cell at first, and a place that one of them reaches later."""
    plan = variant(with_groups(traffic, ["1", "0", "0"], ["0.5", "0.5", "0"]), {"name": "joint_map"})
    module, noisy = imported(plan), noisy_values(traffic, steps)
    model = module.build_model(by_cell(module.CELLS, noisy))
    assert module.solve(model) == {"pounce"}
    counts, least = module.values_of(model, range(steps), module.CELLS), pyo.value(model.cost)
    ours = least_flows(plan, noisy)
    assert least == pytest.approx(ours.cost[0], rel=1e-6)
    assert as_array(module.CELLS, counts) == pytest.approx(ours.counts[:, 0], abs=5e-3)
    assert counts[0][module.CELLS[2]] == 0


@pytest.mark.parametrize("steps", [1, 2, 20])
@pytest.mark.parametrize("forbidden", [False, True], ids=["open", "forbidden"])
def test_the_most_probable_flows_are_the_kernels(traffic: Plan, steps: int, forbidden: bool) -> None:
    """Another solver finds the same least cost within 1e-6 and the same counts; nobody goes a forbidden way."""
    if forbidden:
        traffic = with_chain(traffic, RING, ["1", "0", "0"])
    plan = variant(traffic, {"name": "joint_map"})
    module, noisy = imported(plan), noisy_values(traffic, steps)
    model = module.build_model(by_cell(module.CELLS, noisy))
    assert module.solve(model) == {"pounce"}
    counts, least = module.values_of(model, range(steps), module.CELLS), pyo.value(model.cost)
    ours = least_flows(plan, noisy)
    assert least == pytest.approx(ours.cost[0], rel=1e-6)
    assert as_array(module.CELLS, counts) == pytest.approx(ours.counts[:, 0], abs=5e-3)
    fixed = [key for key, flow in model.flow.items() if flow.fixed]
    assert bool(fixed) == (forbidden and steps > 1)
    for t, origin, target in fixed:
        assert ours.flows[t, 0, module.CELLS.index(origin), module.CELLS.index(target)] == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("extra", [(), PAIR, (*PAIR, *LIMIT)], ids=["simplex", "pair", "coupled"])
def test_values_near_the_flows_are_the_kernels(traffic: Plan, extra: tuple[ConstraintRow, ...]) -> None:
    """The second model moves the most probable counts as little as the kernel does."""
    for integer in (True, False):
        plan = variant(traffic, {"name": "joint_map"}, extra, integer=integer)
        module, noisy = imported(plan), noisy_values(plan)
        values, _, _ = module.optimum(by_cell(module.CELLS, noisy))
        published = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
        counts = least_flows(plan, noisy).counts[:, 0]
        moved = np.abs(as_array(module.CELLS, values) - counts).sum()
        assert moved == pytest.approx(np.abs(published - counts).sum(), abs=1e-3)


def test_flows_go_on_where_nothing_was_released(traffic: Plan) -> None:
    """Steps without values are filled by the chain, in the model as in the kernel."""
    segment = traffic.releases[0].schedule.segments[0]
    sparse = BudgetSegment(
        epsilons=(segment.epsilons[0], *3 * (Decimal(0),)),
        scales=(segment.scales[0], *3 * (Decimal(0),)),
        expected_errors=(1.0,) * 4,
        repeats=4,
    )
    schedule = traffic.releases[0].schedule.model_copy(update={"segments": (sparse,)})
    plan = variant(traffic, {"name": "joint_map"}, schedule=schedule)
    module, noisy = imported(plan), noisy_values(plan, 11)
    seen = {t: row if t % 4 == 0 else {} for t, row in by_cell(module.CELLS, noisy).items()}
    model = module.build_model(seen)
    module.solve(model)
    counts, least = module.values_of(model, seen, module.CELLS), pyo.value(model.cost)
    noisy[np.arange(11) % 4 != 0] = np.nan
    ours = least_flows(plan, noisy)
    assert least == pytest.approx(ours.cost[0], rel=1e-6)
    assert as_array(module.CELLS, counts) == pytest.approx(ours.counts[:, 0], abs=1e-2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["mle", "none"])
@pytest.mark.parametrize("extra", [(), (*PAIR, *LIMIT)], ids=["simplex", "coupled"])
def test_the_least_distance_is_the_kernels(traffic: Plan, name: str, extra: tuple[ConstraintRow, ...]) -> None:
    """The emitted integer program finds the distance of the kernel's whole numbers."""
    plan = variant(traffic, {"name": name}, extra)
    module, noisy = imported(plan), noisy_values(plan)
    values, _, _ = module.optimum(by_cell(module.CELLS, noisy))
    published = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
    nearest = as_array(module.CELLS, values)
    assert np.abs(nearest - noisy).sum() == pytest.approx(np.abs(published - noisy).sum(), abs=1e-6)
    assert ((nearest - noisy) ** 2).sum() == pytest.approx(((published - noisy) ** 2).sum(), rel=1e-9)


@pytest.mark.parametrize("estimator", [{"name": "map", "prior": "frequency"}, {"name": "mle"}])
def test_realtime_models_look_only_back(traffic: Plan, estimator: dict[str, str]) -> None:
    """Where values are published at once, the model too solves step after step."""
    plan = variant(traffic, estimator, (*PAIR, *LIMIT), delivery="realtime", integer=False)
    module, noisy = imported(plan), noisy_values(plan, 5)
    values, _, _ = module.optimum(by_cell(module.CELLS, noisy))
    few, _, _ = module.optimum(by_cell(module.CELLS, noisy[:3]))
    assert as_array(module.CELLS, values)[:3] == pytest.approx(as_array(module.CELLS, few), abs=1e-6)
    if estimator["name"] == "map":
        published = estimate_release(plan, plan.releases[0], noisy, np.empty((0, 3)))
        assert as_array(module.CELLS, values) == pytest.approx(published, abs=2e-3)


def test_impossible_cells_are_fixed_at_zero(traffic: Plan) -> None:
    """Where the law is 0 the model has no freedom, as the kernel has none."""
    record = traffic.correlation.chains[0].model_copy(update={"initial": (Decimal(0), Decimal("0.5"), Decimal("0.5"))})
    plan = variant(traffic, {"name": "map", "prior": "initial"})
    plan = plan.model_copy(update={"correlation": plan.correlation.model_copy(update={"chains": (record,)})})
    module, noisy = imported(plan), noisy_values(traffic, 2)
    values, _, _ = module.optimum(by_cell(module.CELLS, noisy))
    assert values[0]["A1"] == 0
    assert sum(values[0].values()) == pytest.approx(200)


def test_the_series_of_the_factorial_is_close_enough(traffic: Plan) -> None:
    """The shifted Stirling series is within 1e-8 of ln Gamma(r + 1) from 0 to a billion, and convex near 0."""
    log_factorial = imported(variant(traffic, {"name": "map", "prior": "initial"}, integer=False)).log_factorial
    for r in [*np.linspace(0, 30, 301), *np.geomspace(30, 1e9, 100)]:
        exact = float(gammaln(r + 1))
        assert abs(pyo.value(log_factorial(r)) - exact) < max(1e-8, 1e-14 * exact)
    heights = [pyo.value(log_factorial(r)) for r in np.linspace(0, 2, 50)]
    assert (np.diff(heights, 2) > 0).all()


def test_scales_are_those_of_the_plan(traffic: Plan) -> None:
    """Every step of the model has the noise scale of the plan."""
    module = imported(traffic)
    scales = [module.scale(step, module.SCALES) for step in range(288)]
    assert scales == [float(scale) for scale in traffic.releases[0].schedule.scales(288)]
    with pytest.raises(IndexError):
        module.scale(288, module.SCALES)


def test_constraints_stand_beside_the_policys_words(traffic: Plan) -> None:
    """Each constraint follows a comment with the policy's line and text."""
    lines = [line.strip() for line in render_map_model(variant(traffic, {"name": "mle"}, (*PAIR, *LIMIT))).splitlines()]
    for comment, code in [
        (
            "# policy line 29: sum(occupancy) == population",
            "model.constraints.add(sum(r[t, cell] for cell in CELLS) == POPULATION)",
        ),
        (
            '# policy line 31: occupancy["A1"] + occupancy["A2"] <= 130',
            'model.constraints.add(r[t, "A1"] + r[t, "A2"] <= 130)',
        ),
    ]:
        assert lines[lines.index(comment) + 1] == code
    assert lines.index("model.constraints.add(r[t, cell] - before[cell] <= 20)")


@pytest.mark.parametrize("which", ["traffic", "fleet", "endless_traffic", "independent_count"])
def test_emitted_files_are_tidy(which: str, request: pytest.FixtureRequest) -> None:
    """Every emitted model compiles, has no long line and no space at a line's end, and is the same each time."""
    plan = request.getfixturevalue(which)
    text = render_map_model(plan)
    compile(text, "map_model.py", "exec")
    assert max(map(len, text.splitlines())) <= 120
    assert all(line == line.rstrip() for line in text.splitlines())
    assert text.endswith(")\n")
    assert render_map_model(plan) == text


def test_several_releases_have_a_section_each(traffic: Plan) -> None:
    """Two releases in a plan give two models in one file, told apart by name."""
    first = traffic.releases[0]
    second = variant(traffic, {"name": "mle"}).releases[0].model_copy(update={"name": "again"})
    module = imported(traffic.model_copy(update={"releases": (first, second)}))
    noisy = by_cell(list(first.cells), noisy_values(traffic, 3))
    assert module.optimum_occupancy(noisy)[1] != module.optimum_again(noisy)[1]


def test_names_from_the_policy_stay_text(traffic: Plan) -> None:
    """Quotes, backslashes and line ends in names cannot become code."""
    nasty = ('A"1', "A\\2", 'B\n"""7\u2028🚲')
    release = traffic.releases[0].model_copy(update={"cells": nasty})
    policy = traffic.policy.model_copy(update={"purpose": 'a """ b \\'})
    module = imported(traffic.model_copy(update={"releases": (release,), "policy": policy}))
    assert tuple(module.CELLS) == nasty


def test_the_file_runs_on_its_own(traffic: Plan, tmp_path: Path) -> None:
    """`python map_model.py OUT OPTIMUM` reads the output of a run, says what it found, and writes the same form."""
    (tmp_path / "map_model.py").write_text(render_map_model(traffic), encoding="utf-8")
    noisy = noisy_values(traffic, 4)
    cells = traffic.releases[0].cells
    published = estimate_release(traffic, traffic.releases[0], noisy, np.empty((0, 3)))
    rows = [
        f"{t},2020,{cell},{noisy[t, j]:.0f},{published[t, j]:.0f}" for t in range(4) for j, cell in enumerate(cells)
    ]
    text = "\n".join(["step,time,segment,noisy,released", *rows]) + "\n"
    (tmp_path / "out.csv").write_text(text)
    command = [sys.executable, "map_model.py", "out.csv", "optimum.csv"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    least = float(re.fullmatch(r"occupancy: 4 steps, least cost (\S+) \(highs\)", shown[0])[1])  # type: ignore[index]
    assert math.isclose(least, own_cost(traffic, noisy, published), rel_tol=1e-6)
    assert shown[1:] == ["  12 of 12 values are those that the run published", "  optimum.csv"]
    assert (tmp_path / "optimum.csv").read_text() == text
