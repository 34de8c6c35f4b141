"""What every mechanism must be able to do in a run: draw, and make values of what was drawn.

Each extends its record in `policyc_check.mechanisms`, and none of what that says of privacy.

A `StreamMechanism`'s run is a sequence of private measurements: `measure` turns raw values into one *record* a step, a
tuple of whole numbers that is all the step gives away; the ledger keeps it. Everything published is computed from
records by `values`, so the promise rests on `measure` alone:

- Whole numbers only. Raw values come as whole numbers (sums in units of their grid), noise is a whole number, and
  coefficients are on a grid too, so that no floating-point number touches what is protected.
- A record may be empty, when nothing is measured at a step. Which steps are measured must not depend on raw values
  except through earlier records.
- Resumable: `measure` is given the records so far, draws only new ones, and keeps no state; what it needs it recomputes
  from records and raw values. A run in pieces is the same measurement as one in a single piece.
- A random choice that is public (a subsample) is drawn by `measure` and written into a record, the first.
- How much noise a promise needs is found elsewhere, by whatever route; `verify` believes only the record's `profile`.

It is found by being here, and tested by tests/runtime/mechanisms/test_stream_*.py without a line written for it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

import numpy as np

from policyc_check.kinds import find_kinds
from policyc_check.mechanisms import mechanism as checked
from policyc_check.users.noise import MOST_CHANGES
from policyc_runtime.mechanisms.room import raised, require_room
from policyc_runtime.offset import Offset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_check.users.setting import Setting
    from policyc_runtime.randomness import Randomness

StepRecord = tuple[int, ...]
"""What one step gives away: whole numbers, possibly none."""

Left: TypeAlias = "Sequence[NDArray[np.float64]]"
"""What the values of later steps need of all before them: arrays (rows, cells), a mechanism's own. Public, as it is a
function of records alone."""


class StepMechanism(checked.StepMechanism):
    """`StepMechanism` of the check, drawn."""

    @abstractmethod
    def calibrate(self, epsilon: Decimal) -> Decimal:
        """The smallest scale, rounded up, whose loss is at most epsilon (nats, > 0)."""

    @abstractmethod
    def variance(self, scale: Decimal) -> float:
        """The variance of the noise in one cell."""

    @abstractmethod
    def absolute_error(self, scale: Decimal) -> float:
        """The mean absolute value of the noise in one cell."""

    @abstractmethod
    def add_noise(self, raw: NDArray[np.int64], scales: list[Decimal], randomness: Randomness) -> NDArray[np.int64]:
        """Raw counts (steps, cells) plus fresh independent noise, step t with scales[t]."""

    @abstractmethod
    def log_likelihood(self, noise: NDArray[np.int64], scale: Decimal) -> NDArray[np.float64]:
        """How likely rows of noise (..., cells) are at this scale, as a logarithm without its constant, (...)."""


class StreamMechanism(checked.StreamMechanism):
    """`StreamMechanism` of the check, drawn."""

    leaves_gaps: ClassVar[bool] = False
    """Whether `values` may be NaN, so that the release needs an estimator that fills. (One that interpolates between
    measured steps itself, in `values`, leaves none.)"""
    noise_field: ClassVar[str] = "stddev"
    """The field that states how much noise there is."""
    whole_values: ClassVar[bool] = True
    """Whether `values` are whole numbers of units wherever they are not NaN."""
    estimates: ClassVar[bool] = False
    """Whether `values` are estimates, made of several records: their errors depend on each other and on how the stream
    moves, so `variances` cannot be compared with those of plain noise, nor an estimator be put on top."""
    of_one_step: ClassVar[bool] = False
    """Whether a step's record is its own values with noise of its own, so that no earlier step need be known."""
    independent: ClassVar[bool] = True
    """Whether the noise of a step is independent of that of others, where `values` are no estimates."""

    @property
    def declared(self) -> bool:
        """Whether `values` are estimates for a declared process, and `variances` their errors under it."""
        return False

    @property
    def errs_by_variances(self) -> bool:
        """Whether `variances` are the errors of `values`, which are nothing but the truth and noise, or declared."""
        return not self.estimates or self.declared

    @property
    def noisy_at_every_step(self) -> bool:
        """Whether every value is the truth and new noise, of which `variances` are known."""
        return self.independent and not (self.estimates or self.leaves_gaps)

    @property
    def may_agree(self) -> bool:
        """Whether values may be made to agree with others of their step: what each is off by has a known variance."""
        return self.noisy_at_every_step

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """Why this mechanism does not apply here (delivery, horizon, workload, cells), or None when it does."""
        return None if setting.workload == "identity" else "it measures the steps themselves, not totals over them"

    @classmethod
    def reason_not_here(cls, setting: Setting) -> str | None:
        """As `reason_against`, and why nobody could account for this setting."""
        if setting.changes > MOST_CHANGES:
            return f"one user can change {setting.changes:,} values, and at most {MOST_CHANGES:,} can be accounted for"
        return cls.reason_against(setting)

    @classmethod
    def reason_not_composed(cls, setting: Setting) -> str | None:  # noqa: ARG003
        """Why nobody could account for more here than for the largest loss, or None."""
        return None

    @property
    def noise_size(self) -> float:
        """How much noise there is: the standard deviation or scale that it states, > 0, in units."""
        return float(getattr(self, self.noise_field))

    @property
    def least_size(self) -> float:
        """The least noise that it is made with; 0 where any will do."""
        return 0.0

    def of_size(self, size: float) -> Self:
        """The same mechanism with so much noise (> 0).

        Raises:
            KernelError: it would not fit 64-bit integers.
        """
        require_room(size)
        return self.model_copy(update={self.noise_field: Decimal(repr(size))})

    def with_noise(self, factor: float) -> Self:
        """The same with `factor` (> 0) times as much noise, rounded up.

        Several releases under one promise are each calibrated alone and then given more noise.
        """
        return self.of_size(raised(self.noise_size, factor))

    @abstractmethod
    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """The expected variance of the noise in `values`, in units squared, (steps,).

        NaN where a step has no value; known before any data. For a mechanism that decides as it goes, what is
        expected for a stream that does not move.
        """

    def common_variance(self, setting: Setting) -> float:  # noqa: ARG002
        """The part of `variances` that is of a draw by which the values of many steps are off together."""
        return 0.0

    def offset(self, setting: Setting) -> Offset:
        """What values of all steps, or of those of a period, are off by together, in units."""
        return Offset(math.sqrt(self.common_variance(setting)))

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """The same as mean absolute errors, in units, (steps,), of normal noise where a mechanism knows no better."""
        return np.sqrt(self.variances(setting, steps) * (2 / math.pi))

    @property
    def goes_on(self) -> bool:
        """Whether steps can be measured, and have values, by what `values_after` says that earlier ones left.

        `measure` may then be given zeros for the raw values before `looks_back`, and empty records for steps before.
        """
        return self.of_one_step

    def looks_back(self, setting: Setting, first: int, steps: int) -> int:  # noqa: ARG002
        """From which step on `measure` needs raw values for the steps `first` to `steps` - 1."""
        return first

    def values_after(
        self,
        setting: Setting,
        first: int,  # noqa: ARG002
        left: Left,  # noqa: ARG002
        records: Sequence[StepRecord],
    ) -> tuple[NDArray[np.float64], Left]:
        """The `values` of the steps from `first` on, and what all steps leave to those after them.

        To the bit the same, however a stream is cut; asked of mechanisms that go on.

        Args:
            setting: as it was calibrated for.
            first: how many steps are before.
            left: what they left; nothing where there are none.
            records: of the steps from there on.

        Raises:
            ValueError: these are no records of this mechanism.
        """
        return self.values(setting, records), ()

    def ready(self, setting: Setting, steps: int) -> int:  # noqa: ARG002
        """How many steps can be measured once raw values of the first `steps` are there; the horizon for offline ones.

        Never more than `steps`, and 0 while nothing can be.
        """
        return steps

    @abstractmethod
    def measure(
        self, setting: Setting, raw: NDArray[np.int64], records: Sequence[StepRecord], randomness: Randomness
    ) -> list[StepRecord]:
        """Records of the next steps.

        Args:
            setting: as it was calibrated for.
            raw: (steps, cells) protected values of all steps so far, in units; steps = ready(setting, steps).
            records: of the first steps, as earlier calls made them.
            randomness: where noise comes from.

        Returns:
            One record for each of the steps len(records) to steps - 1.
        """

    @abstractmethod
    def values(self, setting: Setting, records: Sequence[StepRecord]) -> NDArray[np.float64]:
        """Noisy values of what is released, (steps, cells), in units; NaN where a step has none.

        A function of its arguments alone. The values of earlier steps do not change when later records come, except
        where the setting lets values wait for later steps.

        Raises:
            ValueError: these are no records of this mechanism.
        """


@cache
def mechanism_kinds() -> dict[str, type[StepMechanism]]:
    """All step mechanisms by name."""
    return find_kinds("policyc_runtime.mechanisms", StepMechanism)  # type: ignore[type-abstract]


@cache
def stream_mechanism_kinds() -> dict[str, type[StreamMechanism]]:
    """All stream mechanisms by name."""
    return find_kinds("policyc_runtime.mechanisms", StreamMechanism)  # type: ignore[type-abstract]
