"""What a plan says of its own privacy."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from policyc_check.plan.targets import NeighboringRelation
from policyc_check.records import NOTHING, UNSAID, Count, Label, Opaque, PositiveDecimal, Record, Steps


class WindowClaim(Record):
    """What any `window` steps in a row leak of one user (`leakage`), or spend (`budget`): at most so many nats."""

    kind: Literal["leakage", "budget"]
    window: Steps
    nats: PositiveDecimal


class Degradation(Record):
    """What is left for users who take part in `participation` steps: epsilon (nats, rounded up) at the same delta.

    `epsilon` None: nothing is, as so little noise may show such a user for certain more often than delta says.
    """

    participation: Count
    epsilon: PositiveDecimal | None


class UserLevelClaim(Record):
    """All releases together are (epsilon, delta)-private for one user; `beyond`: when the participation bound fails."""

    epsilon: PositiveDecimal
    delta: Annotated[Decimal, Field(ge=0, lt=1, allow_inf_nan=False)]
    relation: NeighboringRelation
    beyond: tuple[Degradation, ...]


class CurvePoint(Record):
    """An epsilon (nats, rounded up) that is kept at this delta; None for none that is known."""

    delta: Annotated[Decimal, Field(gt=0, lt=1, allow_inf_nan=False)]
    epsilon: PositiveDecimal | None


class RhoLeft(Record):
    """What is left for users who take part in `participation` steps: rho, rounded up, and points of the exact curve."""

    participation: Count
    rho: PositiveDecimal
    curve: tuple[CurvePoint, ...]


class UserRhoClaim(Record):
    """All releases together are rho-zCDP for one user, which is at these deltas so much epsilon; `beyond` as above."""

    rho: PositiveDecimal
    relation: NeighboringRelation
    curve: tuple[CurvePoint, ...]
    beyond: tuple[RhoLeft, ...]


UserClaim = UserLevelClaim | UserRhoClaim


class InheritedRun(Record):
    """What steps inherit at most from one side, nats, and the lag by which that is shown: a pattern that repeats.

    Lag 0: nothing was released on that side.
    """

    nats: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(min_length=1)]
    lags: tuple[Literal[0] | Steps, ...]
    repeats: Steps


class PairBounds(Record):
    """What steps inherit from one side, nats, (n, n): of all, or of those with at most `until` steps there, in turn."""

    nats: Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(max_length=8192)]
    until: tuple[Steps, ...] = NOTHING
    places: Opaque = NOTHING  # of an earlier version, as are
    weights: Opaque = NOTHING


class Inheritance(Record):
    """For the users of one chain: what every step inherits from the steps before and after it, in the order of time.

    Of an endless plan, what each step of its period does, after those until its law has settled. Or `pairs` say it.
    """

    group: Label | None
    before: tuple[InheritedRun, ...]
    after: tuple[InheritedRun, ...]
    pairs: tuple[PairBounds, PairBounds] | None = UNSAID


class Claims(Record):
    """What the plan says of its own privacy; recomputed by `verify`.

    `total_leakage`: the largest TPL over all steps and groups, rounded up (None without an alpha-DP_T target).
    `budget_sum`: the sum of all budgets, rounded up: what one user's whole stream is promised, whatever the
    correlation (None for an unbounded horizon). `largest_budget`: None where no step has a budget of its own.
    `windows`: one for each w-event target, and each other one over several steps. `inherited`: one for each chain,
    where leakage is promised, by which it is shown. `witnesses`: at most one for each chain, the leakage that is
    known to be reached; followed by `policyc_runtime.witness`. `user_level`: one for each user-level target, in order.
    """

    total_leakage: PositiveDecimal | None
    budget_sum: PositiveDecimal | None
    largest_budget: PositiveDecimal | None
    windows: tuple[WindowClaim, ...] = ()
    inherited: tuple[Inheritance, ...] = ()
    witnesses: Opaque = NOTHING
    user_level: tuple[UserClaim, ...] = ()
