"""What a plan promises about all events of one user, and the check of it.

The stated noise is turned into privacy curves again, composed over all releases, and held against every promise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import reduce

from policyc_check.claims import Claim
from policyc_check.mechanisms.values import StreamLaplace
from policyc_check.plan.claims import Degradation, RhoLeft, UserClaim, UserRhoClaim
from policyc_check.plan.plan import Plan, Stated
from policyc_check.plan.queries import CountQuery, PrefixQuery, SumQuery, WindowQuery
from policyc_check.plan.release import Asked, DerivedRelease, MeasuredRelease, ReleasePlan
from policyc_check.plan.stream import DAY, MONTH, Length, StreamRecord, longest
from policyc_check.plan.targets import (
    AnyUserPromise,
    AnyUserSteps,
    NeighboringRelation,
    UserRho,
    UserStepsRho,
    hides_a_step,
)
from policyc_check.rounding import rounded_down
from policyc_check.users.noise import added
from policyc_check.users.participation import Participation
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Setting

Promise = AnyUserPromise | AnyUserSteps
Numbers = UserClaim | AnyUserSteps | Degradation | RhoLeft
DELTAS = (Decimal("1e-6"), Decimal("1e-7"), Decimal("1e-10"))  # at which it is said what epsilon a promised rho is


def promised_user_level(plan: Stated) -> list[AnyUserPromise]:
    """The targets of a plan that are about all events of one user."""
    return [target for target in plan.targets if isinstance(target, AnyUserPromise)]


def source_release(plan: Stated, release: Asked) -> Asked:
    """The count or sum that a release is made of, through running totals and windows; KeyError where none is."""
    seen = set()
    while isinstance(release.query, PrefixQuery | WindowQuery):
        if release.name in seen:
            raise KeyError(release.name)
        seen.add(release.name)
        release = plan.release_named(release.query.of)
    return release


def unit_of(plan: Stated, release: Asked) -> Decimal:
    """What one unit of the protected whole numbers stands for: 1 for counts, the grid for sums."""
    query = source_release(plan, release).query
    return query.grid if isinstance(query, SumQuery) else Decimal(1)


def contribution_of(query: CountQuery | SumQuery, per_step: int) -> int:
    """By how many units one user moves the values of a step at most, in L1."""
    return per_step if isinstance(query, CountQuery) else per_step * largest_units(query)


def spread_of(plan: Stated, release: Asked) -> int:
    """In how many cells of a step one user counts at most: once in each, where several are said."""
    query = source_release(plan, release).query
    said = query.cells_per_step if isinstance(query, CountQuery | SumQuery) and query.by is not None else None
    return min(said or 1, len(release.cells))


def largest_units(query: SumQuery) -> int:
    """The size of the largest clamped value, in units of the grid, rounded up."""
    return math.ceil(max(abs(Fraction(query.low)), abs(Fraction(query.high))) / Fraction(query.grid))


def period_of(plan: Stated) -> Fraction | None:
    """How many steps the period has at most that a promise is about, or which part of one; None for all of it.

    Where a promise is about windows it is one step: what is kept of a user is bounded in each by itself. ValueError
    where a period and a step overlap, or two promises are about different ones.
    """
    (per, windows), *others = {(one.per, bool(one.window)) for one in promised_user_level(plan)} or {(None, False)}
    if others or (per is not None and windows):
        raise ValueError("what is kept of one period cannot be bounded for two lengths")
    return steps_in(plan.stream, per) if per else Fraction(1) if windows else None


def steps_in(stream: StreamRecord, per: Length) -> Fraction:
    """The same of a period of this length."""
    step, length, months = stream.step_milliseconds, longest(per), [per, stream.step_text].count(MONTH)
    unit = min(step, length)
    back = 0 if stream.clock is None else max(map(stream.clock.put_back, (step, length)))
    steps = Fraction(length + back, step) if length > step else Fraction(length, step + (back if length < step else 0))
    overlap = 1 not in (steps.numerator, steps.denominator) or (months == 1 and DAY % unit)
    if overlap or stream.start is None or (months and stream.clock is None):
        raise ValueError("a period is a whole number of steps, or a step of periods, from a start that is said")
    return steps


def _all_as_long(plan: Stated) -> bool:
    """Whether every period there is has as many steps as the longest, so that it is known by step which it is."""
    stream, per = plan.stream, promised_user_level(plan)[0].per or 1
    hours = stream.clock and stream.step_milliseconds < DAY <= longest(per) and len(stream.clock.changes) > 1
    return not hours and (per == MONTH) == (stream.step_text == MONTH)


def window_of(plan: Stated) -> int | None:
    """How many steps in a row a promise is about, wherever they begin; None for all of a user, or of a period."""
    return next((target.window for target in promised_user_level(plan)), None)


def own_bound(plan: Stated) -> int:
    """In how many steps a user takes part at most: in one period where the promise is about one."""
    record, period = plan.participation, period_of(plan)
    if record is None:
        raise ValueError("a plan without a participation bound has no user-level setting")
    return record.bound if period is None else min(record.bound, math.ceil(period / record.spacing))


def setting_of(plan: Stated, release: Asked, target: Promise, bound: int | None = None) -> Setting:
    """What the noise of a release has to hide, in a plan with a participation bound, or under another bound.

    What a user does in one period moves the steps of that period alone, and neighbors that replace it differ in no
    other. Several periods of one step add up there; steps in a row are so many periods of one step. Who is in none of
    the cells counts in all steps in which neighbors differ, and moves two values; without part of a step others may.
    """
    own, record, period = own_bound(plan), plan.participation, period_of(plan)
    assert record is not None, "it has a bound"
    counted, query = source_release(plan, release).query, release.query
    assert isinstance(counted, CountQuery | SumQuery), "what others are made of is a count or a sum"
    cell, part_of_step = plan.stream.cell, isinstance(target, AnyUserSteps) and target.per is not None
    replaced = part_of_step or target.relation is NeighboringRelation.REPLACE_ONE
    most = bound or (target.bound if isinstance(target, AnyUserSteps) else own * (target.window or 1))
    window = target.window if isinstance(target, AnyUserSteps) else math.ceil(period or 0) * -(-most // own) or None
    if counted.by is not None and cell is not None and cell.otherwise is not None:
        part = Participation(most, plan.stream.horizon, window=window)
        most = window = part.steps_of_two if replaced else part.steps
        replaced = True
    in_a_step, spacing = min(most, math.ceil(1 / (period or 1))), 1 if target.window or most > own else record.spacing
    return Setting(
        participation=Participation(-(-most // in_a_step), plan.stream.horizon, spacing, window),
        contribution=contribution_of(counted, record.per_step) * in_a_step,
        per_step=record.per_step * in_a_step,
        replaced=replaced,
        signed=isinstance(counted, SumQuery) and counted.low < 0 < counted.high,
        cells=len(release.cells),
        wait=plan.delivery.longest_wait,
        spread=spread_of(plan, release),
        period=period,
        aligned=_all_as_long(plan),
        touched=1 if period is None else -(-most // own),
        workload=query.kind if isinstance(query, PrefixQuery | WindowQuery) else "identity",
        window=query.steps if isinstance(query, WindowQuery) else None,
    )


def reason_against_chains(plan: Plan) -> str | None:
    """Why what measured releases tell of a step does not leak as a budget does, or None.

    A user is in one state at a step, with an amount of a law that depends on the state alone. State and amount are a
    chain then, whose rows depend on the state alone: it passes on what the chain of states does.
    """
    record, summed = plan.participation, any(isinstance(release.query, SumQuery) for release in plan.releases)
    known = {
        "nothing is promised of a step by itself, for certain": any(map(hides_a_step, plan.targets)),
        "a chain says one place of a user at a step": record is not None
        and record.per_step == max(spread_of(plan, release) for release in plan.releases) == 1,
        "noise that steps share, or that leaves anything to chance, is no budget": all(
            isinstance(r.mechanism, StreamLaplace) and isinstance(r.query, CountQuery | SumQuery) for r in plan.releases
        ),
        "a user without an event is in no state of a chain": not plan.correlation.chains
        or (plan.stream.cell is not None and plan.stream.cell.otherwise is not None),
        "a chain does not say what amounts depend on": not summed or all(c.amounts for c in plan.correlation.chains),
    }
    return next((reason for reason, holds in known.items() if not holds), None)


def stream_profile(plan: Plan, target: Promise, bound: int | None = None) -> PrivacyProfile:
    """What all releases together tell about one user."""
    return composed(part.mechanism.profile(setting_of(plan, part, target, bound)) for part in plan.measured)


def stream_largest_loss(plan: Plan, target: Promise, bound: int | None = None) -> Fraction | None:
    """The most nats that all releases together can tell about one user, exactly; None where there is no limit."""
    return added(part.mechanism.largest_loss(setting_of(plan, part, target, bound)) for part in plan.measured)


def stream_rho(plan: Plan, target: Promise, bound: int | None = None) -> Fraction | None:
    """The zero-concentrated loss of all releases together, exactly; None where none is known."""
    return added(part.mechanism.rho(setting_of(plan, part, target, bound)) for part in plan.measured)


def composed(profiles: Iterable[PrivacyProfile]) -> PrivacyProfile:
    """What independent releases tell together."""
    return reduce(PrivacyProfile.compose, profiles)


def check_user_level(plan: Plan) -> Iterator[Claim]:
    """Every claim about all events of one user, recomputed."""
    if not promised_user_level(plan):
        # a bound would say what is counted: up to `per_step` events of a user
        if len(plan.scheduled) < len(plan.releases) or plan.claims.user_level or plan.participation is not None:
            detail = "a release without budgets, a claim or a bound of all events of a user, and no such target"
            yield Claim("all budgets belong to a target", False, detail, "targets")
        return
    for check in (_check_participation, _check_releases, _check_profiles):
        yield from check(plan)


def _check_participation(plan: Plan) -> Iterator[Claim]:
    record = plan.participation
    if record is None:
        yield Claim("a user takes part in a limited number of steps", False, "no bound is stated", "participation")
        return
    try:
        period = period_of(plan)
    except ValueError as error:
        yield Claim("all promises are about the same whole periods", False, str(error), "targets")
        return
    late = record.enforced == "keep_sample" and plan.delivery.kind != "offline"
    fits = record.bound <= (plan.stream.horizon or record.bound) and not late
    detail = f"enforced by {record.enforced}" if record.enforced else "assumed, not enforced"
    part = "" if period is None else " of a period" if window_of(plan) is None else " of a period of 1 step"
    yield Claim(f"a user takes part in at most {record.bound:,} steps{part}", fits, detail, "participation")


def _check_releases(plan: Plan) -> Iterator[Claim]:
    """Every release has a mechanism that accounts for it, or is made of another one."""
    assert plan.participation is not None, "checked before"
    names: set[str] = set()
    for index, release in enumerate(plan.releases):
        place = f"releases.{index}"
        name = f"`{release.name}` is measured by `{release.mechanism.name}`"
        reason = _reason_against(plan, release, names)
        yield Claim(name, reason is None, reason or "it accounts for this release", f"{place}.mechanism")
        if reason is not None:
            return
        names.add(release.name)
        query, stated = source_release(plan, release).query, release.l1_sensitivity
        assert isinstance(query, CountQuery | SumQuery), "what others are made of is a count or a sum"
        least = contribution_of(query, plan.participation.per_step) * spread_of(plan, release) * unit_of(plan, release)
        claimed = f"one user changes `{release.name}` in a step by at most {stated}"
        yield Claim(claimed, stated >= least, f"recomputed {least}", f"{place}.l1_sensitivity")


def _reason_against(plan: Plan, release: ReleasePlan, before: set[str]) -> str | None:
    """Why nothing, or something else, is known of what a release tells, or None."""
    if isinstance(release.query, PrefixQuery | WindowQuery):
        if release.query.of not in before:
            return "what it is made of does not come before it"
        base = plan.release_named(release.query.of)
        if base.cells != release.cells:
            return "it has other cells than what it is made of"
        if isinstance(release, DerivedRelease):
            return None
        if not isinstance(base.query, CountQuery | SumQuery):
            return "what is measured is a running total or a window of a count or a sum"
    if not isinstance(release, MeasuredRelease):
        return "a promise about all events of a user needs a mechanism that accounts for the whole stream"
    promised = (_reason_against_target(plan, release, one) for one in plan.targets if isinstance(one, Promise))
    return next(filter(None, promised), None)


def _reason_against_target(plan: Plan, release: MeasuredRelease, target: Promise) -> str | None:
    setting = setting_of(plan, release, target)
    if isinstance(target, UserRho | UserStepsRho):
        return None if release.mechanism.rho(setting) is not None else "no rho is known of its noise"
    if target.delta == 0:
        return None if release.mechanism.largest_loss(setting) is not None else "there is no limit to what it can tell"
    return release.mechanism.reason_against_promise(setting, target.delta)


def _check_profiles(plan: Plan) -> Iterator[Claim]:
    targets, claims = promised_user_level(plan), plan.claims.user_level
    if len(targets) != len(claims):
        yield Claim("every user-level target has its claim", False, "they differ in number", "claims.user_level")
        return
    for index, (target, claim) in enumerate(zip(targets, claims, strict=True)):
        place = f"claims.user_level.{index}"
        if not _is_of(claim, target):
            yield Claim("the claim is that of its target", False, "it differs, or is above it", place)
            return
        holds, found = kept_by_noise(plan, target, claim)
        more = "" if holds else "; there is too little noise, as an earlier version may have planned: compile again"
        length = "a month" if target.per == MONTH else f"{Fraction(target.per or 0, 3_600_000)} h" if target.per else ""
        part = f" in any {target.window} steps in a row" if target.window else length and f" in one period of {length}"
        name = f"all events of one user{part} together leak at most {_amount(claim)}"
        yield Claim(name, holds, f"{found}{more}", place, "E0843")
        beyond = all(kept_by_noise(plan, target, point, point.participation)[0] for point in claim.beyond)
        name = "what is left for users beyond the participation bound is as stated"
        yield Claim(name, beyond, f"{len(claim.beyond)} bounds recomputed", f"{place}.beyond")


def _amount(claim: UserClaim) -> str:
    if isinstance(claim, UserRhoClaim):
        points = (f"{point.epsilon} nats at delta {point.delta}" for point in claim.curve if point.epsilon)
        return f"rho {claim.rho}, which is {', '.join(points) or 'no epsilon'}"
    return f"{claim.epsilon} nats{f' at delta {claim.delta}' if claim.delta else ', and nothing is left to chance'}"


def _is_of(claim: UserClaim, target: AnyUserPromise) -> bool:
    """Whether who keeps the claim keeps the target."""
    if isinstance(claim, UserRhoClaim) or isinstance(target, UserRho):
        both = isinstance(claim, UserRhoClaim) and isinstance(target, UserRho) and claim.rho <= target.rho
        return both and claim.relation == target.relation
    return (claim.delta, claim.relation) == (target.delta, target.relation) and claim.epsilon <= target.epsilon


def kept_by_noise(plan: Plan, target: Promise, stated: Numbers, bound: int | None = None) -> tuple[bool, str]:
    """Whether the noise keeps stated numbers, under the plan's bound or another one; and what was recomputed."""
    if isinstance(stated, UserRhoClaim | RhoLeft | UserStepsRho):
        lost, curve = stream_rho(plan, target, bound), () if isinstance(stated, UserStepsRho) else stated.curve
        points = [(_delta_at(plan, target, one.epsilon, bound), one.delta) for one in curve if one.epsilon is not None]
        told = all(Fraction(failing) <= Fraction(delta) for failing, delta in points)
        told = told and (isinstance(stated, UserStepsRho) or tuple(one.delta for one in curve) == DELTAS)
        return told and lost is not None and lost <= Fraction(stated.rho), f"recomputed rho {lost and float(lost)!r}"
    if stated.epsilon is None:  # claims nothing
        return True, "nothing"
    assert not isinstance(target, UserRho | UserStepsRho), "nats stand beside nats"
    lost = stream_largest_loss(plan, target, bound)
    if (kept := lost is not None and lost <= Fraction(stated.epsilon)) or target.delta == 0:  # kept at any delta
        return kept, f"recomputed {lost and float(lost)!r} nats"
    failing = _delta_at(plan, target, stated.epsilon, bound)
    detail = f"delta recomputed from the noise: {failing!r}, promised {target.delta}"
    return Fraction(failing) <= Fraction(target.delta), detail


def _delta_at(plan: Plan, target: Promise, epsilon: Decimal, bound: int | None) -> float:
    """What all releases together leave to chance at `epsilon`; 1 for noise so small or large that none can be told.

    Beyond the bound of the plan it is said of the coarse curve, which is above the exact one.
    """
    try:
        profile = stream_profile(plan, target, bound)
        return (profile if bound is None else profile.coarse).delta(rounded_down(epsilon))
    except (ArithmeticError, ValueError):
        return 1.0
