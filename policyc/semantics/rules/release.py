"""What is published: are its bounds bounds?"""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy


def check_releases(policy: Policy) -> Iterator[Diagnostic]:
    """Clamps that are empty and windows longer than the stream."""
    horizon = policy.stream.horizon
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
        if release.width is not None and horizon is not None and release.width > horizon:
            yield Diagnostic(
                "E0221",
                f"the window of {release.width} steps is longer than the stream",
                release.span,
                because="its sensitivity is counted over the whole window, so noise would be added for steps that "
                "never come",
                help=f"write `window({release.base}, {horizon} steps)` or fewer, or `prefix({release.base})`",
                labels=(Label(policy.stream.horizon_span, "the stream ends here"),),
            )
