"""The numbers of a certificate, where its words are those of another version and cannot be rendered again.

Whatever the words: a number that stands alone in certificate.json is the plan's, and every promise that is printed in
nats, in the JSON or on a page, is one that the plan gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

PROMISED = re.compile(r"([0-9][0-9.,]*+(?:[eE][-+]?[0-9]++)?)(?:\s|&nbsp;|</?[a-z]+>){0,4}nats\b")

NUMBER = re.compile(r"([0-9]++(?:,[0-9]{3})*+(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)")
RATIO = re.compile(r"\s?%")


def promised_numbers(text: str) -> set[Decimal]:
    """What a text says in nats."""
    found = (_number(match.group(1).replace(",", "").rstrip(".")) for match in PROMISED.finditer(text))
    return {number for number in found if number is not None}


def differing_number(found: Any, given: Any, place: str = "") -> str | None:
    """The first place where a certificate has another number than the plan gives; places that one lacks are skipped."""
    if isinstance(found, dict) and isinstance(given, dict):
        pairs: Iterator[tuple[Any, Any, Any]] = ((key, found[key], given[key]) for key in found if key in given)
    elif isinstance(found, list) and isinstance(given, list):
        pairs = ((index, *pair) for index, pair in enumerate(zip(found, given, strict=False)))
    else:
        numbers = [_number(value) for value in (found, given)]
        return place if None not in numbers and numbers[0] != numbers[1] else None
    steps = (differing_number(one, other, f"{place}.{key}".lstrip(".")) for key, one, other in pairs)
    return next((step for step in steps if step is not None), None)


def same_text(found: str, given: str, slack: float) -> bool:
    """Whether two texts are the same but for numbers that are off by a part `slack` at most, and by their rounding.

    A number that is the whole text was not rounded for a reader; percents are of 100 and what they say more.
    """
    if found == given:
        return True
    alone = [float(number) for number in map(_number, (found, given)) if number is not None]
    if len(alone) == 2:
        return min(map(abs, alone)) > 0 and math.isfinite(max(alone)) and math.isclose(*alone, rel_tol=slack)
    pieces = [NUMBER.split(text) for text in (found, given)]
    if len(pieces[0]) != len(pieces[1]):
        return False
    for index, (left, right) in enumerate(zip(*pieces, strict=True)):
        if left == right:
            continue
        if index % 2 == 0 or not _same_printed(left, right, slack, RATIO.match(pieces[0][index + 1]) is not None):
            return False
    return True


def _same_printed(left: str, right: str, slack: float, percent: bool) -> bool:
    numbers = [float(text.replace(",", "")) for text in (left, right)]
    if not all(map(math.isfinite, numbers)):
        return False
    rounding = max(map(_last_place, (left, right)))
    whole = max(numbers) + (100.0 if percent else 0.0)
    return abs(numbers[0] - numbers[1]) <= slack * whole + rounding * (1 + 1e-9)


def _last_place(text: str) -> float:
    """What the last digit of a printed number counts, where it was rounded: behind a point, to two digits or more."""
    digits = text.split("e")[0].split("E")[0]
    if "." not in digits or len(digits.replace(".", "").lstrip("0")) < 2:
        return 0.0
    exponent = Decimal(text.replace(",", "")).as_tuple().exponent
    return 10.0**exponent if isinstance(exponent, int) else 0.0


def _number(value: Any) -> Decimal | None:
    """The number that a value is, or that a text is and nothing else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = Decimal(str(value).replace(",", ""))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
