"""Exact privacy curve of symmetric binomial noise on counts: heads of 2m fair coins less m.

Binomial noise is symmetric and log-concave, so, as in `discrete_noise`, changes of n counts by c each lose most of all
changes of at most n counts by at most c. The loss of one change at x is the sum of log((m - y + 1) / (m + y)) over the
c whole numbers y from x - c + 1 to x, negated; where the other data set cannot give x it is infinite. The losses lie on
no lattice: every atom is split between two points of a fine one, which loses no more than it says.

Lemma A.2 of ZKL22 holds and is loose: 1.5 to 3 times the loss. Its Theorem A.5 uses the sensitivity w c of weighted
whole numbers, which is unsound for w < 1: a count that is rounded after weighting moves by ceil(w c).

Source: DKMMN06, DGKKM22, ZKL22
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from policyc_check.users.composition import UNIT, LossLaw, composed_delta, law_onto
from policyc_check.users.profile import FINENESS, PrivacyProfile

Floats = NDArray[np.float64]

REACH = 20  # standard deviations of noise that are looked at; what is beyond, below exp(-200), loses everything


@dataclass(frozen=True)
class BinomialLoss:
    """The privacy loss of symmetric binomial noise on counts.

    Args:
        half: m, half of the number of coins, >= 1.
        changes: counts that differ, >= 1.
        shift: by how much each differs, >= 1.

    Source: DKMMN06
    """

    half: int
    changes: int
    shift: int = 1

    @property
    def variance(self) -> float:
        """Of the loss, in squared nats, about."""
        return self.changes * self._variance_of_one

    @property
    def _variance_of_one(self) -> float:
        losses, probabilities, _ = _atoms(self.half, self.shift)
        mean = float(losses @ probabilities)
        return max(float((losses - mean) ** 2 @ probabilities), 1e-30)

    @property
    def laws(self) -> list[tuple[LossLaw, int]]:
        """None: there is no lattice."""
        return []

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` (nats, >= 0), within a relative 1e-5."""
        return composed_delta(epsilon, self.onto(math.sqrt(self._variance_of_one) / FINENESS))

    def onto(self, step: float) -> list[tuple[LossLaw, int]]:
        """The law of one change on the multiples of `step`, as often as there are changes."""
        return [(law_onto(step, *_atoms(self.half, self.shift)), self.changes)]


@lru_cache(maxsize=8)
def _atoms(half: int, shift: int) -> tuple[Floats, Floats, float]:
    """Losses log Pr(x) / Pr(x + shift) of one change, increasing, their probabilities, and that of an infinite loss.

    All are rounded up.
    """
    reach = min(half, math.ceil(REACH * math.sqrt(half / 2)))
    if shift > reach:
        return np.zeros(1), np.full(1, 1e-300), 1.0 - 2.0**-53
    y = np.arange(1, reach + 1, dtype=np.float64)
    falls = -np.log1p((1 - 2 * y) / (half + y))  # log Pr(y - 1) / Pr(y)
    logs = np.cumsum(falls)  # log Pr(0) / Pr(y)
    right = np.exp(-logs)
    total = 1 + 2 * math.fsum(right.tolist())
    right = right / total * (1 + 2 * y * UNIT * (1 + logs) + 16 * UNIT)
    probabilities = np.concatenate([right[::-1], [(1 + 16 * UNIT) / total], right])
    losses = _sums(np.concatenate([-falls[::-1], falls]), shift)
    known = probabilities[: losses.size]  # what is beyond cannot come from the other data set, or is too far out
    lost = math.fsum(probabilities[losses.size :].tolist()) + (2 * math.exp(-(REACH**2) / 2) if reach < half else 0.0)
    return losses + 64 * UNIT * (1 + np.abs(losses)), known, min(1.0 - 2.0**-53, lost)


def _sums(terms: Floats, width: int) -> Floats:
    """Sums of every `width` terms in a row, by doubling: each is rounded only as often as `width` has binary digits."""
    found = np.zeros(terms.size - width + 1)
    block, size, start = terms, 1, 0
    while True:
        if width & size:
            found += block[start : start + found.size]
            start += size
        if 2 * size > width:
            return found
        block, size = block[:-size] + block[size:], 2 * size


def binomial_profile(half: int, changes: int, shift: int = 1) -> PrivacyProfile:
    """The privacy curve of symmetric binomial noise, heads of `2 half` fair coins less `half`, on counts.

    Args:
        half: half of the number of coins, >= 1; the variance is half / 2.
        changes: counts that differ between neighbors at most, >= 1.
        shift: by how much each of them differs at most, >= 1.

    Source: DKMMN06
    """
    if not (half >= 1 and changes >= 1 and shift >= 1):
        raise ValueError("coins, changes and shift are at least 1")
    return PrivacyProfile(losses=(BinomialLoss(half, changes, shift),))
