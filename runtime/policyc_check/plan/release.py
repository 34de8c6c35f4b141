"""How one release is made: by budgets of steps, adaptively, measured as a stream, or derived from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SerializeAsAny

from policyc_check.mechanisms import Accounted, AnyMechanism, Derived, StepMechanism, StreamMechanism, WindowMechanism
from policyc_check.plan.queries import Query, TotalQuery
from policyc_check.plan.schedule import Schedule
from policyc_check.plan.stream import MOST_CELLS
from policyc_check.records import NOTHING, Label, Name, Opaque, PositiveDecimal, Record


class Asked(Record):
    """What is counted, before anything is done to it.

    `cells` names the published values of a step, in order; a release without cells has the one name "".
    `l1_sensitivity`: what one user changes in a step at most.
    """

    name: Name
    query: Query
    cells: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CELLS + 1)]
    l1_sensitivity: PositiveDecimal
    sensitivity_reason: str


class ReleasePlan(Asked):
    """What all kinds share. `share`: of several, the part of every step's budget that this one takes, rounded up."""

    mechanism: AnyMechanism
    schedule: Schedule | None
    expected_errors: Opaque = ()
    estimator: Opaque
    constraints: Opaque
    integer: bool
    suppressions: Opaque = NOTHING
    predicted: Opaque
    candidates: Opaque
    share: PositiveDecimal | None = None


class BudgetedRelease(ReleasePlan):
    """Every step has a budget, and noise of its own for it."""

    mechanism: Accounted[StepMechanism]
    schedule: Schedule


class AdaptiveRelease(ReleasePlan):
    """Steps spend as results so far allow: `schedule` says the most that each may, and the noise that errs as much."""

    mechanism: Accounted[WindowMechanism]
    schedule: Schedule


class MeasuredRelease(ReleasePlan):
    """A mechanism accounts for the whole stream; so does one of windows, where no step is said to have a budget."""

    mechanism: Accounted[StreamMechanism]
    schedule: None


class DerivedRelease(ReleasePlan):
    """Totals of another release's noisy values: nothing is measured, and nothing spent."""

    query: TotalQuery
    mechanism: Accounted[Derived]
    schedule: None


Scheduled = BudgetedRelease | AdaptiveRelease
"""Releases whose steps have budgets."""


def told_apart(kinds: Mapping[str, type[ReleasePlan]]) -> Callable[[Any], Any]:
    """A validator that turns a release's fields into its kind, told by what its mechanism accounts for."""

    def load(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        told = value.get("mechanism")
        accounting = told.get("accounting") if isinstance(told, dict) else getattr(told, "accounting", None)
        stream = accounting == "window" and value.get("schedule") is None
        return kinds.get("stream" if stream else str(accounting), kinds["step"]).model_validate(value)

    return load


KINDS = {"step": BudgetedRelease, "window": AdaptiveRelease, "stream": MeasuredRelease, "none": DerivedRelease}

AnyRelease = SerializeAsAny[Annotated[ReleasePlan, BeforeValidator(told_apart(KINDS))]]
