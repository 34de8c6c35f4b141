"""When values are published, and what needs to see the future to make them."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.offers import estimator_offers, mechanism_offers
from policyc.semantics.policy import Policy


def check_delivery(policy: Policy) -> Iterator[Diagnostic]:
    """Offline things under `realtime`, bounding that looks ahead, and a stream that is never published."""
    yield from _never(policy)
    kind, span = policy.delivery.kind, policy.delivery.span
    labels = (Label(span, "values are published before the stream ends"),) if span is not None else ()
    mechanism, estimate = policy.mechanism, policy.estimate
    # `within` gives some future steps, which is enough for an online transform and a fixed-lag smoother.
    offer = mechanism_offers().get(mechanism.name)
    early = kind == "realtime" or (kind == "within" and offer is not None and not offer.blocks)
    if mechanism.span and offer is not None and offer.whole_stream and early:
        yield Diagnostic(
            "E0703",
            f"mechanism `{mechanism.name}` needs the whole stream",
            mechanism.span,
            because=f"{offer.whole_stream}, so no value exists before the last step",
            help="write `deliver offline`, or a mechanism that works step by step, such as `mechanism auto`",
            labels=labels,
        )
    asked = estimator_offers().get(estimate.name)
    early = kind == "realtime" or (kind == "within" and asked is not None and asked.whole_stream)
    if estimate.span and asked is not None and asked.later_values and early:
        yield Diagnostic(
            "E0704",
            f"estimate `{estimate.name}` needs the whole stream",
            estimate.span,
            because=f"{asked.later_values}, so no value exists before the last step",
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
