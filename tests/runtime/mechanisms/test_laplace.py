"""The Laplace mechanism."""

from __future__ import annotations

from decimal import Decimal

import pytest

from policyc_check.errors import KernelError
from policyc_runtime.mechanisms.laplace import Laplace


def test_the_scale_is_sensitivity_over_epsilon() -> None:
    """A histogram under replacement has sensitivity 2: budget 0.1 needs scale 20, one step of rounding above."""
    assert Laplace(l1_sensitivity=Decimal(2)).calibrate(Decimal("0.1")) == Decimal("20.000000000000004")


def test_a_budget_too_small_for_64_bits_is_refused() -> None:
    """The refusal names the budget."""
    with pytest.raises(KernelError) as refused:
        Laplace(l1_sensitivity=Decimal(1)).calibrate(Decimal("1e-20"))
    assert refused.value.code == "E0831"
    assert "1e-20" in str(refused.value.because)


def test_the_record_reads_back() -> None:
    """The mechanism in a plan is the one that was written."""
    mechanism = Laplace(l1_sensitivity=Decimal(2))
    assert Laplace.model_validate_json(mechanism.model_dump_json()) == mechanism
