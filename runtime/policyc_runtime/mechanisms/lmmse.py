"""Each step mixes a prediction from what was published before with a noisy part of the truth (ZKL22, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import model_validator

from policyc_check.mechanisms import lmmse as checked
from policyc_check.mechanisms.lmmse import LEAST_WEIGHT
from policyc_runtime.mechanisms.ar1_prediction import DeclaredAR1, LearnedAR1, still_errors
from policyc_runtime.mechanisms.linear import WIDE
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism
from policyc_runtime.mechanisms.process_prediction import DeclaredProcess
from policyc_runtime.mechanisms.room import require_coins, require_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness

COIN_BITS = 8  # binomial noise is 2^8 to 2^9 steps of its grid wide: at most a million coins a value
WEIGHTS = [Decimal(n) / 20 for n in range(1, 21)]
STRETCH = 1000  # steps that stand for an endless stream


class Lmmse(checked.Lmmse, StreamMechanism):
    """`Lmmse` of the check, drawn.

    What differs from the source: the noise is that of the exact curve for the squared weights of the steps in which one
    user takes part, the first two counted with weight 1 (Theorem 5.1 takes more); weights are public, as a secret
    weight earns no credit; a declared law other than AR(1) predicts from several values; errors are not predicted by
    Theorem 6.1, which is false for w < 1. Under binomial noise a whole number that one user moves by c moves by
    ceil(w c) of the grid, not by w c as in Theorem A.5, which is unsound, and several numbers by more than one as far;
    the loss is that of the coins, composed exactly.

    Source: ZKL22, BW18, DKMMN06
    """

    signal: DeclaredAR1 | DeclaredProcess | None

    whole_values: ClassVar[bool] = False
    estimates: ClassVar[bool] = True

    @model_validator(mode="after")
    def _noise_is_wide(self) -> Self:
        if self.stddev * self.grid < WIDE:
            raise ValueError("the noise is too small for its grid")
        return self

    def described(self) -> str:
        """With its weight, and how it falls."""
        falling = "" if self.decay == 1 else f", falling by {self.decay} a step"
        noise = "" if self.noise == "gaussian" else f", {self.noise} noise"
        return f"lmmse(weight {self.weight}{falling}{noise})"

    @property
    def least_size(self) -> float:
        """Three steps of its grid."""
        return WIDE / self.grid

    def of_size(self, size: float) -> Self:
        """The same with this standard deviation of a value that has the whole weight."""
        require_room(size * self.grid / float(LEAST_WEIGHT))
        made = self.model_copy(update={"stddev": Decimal(repr(size))})
        if made.noise == "binomial":
            require_coins(made.half)
        return made

    @property
    def declared(self) -> bool:
        """It is for the process that it predicts by, if the policy declares one."""
        return self.signal is not None

    def _weights(self, steps: int) -> list[float]:
        return [float(self.weight_at(step)) for step in range(steps)]

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Mean square errors, (steps,): under the declared process, or of a still stream where it is learned."""
        noise = float(self.stddev) ** 2
        errors = still_errors if self.signal is None else self.signal.errors
        return errors(self._weights(steps), noise)

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values, on the grid, of the steps that have no record yet; nothing where the weight is 0."""
        from policyc_runtime.samplers import discrete_gaussian, symmetric_binomial

        made: list[StepRecord] = []
        for weight, group in groupby(range(len(records), len(raw)), key=self.weight_at):
            steps = list(group)
            if weight == 0:
                made += [()] * len(steps)
                continue
            if self.noise == "binomial":
                heads = symmetric_binomial(self.half, len(steps) * setting.cells, randomness)
                made += self._weighted(raw[steps], heads.reshape(-1, setting.cells), weight)
                continue
            variance = (Fraction(self.stddev) * self.grid / Fraction(weight)) ** 2
            noise = discrete_gaussian(variance, len(steps) * setting.cells, randomness).reshape(-1, setting.cells)
            for row, drawn in zip(raw[steps].tolist(), noise.tolist(), strict=True):
                made.append(tuple(value * self.grid + more for value, more in zip(row, drawn, strict=True)))
        return made

    def _weighted(self, raw: NDArray[np.int64], heads: NDArray[np.int64], weight: Decimal) -> list[StepRecord]:
        """The part w z of the truth, rounded to the grid in whole numbers, and noise."""
        part, whole = (Fraction(weight) * self.grid).as_integer_ratio()
        return [
            tuple((2 * part * value + whole) // (2 * whole) + noise for value, noise in zip(row, drawn, strict=True))
            for row, drawn in zip(raw.tolist(), heads.tolist(), strict=True)
        ]

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """What the algorithm publishes."""
        noise = float(self.stddev) ** 2
        learned = LearnedAR1(setting.cells, noise)
        found = np.empty((len(records), setting.cells))
        for t, (record, weight) in enumerate(zip(records, self._weights(len(records)), strict=True)):
            known = np.array(record if weight > 0 else [0] * setting.cells, dtype=np.float64)
            weighs = weight if self.noise == "gaussian" else 1.0
            found[t] = weighs * (known.reshape(setting.cells) / self.grid)
            if weight < 1:
                found[t] += (1 - weight) * (
                    self.signal.predicted(found[:t], noise) if self.signal else learned.predicted(found[t - 1])
                )
            if self.signal is None:
                learned.add(found[t])
        return found
