"""Refusing a plan whose claims do not hold, or whose numbers nothing can be computed with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.plan.plan import Plan
from policyc_check.verify import NONSENSE, digest_claim, verified_claims


def verify(plan: Plan) -> None:
    """Recompute every claim of a plan.

    Raises:
        PlanRejectedError: the first claim that does not hold, with the offending number.
    """
    for claim in verified_claims(plan):
        if claim.holds is False:
            raise PlanRejectedError(
                claim.code,
                f"plan refused: {claim.detail}",
                where=claim.where,
                because=f"the plan claims: {claim.name}",
                help="do not run this plan; compile the policy again and find out who changed it",
            )


def require_sealed(plan: Plan) -> None:
    """The plan carries its own digest; PlanRejectedError E0803 when a field was altered since."""
    claim = digest_claim(plan)
    if claim.holds is False:
        raise PlanRejectedError(
            claim.code, f"plan refused: {claim.detail}", where="plan.json", help="compile the policy again"
        )


@contextmanager
def computed_with() -> Iterator[None]:
    """Turns what numbers of a plan cannot be computed with into a refusal of the plan: it may be written by hand.

    Raises:
        PlanRejectedError: E0801.
    """
    try:
        yield
    except KernelError:
        raise
    except NONSENSE as error:
        raise PlanRejectedError(
            "E0801",
            "plan refused: its numbers cannot be computed with",
            where="plan.json",
            because=f"they are no numbers that a compiler writes ({type(error).__name__})",
            help="do not use this plan; compile the policy again and find out who changed it",
        ) from None
