"""What the noise of one release has to hide, and how it is published: all that a stream mechanism may depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from policyc_check.runs import Whole
from policyc_check.users.participation import Participation
from policyc_check.users.strategies import largest_sum


@dataclass(frozen=True)
class Moves:
    """How far neighbors differ at most in what is measured, all numbers of all cells together.

    `alike`: where each number that differs is a value of the series: how many there are, and by how much at most.
    """

    l2_square: int  # L2 squared, in squared units
    l1: int | None = None  # L1, in units; None where nobody asks for it
    alike: tuple[int, int] | None = None

    @classmethod
    def of_values(cls, changes: int, shift: int) -> Moves:
        """Of so many values that differ by so much each."""
        return cls(changes * shift**2, changes * shift, (changes, shift))


@dataclass(frozen=True)
class Setting:
    """Public facts about one release under a user-level promise; values are whole numbers of units.

    Args:
        participation: in how many steps, how densely, over which horizon (None: endless) one user takes part.
        contribution: by how many units, in L1 over cells, one user moves the values of a step at most, >= 1. A count
            has per_step; a clamped sum per_step times the largest clamped size in units of its grid.
        replaced: neighbors replace one user by another; else they add or remove one.
        signed: contributions may be negative as well as positive.
        cells: values a step, >= 1.
        wait: how many later steps a value may wait for: 0, d, or None for all (offline).
        workload: what is released of the steps: themselves, their running total, or totals of `window` steps. The raw
            values that are measured are those of the steps.
        window: for `window`, how many steps.
        per_step: events of one user that count in a step, at most; None says nothing, as `contribution` bounds them.
        spread: cells of a step in each of which one user adds up to `contribution`, at most.
        period: steps in a row, or which part of a step, of periods hidden one by one, at most; None: there are none.
        aligned: whether all periods are as long, and the first begins at step 0.
        touched: periods in which one neighbor takes part, at most.
    """

    participation: Participation
    contribution: int = 1
    replaced: bool = False
    signed: bool = False
    cells: int = 1
    wait: int | None = 0
    workload: Literal["identity", "prefix", "window"] = "identity"
    window: int | None = None
    per_step: int | None = None
    spread: int = 1
    period: Fraction | None = None
    aligned: bool = True
    touched: int = 1

    @property
    def horizon(self) -> int | None:
        """Steps of the stream; None when endless."""
        return self.participation.horizon

    @property
    def changes(self) -> int:
        """How many raw values of the series differ between neighbors at most, each by `shift`.

        With signs the worst two users share all of their steps; else they share as few as the horizon leaves them, as
        in a shared step no more than all cells can differ.
        """
        steps, all_steps = self.participation.steps, self.participation.steps_of_two
        if not self.replaced or self.signed:
            return steps * self.spread
        return (2 * steps - all_steps) * min(2 * self.spread, self.cells) + 2 * (all_steps - steps) * self.spread

    @property
    def shift(self) -> int:
        """By how many units each of the `changes` differs at most."""
        return self.contribution * (2 if self.replaced and self.signed else 1)

    @property
    def earliest_changes(self) -> list[int]:
        """The steps of the `changes`, as early as they can be: the worst for noise that grows from step to step."""
        k, spacing = self.participation.steps, self.participation.spacing
        first = [spacing * n for n in range(k)]
        if not self.replaced or self.signed or self.cells > 1:  # of two, in different cells of the same steps
            return sorted(first * self.spread * (2 if self.replaced and not self.signed else 1))
        if spacing == 1:
            return list(range(self.changes))
        return sorted(first + [step + 1 for step in first[: self.changes - k]])

    def moved_square(self, square: Callable[[Participation], int]) -> int:
        """How far one neighbor moves linear combinations of the raw series at most, L2 squared, in units squared.

        `square` is the same for one user added or removed who adds at most 1 to a step, all coefficients being >= 0.
        """
        # a cross term >= 0 only helps; each pair of steps is shared by at most `spread` cells
        return self._of_two(square, 4 if self.signed else 2) * self.spread * self.contribution**2

    def moved_l1(self, columns: Whole) -> int:
        """How far one neighbor moves linear combinations of the raw series at most, L1, in units.

        Cells do not mix, so what a step moves is at most its column's L1 norm times what it changes by in L1, however
        that is spread over cells. `columns` are their L1 norms, whole numbers >= 0, (horizon,); of an endless stream,
        all there are.
        """
        return self._of_two(lambda part: largest_sum(columns, part), 2) * self.spread * self.contribution

    def _of_two(self, of_one: Callable[[Participation], int], most: int) -> int:
        """What neighbors move at most, where one user moves so much, and two at most so many times as much."""
        moved = of_one(self.participation)
        if not self.replaced:
            return moved
        if self.cells > 1 or self.signed:
            return most * moved
        return min(most * moved, of_one(Participation(self.changes, self.horizon)))  # the steps that differ, of either

    @property
    def numbers_changed(self) -> int:
        """Over how many values of its step each of the `changes` may be spread: its parts add up to `shift` at most."""
        places = min(self.per_step or self.contribution, self.cells)
        return places * 2 if self.replaced and self.signed else places
