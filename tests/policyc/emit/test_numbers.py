from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyc.emit.numbers import about, counted, duration, every, exact, likelihood_factor, round_up, shown


@given(st.floats(min_value=0, max_value=1e12, allow_subnormal=False))
def test_rounding_goes_up(value: float) -> None:
    """What is printed is never below the value, and reads as at most six significant digits."""
    text = round_up(value)
    assert Fraction(Decimal(text)) >= Fraction(value)
    assert len(text.replace(".", "").strip("0")) <= 6


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.99999999999982, "1"),
        (1.0, "1"),
        (0.2159202474, "0.215921"),
        (0.0, "0"),
        (123456789.0, "123457000"),
        (1e-9, "0.000000001"),
    ],
)
def test_rounding_up_to_six_digits(value: float, text: str) -> None:
    """Exact values stay, others go to the next six-digit decimal, never in exponent form."""
    assert round_up(value) == text or Fraction(Decimal(round_up(value))) > Fraction(value)
    assert "e" not in round_up(value).lower()


def test_an_infinite_leakage_is_no_number() -> None:
    """A leakage without bound cannot be printed as a number."""
    with pytest.raises(ValueError, match="without bound"):
        round_up(float("inf"))


@pytest.mark.parametrize(
    ("milliseconds", "words", "often"),
    [
        (300_000, "5 minutes", "every 5 minutes"),
        (86_400_000, "1 day", "every day"),
        (3_600_000, "1 hour", "every hour"),
        (90_000, "90 seconds", "every 90 seconds"),
        (7, "7 milliseconds", "every 7 milliseconds"),
    ],
)
def test_durations(milliseconds: int, words: str, often: str) -> None:
    """A duration is told in the largest unit that divides it."""
    assert duration(milliseconds) == words
    assert every(milliseconds) == often


def test_small_forms() -> None:
    """Exact decimals keep their digits; factors are rounded up; counts agree with their noun."""
    assert exact(Decimal("1.0")) == "1.0"
    assert exact(Decimal("1E-7")) == "0.0000001"
    assert likelihood_factor(Decimal("1.0")) == "2.72"
    assert likelihood_factor(Decimal("10")) == "22,100"
    assert likelihood_factor(Decimal("1e6")) == "10^434,295"  # exp(1e6) = 3.03 10^434294
    assert shown(Fraction(12345671, 10)) == "1,234,570"
    assert about(172.4499) == "172"
    assert counted(1, "step") == "1 step"
    assert counted(1288, "step") == "1,288 steps"
