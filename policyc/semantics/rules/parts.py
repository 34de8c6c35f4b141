"""Parts of a promise that the policy gives its releases."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from policyc.diagnostics import Diagnostic, Span
from policyc.diagnostics.diagnostic import Label
from policyc.offers.goals import Added
from policyc.semantics.policy import Policy
from policyc.semantics.scope import suggest
from policyc.semantics.targets import UserLevelTarget


def check_parts(policy: Policy) -> Iterator[Diagnostic]:
    """Whether `budget parts(...)` divides a promise between all releases that are measured, and can (E0509)."""
    if policy.budget.name != "parts":
        return
    span = policy.budget.span or policy.stream.span
    given = {name: Decimal(str(value)) for name, value in policy.budget.arguments.items()}
    measured = [release.name for release in policy.releases if release.base is None]
    others = {release.name for release in policy.releases} | {made.name for made in policy.made}
    target = next((target for target in policy.targets if isinstance(target, UserLevelTarget)), None)
    several = len(policy.targets) > 1
    limit = target.goal.limit if target is not None and isinstance(target.goal, Added) and not several else None
    if target is None or limit is None:
        because = "epsilons add up where nothing is left to chance, and rhos; epsilon at a delta above 0 does not"
        help_ = "write `delta = 0`, or `rho` in place of epsilon and delta; or `budget auto`"
        if target is None or several:
            because = "a part is of what all steps of a release tell of one user, under one promise"
            help_ = "promise `user_level(epsilon = ..., delta = 0, neighbors = ...)`, or write `budget auto`"
        where = policy.targets[0].span if policy.targets else policy.stream.span
        yield _finding("this promise has no parts", span, because, help_, Label(where, "promised here"))
        return
    for name in given:
        if name in measured:
            continue
        if name in others:
            because = "it is made of another release, and costs nothing"
            yield _finding(f"`{name}` has no part of the promise", span, because, f"leave `{name}` out")
        else:
            because = "a part is of a release"
            yield _finding(f"there is no release `{name}`", span, because, suggest(name, measured) or "leave it out")
        return
    missing = [name for name in measured if name not in given]
    if missing:
        words = ", ".join(f"`{name} = ...`" for name in missing)
        because = "what is measured takes noise, and noise is for a part"
        yield _finding(f"`{missing[0]}` has no part of the promise", span, because, f"add {words}")
    elif (total := sum(given.values(), Decimal(0))) > limit:
        because = "what the releases tell adds up"
        help_ = "write smaller parts, or promise less"
        message = f"the parts add up to {total.normalize():f}, above {limit.normalize():f}"
        yield _finding(message, span, because, help_, Label(target.span, "promised here"))


def _finding(message: str, span: Span, because: str, remedy: str, *labels: Label) -> Diagnostic:
    return Diagnostic("E0509", message, span, because=because, help=remedy, labels=labels)
