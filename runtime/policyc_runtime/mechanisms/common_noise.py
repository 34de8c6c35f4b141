"""Noise of every value's own, and a draw that all values have in common, which stands in for the number of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import model_validator

from policyc_check.mechanisms import common_noise as checked
from policyc_check.mechanisms.common_noise import FINE
from policyc_runtime.mechanisms.linear import WIDE, GridMechanism
from policyc_runtime.mechanisms.linear import drawn as drawn_noise
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism
from policyc_runtime.mechanisms.room import require_room
from policyc_runtime.samplers import discrete_gaussian_around

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.offset import Offset
    from policyc_runtime.randomness import Randomness


MOST_BLOCKS = 64  # that a period touches, beyond which shorter ones gain hardly anything
SPARSEST = 64  # values to one that a user raises, up to which a part of 1 / PARTS still gains


def period_steps(setting: Setting) -> int | None:
    """Of how many steps periods are that are hidden one by one, at most; None where all steps are one."""
    period = setting.period
    short = period is not None and period >= 1 and (setting.horizon is None or period < setting.horizon)
    return int(period) if period is not None and short else None


def blocks(setting: Setting) -> list[int | None]:
    """After how many steps a draw may be made anew; None for never.

    Periods that are all as long have a draw each. Others begin anywhere in a block: of all lengths of which one touches
    so many at most, the least.
    """
    period = period_steps(setting)
    if period is None or setting.aligned:
        return [period]
    lengths: set[int | None] = {max(1, -(-(period - 1) // n)) for n in range(1, max(2, min(period, MOST_BLOCKS)))}
    return [*lengths, *([None] if setting.horizon is not None else [])]


def sharing(setting: Setting) -> int | None:
    """Of how many steps those are in which one user may be; None for those of a stream without end."""
    return period_steps(setting) or setting.horizon


class CommonNoise(checked.CommonNoise, GridMechanism):
    """`CommonNoise` of the check, drawn.

    The common draw is kept nowhere. A run that goes on draws it again from its law given all that was drawn before
    with it, which the protected values and the records tell, exactly: a run in pieces has the law of one run, and what
    two runs publish of the same period, or of all steps, is off by the same.

    Source: LEB24, BW18, CKS20
    """

    independent: ClassVar[bool] = False

    @model_validator(mode="after")
    def _common_noise_is_wide(self) -> Self:
        if self.common_stddev * FINE < WIDE:
            raise ValueError("the common noise is too small for its grid")
        return self

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It stands in for the number of users, which must not stay the same between neighbors."""
        if setting.replaced:
            return "neighbors replace a user, so that their number tells nothing: it needs `neighbors = add_remove`"
        if (setting.period or 1) < 1:
            return "several periods of one user lie in a step, of which each is one user here"
        if setting.signed:
            return "where contributions have both signs, nothing is gained"
        steps = sharing(setting)
        if steps is None:
            return "the stream has no end: it needs a horizon, or a promise about periods of a user: `per = 1d`"
        if setting.participation.steps * setting.spread * SPARSEST < steps * setting.cells:
            return f"a user raises fewer than 1 of {SPARSEST} values, and hardly anything is common to all"
        return StreamMechanism.reason_against.__func__(cls, setting)  # type: ignore[attr-defined,no-any-return]

    def described(self) -> str:
        """With what all values share."""
        anew = "" if self.common_steps is None else f", anew every {self.common_steps:,} steps"
        return f"common_noise({float(self.part):.3g} of {float(self.common_stddev):.3g} users{anew})"

    @property
    def least_size(self) -> float:
        """Both parts are three steps of their grids wide."""
        return WIDE / min(self.grid, FINE * float(self.common_stddev) / float(self.stddev)) * (1 + 1e-12)

    def of_size(self, size: float) -> Self:
        """The same with this standard deviation of every value's own noise; common noise grows as it does."""
        common = float(self.common_stddev) * (size / float(self.stddev))
        require_room(max(size * self.grid, common * FINE * max(self.parts, 1)))
        update = {"stddev": Decimal(repr(size)), "common_stddev": Decimal(repr(common))}
        return type(self).model_validate({**self.model_dump(), **update})

    def common_variance(self, setting: Setting) -> float:
        """Of what the values that share a draw are off by together, in units squared."""
        return (float(self.part) * setting.contribution * float(self.common_stddev)) ** 2

    def offset(self, setting: Setting) -> Offset:
        """One draw, or one for every block of steps."""
        return replace(super().offset(setting), steps=self.common_steps)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """Of every value's own noise and the common one together, (steps,)."""
        return np.full(steps, float(self.stddev) ** 2 + self.common_variance(setting))

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Values on the grid with noise of their own, and the common draw, which earlier records of its steps share.

        In whole numbers of any size: one that left 64 bits before the common draw is added would tell the noise alone.
        """
        fresh = raw[len(records) :]
        if not len(fresh):
            return []
        noise = drawn_noise(self.law, fresh.size, randomness).reshape(fresh.shape)
        known, rows = len(records), raw.tolist()
        made: list[StepRecord] = []
        while (step := known + len(made)) < len(rows):
            first = step - step % (self.common_steps or len(rows))
            last = min(first + (self.common_steps or len(rows)), len(rows))
            common = self._common(setting, rows[first:step], records[first:step], randomness)
            made += [
                tuple(value * self.grid + int(own) + common for value, own in zip(row, z, strict=True))
                for row, z in zip(rows[step:last], noise[step - known : last - known], strict=True)
            ]
        return made

    def _common(
        self, setting: Setting, rows: Sequence[list[int]], records: Sequence[StepRecord], randomness: Randomness
    ) -> int:
        """What steps have in common, on the grid, drawn from its law given the values and records of some of them."""
        shift = self.parts * setting.contribution  # on the grid, of one unit of eta
        drawn = sum(
            number - value * self.grid
            for record, row in zip(records, rows, strict=True)
            for number, value in zip(record, row, strict=True)
        )
        precision = 1 / self.common_law.variance + Fraction(len(records) * setting.cells * shift**2) / self.law_variance
        centre = Fraction(drawn * shift) / self.law_variance / precision
        return shift * discrete_gaussian_around(centre, 1 / precision, randomness)

    @property
    def law_variance(self) -> Fraction:
        """Of every value's own noise, in squared units of the grid."""
        return Fraction(self.stddev * self.grid) ** 2

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The records, in units."""
        return super().values(setting, records) / self.grid
