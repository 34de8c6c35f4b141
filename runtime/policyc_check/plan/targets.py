"""What is promised: the targets of a plan, each with the data sets it compares."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Literal, TypeGuard

from pydantic import Field

from policyc_check.plan.stream import Length
from policyc_check.records import UNSAID, PositiveDecimal, Record, Steps


class NeighboringRelation(StrEnum):
    """Which two data sets must be hard to tell apart."""

    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    REPLACE_ONE = "replace_one"


class AlphaDPT(Record):
    """One event of one user, against an adversary who knows the chains: total leakage at most alpha nats at every step.

    With a `window` of more than one step: all that one user does in that many steps in a row. Source: CAO17.
    """

    kind: Literal["alpha_dpt"] = "alpha_dpt"
    alpha: PositiveDecimal
    window: Steps = 1


class OfSteps(Record):
    """Steps taken as independent. `delta`: may be left to chance, and budgets leave none. No relation: replaced."""

    delta: Annotated[Decimal, Field(ge=0, lt=1, allow_inf_nan=False)] | None = UNSAID
    relation: NeighboringRelation | None = UNSAID


class EventLevel(OfSteps):
    """One event of one user, steps taken as independent: the budget of every step is at most epsilon nats."""

    kind: Literal["event_level"] = "event_level"
    epsilon: PositiveDecimal


class WEvent(OfSteps):
    """All of one user in `window` steps in a row: they spend at most epsilon nats together. Source: KELLARIS14."""

    kind: Literal["w_event"] = "w_event"
    epsilon: PositiveDecimal
    window: Steps


class UserPromise(Record):
    """All events of one user, whatever their correlation, in everything released.

    With `per`: of one such period, counted from step 0 on. With a `window`: of so many steps in a row (KELLARIS14).
    """


class UserLevel(UserPromise):
    """(epsilon, delta)-privacy; with delta 0 nothing is left to chance. Source: DR14."""

    kind: Literal["user_level"] = "user_level"
    epsilon: PositiveDecimal
    delta: Annotated[Decimal, Field(ge=0, lt=1, allow_inf_nan=False)]
    relation: NeighboringRelation
    per: Length | None = UNSAID
    window: Steps | None = UNSAID


class UserRho(UserPromise):
    """Zero-concentrated privacy: Renyi divergences of order a > 1 are at most rho a. Source: BS16."""

    kind: Literal["user_level_rho"] = "user_level_rho"
    rho: PositiveDecimal
    relation: NeighboringRelation
    per: Length | None = UNSAID
    window: Steps | None = UNSAID


AnyUserPromise = UserLevel | UserRho


class UserSteps(Record):
    """All events of one user in at most `bound` steps, beside promises about steps: (epsilon, delta)-privacy.

    `window`: steps of a period; `per`: its length if below a step. `assumed`: why none is in more, if so. Source: DR14.
    """

    kind: Literal["user_steps"] = "user_steps"
    epsilon: PositiveDecimal
    delta: Annotated[Decimal, Field(ge=0, lt=1, allow_inf_nan=False)]
    relation: NeighboringRelation
    bound: Steps
    assumed: str | None
    window: Steps | None = UNSAID
    per: Length | None = UNSAID


class UserStepsRho(Record):
    """The same as zero-concentrated privacy. Source: BS16."""

    kind: Literal["user_steps_rho"] = "user_steps_rho"
    rho: PositiveDecimal
    relation: NeighboringRelation
    bound: Steps
    assumed: str | None
    window: Steps | None = UNSAID
    per: Length | None = UNSAID


AnyUserSteps = UserSteps | UserStepsRho
Target = Annotated[AlphaDPT | EventLevel | WEvent | AnyUserPromise | AnyUserSteps, Field(discriminator="kind")]


def window_of(target: Target) -> int:
    """The steps in a row that a target covers together; 1 for one that is not about windows."""
    return target.window if isinstance(target, AlphaDPT | WEvent) else 1


def hides_a_step(target: Target) -> TypeGuard[UserLevel]:
    """Whether it covers every single step, whatever a user does in it, and leaves nothing to chance."""
    return isinstance(target, UserLevel) and target.window == 1 and not (target.delta or adds_or_removes(target))


def adds_or_removes(target: Target) -> bool:
    """Whether its neighbors have events more or less; else they have others."""
    return getattr(target, "relation", None) is NeighboringRelation.ADD_OR_REMOVE_ONE
