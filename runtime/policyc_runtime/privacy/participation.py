"""How far one user can move a series, given how often and how densely a user takes part.

A user takes part in at most `steps` steps, any two of them at least `spacing` apart. Adding or removing the user
changes the value (or histogram) of such a step by at most `presence` in L2 norm. Replacing one user by another changes
steps of two users: by `presence` where one of them takes part, by `exchange` where both do. A count of one cell has
presence = exchange = c, as counts 0..c differ by at most c; a histogram has exchange = c sqrt(2); a sum clamped to
lo..hi has hi - lo, which can be twice the presence. So the worst pair of users either coincides as much as possible or
as little as possible, and nothing between: the squared sensitivity is linear in the number of shared steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Participation:
    """What bounds one user's part in a stream.

    Args:
        participation_bound: steps a user takes part in at most, >= 1.
        horizon: steps of the stream, >= 1; None when it has no end.
        spacing: steps between the starts of two participations at least, >= 1; 1 says nothing.
    """

    participation_bound: int
    horizon: int | None = None
    spacing: int = 1

    def __post_init__(self) -> None:
        if min(self.participation_bound, self.spacing, 1 if self.horizon is None else self.horizon) < 1:
            raise ValueError("participation bound, horizon and spacing are at least 1")

    @property
    def steps(self) -> int:
        """Steps in which one user can take part at most: the bound, or what fits into the horizon."""
        if self.horizon is None:
            return self.participation_bound
        return min(self.participation_bound, -(-self.horizon // self.spacing))

    @property
    def changed_by_two(self) -> int:
        """Steps in which at least one of two users takes part, at most."""
        m, T, b = self.steps, self.horizon, self.spacing
        if T is None:
            return 2 * m
        if b == 1:
            return min(2 * m, T)
        return 2 * m if (m - 1) * b + 2 <= T else 2 * m - 1  # with no room the second user has one place less


def l2_sensitivity(participation: Participation, presence: float, exchange: float | None = None) -> float:
    """L2 sensitivity of a series with one value (or histogram) a step, rounded up.

    Args:
        participation: how often a user takes part.
        presence: L2 norm by which one user's taking part changes a step at most, >= 0.
        exchange: for neighbors that replace one user: L2 norm by which a step changes at most when another user takes
            part in the first one's place. None: neighbors add or remove one user.

    Returns:
        presence sqrt(k) when users are added or removed; presence sqrt(2k) when replaced, if the horizon has room for
        both users and sharing steps is not worse.
    """
    return _root_up(_largest(participation, presence**2, None if exchange is None else exchange**2))


def l1_sensitivity(participation: Participation, presence: float, exchange: float | None = None) -> float:
    """L1 sensitivity of a series, with `presence` and `exchange` in L1 norm; see `l2_sensitivity`.

    Counts by cell have presence c and exchange 2c; a count of one cell c and c.
    """
    return _largest(participation, presence, exchange)


def changed_counts(participation: Participation, *, replaced: bool, by_cell: bool) -> int:
    """How many counts of a stream differ between neighbors at most; each differs by at most the bound per step.

    Args:
        participation: how often a user takes part.
        replaced: neighbors replace one user; else they add or remove one.
        by_cell: a step has one count a cell, and a user may be in different cells at different steps.
    """
    if not replaced:
        return participation.steps
    return 2 * participation.steps if by_cell else participation.changed_by_two


def _largest(participation: Participation, presence: float, exchange: float | None) -> float:
    """The largest sum of per-step changes over all pairs of neighbors."""
    m = participation.steps
    if exchange is None:
        return m * presence
    apart = participation.changed_by_two
    shared = 2 * m - apart if participation.spacing == 1 else 0
    return max(m * exchange, shared * exchange + (apart - shared) * presence)


def _root_up(square: float) -> float:
    """The square root of a product of few roundings, rounded up past them; whole roots stay whole."""
    root = math.sqrt(square)
    return root if root.is_integer() and root * root == square else math.nextafter(root * (1 + 2**-51), math.inf)
