"""Running totals and windows beside budgets of steps: they are made of released values, which costs no privacy.

Where noise is accounted for as that of the whole stream, they are made of noisy values, or measured by themselves;
not where it has to be that of one step each.
"""

from __future__ import annotations

from dataclasses import replace

from policyc.semantics.policy import Made, Policy, Release


def with_totals(policy: Policy) -> Policy:
    """The same policy, with running totals and windows as made of released values where steps have budgets."""
    if (policy.of_streams and not policy.measured_through_chains) or not policy.targets:
        return policy
    totals = {release.name: release for release in policy.releases if release.base is not None}
    ordered = sorted(totals.values(), key=lambda release: _depth(release, totals))
    measured = tuple(release for release in policy.releases if release.base is None)
    return replace(policy, releases=measured, made=(*map(_made, ordered), *policy.made))


def _depth(release: Release, totals: dict[str, Release]) -> int:
    """How many totals it is made of, one of the other."""
    found = 0
    while release.base in totals:
        release, found = totals[release.base], found + 1
    return found


def _made(release: Release) -> Made:
    assert release.base is not None, "asked of totals"
    return Made(
        name=release.name,
        kind="prefix" if release.width is None else "window",
        of=release.base,
        by=release.by,
        span=release.span,
        width=release.width,
    )
