"""How many steps one user can take part in."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Participation, Policy, UserLevelTarget


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
        elif bound.enforced is not None and any(isinstance(target, UserLevelTarget) for target in policy.targets):
            yield from _dropping(policy, bound)
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


def _dropping(policy: Policy, bound: Participation) -> Iterator[Diagnostic]:
    """W0502 where a user may take part more often than the bound lets count."""
    horizon = policy.stream.horizon
    if horizon is not None and bound.steps >= horizon and bound.spacing == 1:
        return
    if bound.enforced == "keep_sample" and policy.delivery.kind != "offline":
        return  # refused: nobody can sample what is still to come
    of = "" if horizon is None else f" of {horizon:,}"
    kept = "the first of these" if bound.enforced == "keep_first" else "some of these"
    apart = f", or twice within {bound.spacing:,} steps," if bound.spacing > 1 else ""
    late = ", falls from step to step, in the long run to zero" if horizon is None else ", the more so the later"
    everything = "a bound that hardly anybody exceeds" if horizon is None else f"`at_most({horizon} steps, ...)`"
    yield Diagnostic(
        "W0502",
        f"of users who take part in more than {bound.steps:,}{of} steps{apart} only {kept} count",
        bound.span,
        because=f"all further ones are dropped, so what is published is too low{late}; how much that is depends on the "
        "data, so the stated error is that of kept events alone",
        help=f"write {everything}, which drops {'little' if horizon is None else 'nothing'} and takes more noise, or "
        '`assumed = "why nobody exceeds it"`; what a run drops stands in its private file, for the owner alone',
    )
