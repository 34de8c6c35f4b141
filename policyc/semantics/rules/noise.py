"""Whether the noise that a policy names can keep what it promises."""

from __future__ import annotations

from collections.abc import Iterator

from policyc.diagnostics import Diagnostic
from policyc.diagnostics.diagnostic import Label
from policyc.offers import LargestLoss, mechanism_offers
from policyc.semantics.policy import Policy
from policyc.semantics.targets import AlphaDPTTarget, UserLevelTarget, UserStepsTarget


def check_noise(policy: Policy) -> Iterator[Diagnostic]:
    """E0313: a mechanism whose noise has no largest loss under a promise of one or beside a chain, or no rho."""
    wish, offer = policy.mechanism, mechanism_offers().get(policy.mechanism.name)
    if offer is None or "user_level" not in offer.promises:
        return
    for target in policy.targets:
        if isinstance(target, AlphaDPTTarget) and offer.noise(wish.arguments) != "laplace":
            yield Diagnostic(
                "E0313",
                f"the noise of `{wish.name}` cannot keep alpha-DP_T",
                wish.span or policy.stream.span,
                because="what leaks from step to step is bounded by the largest factor between probabilities, and only "
                "Laplace noise has one",
                help="write `mechanism auto` or `mechanism laplace()`",
                labels=(Label(target.span, "promised here"),),
            )
            return
        if not policy.of_streams or not isinstance(target, UserLevelTarget | UserStepsTarget):
            continue
        if offer.keeping(target.goal, wish.arguments) is not None:
            continue
        able = [one for one in mechanism_offers().values() if one.keeping(target.goal, {}) is not None]
        named = sorted(f"`{one.written()}`" for one in able if "user_level" in one.promises)
        yield Diagnostic(
            "E0313",
            f"the noise of `{wish.name}` cannot keep a promise "
            f"{'without delta' if isinstance(target.goal, LargestLoss) else 'of rho'}",
            wish.span or policy.stream.span,
            because=target.goal.because,
            help=f"write `mechanism auto`, or one of {', '.join(named)}",
            labels=(Label(target.span, "promised here"),),
        )
