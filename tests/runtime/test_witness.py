"""Attacks that plans name: as good as the best of all, true of the noise that is drawn, refused when altered."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc import compile_policy
from policyc.pipeline import Compilation
from policyc.planning.leakage import witness
from policyc.planning.leakage.inheritance import audited_total_leakage
from policyc.planning.leakage.witness import found_attack
from policyc_check.steps.chains import Chain
from policyc_runtime.plan import Plan, load_plan
from policyc_runtime.refusal import plan_claims
from policyc_runtime.witness import told_by_witness, witnesses_of

MOVES = [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]]
POLICY = """
policy wards "patients by ward"
stream stays {
  user patient
  time seen_at
  cell ward in {"A", "B"} otherwise "away"
  step 1d
  horizon @
  start "2026-01-01"
  population 200
}
release there = count(stays) by ward
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]],
  initial = START, evidence = "public counts")
deliver DELIVERY
objective mean_squared_error
budget BUDGET()
mechanism laplace()
estimate mle()
"""


def compiled(folder: Path, start: str = "stationary", steps: str = "6 steps", budget: str = "uniform") -> Plan:
    file = folder / "wards.policy"
    file.write_text(
        POLICY.replace("START", start)
        .replace("@", steps)
        .replace("BUDGET", budget)
        .replace("DELIVERY", "realtime" if steps == "unbounded" else "offline")
    )
    return compile_policy(file).plan


@st.composite
def streams(draw: st.DrawFn) -> tuple[Chain, list[float]]:
    n = draw(st.integers(2, 3))
    rows = [[draw(st.sampled_from([0, 1, 2, 9, 40])) for _ in range(n)] for _ in range(n)]
    matrix = np.array(rows, dtype=float) + np.eye(n)
    matrix /= matrix.sum(axis=1, keepdims=True)
    initial = [draw(st.integers(1, 5)) for _ in range(n)]
    budgets = draw(st.lists(st.sampled_from([0.0, 0.1, 0.4, 1.5]), min_size=1, max_size=6 if n == 2 else 5))
    return Chain(matrix, initial=np.array(initial) / sum(initial)), budgets


def best_of_all(chain: Chain, budgets: list[float], step: int) -> float:
    """The largest leakage about a step, over all pairs of states and all sets of cells of every step."""
    n = chain.states
    corners = [np.array(cells, dtype=float) for cells in product((0, 1), repeat=n) if 0 < sum(cells) < n]
    ahead = [np.ones(n)]
    for epsilon in budgets[:step:-1]:
        ahead = [chain.forward @ (v * np.exp(epsilon * cells)) for v in ahead for cells in corners]
    behind = [chain.marginal(0)]  # of the state and the outputs so far, together
    for epsilon in budgets[:step]:
        behind = [(v * np.exp(epsilon * cells)) @ chain.forward for v in behind for cells in corners]
    with np.errstate(divide="ignore", invalid="ignore"):
        past = np.log(np.array(behind) / chain.marginal(step))
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j and min(chain.marginal(step)[[i, j]]) > 0]
        future = np.log(np.array(ahead))
        return max(
            (
                float((past[:, i] - past[:, j]).max() + budgets[step] + (future[:, i] - future[:, j]).max())
                for i, j in pairs
            ),
            default=0.0,
        )


@settings(max_examples=80, deadline=None)
@given(streams(), st.data())
def test_no_outputs_tell_more_than_those_that_are_found(case: tuple[Chain, list[float]], data: st.DataObject) -> None:
    """Of every pattern of all steps, from whatever start."""
    chain, budgets = case
    step = data.draw(st.integers(0, len(budgets) - 1))
    attack = found_attack(chain, budgets, [step])
    most = best_of_all(chain, budgets, step)
    assert (attack.nats if attack else 0.0) == pytest.approx(most, rel=1e-9, abs=1e-12)


def test_pairs_of_states_are_compared_by_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far these are apart: steps between them tell nothing, and the best pair of all is found."""
    rows = np.random.default_rng(5).random((16, 16))
    chain = Chain(0.9 * np.eye(16) + 0.1 * rows / rows.sum(axis=1, keepdims=True))
    budgets = np.zeros(90)
    budgets[6::11] = 0.5
    found = [found_attack(chain, budgets, [step]) for step in (0, 45, 89)]
    monkeypatch.setattr("policyc.planning.leakage.witness._KEPT", 240)
    best = [found_attack(chain, budgets, [step]) for step in (0, 45, 89)]
    for some, every in zip(found, best, strict=True):
        assert some is not None
        assert every is not None
        assert some.nats == pytest.approx(every.nats, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(streams())
def test_where_no_attack_can_tell_more_none_is_looked_for(case: tuple[Chain, list[float]]) -> None:
    """The bound of a step is what no attack on it tells more than: the same attack is found without those steps."""
    chain, budgets = case
    bounds = audited_total_leakage(budgets, chain).tolist()
    every = list(range(len(budgets)))
    asked = found_attack(chain, budgets, every, bounds)
    best = found_attack(chain, budgets, every)
    if best is None:
        assert asked is None
        return
    assert asked is not None
    assert (asked.nats, asked.step, asked.states) == (best.nats, best.step, best.states)


def test_few_steps_are_looked_at_where_one_tells_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are known to tell less than it does."""
    chain, budgets = Chain([[0.9, 0.1], [0.1, 0.9]]), [0.1] * 6 + [1.0] + [0.1] * 6
    looked: list[int] = []
    attack_on = witness._attack_on

    def counted(*arguments: Any) -> Any:
        looked.append(arguments[2])
        return attack_on(*arguments)

    monkeypatch.setattr(witness, "_attack_on", counted)
    bounds = audited_total_leakage(budgets, chain).tolist()
    found = found_attack(chain, budgets, range(len(budgets)), bounds)
    assert found is not None
    assert found.step == 6
    assert looked == [6]


FORGOTTEN = """policy far "two groups, one of which is forgotten at once"
stream s { user u time t cell k in {"c"} otherwise "o" step 1d horizon unbounded start "2024-01-01" population 1_000 }
release r = count(s) by k
target alpha_dpt(alpha = 0.1)
target alpha_dpt(alpha = 0.1, window = 3 steps)
correlation markov(forward = [[0.999999, 1e-06], [1e-06, 0.999999]], initial = stationary, evidence = "x") for slow
correlation markov(forward = [[0.6, 0.4], [0.980392157, 0.019607843]], initial = stationary, evidence = "x") for fast
deliver realtime
"""


def test_far_out_where_rounding_leaves_no_likelier_cell_outputs_end(tmp_path: Path) -> None:
    """Thousands of steps away they tell less than a double holds; what is stated is reached without them."""
    (tmp_path / "far.policy").write_text(FORGOTTEN)
    plan = compile_policy(tmp_path / "far.policy").plan
    told = {witness.group: witness for witness in witnesses_of(plan)}
    assert set(told) == {"slow", "fast"}
    assert all(run.cells for witness in told.values() for run in witness.outputs)


@pytest.mark.parametrize("horizon", [1, 2, 7, 400])
def test_in_two_states_what_is_reached_is_what_is_promised(horizon: int) -> None:
    """To six digits, where both states are alike: the recursion of CAO17 is exact there."""
    rng = np.random.default_rng(horizon)
    for _ in range(12):
        stay = rng.choice([0.001, 0.2, 0.6, 0.95, 0.999])
        chain = Chain([[stay, 1 - stay], [1 - stay, stay]])
        budgets = rng.choice([0.0, 0.01, 0.1, 0.5], horizon)
        bound = audited_total_leakage(budgets, chain)
        step = int(bound.argmax())
        attack = found_attack(chain, budgets, [step])
        assert (attack.nats if attack else 0.0) == pytest.approx(bound[step], rel=1e-6, abs=1e-12)


def laplace(value: int, scale: float) -> float:
    return float(np.exp(-abs(value) / scale))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_noise_shows_every_set_of_cells_but_none_and_all(n: int, balanced: bool) -> None:
    """Of all outputs near the counts of others; with balanced noise of those with the right total."""
    scale, others = 3.0, np.array([5, 0, 7, 2])[:n]
    shown = set()
    for moved in product(range(-n, n + 1), repeat=n):
        output = others + np.array(moved)
        if balanced and output.sum() != others.sum() + 1:
            continue
        likely = [np.prod([laplace(int(x), scale) for x in output - others - own]) for own in np.eye(n, dtype=int)]
        high = np.array(moved) >= 1
        ratio = np.log(likely)[:, None] - np.log(likely)[None, :]
        assert ratio == pytest.approx((high[:, None] * 1.0 - high[None, :]) * 2 / scale, abs=1e-12)
        shown.add(tuple(high.tolist()))
    every = {cells for cells in product((False, True), repeat=n) if 0 < sum(cells) < n}
    assert shown - {(False,) * n, (True,) * n} == every


def test_what_a_plan_names_is_reached_by_its_own_noise(tmp_path: Path) -> None:
    """The outputs themselves, with the noise of the plan, over all courses of one user."""
    for start in ("stationary", "[0.2, 0.5, 0.3]"):
        plan = compiled(tmp_path, start)
        (witness,), (record,) = witnesses_of(plan), plan.correlation.chains
        chain, steps = record.chain(), plan.stream.horizon
        assert steps is not None
        scales = list(map(float, plan.releases[0].schedule.scales(steps)))
        named = dict(enumerate((set(r.cells) for r in witness.outputs for _ in range(r.steps)), start=witness.first))
        seen = np.zeros(3)
        for course in product(range(3), repeat=steps):
            likely = float(chain.marginal(0)[course[0]])
            likely *= float(np.prod([chain.forward[a, b] for a, b in pairwise(course)]))
            for t, cells in named.items():
                likely *= np.prod([laplace((k in cells) - (k == course[t]), scales[t]) for k in range(3)])
            seen[course[witness.step]] += likely
        seen /= chain.marginal(witness.step)
        i, j = witness.states
        assert float(witness.nats) == pytest.approx(np.log(seen[i] / seen[j]), rel=1e-9)
        assert told_by_witness(plan, record, witness) <= np.log(seen[i] / seen[j]) + 1e-14


def altered(plan: Plan, folder: Path, **fields: Any) -> bool | None:
    """Whether the plan's attack still holds with other fields, sealed anew."""
    witness = witnesses_of(plan)[0].model_copy(update=fields)
    claims = plan.claims.model_copy(update={"witnesses": (witness,)})
    (folder / "plan.json").write_text(plan.model_copy(update={"claims": claims}).sealed().to_json())
    found = {claim.name.split(" on ")[0]: claim.holds for claim in plan_claims(load_plan(folder))}
    return found.get("an attack")


@pytest.mark.parametrize("steps", ["40 steps", "unbounded"])
def test_an_altered_attack_is_refused(tmp_path: Path, steps: str) -> None:
    """More than its outputs tell, another step or pair, sets that noise cannot show, states that nobody is in."""
    plan = compiled(tmp_path, steps=steps, budget="bounded")
    (witness,) = witnesses_of(plan)
    assert altered(plan, tmp_path)
    run = witness.outputs[0]
    i, j = witness.states
    for fields in (
        {"nats": witness.nats * Decimal("1.000000001")},
        {"nats": Decimal(1)},
        {"states": (j, i)},
        {"states": (i, i)},
        {"states": (i, 3)},
        {"step": witness.first},
        {"step": witness.first - 1 if witness.first else 10**6},
        {"first": 10**6},
        {"group": "others"},
        {"outputs": (run.model_copy(update={"steps": witness.step - witness.first + 1}),)},
        {"outputs": tuple(r.model_copy(update={"cells": (0, 1, 2)}) for r in witness.outputs)},
        {"outputs": (run.model_copy(update={"cells": (7,)}), *witness.outputs[1:])},
        {"outputs": (run.model_copy(update={"steps": 10**7}), *witness.outputs[1:])},
        {"outputs": tuple(r.model_copy(update={"cells": tuple({0, 1, 2} - {*r.cells})}) for r in witness.outputs)},
    ):
        assert altered(plan, tmp_path, **fields) is False, fields


def test_nobody_in_a_state_nothing_told_of_it(tmp_path: Path) -> None:
    """At the first step nobody is in `B`."""
    plan = compiled(tmp_path, start="[0.5, 0.0, 0.5]")
    assert altered(plan, tmp_path)
    for states in ((0, 1), (1, 0)):
        assert altered(plan, tmp_path, step=0, first=0, states=states, nats=Decimal("1e-9")) is False


def test_plans_that_name_no_attack_hold(compiled_gallery: Callable[[str], Compilation], tmp_path: Path) -> None:
    """As plans of earlier versions: the claim is absent."""
    plan = compiled_gallery("traffic").plan
    assert plan.claims.witnesses
    claims = plan.claims.model_copy(update={"witnesses": ()})
    (tmp_path / "plan.json").write_text(plan.model_copy(update={"claims": claims}).sealed().to_json())
    assert "witnesses" not in json.loads((tmp_path / "plan.json").read_text())["claims"]
    found = list(plan_claims(load_plan(tmp_path)))
    assert all(claim.holds for claim in found)
    assert not any("attack" in claim.name for claim in found)
