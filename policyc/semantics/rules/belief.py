"""What is believed of users beforehand under a promise about all their events: nothing that is said is left unused."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.offers import estimator_offers
from policyc.semantics.policy import Policy


def check_belief(policy: Policy) -> Iterator[Diagnostic]:
    """E0756 for estimates that count users who are always somewhere, E0757 for a chain that nothing uses."""
    if not policy.of_streams:
        return
    target, estimate = Label(policy.targets[0].span, "this promise is about users who come and go"), policy.estimate
    offer = estimator_offers().get(estimate.name)
    if policy.measured_through_chains and offer is not None and offer.counts_users and estimate.span is not None:
        yield Diagnostic(
            "E0756",
            f"estimate `{estimate.name}` does not apply where sums are published",
            estimate.span,
            because="the chain says where users are, and of what they add nothing but that it depends on the cell",
            help="write `estimate filter()`, or `estimate smoother()` with `deliver offline`, which learn how each "
            "series moves; or publish the counts in a policy of their own",
            labels=tuple(Label(release.span, "a sum") for release in policy.releases if release.kind == "sum"),
        )
    elif offer is not None and offer.counts_users and estimate.span is not None:
        yield Diagnostic(
            "E0756",
            f"estimate `{estimate.name}` does not apply under a user-level target",
            estimate.span,
            because="its prior is the law of users who are somewhere at every step and its likelihood that of Laplace "
            "noise, while here users take part in some steps only and the noise is the mechanism's own",
            help="write `estimate filter()`, or `estimate smoother()` with `deliver offline`; the most probable values "
            "under the declared `signal` and the real noise are what the emitted `map_model.py` finds",
            labels=(target,),
        )
    yield from _one_signal(policy)
    for chain in () if policy.measured_through_chains else policy.chains:
        yield Diagnostic(
            "E0757",
            "nothing uses this chain under a user-level target",
            chain.span,
            because="a user-level promise holds however users move, and no estimate for it knows where they are at the "
            "steps in which they do not take part",
            help="leave it out, and say with `signal` how the released numbers move; or promise `alpha_dpt(alpha = "
            "...)`, which is about users who move like this",
            labels=(target,),
        )


def _one_signal(policy: Policy) -> Iterator[Diagnostic]:
    """W0703: the numbers of a signal are of one series, and several are published."""
    signal = policy.signal
    if signal is None or not policy.several_series or signal.arguments.get("learned"):
        return
    bases = [release for release in policy.releases if release.base is None]
    period = "its period" if "period" in signal.arguments else "nothing"
    yield Diagnostic(
        "W0703",
        f"of this signal {period} is used, as {len(bases)} series are published",
        signal.span,
        because="it says how one series moves, and nobody can tell which; how each of them moves is learned from what "
        "is released",
        help="write `learned = true`; or publish one count or sum in this policy, and the others in another",
        labels=tuple(Label(release.span, "a series") for release in bases),
    )
