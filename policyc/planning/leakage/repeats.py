"""Values of a stream's steps that repeat: where, with which period, and as patterns that follow each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.inexact]

FEW_STEPS = 64  # up to which every period is tried; longer ones where a value comes again
TIES = 4  # times the largest value of a longer period may come in it
SHORTEST_STRETCH = 64  # steps that are worth it


def stretches(budgets: Values) -> list[tuple[int, int]]:
    """(end, period) of stretches that cover all steps, in order; inside one, budgets are those one period earlier.

    Period 0 where budgets do not repeat for long.
    """
    horizon = len(budgets)
    found: list[tuple[int, int, int]] = []

    def look(period: int, parts: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Add what repeats with this period in some parts; what is left of them."""
        left = []
        for begin, end in parts:
            again = _repeating(budgets, begin, end, period)
            found.extend((start, stop, period) for start, stop in again)
            ends = [begin, *(place for pair in again for place in pair), end]
            left += [gap for gap in zip(ends[::2], ends[1::2], strict=True) if gap[0] < gap[1]]
        return left

    longer, free = [(0, horizon)], list[tuple[int, int]]()
    while longer:  # first, as values between two of a long period may be alike
        part = longer.pop()
        period = _long_period(budgets, *part)
        left = look(period, [part]) if period else [part]
        if left == [part]:
            free.append(part)
        else:
            longer += left
    for period in range(1, min(FEW_STEPS, horizon // SHORTEST_STRETCH) + 1):
        free = look(period, free)
        if sum(end - begin for begin, end in free) < SHORTEST_STRETCH:
            break
    stretches, covered = [], 0
    for start, end, period in sorted(found):
        stretches += [(start, 0), (end, period)] if start > covered else [(end, period)]
        covered = end
    return [*stretches, (horizon, 0)] if covered < horizon else stretches


def _repeating(budgets: Values, begin: int, end: int, period: int) -> list[tuple[int, int]]:
    """(start, end) of stretches between two steps in which budgets are, for long, those one period earlier."""
    least, first = max(SHORTEST_STRETCH, 8 * period), max(begin, period)
    if end - first < least:
        return []
    step = SHORTEST_STRETCH // 2  # a stretch has two of these in a row
    seen = budgets[first:end:step] == budgets[first - period : end - period : step]
    some = first + step * np.flatnonzero(seen[1:] & seen[:-1])
    for later in (1, 2, 3, 4, 8, 16):  # of all that lies between the two, before it is looked at as a whole
        some = some[budgets[some + later] == budgets[some + (later - period)]]
    if not len(some):
        return []
    same = budgets[first:end] == budgets[first - period : end - period]
    turns = np.concatenate([[first - 1], first + np.flatnonzero(~same), [end]])
    at = np.flatnonzero(np.diff(turns) > least)
    return [(start + 1, stop) for start, stop in zip(turns[at].tolist(), turns[at + 1].tolist(), strict=True)]


def _long_period(budgets: Values, begin: int, end: int) -> int:
    """The period of more than a few steps that a part may have, or 0: how far its largest value is from itself."""
    third = (end - begin) // 3
    if end - begin < 8 * FEW_STEPS:
        return 0
    top = begin + third + int(np.argmax(budgets[begin + third : end - third]))
    if np.count_nonzero(budgets[top + 1 : top + 1 + FEW_STEPS] == budgets[top]) >= TIES:
        return 0
    for period in (np.flatnonzero(budgets[top + 1 : end] == budgets[top])[:TIES] + 1).tolist():
        first, last = max(begin, top - 4 * period), min(end, top + 4 * period)
        if np.array_equal(budgets[first : last - period], budgets[first + period : last]):
            return period if period > FEW_STEPS else 0
    return 0


def patterns(values: Values) -> Iterator[tuple[int, int]]:
    """The same as patterns that follow each other: how many steps each has, and how often it comes in a row."""
    start = 0
    for end, period in stretches(values):
        length = period or end - start
        rounds, rest = divmod(end - start, length)
        yield from ((size, repeats) for size, repeats in ((length, rounds), (rest, 1)) if size and repeats)
        start = end
