"""Each step mixes a prediction from what was published before with a noisy part of the truth (ZKL22, Algorithm 2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from policyc_check.mechanisms.mechanism import StreamMechanism
from policyc_check.records import LARGEST_WHOLE, Opaque, PositiveDecimal
from policyc_check.users.profile import PrivacyProfile

if TYPE_CHECKING:
    from policyc_check.users.setting import Setting


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

    What differs from the source: the noise is that of the exact curve for the squared weights of the steps in which one
    user takes part, the first two counted with weight 1 (Theorem 5.1 takes 1.06 to 1.56 times as much); weights are
    public, as a secret weight earns no credit; errors are not predicted by Theorem 6.1, which is false for w < 1. Under
    binomial noise a whole number that one user moves by c moves by ceil(w c) of the grid, not by w c as in Theorem A.5,
    which is unsound, and several numbers by more than one as far; the loss is that of the coins, composed exactly.

    Source: ZKL22, BW18, DKMMN06
    """

    name: Literal["lmmse"] = "lmmse"
    stddev: PositiveDecimal
    weight: Share
    decay: Share
    grid: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
    signal: Opaque
    noise: Literal["gaussian", "binomial"] = "gaussian"
    sampler: Literal["discrete"] = "discrete"

    @model_validator(mode="after")
    def _noise_is_wide(self) -> Self:
        if self.stddev * self.grid < 3:
            raise ValueError("the noise is too small for its grid")
        return self

    @property
    def half(self) -> int:
        """Half of the number of coins whose heads have this deviation, in units of the grid, rounded up."""
        return math.ceil(2 * Fraction(self.stddev * self.grid) ** 2)

    def described(self) -> str:
        """With its weight, and how it falls."""
        falling = "" if self.decay == 1 else f", falling by {self.decay} a step"
        noise = "" if self.noise == "gaussian" else f", {self.noise} noise"
        return f"lmmse(weight {self.weight}{falling}{noise})"

    def weight_at(self, step: int) -> Decimal:
        """How much of the truth counts in step 0, 1, ...; in the long run of a falling weight nothing."""
        if step < PLAIN:
            return Decimal(1)
        context = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)
        weight = self.weight if self.decay == 1 else context.multiply(self.weight, context.power(self.decay, step))
        return weight if weight >= LEAST_WEIGHT else Decimal(0)

    def l2_square(self, setting: Setting) -> Fraction:
        """How far one user moves all w_t z_t, in units, squared: worst is to take part as early as can be.

        Rounded weights that fall may rise by a last digit.
        """
        squares = (weight**2 * times for weight, times in Counter(self._weights_met(setting)).items())
        return setting.shift**2 * sum(squares, Fraction(0))

    def _weights_met(self, setting: Setting) -> Iterator[Fraction]:
        """Those of the values that one user changes, as early as can be; rounded up where rounded ones could rise."""
        rises = Fraction(1) if self.decay == 1 else ROUNDED
        steps = Counter(min(step, PLAIN) if self.decay == 1 else step for step in setting.earliest_changes)
        for step, times in steps.items():
            weight = Fraction(self.weight_at(step))
            yield from [min(weight * rises, Fraction(1)) if step >= PLAIN else weight] * times

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The curve of the noise for what one user moves, an upper bound.

        Of Gaussian noise it takes that of the first steps, relative to its grid the coarsest, for that of all.
        """
        from policyc_check.users.noise import Coins, DiscreteGaussian
        from policyc_check.users.setting import Moves

        if self.noise == "binomial":
            moves = Counter(self._steps_moved(w, setting) for w in self._weights_met(setting) if w > 0)
            profiles = [Coins(self.half).alike(changes, shift) for shift, changes in sorted(moves.items())]
            return reduce(PrivacyProfile.compose, profiles)
        moved = math.ceil(self.l2_square(setting) * self.grid**2)
        return DiscreteGaussian(Fraction(self.stddev * self.grid) ** 2).any_way(Moves(moved, 0))

    def _steps_moved(self, weight: Fraction, setting: Setting) -> int:
        """By how many steps of the grid one change moves weighted values that are rounded to it, at most, L1.

        Each of the values that it is spread over moves by a whole number of its own: ceil(w c_i grid), which add up to
        at most ceil(w c grid) + n - 1. What moves several values is hidden at least as well as what moves one as far.
        """
        part = weight * self.grid
        together = math.ceil(part * setting.shift) + setting.numbers_changed - 1
        return min(together, math.ceil(part) * setting.shift)
