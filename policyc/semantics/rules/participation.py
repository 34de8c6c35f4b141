"""How many steps one user can take part in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Participation, Policy, UserLevelTarget

ONE_EVENT = "the first event of a step"


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
            yield from _dropping(policy, bound, bound.span)
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
            yield from _dropping(policy, None, target.span)


class _Dropped(NamedTuple):
    """Of which users something is dropped, what counts instead, how that goes on, and what drops less."""

    of: str
    kept: str
    course: str
    less: str


def _dropping(policy: Policy, bound: Participation | None, span: Span) -> Iterator[Diagnostic]:
    """W0502 where a user may take part more often, or with more events in a step, than an enforced bound lets count."""
    if bound is not None and bound.enforced == "keep_sample" and policy.delivery.kind != "offline":
        return  # refused: nobody can sample what is still to come
    steps = None if bound is None else _steps_dropped(policy, bound)
    found = [one for one in (steps, _events_dropped(policy, bound)) if one is not None]
    if not found:
        return
    signed = any(release.clamp is not None and release.clamp[0] < 0 for release in policy.releases)
    kept = " and ".join(one.kept for one in found)
    nothing = found == [steps] and policy.stream.horizon is not None
    yield Diagnostic(
        "W0502",
        f"of users who {' or '.join(one.of for one in found)} only {kept} {'counts' if kept == ONE_EVENT else 'count'}",
        span,
        because=f"all others are dropped, so what is published is {'wrong' if signed else 'too low'}{found[0].course}; "
        "how much that is depends on the data, so the stated error is that of kept events alone",
        help=f"write {' and '.join(one.less for one in found)}, which drops {'nothing' if nothing else 'little'} and "
        'takes more noise, or `assumed = "why nobody exceeds it"`; what a run drops stands in its private file, for '
        "the owner alone",
    )


def _steps_dropped(policy: Policy, bound: Participation) -> _Dropped | None:
    """What is dropped of users who take part in too many steps."""
    horizon = policy.stream.horizon
    if horizon is not None and bound.steps >= horizon and bound.spacing == 1:
        return None
    of = "" if horizon is None else f" of {horizon:,}"
    apart = f", or twice within {bound.spacing:,} steps," if bound.spacing > 1 else ""
    kept, course = "a sample of these", ", in all steps alike"
    if bound.enforced == "keep_first":
        late = ", falls from step to step, in the long run to zero" if horizon is None else ", the more so the later"
        kept, course = "the first of these", late
    less = "a bound that hardly anybody exceeds" if horizon is None else f"`at_most({horizon} steps, ...)`"
    return _Dropped(f"take part in more than {bound.steps:,}{of} steps{apart}", kept, course, less)


def _events_dropped(policy: Policy, bound: Participation | None) -> _Dropped | None:
    """What is dropped of users with too many events in a step; a count of users counts each once, however many."""
    events = 1 if bound is None else bound.per_step
    if events == 1 and all(release.kind != "sum" for release in policy.releases):
        return None
    kept = ONE_EVENT if events == 1 else f"the first {events:,} events of a step"
    more = "1 event" if events == 1 else f"{events:,} events"
    less = f"`per_step = {2 * events}`, or more, so that hardly anybody exceeds it"
    if bound is None:
        less = f"`participation at_most({policy.stream.horizon} steps, per_step = 2, enforced = keep_first)`, or more"
    return _Dropped(f"have more than {more} in a step", kept, "", less)
