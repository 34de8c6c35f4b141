"""Promises about periods: what a user does in one day, or in one year."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.lengths import DAY, MONTH, Length
from policyc.semantics.policy import Policy
from policyc.semantics.targets import UserLevelTarget, UserStepsTarget


def check_periods(policy: Policy) -> Iterator[Diagnostic]:
    """Whether a promise and its bound are about the same periods, made of whole steps, from a moment that is said."""
    bound, step = policy.participation, policy.stream.step
    for target in policy.targets:
        if not isinstance(target, UserLevelTarget | UserStepsTarget) or getattr(target, "window", None) is not None:
            continue
        per = target.per
        if bound is not None and bound.per != per:
            yield Diagnostic(
                "E0505",
                "the promise and the participation bound are not about the same period",
                bound.span,
                because="a bound on all that a user does lets one period change what is kept of others; one on other "
                "periods does not bound what is promised",
                help="write the same `per = ...` in both, or in neither",
                labels=(Label(target.span, "promised here"),),
            )
        if per is None:
            continue
        if _overlap(per, step):
            yield Diagnostic(
                "E0506",
                "periods and steps overlap",
                target.span,
                because="what one user does in one period would lie in parts of steps, and be in more of them than the "
                "period is long",
                help=f"write a period of whole steps of {policy.stream.step_text}, or of which a step has a whole "
                f"number{_beside_months(per, step)}",
                labels=(Label(policy.stream.span, "the step is declared here"),),
            )
        if policy.stream.start is None:
            yield Diagnostic(
                "E0507",
                "nobody says when periods begin",
                policy.stream.span,
                because="periods follow each other from step 0 on, so that what is promised depends on when that is",
                help='add `start "2026-01-01"` to the stream: midnight UTC for days, a Monday for weeks',
                labels=(Label(target.span, "promised here"),),
            )


def _overlap(per: Length, step: Length) -> bool:
    """Whether neither is made of the other; a month is made of days, and of what days are made of."""
    if per == MONTH or step == MONTH:  # noqa: PLR1714  so that mypy sees it
        other = step if per == MONTH else per
        return other != MONTH and DAY % other != 0
    return bool(per % step and step % per)


def _beside_months(per: Length, step: Length) -> str:
    if per == MONTH:
        return ": `step 1d`, as weeks lie in two months; or `per = 1w`"
    return ": `per = month` or `per = 1d`, as weeks lie in two months" if step == MONTH else ""
