"""Refusing a plan whose claims do not hold, or whose numbers nothing can be computed with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain

from policyc_check.claims import Claim
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.runs import enough
from policyc_check.verify import NONSENSE, check_digest, steps, verified_claims
from policyc_runtime.beyond import beyond_claims
from policyc_runtime.consistency import consistency_claims
from policyc_runtime.plan import Plan
from policyc_runtime.witness import witness_claims

_last: dict[str, list[Claim]] = {}  # a plan is checked when it is made, for its certificate, and when it is made anew


def plan_claims(plan: Plan) -> list[Claim]:
    """Every claim of a plan, recomputed: of its privacy, then of its use; the first that fails is the last.

    Of a plan with every letter of the one that was asked about before, what was found then.
    """
    written = plan.model_dump_json()
    if written not in _last:
        found = list(_recomputed(plan))
        _last.clear()
        _last[written] = found
    return _last[written]


def _recomputed(plan: Plan) -> Iterator[Claim]:
    beside = (witness_claims(plan), consistency_claims(plan), share_claims(plan), beyond_claims(plan))
    for claim in chain(verified_claims(plan), *beside):
        yield claim
        if claim.holds is False:
            return
    horizon = plan.stream.horizon
    for index, release in enumerate(plan.releases):
        place, cells = f"releases.{index}", range(len(release.cells))
        if any(cell not in cells for row in release.constraints for cell, _ in (*row.current, *row.previous)):
            name = f"constraints on `{release.name}` are about its cells"
            yield Claim(name, False, "a constraint names a cell that does not exist", f"{place}.constraints")
            return
        if release.schedule is None:
            runs = [run.steps for run in release.expected_errors]
            length = None if None in runs else sum(count or 0 for count in runs)
            holds, detail = length == horizon, f"{steps(length)} of {steps(horizon)}"
            name = f"`{release.name}` has an expected error for every step"
            yield Claim(name, holds, detail, f"{place}.expected_errors")
            if not holds:
                return


def share_claims(plan: Plan) -> Iterator[Claim]:
    """Several releases: each takes its stated part of every step's budget, and no more."""
    shared = [release for release in plan.releases if release.share is not None]
    if not shared and plan.sharing is None:
        return
    if len(plan.releases) == 1 or len(plan.scheduled) < len(plan.releases):
        yield Claim("one release has the whole budget", False, "a share is stated", "releases.0.share")
        return
    if len(shared) < len(plan.releases) or plan.sharing is None:
        yield Claim("every release has its share of the budget", False, "a share is missing", "releases")
        return
    at = enough([release.schedule.runs for release in plan.scheduled], 1)
    rows = set(zip(*(release.schedule.epsilons(at) for release in plan.scheduled), strict=True))
    for index, release in enumerate(plan.releases):
        share = Fraction(release.share or 0)
        holds = all(Fraction(row[index]) <= share * sum(map(Fraction, row), Fraction(0)) for row in rows)
        name = f"`{release.name}` takes at most {float(share):.6%} of every step's budget".replace("%", " %")
        yield Claim(name, holds, f"{len(rows):,} different steps, in exact fractions", f"releases.{index}.share")


def verify(plan: Plan) -> None:
    """Recompute every claim of a plan.

    Raises:
        PlanRejectedError: the first claim that does not hold, with the offending number.
    """
    for claim in plan_claims(plan):
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
    (claim,) = check_digest(plan)
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
