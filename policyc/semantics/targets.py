"""Targets: what is promised to whom, as a checked policy has it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from policyc.diagnostics import Span
from policyc.offers.goals import AtDelta, Goal, LargestLoss, Rho
from policyc.semantics.lengths import Length


@dataclass(frozen=True)
class AlphaDPTTarget:
    """One event of one user, against an adversary who knows the correlation (CAO17). `window` in steps."""

    alpha: Decimal
    span: Span
    window: int = 1
    neighbors: Literal["add_remove", "replace"] = "replace"


@dataclass(frozen=True, kw_only=True)
class UserLevelTarget:
    """All events of one user: epsilon at a delta, which may be 0, or rho in place of both.

    With `per`: all of one user in one such period. With `window`: in so many steps in a row, as `event_level` and
    `w_event` have it. `implied`: by `alpha_dpt`, of single steps; how few nats that takes is found when it is planned.
    """

    neighbors: Literal["add_remove", "replace"]
    span: Span
    per: Length | None = None
    window: int | None = None
    epsilon: Decimal | None = None
    delta: Decimal | None = None
    rho: Decimal | None = None
    implied: bool = False

    @property
    def goal(self) -> Goal:
        """What noise has to keep for it."""
        return _goal(self)


@dataclass(frozen=True)
class EventLevelTarget:
    """One event of one user, no correlation; delta None or 0 leaves nothing to chance."""

    epsilon: Decimal
    span: Span
    delta: Decimal | None = None
    neighbors: Literal["add_remove", "replace"] = "replace"


@dataclass(frozen=True)
class WEventTarget:
    """Any window of that many steps (Kellaris et al. 2014); delta None or 0 leaves nothing to chance."""

    epsilon: Decimal
    window: int
    span: Span
    delta: Decimal | None = None
    neighbors: Literal["add_remove", "replace"] = "replace"


@dataclass(frozen=True, kw_only=True)
class UserStepsTarget:
    """All events of one user, which budgets of steps keep beside promises about steps: epsilon at a delta, or rho.

    With `per`: all of one user in one such period.
    """

    neighbors: Literal["add_remove", "replace"]
    span: Span
    per: Length | None
    epsilon: Decimal | None
    delta: Decimal | None
    rho: Decimal | None = None

    @property
    def goal(self) -> Goal:
        """What noise has to keep for it, where steps have no budgets."""
        return _goal(self)


def _goal(target: UserLevelTarget | UserStepsTarget) -> Goal:
    if target.rho is not None:
        return Rho(target.rho)
    assert target.epsilon is not None, "read where there is no rho"
    return AtDelta(target.epsilon, target.delta) if target.delta else LargestLoss(target.epsilon)


Target = AlphaDPTTarget | UserLevelTarget | EventLevelTarget | WEventTarget | UserStepsTarget
