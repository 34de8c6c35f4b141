"""JSON that somebody may have written by hand: read in one way only, and refused before it takes time or memory.

Two readers of a file must see the same: a key that is given twice has a value for either of them. Numbers that no
JSON has (NaN, Infinity) and texts that nest without end are refused too.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from policyc_check.files import MOST_VALUES

LONGEST_NUMBER = 4000  # digits


def read_json(content: bytes | str) -> Any:
    """The value that a text stands for.

    Raises:
        ValueError: it is not UTF-8, not JSON, or JSON that can be read in two ways; says what is wrong, in few words.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_int=_whole, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("its brackets nest too deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: line {error.lineno}, column {error.colno}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:40]!a} is given twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number has more than {LONGEST_NUMBER:,} digits")
    return int(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")
