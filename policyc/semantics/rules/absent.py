"""Users in none of the cells (`otherwise`), where the noise of all steps together would have to hide them."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy
from policyc.semantics.targets import UserLevelTarget


def check_absent(policy: Policy) -> Iterator[Diagnostic]:
    """E0314 where `otherwise` is no number of users, or follows from what is published of the cells."""
    cell, found = policy.stream.cell, _reason(policy) if policy.of_streams else None
    if cell is None or cell.otherwise is None or found is None:
        return
    what, because, instead, label = found
    yield Diagnostic("E0314", f"`{cell.otherwise}` {what}", cell.span, because=because, help=instead, labels=(label,))


def _reason(policy: Policy) -> tuple[str, str, str, Label] | None:
    """What `otherwise` is not, why, what to write instead, and where that is decided; None where it is counted."""
    split, bound = [release for release in policy.releases if release.by is not None], policy.participation
    for release in split:
        if release.kind == "sum" and not policy.measured_through_chains:  # there it is what is added elsewhere
            return (
                "has no sum",
                "a user in none of the cells adds nothing, and what is added in a cell that is not listed is that of a "
                "cell",
                "leave `otherwise` out: only events in a cell are summed then; for a sum of all others list "
                "one cell more, and write it into their events",
                Label(release.span, "summed here"),
            )
    several = [release.span for release in policy.releases if release.cells_per_step is not None]
    if bound is not None and (bound.per_step > 1 or bound.cells_per_step is not None):
        several.append(bound.span)
    several += [t.span for t in policy.targets if isinstance(t, UserLevelTarget) and policy.within_a_step(t.per)]
    if split and several:
        return (
            "is nobody's number",
            "a user counts several times in a step, so that the number of users less all counts is not how many are in "
            "none of the cells",
            "leave `otherwise` out, or count a user once in a step",
            Label(several[0], "several times here"),
        )
    for target in policy.targets if split else ():
        if isinstance(target, UserLevelTarget) and target.neighbors == "add_remove":
            return (
                "follows from the other cells",
                "it is the public number of users less all that is released of them; measured by itself, it would "
                "double what noise has to hide in every cell, and all values together would err no less",
                "leave `otherwise` out, and rows of other cells out of the data: only users in a cell are counted "
                "then, and the number of users less all that is released tells the others, at no cost",
                Label(target.span, "promised here"),
            )
    return None
