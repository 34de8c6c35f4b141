"""What this version cannot plan yet: one finding a policy, which lists all that is missing."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.offers import mechanism_offers
from policyc.semantics.policy import Policy
from policyc.semantics.targets import AlphaDPTTarget, UserLevelTarget, UserStepsTarget, WEventTarget


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
    silent = any(chain.amounts is None for chain in policy.chains)  # which is said of the chain
    for release in () if policy.of_streams or (_leaks(policy) and silent) else policy.releases:
        if release.kind != "count":
            instead = "promise a period of a user alone: it covers each of its steps, at the smallest epsilon of all"
            yield "sums", release.span, instead
    if policy.of_streams and policy.budget.name not in ("auto", "parts"):
        what = f"budget `{policy.budget.name}` beside noise that hides steps together"
        instead = "leave it out: where users may be in any steps, the same noise in all of them errs least"
        yield what, policy.budget.span or policy.stream.span, instead
    yield from _mechanism(policy)


def _mechanism(policy: Policy) -> Iterator[tuple[str, Span, str]]:
    """A mechanism that does not account for what is promised."""
    kept = {"steps", "windows"}
    if policy.of_streams:
        kept = {"user_level"} if policy.window is None else {"user_level", "windows"}
    wish, windows = policy.mechanism, any(isinstance(target, WEventTarget) for target in policy.targets)
    offer, span = mechanism_offers().get(wish.name), wish.span or policy.stream.span
    if offer is None:
        return
    if policy.measured_through_chains and wish.name != "laplace" and offer.noise(wish.arguments) == "laplace":
        yield f"mechanism `{wish.name}` of sums through a chain", span, "write `mechanism auto`, or leave it out"
        return
    windows = windows or wish.arguments.get("window") is not None or (policy.of_streams and _wide(policy))
    if "windows" in offer.promises and "steps" not in offer.promises and not windows:
        yield (
            f"mechanism `{wish.name}` without a window",
            span,
            f"write `{wish.name}(window = 12 steps)`, over which it divides what steps may spend, or add "
            "`target w_event(epsilon = 1.0, window = 12 steps)`, whose windows it divides",
        )
    elif _leaks(policy) and offer.noise(wish.arguments) != "laplace":
        return  # as E0313 says
    elif not offer.promises & kept:
        yield f"mechanism `{wish.name}`", span, "write `mechanism auto`, or leave it out"


def _wide(policy: Policy) -> bool:
    """Whether a promise is about several steps in a row, which the noise of all steps keeps."""
    return any(isinstance(target, UserLevelTarget) and (target.window or 1) > 1 for target in policy.targets)


def _leaks(policy: Policy) -> bool:
    """Whether it is promised what leaks through chains."""
    return any(isinstance(target, AlphaDPTTarget) for target in policy.targets)


def _targets(policy: Policy) -> Iterator[tuple[str, Span, str]]:
    bound = policy.participation
    for target in policy.targets:
        of_one_place = isinstance(target, AlphaDPTTarget if policy.of_streams else UserStepsTarget)
        if of_one_place and bound is not None and bound.per_step > 1:
            what = "several events of a user in a step beside promises about steps"
            yield (
                what,
                bound.span,
                "write `per_step = 1`: the chain says one place a step, that of the user's last event",
            )
