"""What is published: are its bounds bounds, and is there something to add up?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.offers import mechanism_offers
from policyc.semantics.policy import Policy
from policyc.semantics.targets import UserLevelTarget


def check_releases(policy: Policy) -> Iterator[Diagnostic]:
    """Clamps that are empty, windows longer than the stream, and totals of values that are not there."""
    yield from _totals_of_gaps(policy)
    yield from _windows(policy)
    for release in policy.releases:
        if release.clamp is not None and release.clamp[0] >= release.clamp[1]:
            low, high = release.clamp
            yield Diagnostic(
                "E0219",
                f"the clamp {low:.10g} .. {high:.10g} leaves no values between",
                release.span,
                because="the width of the clamp is how much one user can change the sum",
                help="write the smaller number first"
                if low > high
                else "write two different numbers, or publish a `count`",
            )


def _windows(policy: Policy) -> Iterator[Diagnostic]:
    """E0221: a window that is longer than the stream."""
    horizon = policy.stream.horizon
    measured = [(one.base, one.width, one.span) for one in policy.releases]
    for of, width, span in [*measured, *((one.of, one.width, one.span) for one in policy.made)]:
        if width is not None and horizon is not None and width > horizon:
            yield Diagnostic(
                "E0221",
                f"the window of {width} steps is longer than the stream",
                span,
                because="its sensitivity is counted over the whole window, so noise would be added for steps that "
                "never come",
                help=f"write `window({of}, {horizon} steps)` or fewer, or `prefix({of})`",
                labels=(Label(policy.stream.horizon_span, "the stream ends here"),),
            )


def _totals_of_gaps(policy: Policy) -> Iterator[Diagnostic]:
    """E0611: a running total or window needs a noisy value of every step."""
    name, span = policy.mechanism.name, policy.mechanism.span
    offer = mechanism_offers().get(name)
    if span is None or offer is None or not offer.leaves_gaps:
        return
    if not any(isinstance(target, UserLevelTarget) for target in policy.targets):
        return
    for release in policy.releases:
        if release.base is None:
            continue
        yield Diagnostic(
            "E0611",
            f"`{release.name}` adds up values that `{name}` does not measure",
            release.span,
            because=f"a total is made of a noisy value of every step, and `{name}` leaves steps without one",
            help=f"publish `{release.base}` alone and add up what is published of it, which costs no privacy; or write "
            "`mechanism auto`, which measures every step",
            labels=(Label(span, "steps are left out here"),),
        )
