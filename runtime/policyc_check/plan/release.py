"""How one release is made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from policyc_check.mechanisms import AnyMechanism, Budgeted, StepMechanism, StreamMechanism, WindowMechanism
from policyc_check.plan.constraints import ConstraintRow
from policyc_check.plan.queries import Query
from policyc_check.plan.schedule import Schedule
from policyc_check.plan.stream import MOST_CELLS
from policyc_check.records import Label, Name, Opaque, PositiveDecimal, Record, Steps


class ErrorRun(Record):
    """Consecutive steps of equal predicted error; `steps` None means for ever."""

    error: float
    steps: Steps | None


class ReleasePlan(Record):
    """How one release is made: what is counted, how noise is drawn, what is done to the values afterwards.

    `cells` names the published values of a step, in order; a release without cells has the one name "".
    `share`: where several releases share the promise, the part of every step's budget that this one takes, rounded up.
    A release with a step mechanism has a `schedule`; so has one with a window mechanism: the most that each step may
    spend, whatever the data, and the scale of noise that errs as much as published values while counts stand still. One
    with a stream mechanism, or derived from another, has none, and `expected_errors` says what to expect of its steps.
    `l1_sensitivity`: what one user changes in a step at most.
    """

    name: Name
    query: Query
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS + 1)]
    l1_sensitivity: PositiveDecimal
    sensitivity_reason: str
    mechanism: AnyMechanism
    schedule: Schedule | None
    expected_errors: tuple[ErrorRun, ...] = ()
    estimator: Opaque
    constraints: tuple[ConstraintRow, ...]
    integer: bool
    predicted: Opaque
    candidates: Opaque
    share: PositiveDecimal | None = None

    @model_validator(mode="after")
    def _budgets_for_steps(self) -> ReleasePlan:
        if isinstance(self.mechanism, Budgeted) != (self.schedule is not None):
            raise ValueError("a mechanism whose steps have budgets has a schedule, and no other has one")
        if (self.schedule is None) != bool(self.expected_errors):
            raise ValueError("expected errors stand in the schedule, where there is one")
        return self

    @property
    def budgets(self) -> Schedule:
        """The schedule of a release with a step mechanism; ValueError for any other."""
        if self.schedule is None:
            raise ValueError("a release without a schedule accounts for the whole stream")
        return self.schedule

    @property
    def step_mechanism(self) -> StepMechanism:
        """The mechanism of a release with a schedule; ValueError for any other."""
        if isinstance(self.mechanism, StepMechanism):
            return self.mechanism
        raise ValueError("this mechanism accounts for the whole stream")

    @property
    def stream_mechanism(self) -> StreamMechanism | None:
        """The mechanism that accounts for the whole stream, if it is one."""
        return self.mechanism if isinstance(self.mechanism, StreamMechanism) else None

    @property
    def window_mechanism(self) -> WindowMechanism | None:
        """The mechanism that publishes when counts have moved, if it is one."""
        return self.mechanism if isinstance(self.mechanism, WindowMechanism) else None
