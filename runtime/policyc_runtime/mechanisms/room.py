"""How much noise fits whole numbers of 64 bits: beyond it nothing is drawn."""

from __future__ import annotations

import math

from policyc_check.errors import KernelError
from policyc_check.records import MOST_COINS
from policyc_runtime.samplers import LARGEST_SCALE

ROOM = 64  # standard deviations of noise, and sums of it, that must fit 64-bit integers


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
