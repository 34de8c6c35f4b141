"""Each step mixes a prediction from what was published before with a noisy part of the truth (ZKL22, Algorithm 2)."""

from __future__ import annotations

import math
from collections import Counter
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import LARGEST_WHOLE, Opaque, PositiveDecimal
from policyc_check.users.noise import Coins, DiscreteGaussian, Law
from policyc_check.users.setting import Moves, Setting

PLAIN = 2  # first steps, published as they are measured: a prediction needs two values
LEAST_WEIGHT = Decimal(2) ** -13  # below, noise on the grid would not fit 64 bits: nothing is measured any more
DIGITS = 12  # of a falling weight, the same on every machine
ROUNDED = 1 + Fraction(10) ** (3 - DIGITS)  # more than two such roundings
Share = Annotated[Decimal, Field(gt=0, le=1)]


class Lmmse(StreamMechanism):
    """Publishes x_t = (1 - w_t) prediction(x_(t-1)) + w_t z_t + noise, with noise of one stddev at every step.

    The first two steps have w = 1, later ones w_t = weight decay^(t-1), t = 1, 2, ...; with decay 1 it is constant. The
    prediction is the linear least-squares one of an AR(1) process, declared, or learned from what was published.
    Recorded is z_t + noise / w_t, on a fine grid: the plain Gaussian release at these noise levels, of which x is a
    causal filter. With binomial noise, heads of fair coins less their mean, w_t z_t + noise is recorded, w_t z_t being
    rounded to the grid first.
    """

    name: Literal["lmmse"] = "lmmse"
    stddev: PositiveDecimal
    weight: Share
    decay: Share
    grid: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
    signal: Opaque
    noise: Literal["gaussian", "binomial"] = "gaussian"
    sampler: Literal["discrete"] = "discrete"

    @property
    def half(self) -> int:
        """Half of the number of coins whose heads have this deviation, in units of the grid, rounded up."""
        return math.ceil(2 * Fraction(self.stddev * self.grid) ** 2)

    def weight_at(self, step: int) -> Decimal:
        """How much of the truth counts in step 0, 1, ...; in the long run of a falling weight nothing."""
        if step < PLAIN:
            return Decimal(1)
        context = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)
        weight = self.weight if self.decay == 1 else context.multiply(self.weight, context.power(self.decay, step))
        return weight if weight >= LEAST_WEIGHT else Decimal(0)

    def _weights_met(self, setting: Setting) -> Counter[Fraction]:
        """Those of the values that one user changes, and how often each: worst is to take part as early as can be.

        Rounded weights that fall may rise by a last digit; they are rounded up by more than that.
        """
        rises = Fraction(1) if self.decay == 1 else ROUNDED
        met: Counter[Fraction] = Counter()
        for step, times in Counter(min(t, PLAIN) if self.decay == 1 else t for t in setting.earliest_changes).items():
            weight = Fraction(self.weight_at(step))
            met[min(weight * rises, Fraction(1)) if step >= PLAIN else weight] += times
        return met

    def l2_square(self, setting: Setting) -> Fraction:
        """How far one user moves all w_t z_t, in units, squared."""
        squares = (weight**2 * times for weight, times in self._weights_met(setting).items())
        return setting.shift**2 * sum(squares, Fraction(0))

    def noises(self, setting: Setting) -> list[tuple[Law, Moves]]:
        """Gaussian noise of the deviation over the weight, told as that of weight 1 on its grid; or coins."""
        if self.noise == "gaussian":
            moved = math.ceil(self.l2_square(setting) * self.grid**2)
            return [(DiscreteGaussian(Fraction(self.stddev * self.grid) ** 2), Moves(moved))]
        moves: Counter[int] = Counter()
        for weight, times in self._weights_met(setting).items():
            if weight > 0:
                moves[self._steps_moved(weight, setting)] += times
        return [(Coins(self.half), Moves.of_values(changes, shift)) for shift, changes in sorted(moves.items())]

    def _steps_moved(self, weight: Fraction, setting: Setting) -> int:
        """By how many steps of the grid one change moves weighted values that are rounded to it, at most, L1.

        Each of the values that it is spread over moves by a whole number of its own: ceil(w c_i grid), not w c_i grid
        as in Theorem A.5, which is unsound; they add up to at most ceil(w c grid) + n - 1. What moves several values is
        hidden at least as well as what moves one as far.
        """
        part = weight * self.grid
        together = math.ceil(part * setting.shift) + setting.numbers_changed - 1
        return min(together, math.ceil(part) * setting.shift)
