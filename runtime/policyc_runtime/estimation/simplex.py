"""The search of Nelder and Mead (1965) in few unknowns, bit by bit as scipy has it: scipy is long to import."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LARGER, SMALLEST = 1.05, 0.00025  # the first simplex: one coordinate after the other larger by this factor, 0 this


class _Enough(Exception):  # noqa: N818  no error
    """As many values as may be asked for are."""


def least_by_simplex(
    cost: Callable[[Array], float], begin: Array, width: float, drop: float, most: int
) -> tuple[Array, float]:
    """A point near `begin` whose cost no step makes less, (n,), and this cost.

    Args:
        cost: of a point; inf where it may not be.
        begin: (n,), n >= 1.
        width: the search ends where no corner of the simplex is further from the best in any coordinate,
        drop: and none costs so much more.
        most: how often the cost is asked for, at most; > n.
    """
    asked = 0

    def at(point: Array) -> float:
        nonlocal asked
        if asked >= most:
            raise _Enough
        asked += 1
        return cost(point.copy())

    corners = np.tile(begin, (begin.size + 1, 1))
    unknown = np.arange(begin.size)
    corners[unknown + 1, unknown] = np.where(begin != 0, LARGER * begin, SMALLEST)
    costs = np.array([at(corner) for corner in corners])
    while True:
        order = np.argsort(costs)
        corners, costs = corners[order], costs[order]
        near = np.abs(corners[1:] - corners[0]).max() <= width and np.abs(costs[0] - costs[1:]).max() <= drop
        if near or asked >= most:
            return corners[0], float(costs[0])
        with suppress(_Enough):
            _moved(corners, costs, at)


def _moved(corners: Array, costs: Array, at: Callable[[Array], float]) -> None:
    """Move the last corner through the middle of the others, or all towards the first, in place."""
    middle = np.add.reduce(corners[:-1], 0) / (len(corners) - 1)
    last = corners[-1]
    through = 2 * middle - last
    there = at(through)
    if there < costs[0]:
        further = 3 * middle - 2 * last
        beyond = at(further)
        corners[-1], costs[-1] = (further, beyond) if beyond < there else (through, there)
        return
    if there < costs[-2]:
        corners[-1], costs[-1] = through, there
        return
    if there < costs[-1]:
        nearer = 1.5 * middle - 0.5 * last
        less = (between := at(nearer)) <= there
    else:
        nearer = 0.5 * middle + 0.5 * last
        less = (between := at(nearer)) < costs[-1]
    if less:
        corners[-1], costs[-1] = nearer, between
        return
    for index in range(1, len(corners)):
        corners[index] = corners[0] + 0.5 * (corners[index] - corners[0])
        costs[index] = at(corners[index])
