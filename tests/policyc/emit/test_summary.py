"""What `compile` prints of what it compared."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from policyc.emit.summary import render_summary
from policyc_runtime.plan import Plan

ERRORS = {9.0: ("3", "9"), 57.058: ("7.55", "57.06"), 4e6: ("2,000", "4e+06"), None: ("-", "-")}


def printed(plan: Plan, objective: str) -> str:
    """Of a plan with a candidate of each of these errors."""
    (release,) = plan.releases
    one = release.candidates[0]
    candidates = [
        one.model_copy(update={"predicted_error": error, "schedule": f"s{number}", "reason": "because"})
        for number, error in enumerate(ERRORS)
    ]
    changed = release.model_copy(update={"candidates": tuple(candidates)})
    return render_summary(plan.model_copy(update={"releases": (changed,), "objective": objective}), Path("x.plan"))


def test_a_typical_error_stands_before_its_square(planned_traffic: Plan) -> None:
    """Three digits of its root; what compares them is said, since ratios of squares are larger."""
    text = printed(planned_traffic, "mean_squared_error")
    head = r"^  schedule +estimator +typical error  mean squared error  compared by mean squared error$"
    assert re.search(head, text, re.MULTILINE)
    found = re.findall(r"^  s\d +\S+ +(\S+) +(\S+)  because$", text, re.MULTILINE)
    assert found == list(ERRORS.values())


def test_absolute_errors_stand_once(planned_traffic: Plan) -> None:
    """Where they are what is compared, nothing is squared."""
    text = printed(planned_traffic, "mean_absolute_error")
    assert re.search(r"^  schedule +estimator +mean absolute error$", text, re.MULTILINE)
    assert re.findall(r"^  s\d +\S+ +(\S+)  because$", text, re.MULTILINE) == ["9", "57.1", "4,000,000", "-"]
    assert "squared" not in text


def test_budgets_that_read_the_same_stand_once(planned_traffic: Plan) -> None:
    """Though their last digits differ."""
    (release,) = planned_traffic.releases
    segment = release.schedule.segments[0]
    for least, most, said in (("0.0625", "0.06250001", "0.0625"), ("0.0625", "0.07", "0.0625 to 0.07")):
        segments = tuple(segment.model_copy(update={"epsilons": (Decimal(nats),)}) for nats in (least, most))
        changed = release.model_copy(update={"schedule": release.schedule.model_copy(update={"segments": segments})})
        text = render_summary(planned_traffic.model_copy(update={"releases": (changed,)}), Path("x.plan"))
        assert f": {said} nats a step\n" in text
