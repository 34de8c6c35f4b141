"""The search of Nelder and Mead (1965) in few unknowns, for many costs at once: each by itself, as scipy has it.

Of thousands of series with few values each, what a search takes is the calls, not the arithmetic: so all are moved
together, and each ends by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Indices = NDArray[np.intp]

LARGER, SMALLEST = 1.05, 0.00025  # the first simplex: one coordinate after the other larger by this factor, 0 this


def least_by_simplex(
    costs: Callable[[Array, Indices], Array], begin: Array, width: float, drop: float, most: int
) -> tuple[Array, Array]:
    """Points near `begin` whose costs no step makes less, (searches, n), and these costs, (searches,).

    Args:
        costs: of points (k, n), each of the search that is named, (k,); finite.
        begin: (searches, n), n >= 1.
        width: a search ends where no corner of its simplex is further from the best in any coordinate,
        drop: and none costs so much more.
        most: or where the cost was asked for so often.
    """
    searches, unknowns = begin.shape
    corners = np.repeat(begin[:, None, :], unknowns + 1, axis=1)
    place = np.arange(unknowns)
    corners[:, place + 1, place] = np.where(begin != 0, LARGER * begin, SMALLEST)
    every = np.repeat(np.arange(searches), unknowns + 1)
    found = costs(corners.reshape(-1, unknowns), every).reshape(searches, unknowns + 1)
    asked = np.full(searches, unknowns + 1)
    going = np.arange(searches)
    while True:
        order = np.argsort(found, axis=1, kind="stable")
        found = np.take_along_axis(found, order, axis=1)
        corners = np.take_along_axis(corners, order[:, :, None], axis=1)
        near = np.abs(corners[going, 1:] - corners[going, :1]).max(axis=(1, 2)) <= width
        near &= np.abs(found[going, :1] - found[going, 1:]).max(axis=1) <= drop
        going = going[~near & (asked[going] < most)]
        if not going.size:
            return corners[:, 0], found[:, 0]
        _move(corners, found, asked, going, costs)


def _move(
    corners: Array, found: Array, asked: Indices, going: Indices, costs: Callable[[Array, Indices], Array]
) -> None:
    """Move the last corner of each simplex through the middle of the others, or all towards the first, in place."""
    middle = np.add.reduce(corners[going, :-1], axis=1) / (corners.shape[1] - 1)
    last = corners[going, -1]
    through = 2 * middle - last
    there = costs(through, going)
    best, worse, worst = found[going, 0], found[going, -2], found[going, -1]
    far, outside = there < best, (worse <= there) & (there < worst)
    inside = ~far & (there >= worse) & ~outside
    second = np.where(far[:, None], 3 * middle - 2 * last, np.where(outside[:, None], 1.5 * middle - 0.5 * last,
                                                                    0.5 * middle + 0.5 * last))  # fmt: skip
    again = np.flatnonzero(far | outside | inside)
    between = np.full(going.size, np.inf)
    if again.size:
        between[again] = costs(second[again], going[again])
    asked[going] += 1
    asked[going[again]] += 1
    better = (far & (between < there)) | (outside & (between <= there)) | (inside & (between < worst))
    kept = better | far | (there < worse)
    chosen = np.flatnonzero(kept)
    corners[going[chosen], -1] = np.where(better[chosen, None], second[chosen], through[chosen])
    found[going[chosen], -1] = np.where(better[chosen], between[chosen], there[chosen])
    left = going[~kept]
    if left.size:
        corners[left, 1:] = corners[left, :1] + 0.5 * (corners[left, 1:] - corners[left, :1])
        count = corners.shape[1] - 1
        points = corners[left, 1:].reshape(-1, corners.shape[2])
        found[left, 1:] = costs(points, np.repeat(left, count)).reshape(-1, count)
        asked[left] += count
