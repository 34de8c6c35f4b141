"""What a single step may tell where the same noise at every step has to keep what leaks through chains.

Sums are measured as a stream. Where amounts depend on cells alone, what all of a step tells leaks to others as a budget
of counts does: the largest budget that is the same at every step is promised of every step by itself, and noise is
made for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal

from policyc.diagnostics import Diagnostic, PolicyError
from policyc.planning.candidates import allocate
from policyc.planning.draft import Lags, chain_record
from policyc.planning.promise import Promise
from policyc.planning.schedules import Group, ScheduleError
from policyc.semantics.policy import Policy
from policyc.semantics.targets import AlphaDPTTarget, UserLevelTarget

DIGITS = 12  # of what is promised of a step


def through_chains(policy: Policy, notices: Sequence[Diagnostic]) -> tuple[Policy, Lags]:
    """The policy with what each step may tell by itself in place of alpha, and the lags by which that is accounted.

    Raises:
        PolicyError: no budget keeps the promise for ever.
    """
    if not policy.measured_through_chains:
        return policy, {}
    leaks = [(float(t.alpha), t.window) for t in policy.targets if isinstance(t, AlphaDPTTarget)]
    horizon, groups = policy.stream.horizon, tuple(Group(one.group, chain_record(one).chain()) for one in policy.chains)
    most = min(nats / min(window, horizon or window) for nats, window in leaks)  # of users without a chain
    try:
        if groups:
            name = "bounded" if horizon is None else "uniform"
            found = allocate(name, Promise(tuple(leaks)), horizon, groups)
            most, groups = min(most, found.runs[0].epsilon), found.groups
    except ScheduleError as reason:
        target = next(t for t in policy.targets if isinstance(t, AlphaDPTTarget))
        finding = Diagnostic(
            "E0751",
            "no budget keeps this promise with these correlations",
            target.span,
            because=str(reason),
            help="raise alpha, or shorten the horizon",
        )
        raise PolicyError(policy.source, [*notices, finding]) from reason
    told = _rounded_down(most)
    targets = (
        replace(target, epsilon=told) if isinstance(target, UserLevelTarget) and target.implied else target
        for target in policy.targets
    )
    return replace(policy, targets=tuple(targets)), {group.name: group.lags for group in groups}


def _rounded_down(nats: float) -> Decimal:
    """A decimal of a few digits at or below a number."""
    exact = Decimal(nats)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - DIGITS + 1), ROUND_FLOOR).normalize()
