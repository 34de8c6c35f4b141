"""Releases and what is made of them: errors added up, and one plan of all."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from policyc import compile_policy
from policyc.planning.measurements import Measurement, shares
from policyc.planning.total_errors import least_together
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.gaussian import Gaussian
from policyc_runtime.plan import Plan
from policyc_runtime.planned_release import MeasuredRelease

POLICY = """
policy cars "speeds of cars"
stream passages { user plate  time at  step 1h  horizon 48 steps  start "2026-01-01" }
release distance = sum(passages.metres, clamp = -20 .. 50)
release so_far = prefix(distance)
release of_late = window(so_far, 4 steps)
target user_level(epsilon = 1.0, delta = 1e-6, neighbors = replace)
participation at_most(4 steps, enforced = keep_first)
deliver realtime
mechanism gaussian()
"""


@pytest.mark.parametrize(("objective", "power"), [("mean_squared_error", 2), ("mean_absolute_error", 1)])
def test_the_best_parts_are_best(objective: str, power: int) -> None:
    """No other division of the promise between two releases has a lower sum of errors."""
    errors = {"a": 1.0, "b": 9.0}
    least = least_together(errors, objective)  # type: ignore[arg-type]
    for part in (0.01, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.9):
        assert least <= errors["a"] * part ** (-power / 2) + errors["b"] * (1 - part) ** (-power / 2)
    factors = shares(list(errors.values()), objective)  # type: ignore[arg-type]
    assert sum(factor**-2 for factor in factors) == pytest.approx(1.0)
    assert least_together({"a": 5.0}, objective) == pytest.approx(5.0)  # type: ignore[arg-type]


def test_variances_are_in_published_units() -> None:
    """A sum whose unit is a tenth has a hundredth of the variance that its whole numbers have."""
    measurement = Measurement(Gaussian(stddev=Decimal(20)), Setting(Participation(1, 3)), Decimal("0.1"))
    assert measurement.variances() == pytest.approx([4.0, 4.0, 4.0])


def test_a_plan_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And with all that it says: what the constructor is told is what the kernel accepts, claims and warnings too."""
    path, told = tmp_path / "cars.policy", []
    path.write_text(POLICY, encoding="utf-8")

    class Recorded(Plan):
        def __init__(self, **fields: object) -> None:
            super().__init__(**fields)
            told.append(fields)

    monkeypatch.setattr("policyc.planning.assemble.Plan", Recorded)
    plan = compile_policy(path).plan
    (fields,) = told
    assert [part.l1_sensitivity for part in plan.releases] == [50, 50, 50]
    assert any(isinstance(part, MeasuredRelease) for part in plan.releases)
    assert all(getattr(plan, name) == value for name, value in fields.items())
