"""A promise about all events of a user beside promises about steps: their budgets have to keep it.

It holds whatever users do where budgets of as many steps as neighbors may differ in tell no more than is promised. That
is so of users as their events say: nothing is dropped, which would let one event change what counts of others.
"""

from __future__ import annotations

from dataclasses import replace

from policyc.semantics.policy import Policy
from policyc.semantics.targets import Target, UserLevelTarget, UserStepsTarget


def with_budgets(policy: Policy) -> Policy:
    """The same policy, its promise about all of a user as one that budgets of steps keep, where others are of steps."""
    if policy.of_streams:
        return policy
    return replace(policy, targets=tuple(kept_by_steps(target) for target in policy.targets))


def kept_by_steps(target: Target) -> Target:
    """A promise about all of a user as one about all of it in so many steps; any other as it is."""
    if not isinstance(target, UserLevelTarget):
        return target
    own = {name: getattr(target, name) for name in ("neighbors", "span", "per", "epsilon", "delta", "rho")}
    return UserStepsTarget(**own)
