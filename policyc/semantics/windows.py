"""Promises about one step or a window of steps, where the noise of the whole stream is accounted for.

Counts of users under an epsilon alone have a budget for every step. Whatever else a step can hold (sums, totals, noise
with a delta, levels, several cells) is planned as under a promise about all events of a user, of which those in so many
steps in a row are a part.

So are sums under `alpha_dpt`, where amounts depend on the cell alone: cell and amount are then a chain whose rows
depend on the cell alone, and pass on what the chain of cells does. What a step itself tells is a promise of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from policyc.offers import mechanism_offers
from policyc.semantics.beside import kept_by_steps
from policyc.semantics.policy import Policy, Wish
from policyc.semantics.targets import AlphaDPTTarget, EventLevelTarget, Target, UserLevelTarget, WEventTarget


def with_window(policy: Policy) -> Policy:
    """The same policy, promises about steps as ones about all that a user does in a window, where one must be.

    One about all events of a user beside them is then of so many steps, each of which counts what it has of the user.
    """
    steps = [target for target in policy.targets if isinstance(target, EventLevelTarget | WEventTarget)]
    leaking = [target for target in policy.targets if isinstance(target, AlphaDPTTarget)]
    if leaking:
        return _through_chains(policy, leaking)
    others = [target for target in policy.targets if target not in steps]
    users = all(isinstance(target, UserLevelTarget) for target in others)
    if not users or not any(_measured(policy, target) for target in steps):
        return policy
    targets = tuple(_of_stream(policy, target) for target in policy.targets)
    return replace(policy, targets=targets, mechanism=_dividing(policy.mechanism, steps))


def _through_chains(policy: Policy, leaking: Sequence[AlphaDPTTarget]) -> Policy:
    """The same policy, with what single steps tell promised too, where sums leak through chains as places do."""
    sums = any(release.kind == "sum" for release in policy.releases)
    if not sums or any(chain.amounts is None for chain in policy.chains):
        return policy
    least = min(leaking, key=lambda target: target.alpha)
    implied = UserLevelTarget(
        neighbors="replace", span=least.span, epsilon=least.alpha, delta=Decimal(0), window=1, implied=True
    )
    return replace(policy, targets=(*(_of_stream(policy, target) for target in policy.targets), implied))


def _dividing(wish: Wish, steps: Sequence[Target]) -> Wish:
    """The mechanism, which is told where the windows that it divides are single steps: nothing else says so then."""
    windows = [target.window for target in steps if isinstance(target, WEventTarget)]
    offer = mechanism_offers().get(wish.name)
    if offer is None or offer.promises != {"windows"} or set(windows) != {1} or "window" in wish.arguments:
        return wish
    return replace(wish, arguments={**wish.arguments, "window": 1})


def _of_stream(policy: Policy, target: Target) -> Target:
    if not isinstance(target, EventLevelTarget | WEventTarget):
        return kept_by_steps(target)
    horizon = policy.stream.horizon
    width = target.window if isinstance(target, WEventTarget) else 1
    return UserLevelTarget(
        neighbors=target.neighbors,
        span=target.span,
        epsilon=target.epsilon,
        delta=target.delta or Decimal(0),
        window=min(width, horizon or width),
    )


def _measured(policy: Policy, target: EventLevelTarget | WEventTarget) -> bool:
    """Whether budgets of steps cannot say what is asked."""
    bound, cell, offer = policy.participation, policy.stream.cell, mechanism_offers().get(policy.mechanism.name)
    alone = len(policy.targets) == 1  # of several promises, budgets keep those of levels and totals
    usual = (None, cell.column if cell is not None else None)
    follows = offer is not None and offer.promises == {"windows"}  # its budgets follow earlier results: delta is room
    return (
        (not follows and (target.delta is not None or target.neighbors == "add_remove"))
        or (offer is not None and not offer.promises & {"steps", "windows"})
        or (bound is not None and (bound.per_step > 1 or bound.cells_per_step is not None))
        or any(one.kind == "sum" or one.cells_per_step is not None for one in policy.releases)
        or (alone and any(one.base is not None or one.by not in usual for one in policy.releases))
        or any(block.agreements for block in policy.postprocess)
    )
