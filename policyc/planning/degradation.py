"""What a promise about all events of a user says, and what is left of it when the participation bound fails."""

from __future__ import annotations

import math
from fractions import Fraction

from policyc.offers.calibration import gaussian_epsilon, least, log_excess, spread
from policyc.planning.assemble import round_up
from policyc_check.plan.claims import Claims, Degradation, UserLevelClaim
from policyc_check.plan.targets import UserLevel
from policyc_check.rounding import rounded_down
from policyc_check.users.claims import beyond_bounds, stream_profile
from policyc_check.users.profile import PrivacyProfile
from policyc_runtime.plan import Plan

MOST = 1e15  # nats; what is above is called none


def user_level_claims(plan: Plan) -> Claims:
    """What was promised, which the noise was made for, and what is left of it when the participation bound fails."""
    claims = []
    for target in plan.targets:
        assert isinstance(target, UserLevel), "other targets are planned by schedules"
        beyond = []
        for bound in beyond_bounds(plan):
            left = _epsilon_at(stream_profile(plan, target.relation, bound).coarse, rounded_down(target.delta))
            kept = round_up(Fraction(left), 3) if math.isfinite(left) else None
            beyond.append(Degradation(participation=bound, epsilon=kept))
        claims.append(
            UserLevelClaim(epsilon=target.epsilon, delta=target.delta, relation=target.relation, beyond=tuple(beyond))
        )
    return Claims(total_leakage=None, budget_sum=None, largest_budget=None, user_level=tuple(claims))


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
