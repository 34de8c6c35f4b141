"""The linear mechanism: independent whole-number noise on A x, x the protected series of whole numbers.

A **strategy** is A: rows over steps, in whole units of a grid. Every cell has the same A, and cells do not mix. A
**law** is that of the noise on each number. What all numbers tell about one user follows from how far one user moves
them, and from the law: the same for every linear mechanism, however its values are made of the numbers afterwards.

`tests/check/test_strategies.py` holds what a strategy says against every user of small streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import PositiveDecimal
from policyc_check.runs import Whole
from policyc_check.users.noise import DiscreteGaussian, Law
from policyc_check.users.participation import Participation
from policyc_check.users.setting import Moves, Setting

Numbers = tuple[Whole, Whole]


class Strategy(ABC):
    """A: what is measured of a series; coefficients that may be negative belong to a strategy that says so."""

    @abstractmethod
    def measured(self, raw: Whole, first: int) -> Numbers:
        """A x, without noise, of the whole numbers x, (steps, cells), of the steps from `first` on.

        (numbers, cells), step by step, and how many of them each step has, (steps - first,).
        """

    @abstractmethod
    def moves(self, setting: Setting) -> Moves:
        """How far one neighbor moves A x at most, never too small."""


class Identity(Strategy):
    """The series itself."""

    def measured(self, raw: Whole, first: int) -> Numbers:
        """The values of the steps."""
        return raw[first:], np.ones(len(raw) - first, dtype=np.int64)

    def moves(self, setting: Setting) -> Moves:
        """Each of the values that differ, by as much as one user adds to a step."""
        return Moves.of_values(setting.changes, setting.shift)


class NonNegative(Strategy):
    """Coefficients that are none below 0, so that parts of one user only add up."""

    @abstractmethod
    def l2_square(self, participation: Participation) -> int:
        """At most |A d|^2 of one user who adds at most 1 to each step taken part in, in squared units of the grid."""

    def moves(self, setting: Setting) -> Moves:
        """As far as users who add to each other."""
        return Moves(setting.moved_square(self.l2_square))


class LinearMechanism(StreamMechanism):
    """Independent noise of one law on what a strategy measures: the values themselves, unless it says otherwise."""

    grid: ClassVar[int] = 1  # units of the strategy to one unit of the raw values

    def strategy(self, setting: Setting) -> Strategy:  # noqa: ARG002
        """What is measured, here."""
        return Identity()

    @property
    @abstractmethod
    def law(self) -> Law:
        """Of the noise on each number, in units of the grid."""

    def noises(self, setting: Setting) -> list[tuple[Law, Moves]]:
        """The law, for what one user moves."""
        return [(self.law, self.strategy(setting).moves(setting))]


class GridMechanism(LinearMechanism):
    """With noise that is wide on its grid.

    On so fine a grid any change of the numbers is hidden as well as by continuous noise, to a part in a million,
    whatever its direction: one L2 sensitivity is all that privacy asks.
    """

    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"

    @property
    def law(self) -> Law:
        """Discrete Gaussian noise of so many units of the grid."""
        return DiscreteGaussian(Fraction(self.stddev * self.grid) ** 2)
