"""What outputs that are best for given ratios tell of pairs of states, of any number of steps before or after.

Of steps that grow the same columns one after the other many are taken together: their product is squared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

PATIENCE = 4_000  # steps in which outputs are expected to be forgotten
_ALIKE = 8  # steps that grow the same columns, after which those to come are taken together


def told(
    law: Floats,
    at: tuple[Whole, Whole, Floats],
    budgets: tuple[float, float],
    steps: float,
    largest: float,
    rough: Rough | None,
    faint: float,
    quick: bool,
) -> Floats:
    """The ratios that outputs reach which are best for given ones, of some pairs, (m,); inf for none known.

    `quick`: steps are taken together, as more of them tell more where both budgets are the same.
    """
    i, j, ratio = at
    forms = np.stack([law[i], law[j], law[i] - ratio[:, None] * law[j]])  # x, y and what is left of x: (3, m, n)
    if rough:
        forms = rough.moved(forms, np.stack([np.ones(len(i)), -np.ones(len(i)), 1 + ratio]))
    best, rows, (begins, grows) = np.ones(len(i)), np.arange(len(i)), map(math.exp, budgets)
    taken, most, grown, alike, wait = 0, min(steps, PATIENCE), np.empty((len(i), 0)), 0, _ALIKE
    while taken < most:
        left = forms[2]
        reached, scale = np.add.reduce(forms[:2] * np.where(left > 0, begins, 1.0), axis=2)
        if best.max() > largest or not scale.min() > 0:
            return np.full(len(i), np.inf)
        best[rows] = np.maximum(best[rows], reached / scale)
        gains = np.add.reduce(np.maximum(left, 0.0), axis=1)
        losses = gains - np.add.reduce(left, axis=1)
        going = np.minimum(gains, losses) > faint * scale  # else all that is left has one sign
        if not (kept := np.count_nonzero(going)):
            break
        if kept < len(going):
            rows, scale, grown, forms = rows[going], scale[going], grown[going], forms.compress(going, axis=1)
        forms /= scale[:, None]
        signs = np.sign(forms[2])
        weights = np.where(signs > 0, grows, 1.0)
        alike, grown = (alike + 1 if np.array_equal(weights, grown) else 0), weights
        if quick and alike >= wait:
            forms, length = _together(weights[:, :, None] * law, forms, most - taken)
            alike, wait, taken = 0, wait if length else 2 * wait, taken + length
            if length:
                continue
        forms *= weights
        onward = forms @ law
        forms = rough.moved(onward, np.add.reduce(forms * signs, axis=2)) if rough else onward
        taken += 1
    else:
        if steps > PATIENCE:
            return np.full(len(i), np.inf)
    return best


def _together(step: Floats, forms: Floats, most: float) -> tuple[Floats, int]:
    """As many steps as grow the same columns, and what they make of forms, (3, m, n): `step`, (m, n, n), is squared."""
    length, taken, grown = 1, 0, forms[2] > 0
    while taken + length <= most:
        onward = np.matmul(forms.transpose(1, 0, 2), step).transpose(1, 0, 2)
        above = onward[2] > 0
        ended = above.all(axis=1) | (onward[2] <= 0).all(axis=1)  # all that is left has one sign
        if not (ended | (above == grown).all(axis=1)).all():
            break
        forms, taken = onward / np.add.reduce(onward[1], axis=1)[:, None], taken + length
        if ended.all():
            break
        step, length = step @ step, 2 * length
        step /= step.max(axis=(1, 2), keepdims=True)
    return forms, taken


@dataclass(frozen=True)
class Rough:
    """Rows known within total variation rho: M v changes by at most rho R v, R one of these rows."""

    rho: float
    ranges: Floats  # (n, n)
    apart: float  # nats: about how far entries of v are

    def moved(self, forms: Floats, amounts: Floats) -> Floats:
        """Likelihoods x, y and their difference, each with so much of the row that is least where x is to gain."""
        seen = np.where(forms[2] > 0, math.exp(self.apart), 1.0)
        row = self.rho * self.ranges[(seen @ self.ranges.T).argmin(axis=1)]
        return np.asarray(forms + amounts[:, :, None] * row)
