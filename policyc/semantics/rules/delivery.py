"""When values are published, and what needs to see the future to make them."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.semantics.policy import Policy

_OFFLINE_MECHANISMS = {"dft": "the whole series is transformed", "subsample": "the gaps are filled from both sides",
                       "filter_subsample": "the series is filtered from both sides"}  # fmt: skip
_OFFLINE_ESTIMATES = {"smoother": "a smoother uses later values to correct earlier ones",
                      "linear": "lines end at later values",
                      "joint_map": "all steps are estimated at once"}  # fmt: skip


def check_delivery(policy: Policy) -> Iterator[Diagnostic]:
    """Offline things under `realtime`, bounding that looks ahead, and a stream that is never published."""
    yield from _never(policy)
    kind, span = policy.delivery.kind, policy.delivery.span
    labels = (Label(span, "values are published before the stream ends"),) if span is not None else ()
    mechanism, estimate = policy.mechanism, policy.estimate
    # `within` gives some future steps, which is enough for an online transform and a fixed-lag smoother.
    early = kind == "realtime" or (kind == "within" and mechanism.name != "dft")
    if mechanism.span and mechanism.name in _OFFLINE_MECHANISMS and early:
        yield Diagnostic(
            "E0703",
            f"mechanism `{mechanism.name}` needs the whole stream",
            mechanism.span,
            because=f"{_OFFLINE_MECHANISMS[mechanism.name]}, so no value exists before the last step",
            help="write `deliver offline`, or a mechanism that works step by step, such as `mechanism auto`",
            labels=labels,
        )
    early = kind == "realtime" or (kind == "within" and estimate.name == "joint_map")
    if estimate.span and estimate.name in _OFFLINE_ESTIMATES and early:
        yield Diagnostic(
            "E0704",
            f"estimate `{estimate.name}` needs the whole stream",
            estimate.span,
            because=f"{_OFFLINE_ESTIMATES[estimate.name]}, so no value exists before the last step",
            help="write `deliver offline`, or `estimate filter()`",
            labels=labels,
        )
    participation = policy.participation
    if participation is not None and participation.enforced == "keep_sample" and kind != "offline":
        yield Diagnostic(
            "E0504",
            "`keep_sample` looks into the future",
            participation.span,
            because="which of a user's steps are kept depends on steps that have not happened yet",
            help="write `enforced = keep_first`, or `deliver offline`",
            labels=labels,
        )


def _never(policy: Policy) -> Iterator[Diagnostic]:
    if policy.delivery.kind != "offline" or policy.stream.horizon is not None:
        return
    yield Diagnostic(
        "E0705",
        "nothing would ever be published",
        policy.delivery.span or policy.stream.horizon_span,
        because="`deliver offline` publishes when the stream has ended, and this one never does",
        help="write `deliver realtime`, or give a horizon",
        labels=(Label(policy.stream.horizon_span, "the stream never ends"),) if policy.delivery.span else (),
    )
