"""Values of a stream's steps that repeat: where, with which period, and as patterns that follow each other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

LONGEST_PERIOD = 64  # of values that are looked for to repeat
SHORTEST_STRETCH = 64  # steps that are worth it


def stretches(budgets: NDArray[np.inexact]) -> list[tuple[int, int]]:
    """(end, period) of stretches that cover all steps, in order; inside one, budgets are those one period earlier.

    Period 0 where budgets do not repeat for long.
    """
    horizon, step = len(budgets), SHORTEST_STRETCH // 2  # a stretch has two of these in a row
    free = [(0, horizon)]
    found: list[tuple[int, int, int]] = []
    for period in range(1, min(LONGEST_PERIOD, horizon // SHORTEST_STRETCH) + 1):
        least, left = max(SHORTEST_STRETCH, 8 * period), []
        for begin, end in free:
            first, again = max(begin, period), []
            if end - first < least:
                left.append((begin, end))
                continue
            seen = budgets[first:end:step] == budgets[first - period : end - period : step]
            some = first + step * np.flatnonzero(seen[1:] & seen[:-1])
            for later in (1, 2, 3, 4, 8, 16):  # of all that lies between the two, before it is looked at as a whole
                some = some[budgets[some + later] == budgets[some + (later - period)]]
            if len(some):
                same = budgets[first:end] == budgets[first - period : end - period]
                turns = np.concatenate([[first - 1], first + np.flatnonzero(~same), [end]])
                at = np.flatnonzero(np.diff(turns) > least)
                again = [
                    (start + 1, stop) for start, stop in zip(turns[at].tolist(), turns[at + 1].tolist(), strict=True)
                ]
            found += [(start, stop, period) for start, stop in again]
            ends = [begin, *(place for pair in again for place in pair), end]
            left += [gap for gap in zip(ends[::2], ends[1::2], strict=True) if gap[0] < gap[1]]
        free = left
        if sum(end - begin for begin, end in free) < SHORTEST_STRETCH:
            break
    stretches, covered = [], 0
    for start, end, period in sorted(found):
        stretches += [(start, 0), (end, period)] if start > covered else [(end, period)]
        covered = end
    return [*stretches, (horizon, 0)] if covered < horizon else stretches


def patterns(values: NDArray[np.inexact]) -> Iterator[tuple[int, int]]:
    """The same as patterns that follow each other: how many steps each has, and how often it comes in a row."""
    start = 0
    for end, period in stretches(values):
        length = period or end - start
        rounds, rest = divmod(end - start, length)
        yield from ((size, repeats) for size, repeats in ((length, rounds), (rest, 1)) if size and repeats)
        start = end
