"""What every mechanism must be able to do: the contract of this folder.

There are three kinds, told apart by `accounting`; the third, `WindowMechanism` ("window"), is told of in its module.

A `StepMechanism` ("step") adds noise to one step at a time; what each step may spend comes from a `Schedule`.

A `StreamMechanism` ("stream") accounts for the whole stream by itself. Its run is a sequence of private measurements:
`measure` turns raw values into one *record* a step, a tuple of whole numbers that is all the step gives away; the
ledger keeps it. Everything published is computed from records by `values`, so the promise rests on `measure` alone:

- Whole numbers only. Raw values come as whole numbers (sums in units of their grid), noise is a whole number, and
  coefficients are on a grid too, so that no floating-point number touches what is protected.
- A record may be empty, when nothing is measured at a step. Which steps are measured must not depend on raw values
  except through earlier records.
- Resumable: `measure` is given the records so far, draws only new ones, and keeps no state; what it needs it recomputes
  from records and raw values. A run in pieces is the same measurement as one in a single piece.
- A random choice that is public (a subsample) is drawn by `measure` and written into a record, the first.
- `profile` says what all records of a stream together tell about one user: an upper bound of delta at every epsilon,
  computed from the stated parameters alone. `calibrate` searches by whatever route (`calibration.py` has the search);
  `verify` believes only `profile`.

A new mechanism is one file here: a frozen record with `name: Literal["..."]`, its noise parameters as exact decimals
rounded up, and the methods below. It is found by being here, and tested by tests/runtime/mechanisms/test_stream_*.py
without a line written for it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from policyc_runtime.errors import KernelError
from policyc_runtime.kinds import find_kinds
from policyc_runtime.records import Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policyc_runtime.mechanisms.setting import Setting
    from policyc_runtime.privacy.profile import PrivacyProfile
    from policyc_runtime.randomness import Randomness

MOST_CHANGES = 10**6
"""Values of a stream that one user may change: beyond, compositions cannot be computed."""

StepRecord = tuple[int, ...]
"""What one step gives away: whole numbers, possibly none."""

Options = Mapping[str, object]
"""The arguments of a policy's `mechanism` statement, by name; decimals are `Decimal`."""


class Mechanism(Record):
    """A way to make noisy values; its fields are what the plan says of it."""

    name: str
    accounting: str

    @property
    def balanced(self) -> bool:
        """Whether the noise of a step's cells adds up to zero."""
        return False

    def described(self) -> str:
        """The mechanism as tables name it."""
        return self.name


class StepMechanism(Mechanism):
    """Adds noise to one step's values, at a scale that follows from the step's budget."""

    accounting: Literal["step"] = "step"

    @abstractmethod
    def calibrate(self, epsilon: Decimal) -> Decimal:
        """The smallest scale, rounded up, whose loss is at most epsilon (nats, > 0)."""

    @abstractmethod
    def privacy_loss(self, scale: Decimal) -> Fraction:
        """The exact loss in nats of one step released with this scale (> 0)."""

    @abstractmethod
    def variance(self, scale: Decimal) -> float:
        """The variance of the noise in one cell."""

    @abstractmethod
    def add_noise(self, raw: NDArray[np.int64], scales: list[Decimal], randomness: Randomness) -> NDArray[np.int64]:
        """Raw counts (steps, cells) plus fresh independent noise, step t with scales[t]."""

    @abstractmethod
    def log_likelihood(self, noise: NDArray[np.int64], scale: Decimal) -> NDArray[np.float64]:
        """How likely rows of noise (..., cells) are at this scale, as a logarithm without its constant, (...)."""


class StreamMechanism(Mechanism):
    """Measures a whole stream and accounts for all of it; see the module."""

    accounting: Literal["stream"] = "stream"
    whole_values: ClassVar[bool] = True
    """Whether `values` are whole numbers of units wherever they are not NaN."""
    leaves_gaps: ClassVar[bool] = False
    """Whether `values` may be NaN, so that the release needs an estimator that fills. (One that interpolates between
    measured steps itself, in `values`, leaves none.)"""

    estimates: ClassVar[bool] = False
    """Whether `values` are estimates, made of several records: their errors depend on each other and on how the stream
    moves, so `variances` cannot be compared with those of plain noise, nor an estimator be put on top."""

    independent: ClassVar[bool] = True
    """Whether the noise of a step is independent of that of others, where `values` are no estimates."""

    @property
    def declared(self) -> bool:
        """Whether `values` are estimates for a declared process, and `variances` their errors under it."""
        return False

    @classmethod
    def reason_against(cls, setting: Setting) -> str | None:
        """Why this mechanism does not apply here (delivery, horizon, workload, cells), or None when it does."""
        return None if setting.workload == "identity" else "it measures the steps themselves, not totals over them"

    @classmethod
    def variants(cls, setting: Setting) -> Sequence[Options]:  # noqa: ARG003
        """The options worth comparing under `mechanism auto`; each is given to `calibrate`."""
        return ({},)

    @classmethod
    @abstractmethod
    def calibrate(cls, setting: Setting, epsilon: Decimal, delta: Decimal, options: Options) -> Self:
        """The mechanism with the least noise whose whole stream is (epsilon, delta)-private, parameters rounded up.

        Args:
            setting: what one user can change, and what is released; `reason_against` it is None.
            epsilon: nats, > 0.
            delta: in (0, 1).
            options: of the policy's statement; missing ones are the mechanism's to choose.

        Returns:
            A record with profile(setting).delta(rounded_down(epsilon)) <= delta, without tolerance.

        Raises:
            KernelError: the noise would not fit 64-bit integers.
        """

    @classmethod
    def reason_not_here(cls, setting: Setting) -> str | None:
        """As `reason_against`, and why nobody could account for this setting."""
        if setting.changes > MOST_CHANGES:
            return f"one user can change {setting.changes:,} values, and at most {MOST_CHANGES:,} can be accounted for"
        return cls.reason_against(setting)

    def reason_against_promise(self, setting: Setting, delta: Decimal) -> str | None:  # noqa: ARG002
        """Why a promise that may fail with this probability would be none with these parameters, or None."""
        return None

    def require_promise(self, setting: Setting, delta: Decimal) -> Self:
        """Itself.

        Raises:
            KernelError: the promise would be none.
        """
        reason = self.reason_against_promise(setting, delta)
        if reason is None:
            return self
        raise KernelError("E0838", "so low a rate is no protection", because=reason, help="raise the rate")

    @abstractmethod
    def with_noise(self, factor: float) -> Self:
        """The same mechanism with `factor` (> 0) times as much noise, parameters rounded up.

        Several releases under one promise are each calibrated alone and then given more noise.
        """

    @abstractmethod
    def profile(self, setting: Setting) -> PrivacyProfile:
        """What all records together tell about one user: upper bounds, from the stated parameters alone.

        `setting` may have another participation bound than the one that was calibrated for: this is how the
        certificate says what is left when the bound fails.
        """

    @abstractmethod
    def variances(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """The expected variance of the noise in `values`, in units squared, (steps,).

        NaN where a step has no value; known before any data. For a mechanism that decides as it goes, what is
        expected for a stream that does not move.
        """

    def absolute_errors(self, setting: Setting, steps: int) -> NDArray[np.float64]:
        """The same as mean absolute errors, in units, (steps,), of normal noise where a mechanism knows no better."""
        return np.sqrt(self.variances(setting, steps) * (2 / math.pi))

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


class Derived(Mechanism):
    """Computed from the noisy values of the release it is made of; no noise is added and no privacy is spent.

    Source: DR14
    """

    name: Literal["derived"] = "derived"
    accounting: Literal["none"] = "none"
