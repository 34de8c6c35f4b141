"""How many steps one user can take part in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.lengths import MONTH
from policyc.semantics.policy import Participation, Policy
from policyc.semantics.reading import written
from policyc.semantics.targets import UserLevelTarget, UserStepsTarget

ONE_EVENT = "the first event of a step"
PERIODS = tuple(86_400_000 * days for days in (365, 28, 7, 1))  # milliseconds


def check_participation(policy: Policy) -> Iterator[Diagnostic]:
    """Whether user-level targets have a bound, and whether it fits the horizon."""
    most, bound = policy.longest_part, policy.participation
    beside = [target for target in policy.targets if isinstance(target, UserStepsTarget)]
    if policy.window is not None:
        if bound is None or bound.enforced is not None or beside:
            yield from _dropping(policy, bound, policy.targets[0].span if bound is None else bound.span)
        if not beside:
            return
    if bound is not None:
        if most is not None and bound.steps > most:
            within = "the horizon" if most == policy.stream.horizon else "the period"
            yield Diagnostic(
                "E0502",
                f"a user cannot take part in {bound.steps} of {counted(most)}",
                bound.span,
                because=f"a bound beyond {within} bounds nothing, and one of the two numbers is not what was meant",
                help=f"write `at_most({counted(most)}, ...)`{' or fewer' if most > 1 else ''}",
                labels=(Label(policy.stream.horizon_span, "the horizon"),) if within == "the horizon" else (),
            )
        elif bound.enforced is not None and not beside and any(isinstance(t, UserLevelTarget) for t in policy.targets):
            yield from _dropping(policy, bound, bound.span)
        elif bound.enforced is not None and _steps_dropped(policy, bound) is not None:
            yield from _kept_as_they_are(policy, bound)
        return
    for target in policy.targets:
        if not isinstance(target, UserLevelTarget | UserStepsTarget) or getattr(target, "window", None) is not None:
            continue
        how = "enforced = keep_first" if isinstance(target, UserLevelTarget) else 'assumed = "why this holds"'
        if most is None:
            yield Diagnostic(
                "E0501",
                "no noise can hide a user who takes part for ever",
                target.span,
                because="the promise covers all events of a user, and over an unbounded horizon they have no bound",
                help=f"add `participation at_most(50 steps, {how})`, or give a horizon"
                + (
                    "; or promise less, all events of a user in one period, which any step can keep: `per = 1d` in "
                    "the target"
                    if isinstance(target, UserLevelTarget)
                    else ""
                ),
                labels=(Label(policy.stream.horizon_span, "the stream never ends"),),
            )
        elif most > 1 or isinstance(target, UserLevelTarget):  # else the period is a step, or part of one
            yield Diagnostic(
                "W0501",
                f"every user is taken to be there in all {counted(most)}{_of_a_period(policy)}",
                target.span,
                because="without a bound the noise must hide a user who takes part in every step",
                help=f"add `participation at_most({min(50, most)} steps, {_per(policy)}{how})` for "
                "less "
                f'noise, or `at_most({most} steps, {_per(policy)}assumed = "once a step")` to say that this is meant',
            )
            if isinstance(target, UserLevelTarget):
                yield from _dropping(policy, None, target.span)


def _kept_as_they_are(policy: Policy, bound: Participation) -> Iterator[Diagnostic]:
    """E0510: where events are dropped, one of them decides which others count, and promises about steps are none."""
    target = next((target for target in policy.targets if isinstance(target, UserStepsTarget)), None)
    if target is None:
        return
    other = next(one for one in policy.targets if one is not target)
    most = policy.longest_part
    every = "" if most is None else f"; or `at_most({counted(most)}, {_per(policy)}...)`, which drops nothing"
    yield Diagnostic(
        "E0510",
        "a bound that drops events does not stand beside a promise about steps",
        bound.span,
        because="whether an event counts would depend on where the user was before: one event would change what counts "
        "at other steps, and what is counted would not move as the chain says",
        help=f'write `assumed = "why nobody takes part in more"`{every}',
        labels=(Label(other.span, "promised here"),),
    )


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
    steps = None if bound is None or policy.window is not None else _steps_dropped(policy, bound)
    cells, events = _cells_dropped(policy, bound), _events_dropped(policy, bound)
    found = [one for one in (steps, cells, events) if one is not None]
    if not found:
        return
    signed = any(release.clamp is not None and release.clamp[0] < 0 for release in policy.releases)
    kept = " and ".join(one.kept for one in found)
    enforced = "keep_first" if bound is None else bound.enforced
    instead = (
        f'; or `assumed = "why nobody exceeds it"` in place of `enforced = {enforced}`, on which the promise then rests'
    )
    instead = "" if enforced is None else instead  # beside steps a run holds to what is assumed of each
    nothing = found == [steps] and policy.longest_part is not None
    remedy = (
        f"write {' and '.join(one.less for one in found)}, which drops {'nothing' if nothing else 'little'} and "
        f"takes more noise{instead}{_period_instead(policy, bound, found == [steps])}"
    )
    if policy.measured_through_chains:
        remedy = (
            "give the data one row of a user a step, such as the sum of its events with the cell that says where it is"
        )
    yield Diagnostic(
        "W0502",
        f"of users who {' or '.join(one.of for one in found)} only {kept} {'counts' if kept == ONE_EVENT else 'count'}",
        span,
        because=f"all others are dropped, so what is published is {'wrong' if signed else 'too low'}{found[0].course}; "
        "how much that is depends on the data, so the stated error is that of kept events alone",
        help=f"{remedy}; what a run drops stands in its private file, for the owner alone",
    )


def _period_instead(policy: Policy, bound: Participation | None, steps_alone: bool) -> str:
    """The longest usual period in which so many steps are part of more, where the promise is about a whole stream."""
    if bound is None or policy.period is not None or not steps_alone:
        return ""
    step, horizon = policy.stream.step_milliseconds, policy.stream.horizon
    if policy.stream.step == MONTH:
        return ""
    for length in PERIODS:
        period = length // step * step
        if bound.steps * step < period and (horizon is None or period < horizon * step):
            return (
                f"; or promise less, all events of a user in one period, which bounds every period anew: "
                f"`per = {written(period)}` in both"
            )
    return ""


def _steps_dropped(policy: Policy, bound: Participation) -> _Dropped | None:
    """What is dropped of users who take part in too many steps."""
    most = policy.longest_part
    if most is not None and bound.steps >= most and bound.spacing == 1:
        return None
    of = "" if most is None else f" of {most:,}"
    apart = f", or twice within {bound.spacing:,} steps," if bound.spacing > 1 else ""
    kept, course = "a sample of these", ", in all steps alike"
    if bound.enforced == "keep_first":
        late = ", falls from step to step, in the long run to zero" if most is None else ", the more so the later"
        kept, course = "the first of these", f"{late}{' in a period' if bound.per is not None else ''}"
    less = "a bound that hardly anybody exceeds" if most is None else f"`at_most({most} steps, {_per(policy)}...)`"
    steps = f"take part in more than {bound.steps:,}{of} steps{_of_a_period(policy)}{apart}"
    return _Dropped(steps, kept, course, less)


def counted(steps: int) -> str:
    """`1 step`, `24 steps`."""
    return "1 step" if steps == 1 else f"{steps} steps"


def _per(policy: Policy) -> str:
    """What a bound has to say of periods, to be written."""
    return "" if policy.period is None else f"per = {written(policy.period)}, "


def _of_a_period(policy: Policy) -> str:
    return " of a period" if policy.period is not None else ""


def _cells_dropped(policy: Policy, bound: Participation | None) -> _Dropped | None:
    """What is dropped of users who are in more cells of a step than count, in any release that says so."""
    usual = None if bound is None else bound.cells_per_step
    several = usual is not None or any(release.cells_per_step is not None for release in policy.releases)
    listed = len(policy.stream.cell.cells) if policy.stream.cell else 1
    counts = [release.cells_per_step or usual or 1 for release in policy.releases if release.by is not None]
    least = min(counts, default=listed)
    if not several or least >= listed:
        return None
    cells = "1 cell" if least == 1 else f"{least:,} cells"
    return _Dropped(
        f"are in more than {cells} of a step",
        "the first of these",
        "",
        f"a larger `cells_per_step`, up to {listed:,}",
    )


def _events_dropped(policy: Policy, bound: Participation | None) -> _Dropped | None:
    """What is dropped of users with too many events in a step; a count of users counts each once, however many."""
    events = 1 if bound is None else bound.per_step
    if events == 1 and all(release.kind != "sum" for release in policy.releases):
        return None
    kept = ONE_EVENT if events == 1 else f"the first {events:,} events of a step"
    more = "1 event" if events == 1 else f"{events:,} events"
    less = f"`per_step = {2 * events}`, or more, so that hardly anybody exceeds it"
    if bound is None:
        most = 1 if policy.window is not None else policy.longest_part or 1
        less = f"`participation at_most({counted(most)}, {_per(policy)}per_step = 2, enforced = keep_first)`, or more"
    return _Dropped(f"have more than {more} in a step", kept, "", less)
