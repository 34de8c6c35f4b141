"""What is promised: is it a promise at all, and does it fit the stream?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy
from policyc.semantics.rules.delta import check_delta
from policyc.semantics.targets import (
    AlphaDPTTarget,
    EventLevelTarget,
    Target,
    UserLevelTarget,
    UserStepsTarget,
    WEventTarget,
)

_LARGE = 10
_LARGEST = 100  # nats from which nothing that anybody could have known before is left to be hidden
_KIND = {
    AlphaDPTTarget: "alpha_dpt",
    UserLevelTarget: "user_level",
    UserStepsTarget: "user_level",
    EventLevelTarget: "event_level",
    WEventTarget: "w_event",
}


def _kind(target: Target) -> str:
    """A promise as policies name it."""
    window = target.window if isinstance(target, UserLevelTarget) else None
    return _KIND[type(target)] if window is None else "event_level" if window == 1 else "w_event"


def _of_steps(target: Target) -> bool:
    """Whether a promise is about one step or a window, steps taken as independent."""
    return _kind(target) in ("event_level", "w_event")


def check_targets(policy: Policy) -> Iterator[Diagnostic]:
    """All findings about the `target` lines."""
    if not policy.targets:
        yield Diagnostic(
            "E0301",
            "the policy promises nothing",
            policy.stream.span,
            because="without a promise nothing is protected",
            help="add a target, such as `target alpha_dpt(alpha = 1.0)`",
        )
    yield from _twice(policy)
    yield from _uncounted(policy)
    yield from _chain_without_use(policy)
    for target in policy.targets:
        yield from _large(policy, target)
        if isinstance(target, AlphaDPTTarget):
            yield from _alpha_dpt(policy, target)
        if not isinstance(target, AlphaDPTTarget):
            yield from check_delta(target, policy.stream)
        if isinstance(target, UserLevelTarget | UserStepsTarget):
            yield from _no_start(policy, target)
        if isinstance(target, UserStepsTarget) or (_kept_by_budgets(target) and target.neighbors == "add_remove"):
            yield from _counted_when_absent(policy, target)
    yield from _read_as_user_level(policy)


def _twice(policy: Policy) -> Iterator[Diagnostic]:
    """Two targets of one kind: w-event targets of two windows are two promises, everything else is one too many."""
    first: dict[object, Target] = {}
    for target in policy.targets:
        key = (type(target), getattr(target, "window", None), policy.source.text[target.span.start :].split("(")[0])
        if key in first:
            yield Diagnostic(
                "E0306",
                f"`{_kind(target)}` is promised twice",
                target.span,
                because="only the stronger of the two would mean anything, and a reader could quote the weaker",
                help="keep the one that is meant",
                labels=(Label(first[key].span, "the first one"),),
            )
        first.setdefault(key, target)


def _large(policy: Policy, target: Target) -> Iterator[Diagnostic]:
    name, value = amount_of(target)
    if isinstance(target, UserLevelTarget) and target.implied:
        return
    average = " on average" if name == "rho" else ""
    if value > _LARGEST:
        yield Diagnostic(
            "E0311",
            f"{name} {value:.10g} promises nothing",
            target.span,
            because=f"it lets the odds between two possibilities change{average} by a factor of {_factor(value)}: "
            "whatever was likely or unlikely before, an attacker can be certain afterwards",
            help=f"write `{name} = 1.0`; numbers up to {_LARGEST} are planned, those above {_LARGE} with a warning",
        )
        return
    if value <= _LARGE or value in _numbers_in_comments(policy, target):
        return
    yield Diagnostic(
        "W0302",
        f"{name} {value:.10g} protects hardly anyone",
        target.span,
        because=f"it lets the odds between two possibilities change{average} by a factor of {_factor(value)}: an "
        "attacker who "
        "thought them equally likely can be all but certain afterwards",
        help="choose a smaller number, or say why in a comment on the line before that names it: "
        f"`# {value:.10g}, since ...`",
    )


def amount_of(target: Target) -> tuple[str, Decimal]:
    """What the number of a promise is called, and how many nats it is: rho are those lost on average."""
    if isinstance(target, AlphaDPTTarget):
        return "alpha", target.alpha
    if isinstance(target, UserLevelTarget | UserStepsTarget) and target.rho is not None:
        return "rho", target.rho
    assert target.epsilon is not None, "read where there is no rho"
    return "epsilon", target.epsilon


def _factor(value: Decimal) -> str:
    """How far odds change at most: e to the power of a number of nats, in words."""
    zeros = int(min(value, Decimal(10**9)) / Decimal(10).ln())
    return f"{int(value.exp()):,}" if zeros < 9 else f"a 1 with {zeros:,} zeros or more"


def _numbers_in_comments(policy: Policy, target: Target) -> set[Decimal]:
    """The numbers that are named in the comment directly before a target, in it, or after it on its line.

    A comment that only says what the target is, such as that of the policy to start from, gives no reason for a number.
    """
    text = policy.source.text
    line, _ = policy.source.line_and_column(target.span.start)
    line_end = text.find("\n", target.span.end)
    comments = re.findall(r"#.*", text[target.span.start : line_end if line_end >= 0 else len(text)])
    while line > 1 and policy.source.line_text(line - 1).lstrip().startswith("#"):
        line -= 1
        comments.append(policy.source.line_text(line))
    return {Decimal(number) for number in re.findall(r"\d+(?:\.\d+)?", " ".join(comments), re.ASCII)}


def _alpha_dpt(policy: Policy, target: AlphaDPTTarget) -> Iterator[Diagnostic]:
    if target.neighbors == "add_remove":
        yield Diagnostic(
            "E0303",
            "alpha-DP_T needs replacement neighbors",
            target.span,
            because="it compares two values of one user at one time; adding a user has no second value",
            help='write `neighbors = replace` or leave it out, and add `otherwise "elsewhere"` to the cell, '
            "so that absence is a value",
        )
    if not policy.correlations:
        yield Diagnostic(
            "E0302",
            "alpha-DP_T needs to know how users move",
            target.span,
            because="it is a promise against an adversary who knows the correlation between steps; with none stated "
            "there is nothing to hold it against",
            help='add `correlation markov(forward = ..., initial = stationary, evidence = "...")`, '
            'or `correlation none(evidence = "...")` if steps are independent',
        )
    if policy.chains and policy.stream.cell is None:
        yield Diagnostic(
            "E0307",
            "the chain has states, and the stream has no cell to be in",
            target.span,
            because="alpha-DP_T is computed from how a user moves between the cells in which users are counted",
            help='add `cell my_column in {"A", "B"} otherwise "elsewhere"` to the stream',
            labels=(Label(policy.chains[0].span, "this says how users move"),),
        )
    elif policy.chains:
        yield from _exactly_one_cell(policy, target)


def _exactly_one_cell(policy: Policy, target: AlphaDPTTarget) -> Iterator[Diagnostic]:
    """A user is in exactly one state at each step: by `otherwise`, or because the cells' counts add up to everybody."""
    cell, population = policy.stream.cell, policy.stream.population
    if cell is None or cell.otherwise is not None:
        return
    if policy.measured_through_chains:
        yield Diagnostic(
            "E0304",
            "a user may be in none of the cells",
            cell.span,
            because="alpha-DP_T replaces one cell of a user by another, and who has no event at a step is in no state "
            "of the chain",
            help='add `otherwise "elsewhere"`, and its row to the chain',
            labels=(Label(target.span, "promised here"),),
        )
    elif population is None or not _cells_cover(policy):
        yield Diagnostic(
            "E0304",
            "a user may be in none of the cells",
            cell.span,
            because="alpha-DP_T replaces one cell of a user by another; a user who is nowhere has no cell to replace, "
            "and the chain no state to be in",
            help='add `otherwise "elsewhere"`; or, if everybody is always in one of them, give `population` and the '
            "constraint `sum(my_release) == population`",
            labels=(Label(target.span, "promised here"),),
        )


def _kept_by_budgets(target: Target) -> bool:
    """Whether a promise about one step or a window is kept by what its steps spend."""
    return isinstance(target, EventLevelTarget | WEventTarget)


def _counted_when_absent(policy: Policy, target: Target) -> Iterator[Diagnostic]:
    """E0304: who takes part in some steps only is somewhere in the others, where the cells add up to the population."""
    cell, population = policy.stream.cell, policy.stream.population
    by_cell = any(release.by is not None for release in policy.releases)
    if policy.of_streams and not _cells_cover(policy):
        return
    if cell is None or cell.otherwise is not None or population is None or not by_cell:
        return
    if (
        policy.chains
        and any(isinstance(other, AlphaDPTTarget) for other in policy.targets)
        and not _cells_cover(policy)
    ):
        return  # said already
    because = "the promise is about users who take part in some steps; in the others they are in no cell"
    if _kept_by_budgets(target):
        because = "without its events a user is in no cell"
    yield Diagnostic(
        "E0304",
        "a user may be in none of the cells",
        cell.span,
        because=f"{because}, and the counts do not add up to the population",
        help='add `otherwise "elsewhere"`',
        labels=(Label(target.span, "promised here"),),
    )


def _cells_cover(policy: Policy) -> bool:
    """Whether counts by cell add up to everybody."""
    counts = {r.name for r in policy.releases if r.kind == "count" and r.by is not None}
    return any(
        row.relation == "=="
        and row.bound == policy.stream.population
        and len(row.current) == row.cells
        and set(row.current.values()) == {Decimal(1)}
        and not row.previous
        for block in policy.postprocess
        if block.release in counts
        for row in block.constraints
    )


def _chain_without_use(policy: Policy) -> Iterator[Diagnostic]:
    """E0309: event-level and w-event promises take steps as independent; a declared chain says that they are not."""
    if not policy.chains or any(isinstance(target, AlphaDPTTarget) for target in policy.targets):
        return
    for target in filter(_of_steps, policy.targets):
        yield Diagnostic(
            "E0309",
            "this promise takes steps as independent, and the policy declares how they depend on each other",
            target.span,
            because=f"who knows the chain learns more than `{_kind(target)}` says",
            help="promise `alpha_dpt(alpha = ...)`, or declare `correlation none(evidence = ...)`",
            labels=(Label(policy.chains[0].span, "declared here"),),
        )


def _uncounted(policy: Policy) -> Iterator[Diagnostic]:
    """E0308: who is `otherwise` can only be counted from a public number of users."""
    cell = policy.stream.cell
    events = [
        target
        for target in policy.targets
        if _kept_by_budgets(target) or (not isinstance(target, UserStepsTarget) and target.neighbors == "replace")
    ]
    counted = any(release.kind == "count" and release.by is not None for release in policy.releases)
    if cell is None or cell.otherwise is None or policy.stream.population is not None or not events or not counted:
        return
    yield Diagnostic(
        "E0308",
        f"how many users are `{cell.otherwise}` is not known",
        cell.span,
        because="the number of users in the data is itself protected: one event can change it, and with it this cell "
        "at every step",
        help="add the public number of users to the stream: `population 1_000`",
        labels=(Label(events[0].span, "promised here"),),
    )


def _no_start(policy: Policy, target: UserLevelTarget | UserStepsTarget) -> Iterator[Diagnostic]:
    part = isinstance(target, UserLevelTarget) and (target.per is not None or target.window is not None)
    if policy.stream.start is None and not part:
        yield Diagnostic(
            "W0503",
            "the stream does not say when step 0 begins",
            policy.stream.span,
            because="the promise covers all events of a user, so that no event may fix the moment of every step: the "
            "first run has to be told it",
            help='add `start "2013-01-31"` to the stream, or give the first run `--start 2013-01-31`',
            labels=(Label(target.span, "promised here"),),
        )


def _read_as_user_level(policy: Policy) -> Iterator[Diagnostic]:
    """A participation bound is how a user-level promise is made, so it is the sign of one that was meant."""
    if policy.participation is None or not policy.targets:
        return
    if any(_kind(target) == "user_level" for target in policy.targets):
        return
    target, used = policy.targets[0], "this"
    if policy.window is not None:
        if policy.participation.steps == policy.participation.spacing == 1:
            return
        used = "how many steps it says, and how far apart,"
    yield Diagnostic(
        "W0303",
        f"`{_kind(target)}` does not protect all events of a user",
        target.span,
        because="it protects single events or short windows; a reader who sees a participation bound may take it for "
        "a stronger promise",
        help="add `target user_level(epsilon = ..., delta = ..., neighbors = add_remove)` to state both, or drop "
        "`participation`"
        if policy.window is None
        else "promise all events of a user, `target user_level(epsilon = ..., delta = ..., neighbors = ...)`, or "
        "write `at_most(1 steps, ...)`",
        labels=(Label(policy.participation.span, f"only a user-level promise uses {used}"),),
    )
