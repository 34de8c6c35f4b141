"""Numbers as they are written elsewhere, `1,5`, `1 000`, `10^-6` or `1/2`, and how this language writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from policyc.diagnostics import Span
from policyc.syntax.tree import LONGEST_HORIZON

REACH = 40
"""Characters before and after a place that are looked at: no numeral that people write is longer."""
SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
LOWERED = str.maketrans(SUPERSCRIPT, "0123456789+-")
# A product with a power, a power, or a quotient of two numbers.
CALCULATED = rf"""[0-9]\w*(?:\.[0-9]+)?(?:
      (?:[ ]?[*×·][ ]?[0-9]+)?(?:[ ]?(?:\*\*|\^)[ ]?[+-]?[0-9]+|[{SUPERSCRIPT}]+)
    | [ ]?/[ ]?[0-9]+(?:\.[0-9]+)?(?![\w./])
)"""
GROUPED = re.compile(r"(?<![\w.])[0-9]+(?:\.[0-9]+)*(?:,[0-9]+(?:\.[0-9]+)?|[ ][0-9]{3}(?![\w.]))+[A-Za-z]*(?!\w)")
POWER = re.compile(r"(?:([0-9]+(?:\.[0-9]+)?)\*)?([0-9]+(?:\.[0-9]+)?)\^([+-]?[0-9]{1,3})")
RANGE = re.compile(r"clamp[ \t]*=[ \t]*((-?[0-9][0-9_.]*)[ \t]*(?:-|to|until|:)[ \t]*(-?[0-9][0-9_.]*))(?![\w.])")
QUOTIENT = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")
MOST_DIGITS = 12


def numeral_around(text: str, offset: int) -> tuple[Span, str] | None:
    """The numeral with a comma or a blank in it that a place is in the middle of.

    Args:
        text: of the policy.
        offset: where a part of it begins that was read as a thing of its own.

    Returns:
        Where it stands, and its text; None where there is none.
    """
    first = max(0, offset - REACH)
    for match in GROUPED.finditer(text[first : offset + REACH]):
        span = Span(first + match.start(), first + match.end())
        if span.start < offset < span.end:
            return span, match.group()
    return None


def whole_steps(value: Decimal) -> str:
    """What to write instead of a number of steps with a point, an exponent or a sign."""
    if value > LONGEST_HORIZON:
        return f"there are at most {LONGEST_HORIZON:_} steps; a stream without an end has `horizon unbounded`"
    if value < 1:
        return "steps are counted from `1 step`"
    down = int(value)
    return (
        f"write `{down:_} steps`" if down == value else f"steps are whole: write `{down} steps` or `{down + 1} steps`"
    )


def range_around(text: str, offset: int) -> tuple[Span, str, str] | None:
    """The range of a `clamp` with another sign between its ends that a place is in the middle of.

    Args:
        text: of the policy.
        offset: where a part of it begins that was read as a thing of its own.

    Returns:
        Where it stands, its text, and what was meant; None where there is none.
    """
    first = max(0, offset - REACH)
    for match in RANGE.finditer(text[first : offset + REACH]):
        span = Span(first + match.start(1), first + match.end(1))
        if span.start < offset < span.end:
            return span, text[span.start : span.end], f"{match.group(2)} .. {match.group(3)}"
    return None


def plain(written: str) -> tuple[str, ...]:
    """What may have been meant by a numeral of another notation, in this language.

    Args:
        written: the numeral.

    Returns:
        Every reading of it; none where it has no sense, or no short decimal.

    >>> plain("10^-6"), plain("2 * 10**3"), plain("5×10⁻⁷"), plain("2^3"), plain("1/8"), plain("1/3")
    (('1e-6',), ('2e3',), ('5e-7',), ('8',), ('0.125',), ())
    >>> plain("1,5"), plain("1.000,5"), plain("1,000,000"), plain("1 000"), plain("1.000.000"), plain("1,000")
    (('1.5',), ('1000.5',), ('1_000_000',), ('1_000',), ('1_000_000',), ('1.000', '1_000'))
    """
    compact = re.sub(rf"[{SUPERSCRIPT}]+", lambda raised: "^" + raised.group().translate(LOWERED), written)
    compact = re.sub("[×·]", "*", compact.replace(" ", "").replace("**", "^"))
    if power := POWER.fullmatch(compact):
        return tuple(_power(power.group(1) or "1", power.group(2), int(power.group(3))))
    if quotient := QUOTIENT.fullmatch(compact):
        over, under = int(quotient.group(1)), int(quotient.group(2))
        return tuple(_decimal(Fraction(over, under))) if under else ()
    return tuple(_grouped(written))


def _power(factor: str, base: str, exponent: int) -> Iterator[str]:
    if base == "10":
        yield f"{factor}e{exponent}"
    elif abs(exponent) <= MOST_DIGITS and Fraction(base):
        yield from _decimal(Fraction(factor) * Fraction(base) ** exponent)


def _decimal(value: Fraction) -> Iterator[str]:
    """The number with its digits, where it has few of them."""
    scaled = value * 10**MOST_DIGITS
    if scaled.denominator == 1 and value < 10**MOST_DIGITS:
        digits = f"{Decimal(scaled.numerator).scaleb(-MOST_DIGITS):f}"
        yield digits.rstrip("0").rstrip(".")


def _grouped(written: str) -> Iterator[str]:
    """Commas, points and blanks as signs of decimals or between thousands: the last of two kinds is the decimal's."""
    signs = re.findall(r"[., ]", written)
    parts = re.split(r"[., ]", written)
    by_thousands = 0 < len(parts[0]) <= 3 and parts[0] != "0" and all(len(part) == 3 for part in parts[1:])
    if signs and signs[-1] in ".," and signs.count(signs[-1]) == 1:
        yield "".join(parts[:-1]) + "." + parts[-1]
    if signs and by_thousands and len(set(signs)) == 1:
        yield "_".join(parts)
