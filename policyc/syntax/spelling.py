"""Which word was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

UNITS_IN_WORDS = {
    "millisecond": "ms", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "day": "d", "week": "w",
    "wk": "w", "month": "mo", "year": "y", "yr": "y",
}  # fmt: skip
"""Units that people write out, without their s, and as a policy has them; months and years differ in length."""


def edit_distance(a: str, b: str) -> int:
    """Letters inserted, deleted, replaced or swapped with a neighbor to turn one word into another."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        before, above, row = row, before, [i]
        for j, other in enumerate(b, 1):
            cost = min(row[j - 1] + 1, before[j] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, above[j - 2] + 1)
            row.append(cost)
    return row[-1]


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate nearest to a misspelt word, or None when none is near; the first of several equally near."""
    if len(word) > 40:
        return None
    ranked = [(edit_distance(word.lower(), candidate.lower()), candidate) for candidate in candidates]
    if not ranked:
        return None
    distance, best = min(ranked, key=lambda pair: pair[0])
    return best if distance <= (1 if len(best) <= 4 else 2) else None


def respelt(word: str, candidates: Iterable[str]) -> str | None:
    """The only candidate near a misspelt word: None where none is, or where another one could be meant as well.

    Words whose digits differ are different names.

    >>> respelt("laplce", ["auto", "laplace"]), respelt("filtr", ["filter", "filtra"]), respelt("zone_10", ["zone_11"])
    ('laplace', None, None)
    """
    near = [candidate for candidate in dict.fromkeys(candidates) if nearest(word, [candidate]) is not None]
    return near[0] if len(near) == 1 and _digits(near[0]) == _digits(word) else None


def _digits(word: str) -> str:
    return "".join(letter for letter in word if letter.isdigit())
