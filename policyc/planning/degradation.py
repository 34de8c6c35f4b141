"""What a promise about all events of a user says, and what is left of it when the participation bound fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from policyc.offers import LargestLoss, Rho
from policyc.offers.calibration import gaussian_epsilon, least, least_near, log_excess, spread
from policyc.planning.assemble import round_up
from policyc.planning.draft import Draft
from policyc.planning.expected_errors import PlannedRelease
from policyc.progress import counted
from policyc_check.mechanisms import StreamMechanism
from policyc_check.plan.claims import Claims, CurvePoint, Degradation, RhoLeft, UserLevelClaim, UserRhoClaim
from policyc_check.plan.targets import AnyUserPromise, UserRho
from policyc_check.rounding import rounded_down
from policyc_check.users.claims import DELTAS, composed, promised_user_level, setting_of
from policyc_check.users.noise import added
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Setting
from policyc_runtime.beyond import beyond_bounds

MOST = 1e15  # nats; what is above is called none
LEAST = 1e-6  # nats, below which nobody asks how many of a promised rho
EXACT_DIGITS, CURVE_DIGITS = 6, 4


def user_level_claims(draft: Draft, planned: Sequence[PlannedRelease]) -> Claims:
    """What was promised, which the noise was made for, and what is left of it when the participation bound fails."""
    claims = tuple(_claim(draft, planned, target) for target in promised_user_level(draft))
    return Claims(total_leakage=None, budget_sum=None, largest_budget=None, user_level=claims)


def _claim(draft: Draft, planned: Sequence[PlannedRelease], target: AnyUserPromise) -> UserLevelClaim | UserRhoClaim:
    bounds = beyond_bounds(draft)
    parts = [_parts(draft, planned, target, bound) for bound in (None, *bounds)]
    beyond = counted("what is left beyond the bound", zip(bounds, parts[1:], strict=True), len(bounds))
    if isinstance(target, UserRho):
        left = tuple(
            RhoLeft(participation=bound, rho=_added(Rho(target.rho), more), curve=_curve(_profile(more).coarse))
            for bound, more in beyond
        )
        curve = _curve(_profile(parts[0]))
        rho = min(target.rho, _added(Rho(target.rho), parts[0]))
        return UserRhoClaim(rho=rho, relation=target.relation, curve=curve, beyond=left)
    goal = LargestLoss(target.epsilon)
    if target.delta == 0:
        epsilon = min(target.epsilon, _added(goal, parts[0]))
        kept = [Degradation(participation=bound, epsilon=_added(goal, more)) for bound, more in beyond]
    else:
        epsilon, delta = target.epsilon, rounded_down(target.delta)
        kept = [Degradation(participation=bound, epsilon=_left(goal, more, delta)) for bound, more in beyond]
    return UserLevelClaim(epsilon=epsilon, delta=target.delta, relation=target.relation, beyond=tuple(kept))


Parts = list[tuple[StreamMechanism, Setting]]


def _parts(draft: Draft, planned: Sequence[PlannedRelease], target: AnyUserPromise, bound: int | None) -> Parts:
    """What is measured, and what one user can change in it who takes part so often; None: as the policy says."""
    measured = [(one.draft, one.measurement.mechanism) for one in planned if one.measurement is not None]
    return [(mechanism, setting_of(draft, part, target, bound)) for part, mechanism in measured]


def _added(goal: LargestLoss | Rho, parts: Parts) -> Decimal:
    """What all releases lose together, of losses that add up, rounded up."""
    lost = added(goal.lost(*part) for part in parts)
    assert lost is not None, "the noise was made for it"
    return round_up(lost, EXACT_DIGITS)


def _left(goal: LargestLoss, parts: Parts, delta: float) -> Decimal | None:
    """An epsilon that is kept at a delta, rounded up: the curve's, or the most that can be lost; None for none."""
    nats = _shown(_epsilon_at(_profile(parts).coarse, delta), 3)
    most = added(goal.lost(*part) for part in parts)
    known = (nats, None if most is None else round_up(most, 3))
    return min((one for one in known if one is not None), default=None)


def _profile(parts: Parts) -> PrivacyProfile:
    return composed(mechanism.profile(setting) for mechanism, setting in parts)


def _curve(profile: PrivacyProfile) -> tuple[CurvePoint, ...]:
    """What epsilon the noise of a promised rho is, rounded up; of noise too small for a curve none."""
    return tuple(CurvePoint(delta=delta, epsilon=_point(profile, rounded_down(delta))) for delta in DELTAS)


def _point(profile: PrivacyProfile, delta: float) -> Decimal | None:
    try:
        if profile.delta(LEAST) <= delta:
            return Decimal(repr(LEAST))
        near = _epsilon_at(profile.coarse, delta)
        if not math.isfinite(near):
            return None
        return _shown(least_near(lambda epsilon: log_excess(profile.delta(epsilon), delta), near, 1e-7), CURVE_DIGITS)
    except (ArithmeticError, ValueError):
        return None


def _shown(epsilon: float, digits: int) -> Decimal | None:
    return round_up(Fraction(epsilon), digits) if math.isfinite(epsilon) else None


def _epsilon_at(profile: PrivacyProfile, delta: float) -> float:
    """An epsilon (nats) that a profile keeps at this delta, at most a relative 1e-4 above the least; inf for none."""
    low = high = max(gaussian_epsilon(delta, spread(profile)), 1e-6)  # many small losses are nearly normal
    factor = 1.01
    while profile.delta(high) > delta:
        low, high, factor = high, high * factor, factor**2
        if high > MOST:
            return math.inf
    while low == high or profile.delta(low) <= delta:
        high, low, factor = low, low / factor, factor**2
    return least(lambda epsilon: log_excess(profile.delta(epsilon), delta), low, high, 1e-4)
