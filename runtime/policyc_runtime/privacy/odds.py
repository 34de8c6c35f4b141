"""What a curve delta(epsilon) says in other words: how often odds change by more, and what several names together lose.

Both follow from the curve alone, so they hold for whatever the curve bounds, and both are upper bounds.
"""

from __future__ import annotations

import math

from policyc_runtime.privacy.gaussian import gaussian_epsilon
from policyc_runtime.privacy.profile import PrivacyProfile, log_excess

FINEST = 24  # halvings of epsilon, by the root of 2 each, at which the curve is read
ROUNDING = 1e-12  # of a few products and exponentials, upward


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
    coarse, least = profile.coarse, 1.0
    if coarse.delta(epsilon) == 0:
        return 0.0
    for halvings in range(1, FINEST + 1):
        gap = epsilon * 2 ** (-halvings / 2)
        bound = coarse.delta(epsilon - gap) / -math.expm1(-gap)
        if bound > least and halvings > 4:  # the bound has one lowest place
            break
        least = min(least, bound)
    return min(1.0, least * (1 + math.exp(-epsilon)) * (1 + ROUNDING))


def group_delta(profile: PrivacyProfile, epsilon: float, size: int) -> float:
    """An upper bound on delta at `epsilon` (nats, >= 0) for `size` users who act together, in whatever steps.

    Their data are changed one user after the other: Pr(S) <= exp(a) Pr'(S) + delta(a) and Pr'(S) <= exp(b) Pr''(S) +
    delta(b) give Pr(S) <= exp(a + b) Pr''(S) + delta(a) + exp(a) delta(b). Any a, b, ... that add up to epsilon give a
    bound; those of normal noise, which grow by the variance of the loss from one to the next, give the exact one there.
    """
    if size < 1:
        raise ValueError("at least one user")
    first = epsilon / size
    growth = 0.0
    if size > 1:
        variance = profile.mu**2 + math.fsum(loss.variance for loss in profile.losses)
        growth = min(variance, 2 * epsilon / (size * (size - 1)))
        first -= growth * (size - 1) / 2
    total = spent = 0.0
    for user in range(size):
        share = max(0.0, first + growth * user)
        total += math.exp(min(spent, 700.0)) * profile.delta(share)
        spent += share
    return min(1.0, total * (1 + ROUNDING))


def group_epsilon(profile: PrivacyProfile, delta: float, size: int) -> float:
    """An epsilon (nats, rounded up) that keeps `delta` in (0, 1) for `size` users who act together; inf for none found.

    A person with several names is such users: whether the names act in the same steps or in others, the bound holds.
    """
    if not profile.losses:
        return gaussian_epsilon(delta, math.nextafter(profile.mu * size, math.inf))
    coarse = profile.coarse
    low = high = coarse.epsilon(delta)
    if not math.isfinite(high):
        return math.inf
    high = max(high, 1e-6)
    for _ in range(60):
        if log_excess(group_delta(coarse, high, size), delta) <= 0:
            break
        low, high = high, high * 1.5
    else:
        return math.inf
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if group_delta(coarse, middle, size) <= delta else (middle, high)
    return high
