"""The search for the least noise, the same for every stream mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable

from policyc_runtime.errors import KernelError
from policyc_runtime.randomness import LARGEST_SCALE, MOST_COINS

TOLERANCE = 1e-13
ROOM = 64  # standard deviations of noise, and sums of it, that must fit 64-bit integers


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


def require_room(noise: float) -> None:
    """Nothing when noise of this size fits 64-bit integers together with any count.

    Raises:
        KernelError: it does not.
    """
    if not noise * ROOM <= LARGEST_SCALE:
        raise KernelError(
            "E0831",
            "the noise scale is out of range",
            because="so small an epsilon for so much that one user can change needs noise beyond 64-bit integers",
            help="a larger epsilon, fewer steps or a coarser grid needs less noise",
        )


def require_coins(half: int) -> None:
    """Nothing when as many coins as twice this can be thrown for every value.

    Raises:
        KernelError: they cannot.
    """
    if 2 * half > MOST_COINS:
        raise KernelError(
            "E0831",
            "the noise scale is out of range",
            because=f"the noise would need {2 * half:,} coins a value, and at most {MOST_COINS:,} are thrown",
            help="write `mechanism gaussian()`, which loses no more",
        )


def raised(noise: float, factor: float) -> float:
    """More noise, by a factor, rounded up."""
    more = math.nextafter(noise * factor, math.inf)
    require_room(more)
    return more


def fine_grid(noise: float, bits: int = 20) -> int:
    """How many steps of a grid make one unit, a power of two, so that noise is 2^bits steps wide or up to twice that.

    There discrete Gaussian noise loses no more than continuous noise does. Wider noise keeps the grid of 1.
    """
    return 1 << max(0, bits + 1 - math.frexp(noise)[1])
