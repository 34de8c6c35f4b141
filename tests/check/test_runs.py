"""Steps that stand for all others of a stream whose patterns repeat: nothing that a few steps in a row show is lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import policyc_check.steps.inheritance as inheritance
from policyc import compile_policy
from policyc_check.errors import PlanRejectedError
from policyc_check.runs import Runs, enough
from policyc_check.steps.budgets import total_budgets, window_budget
from policyc_check.steps.inheritance import audited_leakage, leakage_of_group
from policyc_runtime.plan import Plan

POLICY = """
policy long "people by place"
stream visits {
  user person
  time at
  cell place in {"A"} otherwise "away"
  step 1min
  horizon HORIZON steps
  start "2026-01-01"
  population 100
}
release there = count(visits) by place
target alpha_dpt(alpha = 1.0)
correlation markov(forward = [[0.8, 0.2], [0.1, 0.9]], initial = INITIAL, evidence = "public counts")
deliver offline
objective mean_squared_error
budget BUDGET
estimate ESTIMATE
postprocess there { sum(there) == population }
"""


@st.composite
def columns(draw: st.DrawFn) -> list[list[list[int]]]:
    """Two columns of patterns, of the same length in all."""
    found = [
        [[draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))] * draw(st.integers(1, 12)) for _ in range(size)]
        for size in draw(st.lists(st.integers(1, 3), min_size=2, max_size=2))
    ]
    lengths = [sum(len(pattern) for run in column for pattern in run) for column in found]
    rest = [[[[draw(st.integers(0, 2))]] * (max(lengths) - length)] for length in lengths]
    return [column + [run for run in more if run] for column, more in zip(found, rest, strict=True)]


@given(columns(), st.integers(1, 5), st.integers(0, 8))
def test_every_few_steps_in_a_row_are_among_those_that_are_enough(
    found: list[list[list[int]]], reach: int, apart: int
) -> None:
    """Of any columns: the same stretches of `reach` steps, the same ends, and no step before `apart` is missing."""
    runs = [Runs((len(run[0]), len(run)) for run in column) for column in found]
    whole = np.array([[entry for run in column for pattern in run for entry in pattern] for column in found])
    entries = [[entry for run in column for entry in run[0]] for column in found]
    steps = np.arange(whole.shape[1])
    for column, written, values in zip(runs, entries, whole, strict=True):
        assert [written[place] for place in column.places(steps)] == values.tolist()
    kept = enough(runs, reach, apart)
    short = whole[:, kept]
    assert (np.diff(kept) > 0).all()
    assert kept[: min(apart, len(steps))].tolist() == steps[:apart].tolist()

    def seen(values: np.ndarray) -> set[bytes]:
        return {values[:, t : t + reach].tobytes() for t in range(max(1, values.shape[1] - reach + 1))}

    assert seen(short) == seen(whole)
    for end in (slice(None, reach), slice(-reach, None)):
        assert (short[:, end] == whole[:, end]).all()


def test_endless_patterns_are_met_whole() -> None:
    """Every 5 steps in a row of patterns of 2 and 3 that go on for ever, from a common start of another one."""
    runs = [Runs([(1, 7), (2, None)]), Runs([(3, None)])]
    kept = enough(runs, 5)
    assert len(kept) < 40
    seen = [{tuple(c.places(at[t : t + 5])) for t in range(len(at) - 4) for c in runs} for at in (kept, np.arange(400))]
    assert seen[0] == seen[1]
    with pytest.raises(PlanRejectedError, match="cannot be checked"):
        enough([Runs([(1009, None)]), Runs([(1013, None)])], 5)


def compiled(tmp_path: Path, horizon: int, budget: str = "bounded()", initial: str = "stationary") -> Plan:
    text = POLICY.replace("HORIZON", str(horizon)).replace("BUDGET", budget).replace("INITIAL", initial)
    text = text.replace("ESTIMATE", "smoother()" if "sparse" in budget else "mle()")
    (tmp_path / "long.policy").write_text(text)
    return compile_policy(tmp_path / "long.policy").plan


@pytest.mark.sampled(2)
@pytest.mark.parametrize("budget", ["bounded()", "quantified()", "sparse(every = 3 steps)"])
@pytest.mark.parametrize("initial", ["stationary", "[1, 0]"])
def test_a_long_stream_is_shown_by_few_of_its_steps(tmp_path: Path, budget: str, initial: str) -> None:
    """What follows for 2,000 steps is what all of them show, step by step."""
    plan = compiled(tmp_path, 2_000, budget, initial)
    (record,), (stated,) = plan.correlation.chains, plan.claims.inherited
    chain = record.chain()
    whole = audited_leakage(
        stated, total_budgets(plan, 2_000), chain.backward_side(), chain.forward_side(), endless=False
    )
    for width in (1, 5):
        few = leakage_of_group(plan, record, width)
        assert few.largest(width) == whole.largest(width)
        assert few.steps is not None
        assert len(few.steps) < 1_500
        sums = [float(whole.budgets[t : t + width].sum()) for t in range(2_000 - width + 1)]
        assert float(window_budget(plan, width)) == pytest.approx(max(sums))
    assert float(window_budget(plan, 2_000)) == pytest.approx(float(whole.budgets.sum()))


def test_twenty_times_as_many_steps_take_no_more_inequalities_and_hardly_more_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule that settles: the plan is as large, the check decides as many inequalities and keeps as many steps."""
    decided: list[int] = []
    loss_bound = inheritance.audited_loss_bound

    def counting(matrix: np.ndarray, alpha: np.ndarray, *rest: object) -> np.ndarray:
        decided.append(len(alpha))
        return loss_bound(matrix, alpha, *rest)

    sizes = []
    for horizon in (5_000, 100_000):
        plan = compiled(tmp_path, horizon, "quantified()")
        monkeypatch.setattr(inheritance, "audited_loss_bound", counting)
        decided.clear()
        found = leakage_of_group(plan, plan.correlation.chains[0])
        monkeypatch.undo()
        assert found.steps is not None
        assert found.steps[-1] < horizon
        sizes.append(
            (sum(decided), len(found.steps), len(found.budgets), len(json.dumps(plan.model_dump(mode="json"))))
        )
    assert sizes[0][:3] == sizes[1][:3]
    assert sizes[1][0] < 400
    assert sizes[1][3] < 1.1 * sizes[0][3]


def test_a_number_that_is_wrong_far_from_the_ends_is_refused(tmp_path: Path) -> None:
    """One step of many, in the middle, that states less than it inherits."""
    plan = compiled(tmp_path, 20_000, "quantified()")
    content = json.loads(plan.to_json())
    runs = content["claims"]["inherited"][0]["before"]
    index = max(range(len(runs)), key=lambda i: runs[i]["repeats"])
    run = runs[index]
    half = {**run, "repeats": run["repeats"] // 2}
    rest = {**run, "repeats": run["repeats"] - half["repeats"] - 1}
    low = {**run, "nats": [nats * 0.999 for nats in run["nats"]], "repeats": 1}
    runs[index : index + 1] = [half, low, rest]
    worse = Plan.model_validate_json(json.dumps(content)).sealed()
    with pytest.raises(PlanRejectedError, match="larger than the plan says"):
        leakage_of_group(worse, worse.correlation.chains[0])
