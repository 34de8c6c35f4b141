"""How far one user can move a series, given how often and how densely a user takes part.

A user takes part in at most `steps` steps, any two of them at least `spacing` apart. Adding or removing the user
changes the value (or histogram) of such a step by at most `presence` in L2 norm. Replacing one user by another changes
steps of two users: by `presence` where one of them takes part, by `exchange` where both do. A count of one cell has
presence = exchange = c, as counts 0..c differ by at most c; a histogram has exchange = c sqrt(2); a sum clamped to
lo..hi has hi - lo, which can be twice the presence. So the worst pair of users either coincides as much as possible or
as little as possible, and nothing between: the squared sensitivity is linear in the number of shared steps.
"""

from __future__ import annotations

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
