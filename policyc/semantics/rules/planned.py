"""What this version cannot plan yet: one finding a policy, which lists all that is missing."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.offers import mechanism_offers
from policyc.semantics.policy import Policy
from policyc.semantics.targets import AlphaDPTTarget, EventLevelTarget, UserLevelTarget, UserStepsTarget, WEventTarget


def check_planned(policy: Policy) -> Iterator[Diagnostic]:
    """E0702 at the most basic thing that is missing; the others are named in it."""
    missing = list(_missing(policy))
    if not missing:
        return
    (first, span, instead), *others = missing
    more = f", nor {_listed([name for name, _, _ in others])}" if others else ""
    yield Diagnostic(
        "E0702",
        f"this version cannot plan {first} yet{more}",
        span,
        because="policyc refuses rather than plan something weaker than what is written",
        help=instead,
        labels=tuple(Label(place, "nor this") for _, place, _ in others if place != span),
    )


def _listed(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else f"{', '.join(distinct[:-1])} and {distinct[-1]}"


def _missing(policy: Policy) -> Iterator[tuple[str, Span, str]]:
    """What is missing, where, and what to write meanwhile; the most basic first."""
    yield from _targets(policy)
    for release in () if policy.of_streams else policy.releases:
        if release.kind != "count":
            yield "sums", release.span, _instead_of_sums(policy)
    if policy.of_streams and policy.budget.name not in ("auto", "parts"):
        what = f"budget `{policy.budget.name}` beside noise that hides steps together"
        instead = "leave it out: where users may be in any steps, the same noise in all of them errs least"
        yield what, policy.budget.span or policy.stream.span, instead
    yield from _mechanism(policy)


def _mechanism(policy: Policy) -> Iterator[tuple[str, Span, str]]:
    """A mechanism that does not account for what is promised."""
    wish, windows = policy.mechanism, any(isinstance(target, WEventTarget) for target in policy.targets)
    offer, span = mechanism_offers().get(wish.name), wish.span or policy.stream.span
    if offer is None:
        return
    windows = windows or wish.arguments.get("window") is not None
    if "windows" in offer.promises and "steps" not in offer.promises and not windows:
        yield (
            f"mechanism `{wish.name}` without a window",
            span,
            f"write `{wish.name}(window = 12 steps)`, over which it divides what steps may spend, or add "
            "`target w_event(epsilon = 1.0, window = 12 steps)`, whose windows it divides",
        )
    elif any(isinstance(t, AlphaDPTTarget) for t in policy.targets) and offer.noise(wish.arguments) != "laplace":
        return  # as E0313 says
    elif not offer.promises & ({"user_level"} if policy.of_streams else {"steps", "windows"}):
        yield f"mechanism `{wish.name}`", span, "write `mechanism auto`, or leave it out"


def _instead_of_sums(policy: Policy) -> str:
    """A promise about steps plans sums where it stands alone."""
    if any(isinstance(target, AlphaDPTTarget) for target in policy.targets):
        return "publish `count(...)`: the chain says where users are, and not what they spend there"
    return "promise a period of a user alone: it covers each of its steps, at the smallest epsilon of all"


def _counts_absent(policy: Policy, target: UserLevelTarget) -> bool:
    """Whether users in none of the cells are asked for where that moves more than noise is made for.

    Who counts once in a step, in a cell or in none, moves two values when it is replaced, `otherwise` or not.
    """
    split = [release for release in policy.releases if release.by is not None]
    bound = policy.participation
    once = bound is None or (bound.per_step == 1 and bound.cells_per_step is None)
    once = once and all(release.kind != "sum" and release.cells_per_step is None for release in split)
    return bool(split) and not (target.window is not None and target.neighbors == "replace" and once)


def _sums_alone(policy: Policy) -> bool:
    """Whether nobody is counted by cell, and what users add is summed."""
    return all(release.kind == "sum" for release in policy.releases if release.by is not None)


def _elsewhere(policy: Policy, otherwise: str) -> str:
    """What is asked for of users in none of the cells."""
    asked = f"sums of what is `{otherwise}`" if _sums_alone(policy) else f"how many users are `{otherwise}`"
    return f"{asked} beside noise that hides steps together"


def _instead_of_otherwise(policy: Policy, otherwise: str) -> str:
    if _sums_alone(policy):
        return (
            f"leave `otherwise` out: only events in a cell are summed then; for a sum of all others list "
            f'"{otherwise}" among the cells, and write it into their events'
        )
    return (
        "leave `otherwise` out: only users in a cell are counted then, and a public number of users less all that is "
        "released tells the others, at no cost"
    )


def _targets(policy: Policy) -> Iterator[tuple[str, Span, str]]:
    bound, several = policy.participation, len(policy.targets) > 1
    for target in policy.targets:
        if several and isinstance(target, EventLevelTarget | WEventTarget):
            what = "a `delta`" if target.delta else "`neighbors = add_remove`"
            if target.delta or target.neighbors == "add_remove":
                yield (
                    f"{what} of steps beside others",
                    target.span,
                    "leave it out: budgets of steps keep more than that",
                )
        budgets = not policy.of_streams
        if budgets and isinstance(target, UserStepsTarget) and bound is not None and bound.per_step > 1:
            what = "several events of a user in a step beside promises about steps"
            yield what, bound.span, "write `per_step = 1`: a user counts once in a step, however many events it has"
        if isinstance(target, UserLevelTarget):
            cell = policy.stream.cell
            if not policy.of_streams:
                instead = "promise all of a user, without `per`, meanwhile"
                yield "a period of a user beside promises about steps", target.span, instead
            elif cell is not None and cell.otherwise is not None and _counts_absent(policy, target):
                yield _elsewhere(policy, cell.otherwise), cell.span, _instead_of_otherwise(policy, cell.otherwise)
