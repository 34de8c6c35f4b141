"""Errors of releases and of what is made of them, added up."""

from __future__ import annotations

from decimal import Decimal

import pytest

from policyc.planning.measurements import Measurement, shares
from policyc.planning.total_errors import least_together
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Setting
from policyc_runtime.mechanisms.gaussian import Gaussian


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
