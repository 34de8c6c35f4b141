"""How many steps one user can take part in."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy, UserLevelTarget


def check_participation(policy: Policy) -> Iterator[Diagnostic]:
    """Whether user-level targets have a bound, and whether it fits the horizon."""
    horizon, bound = policy.stream.horizon, policy.participation
    if bound is not None:
        if horizon is not None and bound.steps > horizon:
            yield Diagnostic(
                "E0502",
                f"a user cannot take part in {bound.steps} of {horizon} steps",
                bound.span,
                because="a bound beyond the horizon bounds nothing, and one of the two numbers is not what was meant",
                help=f"write `at_most({horizon} steps, ...)` or fewer",
                labels=(Label(policy.stream.horizon_span, "the horizon"),),
            )
        return
    for target in policy.targets:
        if not isinstance(target, UserLevelTarget):
            continue
        if horizon is None:
            yield Diagnostic(
                "E0501",
                "no noise can hide a user who takes part for ever",
                target.span,
                because="the promise covers all events of a user, and over an unbounded horizon they have no bound",
                help="add `participation at_most(50 steps, enforced = keep_first)`, or give a horizon",
                labels=(Label(policy.stream.horizon_span, "the stream never ends"),),
            )
        else:
            yield Diagnostic(
                "W0501",
                f"every user is taken to be there in all {horizon} steps",
                target.span,
                because="without a bound the noise must hide a user who takes part in every step",
                help="add `participation at_most(50 steps, enforced = keep_first)` for less noise, or "
                f'`at_most({horizon} steps, assumed = "once a step")` to say that this is meant',
            )
