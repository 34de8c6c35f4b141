"""The least noise that keeps a promise, and the least epsilon that noise keeps: searches, which nobody has to believe.

What is found is held against the curves of `policyc_check.users`, by the search and again by `verify`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from policyc_check.users.gaussian import gaussian_delta
from policyc_check.users.noise import DiscreteGaussian, DiscreteLaplace
from policyc_check.users.profile import PrivacyProfile
from policyc_check.users.setting import Setting
from policyc_check.users.subsampling import ROUNDING, StepSample
from policyc_runtime.mechanisms.room import require_room

LARGEST_EPSILON = 1e5  # nats; nothing above is looked for

TOLERANCE = 1e-13


def least_noise(holds: Callable[[float], bool], near: float) -> float:
    """The least noise with which a condition holds, to a relative 1e-13, and never less.

    Args:
        holds: true from some noise on.
        near: where to look first, > 0.

    Raises:
        KernelError: the noise would not fit 64-bit integers.
    """
    require_room(near)
    low, high, width = near, near, 1e-9
    while not holds(high):
        low, high, width = high, high * (1 + width), width * 4
        require_room(high)
    width = 1e-9
    while low == high or holds(low):
        high, low, width = low, low / (1 + width), width * 4
        if low < 1e-9:
            return high
    while high - low > TOLERANCE * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def fine_grid(noise: float, bits: int = 20) -> int:
    """How many steps of a grid make one unit, a power of two, so that noise is 2^bits steps wide or up to twice that.

    There discrete Gaussian noise loses no more than continuous noise does. Wider noise keeps the grid of 1.
    """
    return 1 << max(0, bits + 1 - math.frexp(noise)[1])


def l2_sensitivity(setting: Setting) -> float:
    """How far one neighbor moves the raw series, in units, L2 over all steps and cells, rounded up."""
    root = math.sqrt(setting.changes)
    return setting.shift * (root if root.is_integer() else math.nextafter(root, math.inf))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The least epsilon (nats, >= 0), rounded up, with gaussian_delta(epsilon, mu) <= delta.

    Args:
        delta: in [1e-300, 1).
        mu: L2 sensitivity / stddev, >= 0 and finite.

    Source: BW18
    """
    _check_delta(delta)
    if not 0 <= mu < math.inf:
        raise ValueError("mu is at least 0 and finite")
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    return least_float(lambda epsilon: gaussian_delta(epsilon, mu) <= delta, 0.0, mu * (40 + mu))


def gaussian_stddev(epsilon: float, delta: float, sensitivity: float) -> float:
    """The least stddev, rounded up, of Gaussian noise that is (epsilon, delta)-private.

    Args:
        epsilon: nats, >= 0.
        delta: in [1e-300, 1).
        sensitivity: L2 sensitivity of everything released, in units of the values, > 0.

    Returns:
        A stddev with gaussian_delta(epsilon, sensitivity / stddev) <= delta, without tolerance.

    Source: BW18
    """
    _check_delta(delta)
    if not (0 <= epsilon < math.inf and 0 < sensitivity < math.inf):
        raise ValueError("epsilon is at least 0 and the sensitivity above it, both finite")
    low = high = 1.0 / (40 + math.sqrt(2 * epsilon))
    while gaussian_delta(epsilon, 1 / high) > delta:
        low, high = high, 2 * high
    unit = least_float(lambda stddev: gaussian_delta(epsilon, 1 / stddev) <= delta, low, high)
    stddev = unit * sensitivity
    while gaussian_delta(epsilon, sensitivity / stddev) > delta:
        stddev = math.nextafter(stddev, math.inf)
    return stddev


def discrete_gaussian_stddev(epsilon: float, delta: float, changes: int, shift: int = 1) -> Decimal:
    """The least stddev, rounded up, of discrete Gaussian noise that is (epsilon, delta)-private.

    Args:
        epsilon: nats, >= 0.
        delta: in [1e-300, 1).
        changes: counts that differ between neighbors at most, 1 to 10^6.
        shift: by how much each of them differs at most, >= 1.

    Returns:
        A stddev of 10 digits; with variance = Fraction(stddev)^2, its curve has delta(epsilon) <=
        delta without tolerance, and no stddev below it by more than a relative 1e-6 is enough.

    Source: CKS20
    """
    start = gaussian_stddev(epsilon, delta, shift * math.sqrt(changes))

    def profile(stddev: Decimal | float) -> PrivacyProfile:
        return DiscreteGaussian(Fraction(stddev) ** 2).alike(changes, shift)

    return _calibrated(profile, epsilon, delta, start)


def discrete_laplace_scale(epsilon: float, delta: float, changes: int, shift: int = 1) -> Decimal:
    """The least scale, rounded up, of discrete Laplace noise that is (epsilon, delta)-private.

    Args:
        epsilon: nats, > 0.
        delta: in [1e-300, 1), or 0: then changes shift / epsilon.
        changes: counts that differ between neighbors at most, 1 to 10^6.
        shift: by how much each of them differs at most, >= 1.

    Returns:
        A scale of 10 digits, for which whose curve has delta(epsilon) <= delta without tolerance.

    Source: CKS20
    """
    pure = Fraction(changes * shift) / Fraction(epsilon)
    most = _up(Decimal(pure.numerator), Decimal(pure.denominator))
    if delta == 0:
        return most

    def profile(scale: Decimal | float) -> PrivacyProfile:
        return DiscreteLaplace(Fraction(scale)).alike(changes, shift)

    # Many small losses are nearly normal, and as wide as those of Gaussian noise whose stddev is the scale.
    start = min(float(pure), gaussian_stddev(epsilon, delta, shift * math.sqrt(changes)))
    return min(most, _calibrated(profile, epsilon, delta, start))


def _calibrated(
    profile: Callable[[Decimal | float], PrivacyProfile], epsilon: float, delta: float, start: float
) -> Decimal:
    """The least noise near `start` whose curve is at most delta, rounded up and checked again."""

    def excess(noise: float) -> float:
        return log_excess(profile(noise).delta(epsilon), delta)

    noise = _up(Decimal(least_near(excess, start, 1e-9)), Decimal(1))
    while profile(noise).delta(epsilon) > delta:
        noise = _up(noise * Decimal("1.0000000002"), Decimal(1))
    return noise


def spread(profile: PrivacyProfile) -> float:
    """The mu of Gaussian noise that tells as much at epsilon 0: about the deviation of a loss that is nearly normal."""
    told = min(profile.delta(0.0), 1 - 1e-12)
    return 2 * NormalDist().inv_cdf((1 + told) / 2)


def least_epsilon(profile: PrivacyProfile, delta: float) -> float:
    """The least epsilon (nats, >= 0), rounded up by at most a relative 1e-9, that keeps `delta` in (0, 1).

    It is inf where no epsilon does.
    """
    if not profile.losses:
        return gaussian_epsilon(delta, profile.mu)
    if profile.delta(0.0) <= delta:
        return 0.0
    if profile.delta(LARGEST_EPSILON) > delta:
        return math.inf
    start = gaussian_epsilon(delta, spread(profile))
    return least_near(lambda epsilon: log_excess(profile.delta(epsilon), delta), max(start, 1e-9), 1e-9)


def sample_delta(sample: StepSample, epsilon: float, mu: float) -> float:
    """Upper bound on delta at `epsilon` under continuous noise, when one shown step has `mu` = presence / stddev."""
    return sample.mean(lambda m: gaussian_delta(epsilon, math.sqrt(m) * mu))


def sample_epsilon(sample: StepSample, delta: float, mu: float) -> float:
    """The least epsilon (nats, >= 0), rounded up by at most a relative 1e-9, when one shown step has `mu` > 0.

    Of another number of participations than the noise was made for, it is how the promise degrades.
    """
    if sample_delta(sample, 0.0, mu) <= delta:
        return 0.0
    start = gaussian_epsilon(delta, mu * math.sqrt(float(sample.law @ np.arange(sample.law.size))))
    return least_near(lambda epsilon: log_excess(sample_delta(sample, epsilon, mu), delta), max(start, 1e-9), 1e-9)


def sample_stddev(sample: StepSample, epsilon: float, delta: float, presence: float) -> float:
    """The least stddev, rounded up by at most a relative 1e-9, that is (epsilon, delta)-private.

    Args:
        sample: of the steps of one user.
        epsilon: nats, >= 0.
        delta: in [1e-50, 1).
        presence: L2 norm by which one user changes one step at most, > 0.

    Returns:
        A stddev with delta(epsilon, presence / stddev) <= delta, without tolerance.

    Source: KOGA22
    """
    if not 0 < presence < math.inf:
        raise ValueError("the presence is positive and finite")
    high = gaussian_stddev(epsilon, delta / (1 + 2 * ROUNDING), math.sqrt(sample.law.size - 1))
    low = high / 2
    while sample_delta(sample, epsilon, 1 / low) <= delta:
        high, low = low, low / 2
        if high < 1e-9:
            raise ValueError("the sample shows a user with a probability below delta: no noise is needed")
    unit = least(lambda s: log_excess(sample_delta(sample, epsilon, 1 / s), delta), low, high, 1e-10)
    stddev = unit * presence
    while sample_delta(sample, epsilon, presence / stddev) > delta:
        stddev *= 1 + 1e-13
    return stddev


def least_near(excess: Callable[[float], float], start: float, tolerance: float) -> float:
    """As `least`, for a root near `start` > 0: the bracket widens from there until it holds the root."""
    factor, low, high = 1.0001, start, start
    while excess(high) > 0:
        low, high, factor = high, high * factor, factor**2
    while low == high or excess(low) <= 0:
        high, low, factor = low, low / factor, factor**2
    return least(excess, low, high, tolerance)


def least(excess: Callable[[float], float], low: float, high: float, tolerance: float = 1e-10) -> float:
    """A point within a relative `tolerance` above the root of a falling function, where it is <= 0.

    Args:
        excess: > 0 at `low`, <= 0 at `high`; infinite values are allowed.
        low: start of the bracket, >= 0.
        high: end of the bracket.
        tolerance: relative width of the bracket that is left.

    Source: the Illinois variant of regula falsi, with a nudge past the estimate so that both ends move.
    """
    at_low, at_high = excess(low), excess(high)
    side = 0
    for _ in range(200):
        if high - low <= tolerance * high:
            break
        middle = (low + high) / 2
        if math.isfinite(at_low) and math.isfinite(at_high) and at_low > at_high:
            middle = high - at_high * (high - low) / (at_high - at_low)
            middle += side * 0.4 * tolerance * high
        if not low < middle < high:
            middle = (low + high) / 2
        value = excess(middle)
        if value > 0:
            at_high = at_high / 2 if side > 0 else at_high
            low, at_low, side = middle, value, 1
        else:
            at_low = at_low / 2 if side < 0 else at_low
            high, at_high, side = middle, value, -1
    return high


def least_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least float in (low, high] at which a condition holds, for one that holds from some point on and at high."""
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def log_excess(found: float, allowed: float) -> float:
    """Log of found / allowed, for root searches; both are probabilities, `allowed` > 0."""
    return math.log(max(found, 1e-320) / allowed)


def _up(top: Decimal, bottom: Decimal) -> Decimal:
    """The quotient to 10 digits, rounded up."""
    return Context(prec=10, rounding=ROUND_CEILING).divide(top, bottom)


def _check_delta(delta: float) -> None:
    if not 1e-300 <= delta < 1:
        raise ValueError("delta lies between 1e-300 and 1")
