"""The base of mechanisms that publish when counts have moved: what any window of steps spends is bounded by their rule.

At each step the distance of the counts from the last published ones is measured first, with half of the window's
budget divided evenly; whether to publish, and with how much of the other half, follows from earlier *records* alone.
Otherwise the last values are published again. So budgets are adaptive, and yet no window of steps ever spends more than
epsilon, whatever the data: that is what `spent` says, and `verify` believes nothing else.

A record is (distance,) or (distance, value of each cell): whole numbers, from which everything else is recomputed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from policyc_check.errors import KernelError
from policyc_check.kinds import find_kinds
from policyc_check.mechanisms import window_mechanism as checked
from policyc_runtime.mechanisms.mechanism import StepRecord, StreamMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness

STILL_STEPS = 1000  # after which errors are those of ever
STILL_COUNT = 5_000_000  # times the noise of all of epsilon: far above it, so that the first step publishes
STILL_RUNS = 200
MOST_STILL_STEPS = 200_000  # of all runs of short streams
MOST_STILL_VALUES = 30_000_000  # of all runs, where there are many cells
FEW_STILL_RUNS = 8


Objective = Literal["mean_squared_error", "mean_absolute_error"]


class WindowMechanism(checked.WindowMechanism, StreamMechanism):
    """`WindowMechanism` of the check, drawn. As a stream's it has more noise by a smaller epsilon."""

    noise_field: ClassVar[str] = "epsilon"
    estimates: ClassVar[bool] = True
    independent: ClassVar[bool] = False

    @property
    def may_agree(self) -> bool:
        """As values that stand still do, which are off by as much up as down, each by itself."""
        return True

    @abstractmethod
    def unit(self) -> Fraction:
        """What publications are paid in, nats."""

    @abstractmethod
    def next_units(self, paid: Sequence[int]) -> int:
        """The units that a publication at the next step may take, 0 for none, given those paid at each step so far."""

    def free_units(self, paid: Sequence[int]) -> int:
        """As `next_units`, held to what is promised: no step, nor window of steps, pays more than `spent` says."""
        units = self.next_units(paid)
        together = sum(paid[max(0, len(paid) - self.window + 1) :]) + units
        halves = (units, self.largest_part), (together, Fraction(1, 2))
        if units < 0 or any(number * self.unit() > part * Fraction(self.epsilon) for number, part in halves):
            raise AssertionError("a publication would pay more than its window has")
        return units

    @property
    def noise_size(self) -> float:
        """The scale of noise for the whole epsilon."""
        return float(Fraction(self.l1_sensitivity) / Fraction(self.epsilon))

    def of_size(self, size: float) -> Self:
        """The same rule with the largest epsilon, of 15 digits, that has so much noise."""
        return self.with_epsilon(Fraction(self.l1_sensitivity) / Fraction(size))

    def with_step_budget(self, budget: Decimal) -> Self:
        """The same rule with the largest epsilon, of 15 digits, that spends at most so many nats at a step."""
        return self.with_epsilon(Fraction(budget) / (self.spent(1) / Fraction(self.epsilon)))

    def with_epsilon(self, wanted: Fraction) -> Self:
        """The same rule with the largest epsilon of 15 digits that is no more."""
        context = Context(prec=15, rounding=ROUND_FLOOR)
        epsilon = context.divide(Decimal(wanted.numerator), Decimal(wanted.denominator))
        made = self.model_copy(update={"epsilon": epsilon})
        made.distance_scale()
        return made

    def calibrate(self, budget: Decimal) -> Decimal:
        """The scale of Laplace noise with the error of counts that stand still, where a step may spend so many nats."""
        epsilon = Fraction(budget) / (self.spent(1) / Fraction(self.epsilon))
        return self._still_scale(epsilon)

    @property
    def still_scale(self) -> Decimal:
        """The scale of Laplace noise with the error of counts that stand still."""
        return self._still_scale(Fraction(self.epsilon))

    def _still_scale(self, epsilon: Fraction) -> Decimal:
        return Decimal(repr(float(Fraction(self.l1_sensitivity) / epsilon) * math.sqrt(float(self.still_error) / 2)))

    def variance(self, scale: Decimal) -> float:
        """The variance of discrete Laplace noise of this scale in one cell."""
        exponent = 1.0 / float(scale)
        return 2.0 * math.exp(-exponent) / math.expm1(-exponent) ** 2

    def absolute_error(self, scale: Decimal) -> float:
        """The mean absolute value of the same noise, which tells the error of counts that stand still."""
        return math.sqrt(self.variance(scale) / 2)

    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The mean squared error over all steps while counts stand still, (steps,); counts that move add to it."""
        return np.full(steps, self.variance(self.still_scale))

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:  # noqa: ARG002
        """The same of mean absolute errors, as those of Laplace noise."""
        return np.full(steps, self.absolute_error(self.still_scale))

    def distance_scale(self) -> Fraction:
        """The scale of the noise of every distance; KernelError (E0831) where it would not fit 64-bit integers."""
        from policyc_runtime.samplers import LARGEST_SCALE

        scale = Fraction(self.l1_sensitivity) * 2 * self.window / Fraction(self.epsilon)
        if 2 * scale > LARGEST_SCALE:
            raise KernelError(
                "E0831",
                "the noise scale is out of range",
                because="so small a budget for so long a window needs noise that does not fit 64-bit integers",
                help="a larger epsilon, or a shorter window, needs less noise",
            )
        return scale

    def publishes(self, distance: int, units: int, cells: int) -> bool:
        """Whether a distance, summed over cells, exceeds what the noise of a publication would make of it."""
        from policyc_runtime.samplers import LARGEST_SCALE

        budget = units * self.unit()
        sensitivity = Fraction(self.l1_sensitivity)
        return budget > 0 and 2 * sensitivity <= budget * LARGEST_SCALE and distance * budget > sensitivity * cells

    def paid(self, setting: Setting, records: Sequence[StepRecord]) -> list[int]:
        """The units that each step's publication took, recomputed from what is public.

        Raises:
            ValueError: these are no records of this mechanism.
        """
        paid: list[int] = []
        for record in records:
            units = self.next_units(paid)
            published = bool(record) and self.publishes(record[0], units, setting.cells)
            if len(record) != 1 + setting.cells * published:
                raise ValueError("this is no record of a mechanism that publishes when counts have moved")
            paid.append(units if published else 0)
        return paid

    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Records of the steps that have none yet; nothing is drawn twice."""
        from policyc_runtime.samplers import discrete_laplace

        paid = self.paid(setting, records)
        found: list[StepRecord] = []
        last = self.values(setting, records)[-1].astype(np.int64) if records else np.zeros(setting.cells, np.int64)
        scale, sensitivity = self.distance_scale(), Fraction(self.l1_sensitivity)
        for counts in raw[len(records) :]:
            noise = int(discrete_laplace(scale, 1, randomness)[0])
            record: StepRecord = (int(np.abs(counts - last).sum()) + noise,)
            units = self.free_units(paid)
            if self.publishes(record[0], units, setting.cells):
                last = counts + discrete_laplace(sensitivity / (units * self.unit()), setting.cells, randomness)
                record = (record[0], *(int(value) for value in last))
            paid.append(units if len(record) > 1 else 0)
            found.append(record)
        return found

    def log_likelihoods(self, records: Sequence[StepRecord], raw: NDArray[np.int64]) -> NDArray[np.float64]:
        """How likely each record is if counts had been some of several, as logarithms without their constants.

        Args:
            records: of the steps 0, 1, ...; possibly of the same rule with less noise.
            raw: what counts may have been, (steps, possibilities, cells).

        Returns:
            (steps, possibilities).
        """
        scale, sensitivity = float(self.distance_scale()), float(self.l1_sensitivity)
        paid: list[int] = []
        last = np.zeros(raw.shape[2], np.int64)
        found = np.zeros(raw.shape[:2])
        for step, record in enumerate(records):
            found[step] = -np.abs(record[0] - np.abs(raw[step] - last).sum(axis=1)) / scale
            units = max(1, self.next_units(paid)) if len(record) > 1 else 0
            if units:
                last = np.array(record[1:])
                found[step] -= np.abs(last - raw[step]).sum(axis=1) * float(units * self.unit()) / sensitivity
            paid.append(units)
        return found

    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """The values published last, (steps, cells); 0 before any were."""
        self.paid(setting, records)
        rows = np.zeros((len(records), setting.cells))
        last: Sequence[int] = (0,) * setting.cells
        for step, record in enumerate(records):
            last = record[1:] or last
            rows[step] = last
        return rows


@cache
def still_error(name: str, window: int, cells: int, steps: int | None, objective: Objective) -> Decimal:
    """`still_error` of a mechanism, by simulation on counts that stand still; the same at every call.

    Args:
        name: of the mechanism.
        window: in steps.
        cells: published together.
        steps: that the error is a mean over, from the first one on, which publishes with less budget than later ones or
            with more; None for what the error of an endless stream comes to.
        objective: what error counts. An absolute one is told by the Laplace noise that has it.
    """
    fields = {"name": name, "window": window, "epsilon": "0.01", "l1_sensitivity": 2, "still_error": 1}
    rule = window_mechanism_kinds()[name].model_validate(fields)
    error = np.square if objective == "mean_squared_error" else np.abs
    mean = over_all([float(error(away).mean()) for away in still_away(rule, cells, steps)], steps)
    unit = float(rule.l1_sensitivity / rule.epsilon)
    return Decimal(f"{mean / unit**2 if objective == 'mean_squared_error' else 2 * (mean / unit) ** 2:.6g}")


def over_all(errors: Sequence[float], steps: int | None) -> float:
    """The mean over all steps of errors of the first ones, whose second half stands for those that follow."""
    told = len(errors)
    late = float(np.mean(errors[told // 2 :]))
    return late if steps is None else (sum(errors) + (steps - told) * late) / steps


def still_away(
    rule: WindowMechanism,
    cells: int,
    steps: int | None,
    runs: int | None = None,
    seed: int = 0,
    most: int = STILL_STEPS,
) -> Iterator[NDArray[np.float64]]:
    """How far published values are from counts that stand still, far above the noise: (runs, cells) of each step.

    Of `most` steps at most; of many cells by fewer runs.

    The rule is the mechanism's own; as if its noise were so wide that continuous noise has the same errors.
    """
    steps = min(steps or most, most)
    runs = runs or max(STILL_RUNS, MOST_STILL_STEPS // steps)
    runs = min(runs, max(FEW_STILL_RUNS, MOST_STILL_VALUES // (steps * cells)))
    generator = np.random.default_rng(seed)
    sensitivity, unit = float(rule.l1_sensitivity), float(rule.unit())
    paid: list[list[int]] = [[] for _ in range(runs)]
    last = np.full((runs, cells), STILL_COUNT * sensitivity / float(rule.epsilon))
    for _ in range(steps):
        units = np.array([rule.next_units(before) for before in paid])
        budgets = np.maximum(units, 1) * unit
        distances = np.abs(last).sum(axis=1) + generator.laplace(scale=float(rule.distance_scale()), size=runs)
        moved = (units > 0) & (distances * budgets > sensitivity * cells)
        noise = generator.laplace(size=(runs, cells)) * (sensitivity / budgets)[:, None]
        last = np.where(moved[:, None], noise, last)
        for before, took in zip(paid, np.where(moved, units, 0).tolist(), strict=True):
            before.append(took)
        yield last


@cache
def window_mechanism_kinds() -> dict[str, type[WindowMechanism]]:
    """All mechanisms that publish when counts have moved, by name."""
    return find_kinds("policyc_runtime.mechanisms", WindowMechanism)  # type: ignore[type-abstract]
