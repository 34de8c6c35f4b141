"""What is left out of a release: can a reader put it back, and what is left of totals?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy, Postprocess, Release, Suppression, UserLevelTarget

KEPT = "the promise is not touched: values that are left out protect nobody, they keep readers from noise"


def check_suppression(policy: Policy) -> Iterator[Diagnostic]:
    """W0706 where values that are shown tell one that is not, W0707 where totals are left out for good."""
    by_name = {release.name: release for release in policy.releases}
    for block in policy.postprocess:
        if not block.suppressions or block.release not in by_name:
            continue
        release, first = by_name[block.release], block.suppressions[0]
        yield from _filled_in(policy, block, release, first)
        yield from _added_up(policy, release, first)
        for total in policy.releases:
            if total.base == release.name and total.kind == "prefix":
                yield Diagnostic(
                    "W0707",
                    f"`{total.name}` ends where the first value of `{release.name}` is left out",
                    first.span,
                    because="the difference of two running totals would show what is left out, so every total of such "
                    "a value is left out too",
                    help=f"publish `window({release.name}, 7 steps)` in its place, which comes back when the gap has "
                    f"left it; or leave no values of `{release.name}` out",
                    labels=(Label(total.span, "made of it"),),
                )


def _filled_in(policy: Policy, block: Postprocess, release: Release, first: Suppression) -> Iterator[Diagnostic]:
    """W0706: the values of a step add up to something public, so that one that is missing can be computed."""
    equation = next((row for row in block.constraints if row.relation == "==" and len(row.current) > 1), None)
    steps = not any(isinstance(target, UserLevelTarget) for target in policy.targets)
    balanced = steps and release.by_cell and policy.stream.population is not None and policy.mechanism.name == "auto"
    if equation is None and not balanced:
        return
    words = "noisy values add up to the public population" if equation is None else f"`{equation.text[:60]}` holds"
    yield Diagnostic(
        "W0706",
        f"where one value of a step is left out of `{release.name}`, the others tell it",
        first.span,
        because=f"{words}, so a single gap is what is missing to the sum; {KEPT}",
        help="leave it so, or drop the constraint" if equation else "leave it so, or write `mechanism laplace()`",
        labels=() if equation is None else (Label(equation.span, "by this"),),
    )


def _added_up(policy: Policy, release: Release, first: Suppression) -> Iterator[Diagnostic]:
    """W0706: a total is left out, and what it may be made of is shown."""
    base = next((other for other in policy.releases if other.name == release.base), None)
    if base is None:
        return
    demands = policy.constraints_of(base.name)
    if demands is not None and demands.suppressions:
        return
    yield Diagnostic(
        "W0706",
        f"what is left out of `{release.name}` can be added up from `{base.name}`",
        first.span,
        because=f"all values of `{base.name}` are shown, and totals are made of their noisy values unless they are "
        f"measured by themselves; {KEPT}",
        help=f"leave small values of `{base.name}` out; its totals are then left out too",
        labels=(Label(base.span, "shown whole"),),
    )
