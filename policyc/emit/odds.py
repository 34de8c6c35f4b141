"""What a curve delta(epsilon) says in other words: how often odds change by more, and what several names together lose.

Both follow from the curve alone, so they hold for whatever the curve bounds, and both are upper bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from policyc.offers.calibration import gaussian_epsilon, least, log_excess
from policyc_check.users.profile import PrivacyProfile

Curve = Callable[[float], float]

FINEST = 24  # halvings of epsilon, by the root of 2 each, at which the curve is read
ROUNDING = 1e-12  # of a few products and exponentials, upward
FAR_BELOW = -2.0  # of the log of a delta over that allowed, where it may fall to nothing: enough to interpolate by
NEAR = 1e-4  # relative width within which an epsilon for several is looked for
LARGEST = 700.0  # nats, whose exponential is still a number


def probability_beyond(profile: PrivacyProfile, epsilon: float) -> float:
    """An upper bound on the probability that a result changes the odds by more than a factor exp(epsilon), up or down.

    With loss L = log Pr(result) / Pr'(result) under Pr, delta(s) = E (1 - exp(s - L))^+ is at least
    (1 - exp(s - epsilon)) Pr(L > epsilon), for any s < epsilon; the curve is that of both directions. Results with
    L < -epsilon have exp(-epsilon) times as much under Pr as under Pr', where their loss is above epsilon.

    It is delta itself that is smaller: delta weighs every result by how far it is beyond.

    Args:
        profile: of everything that is promised together.
        epsilon: nats, > 0.
    """
    if not epsilon > 0:
        raise ValueError("epsilon is positive")
    curve, bound = profile.coarse.delta, 1.0
    if curve(epsilon) == 0:
        return 0.0
    for halvings in range(1, FINEST + 1):
        gap = epsilon * 2 ** (-halvings / 2)
        found = curve(epsilon - gap) / -math.expm1(-gap)
        if found > bound and halvings > 4:  # the bound has one lowest place
            break
        bound = min(bound, found)
    return min(1.0, bound * (1 + math.exp(-epsilon)) * (1 + ROUNDING))


def group_delta(profile: PrivacyProfile, epsilon: float, size: int) -> float:
    """An upper bound on delta at `epsilon` (nats, >= 0) for `size` users who act together, in whatever steps.

    Their data are changed one user after the other: Pr(S) <= exp(a) Pr'(S) + delta(a) and Pr'(S) <= exp(b) Pr''(S) +
    delta(b) give Pr(S) <= exp(a + b) Pr''(S) + delta(a) + exp(a) delta(b). Any a, b, ... that add up to epsilon give a
    bound. Those of normal noise grow by the variance of the loss from one to the next, and give the exact one there;
    equal ones suit a loss that has a largest value.
    """
    if size < 1:
        raise ValueError("at least one user")
    return min(_one_by_one(profile.coarse.delta, epsilon, size, growth) for growth in (profile.variance, 0.0))


def group_epsilon(profile: PrivacyProfile, delta: float, size: int) -> float:
    """An epsilon (nats, rounded up) that keeps `delta` in (0, 1) for `size` users who act together; inf for none found.

    A person with several names is such users: whether the names act in the same steps or in others, the bound holds.
    """
    if not profile.losses:
        return gaussian_epsilon(delta, math.nextafter(profile.mu * size, math.inf))
    curve, variance = cache(profile.coarse.delta), profile.variance  # equal parts are asked for again
    start = max(1e-6, gaussian_epsilon(delta, math.sqrt(variance) * size))

    def excess(epsilon: float, growth: float) -> float:
        return max(log_excess(_one_by_one(curve, epsilon, size, growth), delta), FAR_BELOW)

    def root(growth: float) -> float:
        low, high = 0.0, start * 1.01
        while excess(high, growth) > 0:
            low, high = high, 2 * high
            if high > 2 * LARGEST:
                return math.inf
        return least(lambda epsilon: excess(epsilon, growth), low, high, NEAR)

    found = root(variance)
    return found if math.isfinite(found) and excess(found, 0.0) > 0 else min(found, root(0.0))  # equal parts need more


def _one_by_one(curve: Curve, epsilon: float, size: int, growth: float) -> float:
    """The bound for parts of epsilon that grow by so much from one user to the next, as far as none is negative."""
    if size > 1:
        growth = min(growth, 2 * epsilon / (size * (size - 1)))
    total = spent = 0.0
    for user in range(size):
        part = max(0.0, min(epsilon / size + growth * (user - (size - 1) / 2), epsilon - spent))
        delta = curve(part)
        if spent > LARGEST and delta > 0:
            return 1.0
        total += math.exp(min(spent, LARGEST)) * delta
        spent += part
    return min(1.0, total * (1 + ROUNDING))
