"""How numbers and durations are written: promised ones exactly, computed ones rounded against us.

Rounding to a few digits also makes a certificate the same on every machine: the last bits of a logarithm are not.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from policyc_check.plan.stream import MONTH, Length

SHOWN_DIGITS = 6
MILLISECONDS = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000, "millisecond": 1}


def exact(value: Decimal) -> str:
    """A decimal as plain text, without exponent; reads back as the same number."""
    return f"{value:f}"


def round_up(value: float | Decimal | Fraction, digits: int = SHOWN_DIGITS) -> str:
    """The smallest decimal of that many significant digits at or above a value >= 0, as plain text."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a leakage without bound is never printed as a number")
    context = Context(prec=digits, rounding=ROUND_CEILING)
    if isinstance(value, Fraction):
        rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    else:
        rounded = context.create_decimal(Decimal(value))
    return plain(abs(rounded))  # of 0 with a sign as well


def round_down(value: Decimal, digits: int = SHOWN_DIGITS) -> str:
    """The largest decimal of that many significant digits at or below a value >= 0, as plain text."""
    return plain(Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(value))


def about(value: float, digits: int = 3) -> str:
    """A value rounded to the nearest decimal of that many significant digits, for what is expected, not promised."""
    return plain(Context(prec=digits, rounding=ROUND_HALF_EVEN).create_decimal(Decimal(value)))


def plain(value: Decimal) -> str:
    """A decimal without exponent and without trailing zeros."""
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


LARGEST_WRITTEN = 1000  # nats; of a larger one the zeros are counted


def likelihood_factor(loss: Decimal) -> str:
    """exp(loss), rounded up to three digits: how many times likelier one value can make a result than another."""
    if loss > LARGEST_WRITTEN:
        return f"10^{int(loss / Decimal(10).ln()) + 1:,}"
    context = Context(prec=30)
    return grouped(round_up(context.exp(loss), 3))


def grouped(number: str | int) -> str:
    """The same number with its thousands set apart."""
    whole, dot, rest = str(number).partition(".")
    return f"{int(whole):,}{dot}{rest}"


def shown(value: Decimal | Fraction) -> str:
    """A promised or spent number as prose shows it: rounded up, thousands set apart."""
    return grouped(round_up(value))


def sentence_case(text: str) -> str:
    """The same words with a capital at the start."""
    return text[:1].upper() + text[1:]


def counted(number: int, noun: str) -> str:
    """`1 step`, `288 steps`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(milliseconds: Length, *, days: bool = True) -> str:
    """A duration in the largest unit that divides it: `5 minutes`, `365 days` (else in hours), `1 month`."""
    if milliseconds == MONTH:
        return counted(1, MONTH)
    for noun, size in MILLISECONDS.items():
        if milliseconds % size == 0 and (days or noun != "day"):
            return counted(milliseconds // size, noun)
    raise AssertionError("a duration is a whole number of milliseconds")


def every(milliseconds: Length) -> str:
    """`every day`, `every 5 minutes`."""
    text = duration(milliseconds)
    return f"every {text.removeprefix('1 ')}"
