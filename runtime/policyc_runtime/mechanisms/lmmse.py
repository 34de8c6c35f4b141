"""Each step mixes a prediction from what was published before with a noisy part of the truth (ZKL22, Algorithm 2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from policyc_runtime.mechanisms.ar1_prediction import DeclaredAR1, LearnedAR1, still_errors
from policyc_runtime.mechanisms.calibration import fine_grid, least_noise, raised, require_coins, require_room
from policyc_runtime.mechanisms.mechanism import Options, StepRecord, StreamMechanism
from policyc_runtime.privacy.profile import PrivacyProfile
from policyc_runtime.records import LARGEST_WHOLE, PositiveDecimal
from policyc_runtime.rounding import rounded_down

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.randomness import Randomness

PLAIN = 2  # first steps, published as they are measured: a prediction needs two values
LEAST_WEIGHT = Decimal(2) ** -13  # below, noise on the grid would not fit 64 bits: nothing is measured any more
DIGITS = 12  # of a falling weight, the same on every machine
ROUNDED = 1 + Fraction(10) ** (3 - DIGITS)  # more than two such roundings
COIN_BITS = 8  # binomial noise is 2^8 to 2^9 steps of its grid wide: at most a million coins a value
WEIGHTS = [Decimal(n) / 20 for n in range(1, 21)]
STRETCH = 1000  # steps that stand for an endless stream

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
    whole_values: ClassVar[bool] = False
    estimates: ClassVar[bool] = True
    stddev: PositiveDecimal
    weight: Share
    decay: Share
    grid: Annotated[int, Field(ge=1, le=LARGEST_WHOLE)]
    signal: DeclaredAR1 | None
    noise: Literal["gaussian", "binomial"] = "gaussian"
    sampler: Literal["discrete"] = "discrete"

    @model_validator(mode="after")
    def _noise_is_wide(self) -> Self:
        if self.stddev * self.grid < 3:
            raise ValueError("the noise is too small for its grid")
        return self

    @classmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:
        """The least noise; options: weight, decay, noise, and mean, sd and autocorrelation of a declared AR(1).

        Without a weight it is the one with the least expected error for a declared process, else 0.5.
        """
        given = {name: options[name] for name in ("mean", "sd", "autocorrelation") if name in options}
        plain = cls.model_validate(
            {
                "stddev": Decimal(3),
                "weight": options.get("weight", Decimal("0.5")),
                "decay": options.get("decay", Decimal(1)),
                "grid": 1,
                "signal": given or None,
                "noise": options.get("noise", "gaussian"),
            }
        )
        if "weight" in options or plain.signal is None:
            return plain._calibrated(setting, epsilon, delta)
        tried = [plain._with(weight=weight)._calibrated(setting, epsilon, delta) for weight in WEIGHTS]
        return min(tried, key=lambda one: float(one.variances(setting, setting.horizon or STRETCH).mean()))

    def _calibrated(self, setting: Setting, epsilon: Decimal, delta: Decimal) -> Self:
        from policyc_runtime.privacy.gaussian import gaussian_stddev

        nats, failing = rounded_down(epsilon), rounded_down(delta)
        near = gaussian_stddev(nats, failing, math.sqrt(self._l2_square(setting)))
        made = self._with(grid=fine_grid(near, COIN_BITS if self.noise == "binomial" else 20))
        known: dict[int, bool] = {}

        def holds(stddev: float) -> bool:
            tried = made._of(stddev)
            if tried.noise == "gaussian":
                return tried.profile(setting).delta(nats) <= failing
            if tried._half not in known:  # whole coins: many deviations have as many
                known[tried._half] = tried.profile(setting).delta(nats) <= failing
            return known[tried._half]

        return made._of(least_noise(holds, near))

    def _with(self, **changed: object) -> Self:
        return self.model_copy(update=changed)

    def _of(self, stddev: float) -> Self:
        require_room(stddev * self.grid / float(LEAST_WEIGHT))
        made = self._with(stddev=Decimal(repr(stddev)))
        if made.noise == "binomial":
            require_coins(made._half)
        return made

    @property
    def _half(self) -> int:
        """Half of the number of coins whose heads have this deviation, in units of the grid, rounded up."""
        return math.ceil(2 * Fraction(self.stddev * self.grid) ** 2)

    def described(self) -> str:
        """With its weight, and how it falls."""
        falling = "" if self.decay == 1 else f", falling by {self.decay} a step"
        noise = "" if self.noise == "gaussian" else f", {self.noise} noise"
        return f"lmmse(weight {self.weight}{falling}{noise})"

    @property
    def declared(self) -> bool:
        """It is for the process that it predicts by, if the policy declares one."""
        return self.signal is not None

    def with_noise(self, factor: float) -> Self:
        """The same with a standard deviation `factor` times as large."""
        return self._of(raised(float(self.stddev), factor))

    def weight_at(self, step: int) -> Decimal:
        """How much of the truth counts in step 0, 1, ...; in the long run of a falling weight nothing."""
        if step < PLAIN:
            return Decimal(1)
        context = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)
        weight = self.weight if self.decay == 1 else context.multiply(self.weight, context.power(self.decay, step))
        return weight if weight >= LEAST_WEIGHT else Decimal(0)

    def _weights(self, steps: int) -> list[float]:
        return [float(self.weight_at(step)) for step in range(steps)]

    def _l2_square(self, setting: Setting) -> Fraction:
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
        from policyc_runtime.privacy.binomial_noise import binomial_profile
        from policyc_runtime.privacy.discrete_noise import discrete_gaussian_bound

        if self.noise == "binomial":
            moves = Counter(self._steps_moved(w, setting) for w in self._weights_met(setting) if w > 0)
            profiles = [binomial_profile(self._half, changes, shift) for shift, changes in sorted(moves.items())]
            return reduce(PrivacyProfile.compose, profiles)
        moved = math.ceil(self._l2_square(setting) * self.grid**2)
        return discrete_gaussian_bound(Fraction(self.stddev * self.grid) ** 2, moved)

    def _steps_moved(self, weight: Fraction, setting: Setting) -> int:
        """By how many steps of the grid one change moves weighted values that are rounded to it, at most, L1.

        Each of the values that it is spread over moves by a whole number of its own: ceil(w c_i grid), which add up to
        at most ceil(w c grid) + n - 1. What moves several values is hidden at least as well as what moves one as far.
        """
        part = weight * self.grid
        together = math.ceil(part * setting.shift) + setting.numbers_changed - 1
        return min(together, math.ceil(part) * setting.shift)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """Mean square errors, (steps,): under the declared process, or of a still stream where it is learned."""
        noise = float(self.stddev) ** 2
        errors = still_errors if self.signal is None else self.signal.errors
        return errors(self._weights(steps), noise)

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Noisy values, on the grid, of the steps that have no record yet; nothing where the weight is 0."""
        from policyc_runtime.randomness import discrete_gaussian, symmetric_binomial

        made: list[StepRecord] = []
        for weight, group in groupby(range(len(records), len(raw)), key=self.weight_at):
            steps = list(group)
            if weight == 0:
                made += [()] * len(steps)
                continue
            if self.noise == "binomial":
                heads = symmetric_binomial(self._half, len(steps) * setting.cells, randomness)
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
                last = found[t - 1]
                found[t] += (1 - weight) * (
                    self.signal.predicted(last, noise) if self.signal else learned.predicted(last)
                )
            if self.signal is None:
                learned.add(found[t])
        return found
