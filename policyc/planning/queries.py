"""What each release asks of the stream, and how far one user can take part, as the plan records it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from policyc.semantics.policy import Policy, Release
from policyc.semantics.targets import UserStepsTarget
from policyc_check.plan.queries import CountQuery, PrefixQuery, Query, SumQuery, WindowQuery
from policyc_check.plan.stream import ParticipationRecord
from policyc_check.plan.targets import AnyUserSteps, NeighboringRelation, UserSteps, UserStepsRho
from policyc_check.users.participation import Participation

RELATIONS = {"add_remove": NeighboringRelation.ADD_OR_REMOVE_ONE, "replace": NeighboringRelation.REPLACE_ONE}
GRID_STEPS = 1000  # a clamped value is told from zero in at least so many steps of the grid


def ordered_releases(policy: Policy) -> list[Release]:
    """The releases, each after the one it is made of."""
    by_name = {release.name: release for release in policy.releases}

    def depth(release: Release) -> int:
        return 0 if release.base is None else 1 + depth(by_name[release.base])

    return sorted(policy.releases, key=depth)


def query_of(policy: Policy, release: Release) -> Query:
    """What a release asks."""
    by = release.by
    bound = policy.participation
    cells = release.cells_per_step or (bound.cells_per_step if bound is not None and by is not None else None)
    if release.kind == "sum":
        assert release.column is not None, "the grammar demands it"
        assert release.clamp is not None, "the grammar demands it"
        low, high = release.clamp
        grid = grid_of(low, high)
        return SumQuery(column=release.column, low=low, high=high, grid=grid, by=by, cells_per_step=cells)
    if release.base is None:
        return CountQuery(by=by, cells_per_step=cells)
    if release.width is None:
        return PrefixQuery(of=release.base, by=by)
    return WindowQuery(of=release.base, steps=release.width, by=by)


def grid_of(low: Decimal, high: Decimal) -> Decimal:
    """A power of ten, 1000 to 10,000 of which make the largest clamped value: public, and small beside the noise."""
    return Decimal(1).scaleb(math.floor(math.log10(max(abs(low), abs(high)) / GRID_STEPS)))


def participation_of(policy: Policy) -> ParticipationRecord:
    """How far one user can take part; without a statement in every step, once, which the run itself makes true.

    Of a promise about windows it is said of every step by itself.
    """
    stated = policy.participation
    if policy.window is not None:
        # beside a promise that assumes how many steps, of each step the run itself keeps what counts
        assumed = None if stated is None or users_beside(policy) else stated.assumed
        return ParticipationRecord(
            bound=1,
            per_step=1 if stated is None else stated.per_step,
            spacing=1,
            enforced="keep_first" if assumed is None else None,
            assumed=assumed,
        )
    if stated is None:
        assert policy.longest_part is not None, "an endless stream without a bound was refused before"
        return ParticipationRecord(
            bound=policy.longest_part, per_step=1, spacing=1, enforced="keep_first", assumed=None
        )
    return ParticipationRecord(
        bound=stated.steps,
        per_step=stated.per_step,
        spacing=stated.spacing,
        enforced=stated.enforced,
        assumed=stated.assumed,
    )


def users_beside(policy: Policy) -> list[AnyUserSteps]:
    """The promises about all events of one user that budgets of steps have to keep."""
    return [beside_steps(policy, target) for target in policy.targets if isinstance(target, UserStepsTarget)]


def beside_steps(policy: Policy, target: UserStepsTarget) -> AnyUserSteps:
    """Such a promise as the plan has it: without a stated bound a user may be in every step, of all or a period.

    A period that is part of a step is one step, in which without its events a user may count elsewhere.
    """
    stated, most = policy.participation, policy.longest_part
    bound = most if stated is None else Participation(stated.steps, most, stated.spacing).steps
    assert bound is not None, "an endless stream without a bound was refused before"
    said: dict[str, Any] = {"relation": RELATIONS[target.neighbors], "bound": bound}
    said["assumed"] = None if stated is None else stated.assumed
    said["window"] = None if target.per is None else most
    said["per"] = target.per if policy.within_a_step(target.per) else None
    if target.rho is not None:
        return UserStepsRho(rho=target.rho, **said)
    nats, delta = target.epsilon, target.delta
    assert nats is not None, "read where there is no rho"
    assert delta is not None, "read with an epsilon"
    return UserSteps(epsilon=nats, delta=delta, **said)
