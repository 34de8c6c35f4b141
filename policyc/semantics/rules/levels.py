"""Counts at levels: is there a promise that they are planned under?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.semantics.policy import Policy
from policyc.semantics.targets import UserLevelTarget


def check_levels(policy: Policy) -> Iterator[Diagnostic]:
    """E0721: what is declared of how users move, and what a population adds up to, is about cells."""
    cell = policy.stream.cell
    if cell is None or any(isinstance(target, UserLevelTarget) for target in policy.targets):
        return
    for release in policy.releases:
        if release.base is None and release.by not in (None, cell.column):
            yield Diagnostic(
                "E0721",
                f"`{release.name}` counts at the level `{release.by}`, and this promise is planned for cells",
                release.span,
                because="how users move, and what the population adds up to, is said of cells",
                help=f"release by `{cell.column}`, and add values up; or promise `user_level(...)`, or where steps are "
                "independent `event_level(...)` or `w_event(...)` alone: there every level is counted by itself",
            )
