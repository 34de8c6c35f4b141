"""Recomputes every privacy claim of a plan: `CHECKS` is the list, one function a kind of claim.

Nothing here is searched. Scales are compared with budgets in exact fractions, and so are sums of budgets; what leaks
from step to step, and what a stream tells about all of one user, is in `steps` and `users`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import chain

from policyc_check.claims import Claim
from policyc_check.errors import KernelError
from policyc_check.mechanisms.laplace import Laplace
from policyc_check.plan.plan import Plan
from policyc_check.plan.queries import CountQuery
from policyc_check.plan.release import KINDS, AdaptiveRelease, MeasuredRelease, Scheduled
from policyc_check.plan.stream import MONTH, longest
from policyc_check.plan.targets import AlphaDPT, AnyUserSteps, EventLevel, OfSteps, UserPromise, adds_or_removes
from policyc_check.steps.budgets import LARGEST_HORIZON, window_budget
from policyc_check.steps.claims import check_chains, check_leakage, check_windows
from policyc_check.steps.users import check_user_steps
from policyc_check.users.claims import check_user_level, reason_against_chains, window_of

NONSENSE = (ArithmeticError, ValueError, LookupError, TypeError, AssertionError, MemoryError)
COMPUTED = "the plan's numbers can be computed with"


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


def check_digest(plan: Plan) -> Iterator[Claim]:
    """Whether the plan carries its own digest."""
    intact = plan.digest == plan.computed_digest()
    altered = "its content does not match its own digest: a field was altered"
    detail = f"sha256 {plan.digest[:16]}…" if intact else altered
    yield Claim("the plan is as it was compiled", intact, detail, "plan.json", "E0803")


def _check_targets(plan: Plan) -> Iterator[Claim]:
    users = [target for target in plan.targets if isinstance(target, UserPromise)]
    allowed = UserPromise if window_of(plan) is None else UserPromise | AnyUserSteps | AlphaDPT
    if users and not all(isinstance(target, allowed) for target in plan.targets):
        detail = "budgets of steps and noise for the whole stream do not add up to one promise here"
        yield Claim("all targets are of one kind", False, detail, "targets")
    if users and any(isinstance(target, AlphaDPT) for target in plan.targets):
        reason = reason_against_chains(plan)
        name = "a step tells of others through the chains of places alone"
        yield Claim(name, reason is None, reason or "noise of its own hides its one event of a user", "releases")
    if len({release.name for release in plan.releases}) < len(plan.releases):
        detail = "two have the same, and the values of one would get the noise of the other"
        yield Claim("every release has its own name", False, detail, "releases")
    kinds = {**KINDS, "window": AdaptiveRelease | MeasuredRelease}
    if not all(isinstance(release, kinds[release.mechanism.accounting]) for release in plan.releases):
        detail = "made by hand, it would be checked as something else"  # a file cannot say so
        yield Claim("every release is of the kind of its mechanism", False, detail, "releases")


def _scheduled(plan: Plan) -> list[tuple[int, Scheduled]]:
    """The releases whose steps have budgets, with their index."""
    return [(index, release) for index, release in enumerate(plan.releases) if isinstance(release, Scheduled)]


def _check_sensitivity(plan: Plan) -> Iterator[Claim]:
    for index, release in _scheduled(plan):
        if not isinstance(release.query, CountQuery):
            name = f"`{release.name}` counts users at each step"
            yield Claim(name, False, "no sensitivity of one step is known for it", f"releases.{index}.query")
            return
        least, reason = 2, "replacing one user's cell lowers one count by one and raises another by one"
        if release.query.by is None:
            least, reason = 1, "replacing one user's value changes the one count by at most one"
        stated = min(release.l1_sensitivity, getattr(release.mechanism, "l1_sensitivity", release.l1_sensitivity))
        name = f"the L1 sensitivity of `{release.name}` is {release.l1_sensitivity}"
        yield Claim(name, stated >= least, f"recomputed {least}: {reason}", f"releases.{index}.l1_sensitivity")


def _check_balance(plan: Plan) -> Iterator[Claim]:
    """Balanced noise tells the total exactly, and so does that a step is released: no neighbor may change it."""
    cell, added = plan.stream.cell, any(isinstance(one, OfSteps) and adds_or_removes(one) for one in plan.targets)
    if added and cell and cell.otherwise is None and plan.stream.population and any(r.query.by for r in plan.scheduled):
        yield Claim("neighbors leave the population as it is", False, "without events a user is in no cell", "targets")
    for index, release in enumerate(plan.releases):
        if not isinstance(release.mechanism, Laplace) or release.mechanism.balanced_cells is None:
            continue
        public = release.query.by is not None and plan.stream.population is not None  # all cells: `_check_shape`
        name = f"the noise of `{release.name}` adds up to zero over cells whose total is public"
        holds = public and release.mechanism.balanced_cells == len(release.cells)
        detail = "replacing a user's cell leaves it as it is" if public else "the total is not declared to be public"
        yield Claim(name, holds, detail, f"releases.{index}.mechanism")


def _check_shape(plan: Plan) -> Iterator[Claim]:
    stream, horizon = plan.stream, plan.stream.horizon
    if horizon is not None and horizon > LARGEST_HORIZON:
        detail = f"{horizon:,} steps, more than this version can check ({LARGEST_HORIZON:,})"
        yield Claim("the horizon can be checked", False, detail, "stream.horizon")
        return
    if stream.step_text == MONTH and stream.step_milliseconds != longest(MONTH):
        yield Claim("a step of a month is the longest", False, f"{stream.step_milliseconds:,} ms", "stream.step_text")
    states = {**({} if stream.cell is None else stream.cell.states_by), None: ("",)}
    for index, release in enumerate(plan.releases):
        place = f"releases.{index}"
        if release.schedule is not None:
            name, length = f"`{release.name}` has a budget for every step", release.schedule.length
            yield Claim(name, length == horizon, f"{steps(length)} of {steps(horizon)}", f"{place}.schedule")
        name = f"`{release.name}` publishes the cells of the stream"
        fits = states.get(release.query.by) == release.cells
        yield Claim(name, fits, f"{len(release.cells)} values a step", f"{place}.cells")


def steps(count: int | None) -> str:
    """A length of a stream, in words."""
    return "endless" if count is None else f"{count:,} steps"


def _check_scales(plan: Plan) -> Iterator[Claim]:
    for index, release in _scheduled(plan):
        pairs = {pair for s in release.schedule.segments for pair in zip(s.epsilons, s.scales, strict=True)}
        faults = [fault for pair in sorted(pairs) if (fault := _fault(release, *pair))]
        name = f"the noise of `{release.name}` pays for its budget at every step"
        detail = faults[0] if faults else f"{len(pairs):,} different budgets, compared in exact fractions"
        yield Claim(name, not faults, detail, f"releases.{index}.schedule")


def _fault(release: Scheduled, epsilon: Decimal, scale: Decimal) -> str | None:
    """What is wrong with a step of this budget and this scale of noise."""
    if isinstance(release, AdaptiveRelease):  # it measures every step, also one that is said to have no budget
        more = release.mechanism.spent(1) > Fraction(epsilon)
        return f"a step may spend more than its budget of {epsilon} nats" if more else None
    if epsilon == 0:
        return f"a step without budget has noise scale {scale}" if scale != 0 else None
    if scale == 0 or release.mechanism.privacy_loss(scale) > Fraction(epsilon):
        return f"noise scale {scale} is too small for a budget of {epsilon} nats"
    return None


def _check_budgets(plan: Plan) -> Iterator[Claim]:
    claimed, stated = plan.claims.largest_budget, plan.claims.budget_sum
    spending = plan.scheduled or any(isinstance(target, AlphaDPT) for target in plan.targets)
    if not spending or claimed is None:
        without = not spending and claimed is None and stated is None
        yield Claim("no step has a budget of its own", without, "claims and releases compared", "claims")
        return
    horizon = plan.stream.horizon
    largest, total = window_budget(plan, 1), None if horizon is None else window_budget(plan, horizon)
    for target in plan.targets:
        if isinstance(target, EventLevel):
            name = f"one event is promised {target.epsilon} nats at every step"
            holds = largest <= Fraction(target.epsilon)
            yield Claim(name, holds, f"largest budget {float(largest)!r}", "releases")
    name = f"no step spends more than {claimed} nats"
    yield Claim(name, largest <= Fraction(claimed), f"recomputed {float(largest)!r}", "claims.largest_budget")
    if total is None or stated is None:
        holds, detail = total is None and stated is None, "the stream is endless"
    else:
        holds, detail = total <= Fraction(stated), f"recomputed {float(total)!r} nats"
    said = "has no bound over an endless stream" if stated is None else f"is at most {stated} nats"
    yield Claim(f"the sum of all budgets {said}", holds, detail, "claims.budget_sum")


CHECKS: tuple[Callable[[Plan], Iterator[Claim]], ...] = (
    check_digest,
    _check_targets,
    _check_sensitivity,
    _check_balance,
    _check_shape,
    _check_scales,
    check_chains,
    check_leakage,
    check_windows,
    _check_budgets,
    check_user_steps,
    check_user_level,
)
