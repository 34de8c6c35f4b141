"""A release of a plan with all that running it needs, as one of four kinds, and what is made of released values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, SerializeAsAny

from policyc_check.plan import release as checked_release
from policyc_check.plan.queries import TotalQuery
from policyc_check.plan.release import told_apart
from policyc_check.records import NOTHING
from policyc_runtime.constraint_row import ConstraintRow
from policyc_runtime.estimation import AnyEstimator, ConstraintSet
from policyc_runtime.made_release import MadeRecord
from policyc_runtime.mechanisms import (
    Accounted,
    AnyMechanism,
    Derived,
    StepMechanism,
    StreamMechanism,
    WindowMechanism,
)
from policyc_runtime.predicted_errors import Candidate, ErrorRun, ErrorRuns, PredictedError
from policyc_runtime.schedule import Schedule
from policyc_runtime.suppression_rule import AnySuppressionRule


class ReleasePlan(checked_release.ReleasePlan):
    """What the four kinds of releases share, with what is done to values after noise."""

    mechanism: AnyMechanism
    schedule: Schedule | None
    expected_errors: tuple[ErrorRun, ...] = ()
    estimator: AnyEstimator
    constraints: tuple[ConstraintRow, ...]
    suppressions: tuple[AnySuppressionRule, ...] = NOTHING
    predicted: PredictedError
    candidates: tuple[Candidate, ...]

    @property
    def constraint_set(self) -> ConstraintSet:
        """What its published values must satisfy, as arrays."""
        return ConstraintSet(self.constraints, len(self.cells), integer=self.integer)

    @property
    def balanced(self) -> bool:
        """Whether the noise of a step's cells adds up to zero."""
        return getattr(self.mechanism, "balanced_cells", None) is not None

    def errors(self, steps: int) -> list[float]:
        """Predicted error of the published values at the first `steps` steps, in the objective's unit."""
        if self.schedule is not None:
            return self.schedule.column("expected_errors", steps)
        values: list[float] = []
        for run in self.expected_errors:
            values += [run.error] * min(steps - len(values), steps if run.steps is None else run.steps)
        if len(values) < steps:
            raise ValueError(f"the expected errors end {steps - len(values)} steps too early")
        return values


class BudgetedRelease(ReleasePlan, checked_release.BudgetedRelease):
    """Every step has a budget, and noise of its own for it."""

    mechanism: Accounted[StepMechanism]
    schedule: Schedule
    expected_errors: tuple[()] = ()


class AdaptiveRelease(ReleasePlan, checked_release.AdaptiveRelease):
    """Steps spend as results so far allow, and give away records, from which values are computed."""

    mechanism: Accounted[WindowMechanism]
    schedule: Schedule
    expected_errors: tuple[()] = ()


class MeasuredRelease(ReleasePlan, checked_release.MeasuredRelease):
    """The mechanism accounts for the whole stream; its steps give away records, from which values are computed."""

    mechanism: Accounted[StreamMechanism]
    schedule: None
    expected_errors: ErrorRuns


class DerivedRelease(ReleasePlan, checked_release.DerivedRelease):
    """Totals of another release's noisy values."""

    query: TotalQuery
    mechanism: Accounted[Derived]
    schedule: None
    expected_errors: ErrorRuns


Scheduled = BudgetedRelease | AdaptiveRelease
"""Releases whose steps have budgets."""

Recorded = AdaptiveRelease | MeasuredRelease
"""Releases whose steps give away records, from which values are computed."""

KINDS = {"step": BudgetedRelease, "window": AdaptiveRelease, "stream": MeasuredRelease, "none": DerivedRelease}

AnyRelease = SerializeAsAny[Annotated[ReleasePlan, BeforeValidator(told_apart(KINDS))]]


class MadeRelease(MadeRecord):
    """One that is made of released values; `predicted` None where it depends on values that the policy does not say."""

    suppressions: tuple[AnySuppressionRule, ...] = NOTHING
    predicted: PredictedError | None = None
