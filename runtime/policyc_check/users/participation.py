"""How often, and how densely, one user takes part in a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Participation:
    """What bounds one user's part in a stream.

    Args:
        participation_bound: steps a user takes part in at most, >= 1.
        horizon: steps of the stream, >= 1; None when it has no end.
        spacing: steps between the starts of two participations at least, >= 1; 1 says nothing.
        window: steps in a row in which neighbors differ at most, >= the bound; None where they differ anywhere.
    """

    participation_bound: int
    horizon: int | None = None
    spacing: int = 1
    window: int | None = None

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
    def steps_of_two(self) -> int:
        """Steps in which at least one of two users takes part, at most."""
        m, T, b = self.steps, self.window or self.horizon, self.spacing
        if T is None:
            return 2 * m
        if b == 1:
            return min(2 * m, T)
        return 2 * m if (m - 1) * b + 2 <= T else 2 * m - 1  # with no room the second user has one place less
