"""Recomputes every privacy claim of a plan, by another route than the one that found it.

The compiler searched for budgets on the hull of the loss function; here each step of the recursion is audited by the
defining inequality (`privacy/audit.py`), with every rounding going against the plan. Scales are compared with budgets
in exact rationals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain

from policyc_check.claims import Claim
from policyc_check.errors import KernelError, PlanRejectedError
from policyc_check.mechanisms.laplace import Laplace
from policyc_check.plan.plan import Plan
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.release import ReleasePlan
from policyc_check.plan.targets import EventLevel, UserLevel
from policyc_check.steps.budgets import LARGEST_HORIZON, budget_sum, window_budget
from policyc_check.steps.claims import check_chains, check_leakage, check_windows
from policyc_check.users.claims import check_user_level

NONSENSE = (ArithmeticError, ValueError, LookupError, TypeError, AssertionError, MemoryError)
COMPUTED = "the plan's numbers can be computed with"
_UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


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


def verified_claims(plan: Plan) -> Iterator[Claim]:
    """One line for every claim of a plan, recomputed; the first that does not hold is the last.

    A plan may be written by hand: numbers that nothing can be computed with are a claim that does not hold.
    """
    claims = chain.from_iterable(check(plan) for check in CHECKS)
    while True:
        try:
            claim = next(claims)
        except StopIteration:
            return
        except KernelError as error:
            claim = Claim(COMPUTED, False, error.message, error.where, error.code)
        except NONSENSE as error:
            claim = Claim(COMPUTED, False, f"they cannot ({type(error).__name__})", "plan.json")
        yield claim
        if claim.holds is False:
            return


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


def require_sealed(plan: Plan) -> None:
    """The plan carries its own digest; PlanRejectedError E0803 when a field was altered since."""
    (claim,) = _check_digest(plan)
    if claim.holds is False:
        raise PlanRejectedError(
            claim.code, f"plan refused: {claim.detail}", where="plan.json", help="compile the policy again"
        )


def _check_digest(plan: Plan) -> Iterator[Claim]:
    intact = plan.digest == plan.computed_digest()
    yield Claim(
        "the plan is as it was compiled",
        intact,
        f"sha256 {plan.digest[:16]}…" if intact else "its content does not match its own digest: a field was altered",
        "plan.json",
        "E0803",
    )


def _check_targets(plan: Plan) -> Iterator[Claim]:
    users = [target for target in plan.targets if isinstance(target, UserLevel)]
    if users and len(users) < len(plan.targets):
        detail = "budgets of steps and noise for the whole stream do not add up to one promise here"
        yield Claim("all targets are of one kind", False, detail, "targets")
    if len({release.name for release in plan.releases}) < len(plan.releases):
        detail = "two have the same, and the values of one would get the noise of the other"
        yield Claim("every release has its own name", False, detail, "releases")


def _scheduled(plan: Plan) -> list[tuple[int, ReleasePlan]]:
    """The releases whose steps have budgets, with their index."""
    return [(index, release) for index, release in enumerate(plan.releases) if release.schedule is not None]


def _check_sensitivity(plan: Plan) -> Iterator[Claim]:
    for index, release in _scheduled(plan):
        if not isinstance(release.query, CountQuery):
            detail = "no sensitivity of one step is known for it"
            yield Claim(f"`{release.name}` counts users at each step", False, detail, f"releases.{index}.query")
            return
        least, reason = required_l1_sensitivity(release)
        stated = min(release.l1_sensitivity, getattr(release.mechanism, "l1_sensitivity", release.l1_sensitivity))
        yield Claim(
            f"the L1 sensitivity of `{release.name}` is {release.l1_sensitivity}",
            stated >= least,
            f"recomputed {least}: {reason}",
            f"releases.{index}.l1_sensitivity",
        )


def _check_balance(plan: Plan) -> Iterator[Claim]:
    """Balanced noise tells the total exactly: it must be public, and no neighbor may change it."""
    for index, release in enumerate(plan.releases):
        if not isinstance(release.mechanism, Laplace) or release.mechanism.balanced_cells is None:
            continue
        every_cell = plan.stream.cell is not None and release.cells == plan.stream.cell.states
        public = every_cell and release.query.by is not None and plan.stream.population is not None
        yield Claim(
            f"the noise of `{release.name}` adds up to zero over cells whose total is public",
            public and release.mechanism.balanced_cells == len(release.cells),
            "replacing one user's cell leaves the population as it is"
            if public
            else "the total of the cells is not declared to be public",
            f"releases.{index}.mechanism",
        )


def required_l1_sensitivity(release: ReleasePlan) -> tuple[int, str]:
    """How much one neighbor can change a step's values, in counts, and why."""
    if release.query.by is None:
        return 1, "replacing one user's value changes the one count by at most one"
    return 2, "replacing one user's cell lowers one count by one and raises another by one"


def _check_shape(plan: Plan) -> Iterator[Claim]:
    horizon = plan.stream.horizon
    if horizon is not None and horizon > LARGEST_HORIZON:
        detail = f"{horizon:,} steps, more than this version can check ({LARGEST_HORIZON:,})"
        yield Claim("the horizon can be checked", False, detail, "stream.horizon")
        return
    if _milliseconds(plan.stream.step_text) != plan.stream.step_milliseconds:
        detail = f"`{plan.stream.step_text}` is not {plan.stream.step_milliseconds:,} ms"
        yield Claim("a step is as long as is said", False, detail, "stream.step_text")
    for index, release in enumerate(plan.releases):
        place = f"releases.{index}"
        length, what = _length(release)
        yield Claim(
            f"`{release.name}` has {what} for every step",
            length == horizon,
            f"{_steps(length)} of {_steps(horizon)}",
            f"{place}.schedule",
        )
        cells = ("",) if release.query.by is None or plan.stream.cell is None else plan.stream.cell.states
        inside = all(0 <= cell < len(cells) for row in release.constraints for cell, _ in (*row.current, *row.previous))
        named = release.query.by in {None, plan.stream.cell.column if plan.stream.cell else None}
        yield Claim(
            f"`{release.name}` publishes the cells of the stream",
            release.cells == cells and inside and named,
            f"{len(release.cells)} values a step" if inside else "a constraint names a cell that does not exist",
            f"{place}.cells",
        )


def _milliseconds(text: str) -> Fraction | None:
    """How long a duration is that people read."""
    found = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*(ms|s|min|h|d|w)", text)
    return Fraction(found[1].replace("_", "")) * _UNITS[found[2]] if found else None


def _length(release: ReleasePlan) -> tuple[int | None, str]:
    """How many steps a release is planned for, and what it says of each."""
    if release.schedule is not None:
        return release.budgets.length, "a budget"
    runs = [run.steps for run in release.expected_errors]
    return None if None in runs else sum(steps or 0 for steps in runs), "an expected error"


def _steps(count: int | None) -> str:
    return "endless" if count is None else f"{count:,} steps"


def _check_scales(plan: Plan) -> Iterator[Claim]:
    for index, release in _scheduled(plan):
        worst: tuple[str, str] | None = None
        pairs = {pair for s in release.budgets.segments for pair in zip(s.epsilons, s.scales, strict=True)}
        for epsilon, scale in sorted(pairs):
            if release.window_mechanism is not None:  # it measures every step, also one that is said to have no budget
                if release.window_mechanism.spent(1) > Fraction(epsilon):
                    worst = worst or (f"a step may spend more than its budget of {epsilon} nats", "")
            elif epsilon == 0:
                if scale != 0:
                    worst = worst or (f"a step without budget has noise scale {scale}", "")
            elif scale == 0 or release.step_mechanism.privacy_loss(scale) > Fraction(epsilon):
                worst = worst or (f"noise scale {scale} is too small for a budget of {epsilon} nats", "")
        yield Claim(
            f"the noise of `{release.name}` pays for its budget at every step",
            worst is None,
            worst[0] if worst else f"{len(pairs):,} different budgets, compared in exact fractions",
            f"releases.{index}.schedule",
        )


def _check_shares(plan: Plan) -> Iterator[Claim]:
    """Several releases: each takes its stated part of every step's budget, and no more."""
    shared = [release for release in plan.releases if release.share is not None]
    if not shared and plan.sharing is None:
        return
    if len(plan.releases) == 1 or not _scheduled(plan):
        if shared or plan.sharing is not None:
            yield Claim("one release has the whole budget", False, "a share is stated", "releases.0.share")
        return
    period = plan.stream.horizon or math.lcm(*(len(r.budgets.segments[-1].epsilons) for r in plan.releases))
    if len(shared) < len(plan.releases) or plan.sharing is None or period > LARGEST_HORIZON:
        yield Claim("every release has its share of the budget", False, "a share is missing", "releases")
        return
    rows = set(zip(*(release.budgets.epsilons(period) for release in plan.releases), strict=True))
    for index, release in enumerate(plan.releases):
        share = Fraction(release.share or 0)
        holds = all(Fraction(row[index]) <= share * sum(map(Fraction, row), Fraction(0)) for row in rows)
        name = f"`{release.name}` takes at most {float(share):.6%} of every step's budget".replace("%", " %")
        yield Claim(name, holds, f"{len(rows):,} different steps, in exact fractions", f"releases.{index}.share")


def _check_budgets(plan: Plan) -> Iterator[Claim]:
    claimed = plan.claims.largest_budget
    if not _scheduled(plan) or claimed is None:
        without = not _scheduled(plan) and claimed is None and plan.claims.budget_sum is None
        yield Claim("no step has a budget of its own", without, "claims and releases compared", "claims")
        return
    largest = window_budget(plan, 1)
    for target in plan.targets:
        if isinstance(target, EventLevel):
            holds = largest <= Fraction(target.epsilon)
            name = f"one event is promised {target.epsilon} nats at every step"
            yield Claim(name, holds, f"largest budget {float(largest)!r}", "releases")
    name = f"no step spends more than {claimed} nats"
    yield Claim(name, largest <= Fraction(claimed), f"recomputed {float(largest)!r}", "claims.largest_budget")
    total = budget_sum(plan)
    stated = plan.claims.budget_sum
    if total is None or stated is None:
        holds, detail = total is None and stated is None, "the stream is endless"
    else:
        holds, detail = total <= Fraction(stated), f"recomputed {float(total)!r} nats"
    said = "has no bound over an endless stream" if stated is None else f"is at most {stated} nats"
    yield Claim(f"the sum of all budgets {said}", holds, detail, "claims.budget_sum")


CHECKS: tuple[Callable[[Plan], Iterator[Claim]], ...] = (
    _check_digest,
    _check_targets,
    _check_sensitivity,
    _check_balance,
    _check_shape,
    _check_scales,
    check_chains,
    check_leakage,
    check_windows,
    _check_shares,
    _check_budgets,
    check_user_level,
)
