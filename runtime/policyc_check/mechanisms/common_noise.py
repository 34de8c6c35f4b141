"""Noise of every value's own, and a draw that all values have in common, which stands in for the number of users.

With n users, what is thought of as measured are the values less a part of n each, and n itself: y = x - p n + z and
n + eta. Published is y + p (n + eta) = x + z + p eta, in which n cancels: it is never counted. One user added to the
stream raises the values where it takes part and lowers all others, so that it moves y less than x; what it moves n by
is hidden by eta, once. Under replaced users n stays, and nothing is gained. Where periods of a user are hidden one by
one, each block of so many steps has its own n, of users of whom a period touches it, and its own eta.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from policyc_check.mechanisms.linear import GridMechanism, Numbers, Strategy
from policyc_check.records import UNSAID, PositiveDecimal, Steps
from policyc_check.runs import Whole
from policyc_check.users.noise import DiscreteGaussian, Law
from policyc_check.users.setting import Moves, Setting

GRID = 2**16  # of the values, to a unit
FINE = 2**6  # of eta, to a user
PARTS = GRID // FINE  # of p, to 1: whole numbers of all three grids then fit each other


@dataclass(frozen=True)
class LessUsers(Strategy):
    """x - p n, in units of the grid, of which x alone is measured in a run: n cancels in what is published.

    Args:
        part: p, in 1 / PARTS of what one user adds to a step at most, 0 to PARTS / 2.
        steps: of a block, from step 0 on, for an n of each; None for one of all steps.
    """

    part: int
    steps: int | None = None

    def draws(self, setting: Setting) -> int:
        """In how many of these n one user counts, each moved by 1; s steps in a row touch so many blocks at most."""
        if self.steps is None or (setting.aligned and self.steps == setting.period):
            return setting.touched if self.steps else 1
        return setting.touched * (1 - (1 - int(setting.period or 1)) // self.steps)

    def measured(self, raw: Whole, first: int) -> Numbers:
        """The values of the steps, on the grid."""
        return raw[first:] * GRID, np.ones(len(raw) - first, dtype=np.int64)

    def moves(self, setting: Setting) -> Moves:
        """The L2 norm of x - p n of one user.

        A step that adds d >= 0 to the values, c in all at most, changes its part of the square from m q^2 to at most
        m q^2 + d^2 - 2 q d, q = p c, which is convex in d and largest at d = 0 or, as 2 q <= c, at d = c: the worst
        user adds c in as many steps as it may, in as many cells where each has a c of its own, and nothing in all
        others: of all steps, or of the blocks that its periods touch. Where all users add d <= 0, it is the same of -x:
        what is published has as much noise on either side.
        """
        steps = setting.horizon if self.steps is None else self.steps * bool(setting.period)
        if setting.replaced or setting.signed or not steps or (setting.period or 1) < 1:
            raise ValueError("users are added or removed, add values of one sign, once a step, and there is an end")
        if not 0 <= 2 * self.part <= PARTS:
            raise ValueError("a part lies between 0 and one half")
        c, q = setting.contribution * GRID, setting.contribution * self.part * FINE
        present = setting.participation.steps * setting.spread * (c * c - 2 * q * c)
        return Moves(present + self.draws(setting) * steps * setting.cells * q * q)


class CommonNoise(GridMechanism):
    """Publishes x + z + p eta, z being noise of every value's own, eta a draw that all values of all steps share.

    In place of eta one may think of the number of users with noise: the values are less by the part p of it, so that
    one user who takes part in many steps moves them less. Both have discrete Gaussian noise, on fine grids. `stddev` is
    that of z, `common_stddev` that of eta, in users, and `part` is p, as a part of what one user adds to a step. Where
    `common_steps` are said, so many steps share an eta, and the next ones another.
    """

    name: Literal["common_noise"] = "common_noise"
    part: Annotated[Decimal, Field(ge=0, le=Decimal("0.5"), multiple_of=Decimal(1) / PARTS)]
    common_stddev: PositiveDecimal
    common_steps: Steps | None = UNSAID
    grid: ClassVar[int] = GRID

    def strategy(self, setting: Setting) -> LessUsers:  # noqa: ARG002
        """Values less a part of the number of users."""
        return LessUsers(self.parts, self.common_steps)

    @property
    def parts(self) -> int:
        """p, in 1 / PARTS."""
        return int(self.part * PARTS)

    @property
    def common_law(self) -> DiscreteGaussian:
        """Of eta, in 1 / FINE of a user."""
        return DiscreteGaussian(Fraction(self.common_stddev * FINE) ** 2)

    def noises(self, setting: Setting) -> list[tuple[Law, Moves]]:
        """Of x - p n under z, and of every n under eta: both are told at most."""
        return [*super().noises(setting), (self.common_law, Moves(self.strategy(setting).draws(setting) * FINE**2))]
