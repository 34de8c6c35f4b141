"""The base of mechanisms that measure linear combinations of steps under discrete Gaussian noise on a fine grid."""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from policyc_runtime.mechanisms.calibration import least_noise, raised, require_room
from policyc_runtime.mechanisms.mechanism import StreamMechanism
from policyc_runtime.records import PositiveDecimal
from policyc_runtime.rounding import rounded_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.randomness import Randomness


class GridNoise(StreamMechanism):
    """Noise of the same `stddev` (in units of the raw values) on every number measured, drawn in units of a grid.

    `grid` units make one unit of the raw values. On so fine a grid any change of the numbers is hidden as well as by
    continuous noise, to a part in a million, whatever its direction: one L2 sensitivity is all that privacy asks.

    Source: BW18, CKS20
    """

    stddev: PositiveDecimal
    sampler: Literal["discrete"] = "discrete"
    grid: ClassVar[int]
    whole_values: ClassVar[bool] = False

    @model_validator(mode="after")
    def _noise_is_wide(self) -> Self:
        if self.stddev * self.grid < 3:
            raise ValueError("the noise is too small for its grid")
        return self

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """It needs to know how many steps there are."""
        return "it needs a horizon, and this stream has no end" if setting.horizon is None else None

    @abstractmethod
    def moved_square(self, setting: Setting) -> int:
        """How far one neighbor moves the numbers measured at most, L2 squared, in squared units of the grid."""

    @classmethod
    def _least(cls, setting: Setting, epsilon: Decimal, delta: Decimal, **fixed: Any) -> Self:
        """The least noise that keeps a promise, the other parameters being fixed."""
        from policyc_runtime.privacy.discrete_noise import discrete_gaussian_bound
        from policyc_runtime.privacy.gaussian import gaussian_stddev

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        square = cls(stddev=Decimal(1), **fixed).moved_square(setting)

        def holds(stddev: float) -> bool:
            variance = Fraction(Decimal(repr(stddev)) * cls.grid) ** 2
            return variance > 9 and discrete_gaussian_bound(variance, square).delta(nats) <= failing

        stddev = least_noise(holds, gaussian_stddev(nats, failing, square**0.5) / cls.grid)
        require_room(stddev * cls.grid)
        return cls(stddev=Decimal(repr(stddev)), **fixed)

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        stddev = raised(float(self.stddev), factor)
        require_room(stddev * self.grid)
        return type(self).model_validate({**self.model_dump(), "stddev": Decimal(repr(stddev))})

    def profile(self, setting: Setting) -> PrivacyProfile:
        """The curve of discrete Gaussian noise on everything that is measured, an upper bound."""
        from policyc_runtime.privacy.discrete_noise import discrete_gaussian_bound

        return discrete_gaussian_bound(self._variance, self.moved_square(setting))

    @property
    def _variance(self) -> Fraction:
        """Of the noise, in squared units of the grid."""
        return Fraction(self.stddev * self.grid) ** 2

    def _noise(self, numbers: NDArray[np.int64], randomness: Randomness) -> NDArray[np.int64]:
        """Fresh noise for numbers in units of the grid, of their shape."""
        from policyc_runtime.randomness import discrete_gaussian

        return np.asarray(discrete_gaussian(self._variance, numbers.size, randomness).reshape(numbers.shape))
