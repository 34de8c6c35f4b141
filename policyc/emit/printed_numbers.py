"""The numbers of a certificate, where its words are those of another version and cannot be rendered again.

Whatever the words: a number that stands alone in certificate.json is the plan's, and every promise that is printed in
nats, in the JSON or on a page, is one that the plan gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

PROMISED = re.compile(r"([0-9][0-9.,]*+(?:[eE][-+]?[0-9]++)?)(?:\s|&nbsp;|</?[a-z]+>){0,4}nats\b")


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


def _number(value: Any) -> Decimal | None:
    """The number that a value is, or that a text is and nothing else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = Decimal(str(value).replace(",", ""))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
