from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import numpy as np
import pytest

from policyc.emit.steps import render_steps, step_rows
from policyc.planning.leakage.recursion import backward_leakage, forward_leakage
from policyc_check.steps.budgets import total_budgets
from policyc_runtime.plan import Plan

NAMES = ["t", "epsilon", "scale", "backward_leakage", "forward_leakage", "total_leakage", "expected_error"]


def test_columns_and_length(traffic: Plan) -> None:
    """One row a step, counted from 0, with the documented columns in their order."""
    table = step_rows(traffic)
    assert list(table.columns) == NAMES
    assert list(table.columns["t"]) == list(range(288))
    assert table.length == 288


def test_budgets_and_scales_are_the_plan_s_text(traffic: Plan) -> None:
    """Budget and scale read back as the plan's exact decimals."""
    table = step_rows(traffic)
    schedule = traffic.releases[0].schedule
    assert [Decimal(str(text)) for text in table.columns["epsilon"]] == schedule.epsilons(288)
    assert [Decimal(str(text)) for text in table.columns["scale"]] == schedule.scales(288)


def test_total_leakage_is_backward_plus_forward_minus_budget(traffic: Plan) -> None:
    """TPL = BPL + FPL - epsilon, as the kernel computes it, and never above the promise."""
    columns = step_rows(traffic).columns
    budgets = total_budgets(traffic, 288)
    record = traffic.correlation.chains[0]
    backward = backward_leakage(budgets, record.chain().backward_side(), lags=record.lags)
    forward = forward_leakage(budgets, record.chain().forward_side(), lags=record.lags)
    assert np.array_equal(backward, columns["backward_leakage"])
    assert np.array_equal(forward, columns["forward_leakage"])
    assert np.allclose(backward + forward - budgets, columns["total_leakage"], rtol=1e-14, atol=0)
    assert max(columns["total_leakage"]) <= 1.0  # type: ignore[type-var]


def test_several_groups_show_the_largest(fleet: Plan, traffic: Plan) -> None:
    """With two groups every leakage is the larger of the two."""
    first = fleet.correlation.chains[0].model_copy(update={"group": "a"})
    size = len(first.forward or ())
    uniform = tuple(tuple(Decimal("0.25") for _ in range(size)) for _ in range(size))
    second = first.model_copy(update={"group": "b", "forward": uniform})
    both = fleet.model_copy(update={"correlation": fleet.correlation.model_copy(update={"chains": (second, first)})})
    assert step_rows(both).columns == step_rows(fleet).columns


def test_without_correlation_a_step_leaks_its_budget(independent_count: Plan) -> None:
    """Where steps are independent, every leakage is the budget of the step."""
    columns = step_rows(independent_count).columns
    for name in ("backward_leakage", "forward_leakage", "total_leakage"):
        assert set(columns[name]) == {0.5}


def test_several_releases_have_columns_of_their_own(traffic: Plan) -> None:
    """With two releases the budget of a step is their sum, and each keeps its own budget and scale."""
    other = traffic.releases[0].model_copy(update={"name": "again"})
    columns = step_rows(traffic.model_copy(update={"releases": (traffic.releases[0], other)})).columns
    assert columns["epsilon"][0] == "1.0194392146207666"
    assert columns["epsilon:again"][0] == columns["epsilon:occupancy"][0] == "0.5097196073103833"
    assert "scale:again" in columns
    assert "expected_error:again" in columns


def test_an_endless_stream_shows_a_stretch(endless_traffic: Plan) -> None:
    """Of an endless stream the table shows a stretch whose forward leakage is the supremum."""
    columns = step_rows(endless_traffic).columns
    assert len(columns["t"]) == 100
    assert len(set(columns["forward_leakage"])) == 1
    assert max(columns["total_leakage"]) <= 1.0  # type: ignore[type-var]


@pytest.mark.parametrize("plan", ["traffic", "endless_traffic", "independent_count"])
def test_csv_and_json_read_back_exactly(plan: str, request: pytest.FixtureRequest) -> None:
    """CSV and JSON carry the same values, and floats read back as the same floats."""
    table = step_rows(request.getfixturevalue(plan))
    rows = list(csv.DictReader(io.StringIO(render_steps(table, "csv"))))
    objects = json.loads(render_steps(table, "json"))
    assert [float(row["total_leakage"]) for row in rows] == table.columns["total_leakage"]
    assert [entry["total_leakage"] for entry in objects] == table.columns["total_leakage"]
    assert [row["scale"] for row in rows] == [entry["scale"] for entry in objects]


def test_the_table_is_aligned(traffic: Plan) -> None:
    """The text table has one line a step below its header, all of the same width."""
    lines = render_steps(step_rows(traffic), "table").splitlines()
    assert len(lines) == 289
    assert len({len(line) for line in lines}) == 1


def test_a_long_stream_has_a_row_for_every_step_that_differs(fleet: Plan) -> None:
    """Rows of 12,000 steps stand for all of them: written out they are the table of every step; a short one has all."""
    first, *_, last = fleet.releases[0].schedule.segments
    middle = first.model_copy(
        update={
            "epsilons": (Decimal("0.02"), Decimal(0), Decimal("0.03")),
            "scales": (Decimal(100), Decimal(0), Decimal(67)),
            "expected_errors": (1.0, 2.0, 3.0),
            "repeats": 3_999,
        }
    )
    schedule = fleet.releases[0].schedule.model_copy(update={"segments": (first, middle, last, last)})
    release = fleet.releases[0].model_copy(update={"schedule": schedule})
    plan = fleet.model_copy(
        update={"releases": (release,), "stream": fleet.stream.model_copy(update={"horizon": schedule.length})}
    )
    columns = step_rows(plan).columns
    assert list(columns)[:3] == ["t", "every", "until"]
    rows = list(zip(*columns.values(), strict=True))
    assert len(rows) < 500
    written = sorted((t, *row) for start, every, until, *row in rows for t in range(start, until + 1, every))  # type: ignore[call-overload]
    assert [row[0] for row in written] == list(range(schedule.length or 0))
    assert [row[1] for row in written] == [f"{epsilon:f}" for epsilon in schedule.epsilons(len(written))]
    assert [row[-1] for row in written] == schedule.column("expected_errors", len(written))
    budgets, record = total_budgets(plan, len(written)), plan.correlation.chains[0]
    backward = backward_leakage(budgets, record.chain().backward_side(), lags=record.lags)
    assert [row[3] for row in written] == backward.tolist()
